# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: reboot_gate
short_description: List the problems that keep a rebooted host out of service
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Compares the facts of M(gpuops.nvidia.gpu_facts) after a reboot with the state before it.
options:
  _input:
    description: The facts after the reboot, C(ansible_facts.gpuops).
    type: dict
    required: true
  before:
    description: State before the reboot, with C(gpus), a list of PCI addresses.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Stop if a GPU did not come back
  ansible.builtin.assert:
    that: ansible_facts.gpuops | gpuops.nvidia.reboot_gate(before) | length == 0
  vars:
    before:
      gpus: ["0000:18:00.0"]
"""

RETURN = r"""
_value:
  description: One sentence for each problem. Empty if the host can return to service.
  type: list
  elements: str
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def reboot_gate(facts: Json, before: Json | None = None) -> list[str]:
    """Return one sentence for each problem of a host after its reboot."""
    gpus = {gpu["pci_address"]: gpu for gpu in facts["gpus"]}
    missing = [address for address in (before or {}).get("gpus", []) if address not in gpus]
    lost = [address for address, gpu in gpus.items() if gpu.get("lost")]
    due = facts["reboot"]["reasons"] if facts["reboot"]["required"] else []
    problems = {
        f"The GPUs {', '.join(missing)} are no longer on the PCI bus.": missing,
        f"The GPUs {', '.join(lost)} have fallen off the bus.": lost,
        f"A reboot is still due: {'. '.join(due)}.": due,
    }
    return [sentence for sentence, found in problems.items() if found]


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"reboot_gate": reboot_gate}
