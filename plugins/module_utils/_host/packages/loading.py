# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Load a driver that has just been installed, or say why only a reboot does."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import driver
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import Observed, Outcome, Plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

LOAD_TIMEOUT_S = 120.0


def load(
    host: Host, plan: Plan, observed: Observed, outcome: Outcome, options: t.Mapping[str, t.Any], check_mode: bool
) -> Json:
    """Load the driver where the GPUs are free. Return whether it is loaded, and why the host needs a reboot.

    ``changed`` says whether it was loaded, or in check mode would be.
    """
    if plan.refused or plan.action == "none" or (plan.action == "remove" and not observed.driver.loaded):
        return _result(observed.driver.loaded, [])
    if observed.driver.loaded:
        return _result(True, _replaced(plan, observed, outcome))
    obstacles = _obstacles(host, observed)
    if obstacles or not options["load"] or not observed.gpus:
        return _result(False, obstacles)
    if check_mode:
        return _result(False, [], changed=True)
    failures = _modprobe(host)
    return _result(not failures, failures, changed=not failures)


def _result(loaded: bool, reasons: list[str], changed: bool = False) -> Json:
    return {"loaded": loaded, "reboot_required": bool(reasons), "reboot_reasons": reasons, "changed": changed}


def _replaced(plan: Plan, observed: Observed, outcome: Outcome) -> list[str]:
    """Return that the loaded modules are those of the former driver."""
    former = observed.driver.version
    if plan.action == "remove":
        return [f"The driver {former} was removed and is still loaded"]
    installed = {package.name for package in observed.installed}
    if plan.action in ("change", "restore") and any(name in installed for name in (*outcome.install, *outcome.remove)):
        return [f"The driver {plan.version} is installed, and {former} is loaded"]
    return []


def _obstacles(host: Host, observed: Observed) -> list[str]:
    """Return what holds the GPUs, so that the driver cannot be loaded now."""
    if host.exists("/sys/module/nouveau"):
        return ["nouveau is loaded, and holds the GPUs that the installed driver is for"]
    held = sorted({str(gpu.get("bound_driver")) for gpu in observed.gpus} - {"None", "nvidia"})
    return [f"The GPUs are bound to {', '.join(held)}, and the installed driver is not loaded"] if held else []


def _modprobe(host: Host) -> list[str]:
    output = host.run(["modprobe", "nvidia"], LOAD_TIMEOUT_S)
    if output.ok or driver.is_loaded(host):
        return []
    return [f"The driver is installed and could not be loaded: {output.error}"]
