# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fabric_plan
short_description: "Plumbing of the role host_driver: decide which services of the driver run on a host"
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - A host with NVSwitches needs the fabric manager, which starts the NVLink subnet manager on a host with NVLink 5. A
    compute tray of an NVL72 needs IMEX, from the host or from compute domains. A driver container has its own services.
  - Services of the host keep running while a driver of the host is loaded.
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
  imex_nodes:
    description: Addresses of the compute trays of the NVL72. An empty list leaves IMEX to compute domains.
    type: list
    elements: str
    default: []
  imex_list:
    description: The host's current list of trays, the text of C(/etc/nvidia-imex/nodes_config.cfg).
    type: str
    default: ""
  persistence:
    description: Whether the persistence daemon runs.
    type: bool
    default: true
  masked:
    description: The units that are masked because of an earlier plan. They stay masked as long as the plan is the same.
    type: list
    elements: str
    default: []
seealso:
  - plugin: gpuops.nvidia.service_gaps
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show what the services would interrupt
  ansible.builtin.debug:
    msg: "{{ (ansible_facts.gpuops | gpuops.nvidia.fabric_plan('host')).interrupts }}"
"""

RETURN = r"""
_value:
  description:
    - C(fabric) is the kind of fabric (C(none), C(nvswitch), C(nvlink5) or C(nvl72)).
    - C(run) lists the units that are enabled, and C(start) those of them that can start now. The others start after a
      reboot, when their driver is loaded.
    - C(mask) lists the units that are stopped and masked, because another program does their work. C(disable) lists
      those that are stopped and disabled.
    - C(lacking) lists the services that the fabric needs and that are not installed.
    - C(marks) is the folder in which a unit has a mark from the change of a file until the unit has read it.
    - C(settled) is whether the host is already like this. An unknown value counts as no.
    - C(interrupts) says what would interrupt GPU workloads, one sentence each.
    - C(failure) says why the plan is impossible, or is an empty string.
  type: dict
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.fabric import fabric_kind
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.nvidia_packages import SERVICES
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.restarts import RESTART_MARKS
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_NEEDED = {"none": (), "nvswitch": ("fabric_manager",), "nvlink5": ("fabric_manager", "nvlsm"), "nvl72": ("imex",)}
_MAY_CONFLICT = ("fabric_manager", "imex", "persistenced")
_KEEP = (
    "The host runs its own driver {version}, which needs {units}. Set gpuops_driver to host to keep it, or "
    "host_driver_remove to true to remove it before a driver container comes."
)


def fabric_plan(
    facts: Json,
    driver: str = "host",
    imex_nodes: t.Sequence[str] = (),
    imex_list: str = "",
    persistence: bool = True,
    masked: t.Sequence[str] = (),
) -> Json:
    """Return what the services need."""
    plan: Json = {"fabric": fabric_kind(facts), "run": [], "start": [], "mask": [], "disable": []}
    plan.update({"lacking": [], "interrupts": [], "failure": "", "marks": RESTART_MARKS})
    if driver == "container" or facts["driver"]["containerised"]:
        plan.update(_left_to_container(facts, masked))
    else:
        plan.update(_of_host(facts, plan["fabric"], list(imex_nodes), imex_list, persistence))
    listed = SERVICES["imex"].unit not in plan["run"] or imex_list.split() == list(imex_nodes)
    read = not set(_owed(facts)) & set(plan["start"])
    return {**plan, "settled": listed and read and not masked and _holds(plan, facts["services"])}


def _owed(facts: Json) -> list[str]:
    """Return the units that have not read a file of theirs, since an earlier run was killed before their restart."""
    return list((facts.get("files") or {}).get("restarts") or [])


def _holds(plan: Json, services: Json) -> bool:
    """Return whether the units are as the plan wants them. A masked unit needs its record, so it does not count."""
    states = {SERVICES[name].unit: service for name, service in services.items()}
    return (
        not (plan["failure"] or plan["lacking"] or plan["mask"])
        and all(states[unit]["enabled"] for unit in plan["run"])
        and all(states[unit]["active"] for unit in plan["start"])
        and all(states[unit]["active"] is False and states[unit]["enabled"] is False for unit in plan["disable"])
    )


