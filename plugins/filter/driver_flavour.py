# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: driver_flavour
short_description: Choose open or proprietary kernel modules for the generations of a host's GPUs
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - The open modules support Turing and newer GPUs. Older GPUs need the proprietary modules, which support neither
    Blackwell and newer GPUs nor Grace.
options:
  _input:
    description: The GPUs, C(ansible_facts.gpuops.gpus).
    type: list
    elements: dict
    required: true
  wanted:
    description: The flavour to use. V(auto) chooses the flavour that the GPUs need.
    type: str
    choices: [auto, open, proprietary]
    default: auto
"""

EXAMPLES = r"""
- name: Show which modules the host needs
  ansible.builtin.debug:
    msg: "{{ (ansible_facts.gpuops.gpus | gpuops.nvidia.driver_flavour).flavour }}"
"""

RETURN = r"""
_value:
  description:
    - C(flavour) is C(open) or C(proprietary). C(failure) says why no flavour supports all GPUs, or is an empty string.
  type: dict
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

# NVIDIA's "Kernel Modules" page of the Driver Installation Guide.
_ONLY_PROPRIETARY = ("Maxwell", "Pascal", "Volta")
_ONLY_OPEN = ("Blackwell",)
_GRACE = ("10de:2342", "10de:2348")


def driver_flavour(gpus: list[Json], wanted: str = "auto") -> dict[str, str]:
    """Return the flavour, or why there is none."""
    old = _names(gpus, lambda gpu: gpu["architecture"] in _ONLY_PROPRIETARY)
    new = _names(gpus, _needs_open_modules)
    unsupported = _names(gpus, lambda gpu: gpu["architecture"] == "Kepler")
    if unsupported:
        return _failure(f"No supported driver works with {unsupported}.")
    if old and new:
        return _failure(
            f"{old} needs the proprietary modules and {new} the open ones. A host can load only one flavour."
        )
    if wanted == "open" and old:
        return _failure(f"The open modules do not support {old}. Use the proprietary modules.")
    if wanted == "proprietary" and new:
        return _failure(f"The proprietary modules do not support {new}. Use the open modules.")
    by_gpus = "proprietary" if old else "open"
    return {"flavour": by_gpus if wanted == "auto" else wanted, "failure": ""}


def _failure(message: str) -> dict[str, str]:
    return {"flavour": "", "failure": message}


def _needs_open_modules(gpu: Json) -> bool:
    return gpu["architecture"] in _ONLY_OPEN or gpu["device_id"] in _GRACE


def _names(gpus: list[Json], test: t.Callable[[Json], bool]) -> str:
    return ", ".join(sorted({str(gpu["name"] or gpu["device_id"]) for gpu in gpus if test(gpu)}))


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"driver_flavour": driver_flavour}
