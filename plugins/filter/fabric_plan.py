# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fabric_plan
short_description: Decide what a host's NVLink fabric needs, from its hardware and the source of its driver
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - A host with NVSwitches needs the fabric manager in exactly the driver's version. With NVLink 5, it also needs the
    NVLink subnet manager. A compute tray of an NVL72 needs the IMEX service. A driver container has its own services.
options:
  _input:
    description: Facts of M(gpuops.nvidia.gpu_facts), C(ansible_facts.gpuops), with the subsets C(min) and C(services).
    type: dict
    required: true
  driver:
    description: Source of the driver.
    type: str
    choices: [container, host]
    default: host
"""

EXAMPLES = r"""
- name: Show what the fabric needs
  ansible.builtin.debug:
    msg: "{{ ansible_facts.gpuops | gpuops.nvidia.fabric_plan('host') }}"
"""

RETURN = r"""
_value:
  description:
    - C(fabric) is the kind of fabric (C(none), C(nvswitch), C(nvlink5) or C(nvl72)).
    - C(version) is the driver's version.
    - C(packages) has the possible package names of each required service.
    - C(missing) lists the services that are not installed in the right version.
    - C(services) lists the units to run.
    - C(conflicts) lists the units that conflict with a driver container.
    - C(failure) says why nothing can be done, or is an empty string.
  type: dict
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.nvidia_packages import SERVICES
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_NVL72 = ("10de:2941", "10de:31c2")
_NVLINK_5 = ("10de:2901", "10de:3182")
_NEEDED = {"none": (), "nvswitch": ("fabric_manager",), "nvlink5": ("fabric_manager", "nvlsm"), "nvl72": ("imex",)}
_MAY_CONFLICT = ("fabric_manager", "imex", "persistenced")
_NO_DRIVER = (
    "The driver is not loaded, and the fabric needs packages that match it. Install the driver and reboot first."
)


def fabric_of(facts: Json) -> str:
    """Return the kind of fabric that connects a host's GPUs."""
    gpus = {gpu["device_id"] for gpu in facts["gpus"]}
    # The switches of an NVL72 are in separate trays, with their own manager.
    if gpus.intersection(_NVL72):
        return "nvl72"
    if gpus.intersection(_NVLINK_5) or any(switch["device_id"].startswith("15b3:") for switch in facts["nvswitches"]):
        return "nvlink5"
    return "nvswitch" if facts["nvswitches"] else "none"


def fabric_plan(facts: Json, driver: str = "host") -> Json:
    """Return what the fabric needs."""
    fabric, version = fabric_of(facts), facts["driver"]["version"]
    plan: Json = {
        "fabric": fabric,
        "version": version,
        "packages": {},
        "missing": [],
        "services": [],
        "conflicts": [],
        "failure": "",
    }
    if driver == "container" or facts["driver"]["containerised"]:
        return {**plan, "conflicts": _conflicts(facts["services"])}
    needed = _NEEDED[fabric]
    if needed and not version:
        return {**plan, "failure": _NO_DRIVER}
    return {
        **plan,
        "packages": {name: SERVICES[name].names(version) for name in needed},
        "missing": [name for name in needed if not _has_right_version(facts["services"][name])],
        # The fabric manager starts NVLSM.
        "services": [SERVICES[name].unit for name in needed if name != "nvlsm"],
    }


def _conflicts(services: Json) -> list[str]:
    """Return the units that run on the host. A service without a package on the host runs in the driver container."""
    found = {name: services[name] for name in _MAY_CONFLICT if services[name]["package"]}
    return [SERVICES[name].unit for name, service in found.items() if service["active"] or service["enabled"]]


def _has_right_version(service: Json) -> bool:
    return service["package"] is not None and service["matches_driver"] is not False


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"fabric_plan": fabric_plan}
