# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: service_gaps
short_description: "Plumbing of the role host_driver: say which of the driver's services on a host are not ready yet"
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - The fabric of a GPU is complete if the driver reports the state Completed, the status Success and good health. A100
    and older GPUs do not report a fabric, so there the fabric manager must run.
  - An unknown value counts as missing.
options:
  _input:
    description: Facts of M(gpuops.nvidia.gpu_facts) with the subsets C(min), C(gpus) and C(services).
    type: dict
    required: true
  units:
    description: The units that run, C(start) of P(gpuops.nvidia.fabric_plan#filter).
    type: list
    elements: str
    required: true
seealso:
  - plugin: gpuops.nvidia.fabric_plan
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show what is missing
  ansible.builtin.debug:
    msg: "{{ ansible_facts.gpuops | gpuops.nvidia.service_gaps(['nvidia-persistenced.service']) }}"
"""

RETURN = r"""
_value:
  description: One sentence for each thing that is missing.
  type: list
  elements: str
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.fabric import fabric_kind
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.nvidia_packages import SERVICES
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_WITHOUT_FABRIC_STATE = ("Maxwell", "Pascal", "Volta", "Turing", "Ampere")
_COMPLETE = "Completed"
_SUCCESS = "Success"
_UNHEALTHY = "Unhealthy"


def service_gaps(facts: Json, units: t.Collection[str]) -> list[str]:
    """Return what is missing."""
    gaps = []
    if SERVICES["persistenced"].unit in units:
        off = [_name(gpu) for gpu in facts["gpus"] if gpu.get("persistence_mode") is not True]
        gaps += [f"Persistence mode is not known to be on for {', '.join(off)}."] if off else []
    if SERVICES["fabric_manager"].unit in units:
        gaps += _fabric_gaps(facts)
    return gaps


def _fabric_gaps(facts: Json) -> list[str]:
    if fabric_kind(facts) not in ("nvswitch", "nvlink5"):
        return []
    manager = facts["services"]["fabric_manager"]
    gaps = [] if manager["active"] else ["The fabric manager does not run."]
    gpus = [gpu for gpu in facts["gpus"] if gpu.get("architecture") not in _WITHOUT_FABRIC_STATE]
    found = [(_name(gpu), _problem(gpu.get("fabric"))) for gpu in gpus]
    return gaps + [f"The fabric of {name} {problem}." for name, problem in found if problem]


def _problem(fabric: Json | None) -> str:
    if not fabric or not fabric.get("state"):
        return "is not known"
    if fabric["state"] != _COMPLETE:
        return f"is {fabric['state']}"
    if fabric.get("status") != _SUCCESS:
        return f"has the status {fabric.get('status')}"
    return "is unhealthy" if fabric.get("health") == _UNHEALTHY else ""


def _name(gpu: Json) -> str:
    return str(gpu["pci_address"])


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"service_gaps": service_gaps}