def _left_to_container(facts: Json, masked: t.Sequence[str]) -> Json:
    """Stop what would conflict with a driver container. A service without a package on the host runs in it."""
    services, driver = facts["services"], facts["driver"]
    found = {SERVICES[name].unit: services[name] for name in _installed(services, _MAY_CONFLICT)}
    units = [unit for unit, service in found.items() if _conflicts(service)]
    if units and driver["loaded"] and not driver["containerised"]:
        return {"failure": _KEEP.format(version=driver["version"], units=", ".join(units))}
    stopped = [unit for unit in units if found[unit]["active"]] if driver["loaded"] else []
    return {
        "mask": sorted({*units, *set(found).intersection(masked)}),
        "interrupts": list(map("{} is stopped, which GPU workloads may be using.".format, stopped)),
    }


def _conflicts(service: Json) -> bool:
    return bool(service["active"] or service["enabled"])


def _of_host(facts: Json, fabric: str, imex_nodes: list[str], imex_list: str, persistence: bool) -> Json:
    services = facts["services"]
    needed = _NEEDED[fabric] if imex_nodes else _without(["imex"], _NEEDED[fabric])
    # The fabric manager starts NVLSM.
    run = [*_without(["nvlsm"], needed), *["persistenced"] * persistence]
    installed = _installed(services, run)
    unlike = _other_version(services, installed)
    mask = _installed(services, ["imex"] * (fabric == "nvl72" and not imex_nodes))
    pending = _is_pending(facts["driver"])
    return {
        "run": _units(installed),
        "start": [] if pending else _units(_without(unlike, installed)),
        "mask": _units(mask),
        "disable": _units(_installed(services, ["persistenced"] * (not persistence))),
        "lacking": _without(_installed(services, needed), needed),
        "interrupts": _interrupts(services["imex"], mask, imex_nodes, imex_list, _owed(facts)),
        "failure": "" if pending else _unlike(services, unlike, facts["driver"]["version"]),
    }


def _is_pending(driver: Json) -> bool:
    """Return whether the driver takes effect at the next boot. Before that, they do not answer."""
    installed = driver.get("installed_version") or driver["version"]
    return not driver["loaded"] or installed != driver["version"] or driver.get("matches") is False


def _without(left_out: t.Collection[str], names: t.Iterable[str]) -> list[str]:
    return [name for name in names if name not in left_out]


def _other_version(services: Json, names: t.Iterable[str]) -> list[str]:
    return [name for name in names if services[name]["matches_driver"] is False]


def _installed(services: Json, names: t.Iterable[str]) -> list[str]:
    return [name for name in names if services[name]["package"]]


def _interrupts(imex: Json, mask: list[str], nodes: list[str], listed: str, owed: list[str]) -> list[str]:
    """Return what interrupts workloads that use memory of other trays."""
    if not imex["active"]:
        return []
    if mask:
        return ["nvidia-imex.service is stopped, because IMEX is left to compute domains."]
    if nodes and listed.split() != nodes:
        return ["nvidia-imex.service is restarted, because the list of trays changes."]
    if nodes and SERVICES["imex"].unit in owed:
        return ["nvidia-imex.service is restarted, because it has not read its list of trays."]
    return []


def _unlike(services: Json, names: list[str], version: str) -> str:
    """Return what is wrong with services that are not of the driver's version."""
    wrong = ", ".join(f"{services[name]['package']} {services[name]['version']}" for name in names)
    message = (
        f"The host runs the driver {version}, and {wrong} serves another one. Let host_driver install both together."
    )
    return message if names else ""


def _units(names: t.Iterable[str]) -> list[str]:
    return [SERVICES[name].unit for name in names]


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"fabric_plan": fabric_plan}
