# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: driver_flavour
short_description: Choose the driver's kernel modules, open or proprietary, by the generations of a host's GPUs
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - The open modules know GPUs from Turing on. The proprietary ones are what older GPUs need, and know none from Blackwell on, nor Grace.
options:
  _input:
    description: The GPUs, C(ansible_facts.gpuops.gpus).
    type: list
    elements: dict
    required: true
  wanted:
    description: The flavour that is asked for, or V(auto).
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
  description: C(flavour), C(open) or C(proprietary), and C(failure), the reason why no flavour serves all GPUs, or an empty string.
  type: dict
"""

import typing as t

# NVIDIA's "Kernel Modules" page of the Driver Installation Guide.
_ONLY_PROPRIETARY = ("Maxwell", "Pascal", "Volta")
_ONLY_OPEN = ("Blackwell",)
_GRACE = ("10de:2342", "10de:2348")


def driver_flavour(gpus: list[dict[str, t.Any]], wanted: str = "auto") -> dict[str, str]:
    """Return the flavour, or why there is none."""
    old = _named(gpus, lambda gpu: gpu["architecture"] in _ONLY_PROPRIETARY)
    new = _named(gpus, lambda gpu: gpu["architecture"] in _ONLY_OPEN or gpu["device_id"] in _GRACE)
    gone = _named(gpus, lambda gpu: gpu["architecture"] == "Kepler")
    if gone:
        return {"flavour": "", "failure": f"No driver that is still supported knows {gone}."}
    if old and new:
        return {
            "flavour": "",
            "failure": f"{old} needs the proprietary modules and {new} the open ones, and a host can load only one of them.",
        }
    if wanted == "open" and old:
        return {"flavour": "", "failure": f"The open modules do not know {old}. Use the proprietary ones."}
    if wanted == "proprietary" and new:
        return {"flavour": "", "failure": f"The proprietary modules do not know {new}. Use the open ones."}
    return {"flavour": wanted if wanted != "auto" else "proprietary" if old else "open", "failure": ""}


def _named(gpus: list[dict[str, t.Any]], test: t.Callable[[dict[str, t.Any]], bool]) -> str:
    return ", ".join(sorted({str(gpu["name"] or gpu["device_id"]) for gpu in gpus if test(gpu)}))


class FilterModule:
    """The filter that this file brings."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"driver_flavour": driver_flavour}
