# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Whether IMEX on a host of an NVL72 leaves its session to ComputeDomains, and whether its programs are there. Pure.

A driver gives out one IMEX session. The daemons of ComputeDomains run the programs of the driver's own root:
https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/blob/95932046/site/content/docs/prerequisites.md
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._findings import CheckFinding
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CHECK = "host_imex"


def check(facts: Json, in_container: bool) -> t.Iterator[CheckFinding]:
    """Find a service that keeps IMEX from ComputeDomains, and a driver on the host without IMEX."""
    imex = (facts.get("services") or {}).get("imex") or {}
    if (facts.get("fabric") or {}).get("kind") != "nvl72":
        yield CheckFinding(CHECK, "ok", "The GPUs have no NVLink to other hosts, so IMEX has no use.")
        return
    found = [*_service(imex), *([] if in_container else _program(facts["driver"], imex))]
    if imex.get("active") is None and not found:
        remedy = "Gather the subset services of gpuops.nvidia.gpu_facts as root."
        found.append(CheckFinding(CHECK, "warning", "Whether IMEX runs on the host is unknown.", remedy))
    yield from found or [CheckFinding(CHECK, "ok", "IMEX is left to ComputeDomains.")]


def _service(imex: Json) -> t.Iterator[CheckFinding]:
    if imex.get("active") or imex.get("enabled"):
        state = "runs on the host" if imex.get("active") else "starts on the host at the next boot"
        remedy = (
            "The role host_driver stops and masks it, unless host_driver_imex_nodes names the trays. Leave it if the "
            "DRA driver shall use it (imex.mode=hostManaged), or if there are no ComputeDomains."
        )
        message = f"nvidia-imex.service {state}, and the driver has one IMEX session: ComputeDomains get none."
        yield CheckFinding(CHECK, "warning", message, remedy)


def _program(driver: Json, imex: Json) -> t.Iterator[CheckFinding]:
    if imex.get("active") is False and not imex.get("package") and driver["userspace_version"]:
        message = f"The driver {driver['userspace_version']} is on the host, and its package nvidia-imex is not."
        yield CheckFinding(CHECK, "warning", message, "Let the role host_driver install it.")
    if imex.get("matches_driver") is False:
        message = f"{imex['package']} {imex['version']} has another version than the driver."
        yield CheckFinding(CHECK, "warning", message, "Let the role host_driver install both together.")
