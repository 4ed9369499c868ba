# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fabric_plan
short_description: Decide what a host's NVLink fabric needs, from its hardware and from where its driver comes
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - A host with NVSwitches needs the fabric manager of exactly the driver's version, with NVLink 5 also the NVLink subnet manager, and a
    compute tray of an NVL72 the IMEX service. A driver container brings its own.
options:
  _input:
    description: The facts of M(gpuops.nvidia.gpu_facts), C(ansible_facts.gpuops), with the subsets C(min) and C(services).
    type: dict
    required: true
  driver:
    description: Where the driver comes from.
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
    - C(fabric), what the hardware has (C(none), C(nvswitch), C(nvlink5) or C(nvl72)), C(version), the driver's, C(packages), for each
      service that is wanted the names that its package may have, C(missing), those that are not there in the right version,
      C(services), the units to run, C(conflicts), units that fight a driver container, and C(failure), why nothing can be done.
  type: dict
"""

import typing as t

_NVL72 = ("10de:2941", "10de:31c2")
_NVLINK_5 = ("10de:2901", "10de:3182")
_UNITS = {
    "fabric_manager": "nvidia-fabricmanager.service",
    "imex": "nvidia-imex.service",
    "persistenced": "nvidia-persistenced.service",
}
_NEEDED = {"none": (), "nvswitch": ("fabric_manager",), "nvlink5": ("fabric_manager", "nvlsm"), "nvl72": ("imex",)}


def fabric_of(facts: dict[str, t.Any]) -> str:
    """Return what kind of fabric a host's GPUs are in. An NVL72's switches are in trays of their own, with their own manager."""
    gpus = {gpu["device_id"] for gpu in facts["gpus"]}
    if gpus & set(_NVL72):
        return "nvl72"
    if gpus & set(_NVLINK_5) or any(switch["device_id"].startswith("15b3:") for switch in facts["nvswitches"]):
        return "nvlink5"
    return "nvswitch" if facts["nvswitches"] else "none"


def package_names(service: str, version: str) -> list[str]:
    """Return the names that a service's package goes by, the one of the driver's branch first: Ubuntu's own, NVIDIA's, NVIDIA's of old."""
    branch = version.partition(".")[0]
    return {
        "fabric_manager": [f"nvidia-fabricmanager-{branch}", "nvidia-fabricmanager", "nvidia-fabric-manager"],
        "nvlsm": ["nvlsm"],
        "imex": [f"nvidia-imex-{branch}", "nvidia-imex"],
    }[service]


def fabric_plan(facts: dict[str, t.Any], driver: str = "host") -> dict[str, t.Any]:
    """Return what the fabric needs."""
    fabric, services = fabric_of(facts), facts["services"]
    plan: dict[str, t.Any] = {
        "fabric": fabric,
        "version": facts["driver"]["version"],
        "packages": {},
        "missing": [],
        "services": [],
        "conflicts": [],
        "failure": "",
    }
    if driver == "container" or facts["driver"]["containerised"]:
        running = [unit for name, unit in _UNITS.items() if services[name]["active"] or services[name]["enabled"]]
        # What runs in the driver container has no package on the host.
        return {
            **plan,
            "conflicts": [
                unit
                for unit in running
                if any(services[name]["package"] for name, each in _UNITS.items() if each == unit)
            ],
        }
    needed = _NEEDED[fabric]
    if needed and not plan["version"]:
        return {
            **plan,
            "failure": "The driver is not loaded, and the fabric needs packages of exactly its version. Install the driver and reboot first.",
        }
    wrong = [name for name in needed if services[name]["package"] is None or services[name]["matches_driver"] is False]
    return {
        **plan,
        "packages": {name: package_names(name, plan["version"]) for name in needed},
        "missing": wrong,
        "services": [_UNITS[name] for name in needed if name in _UNITS],
    }


class FilterModule:
    """The filter that this file brings."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"fabric_plan": fabric_plan}
