# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: reboot_gate
short_description: Say what keeps a host that has rebooted from going back into service
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Compares the facts of M(gpuops.nvidia.gpu_facts) after a reboot with what was there before.
options:
  _input:
    description: The facts after the reboot, C(ansible_facts.gpuops).
    type: dict
    required: true
  before:
    description: What was there before, with C(gpus), the PCI addresses.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Stop where a GPU did not come back
  ansible.builtin.assert:
    that: ansible_facts.gpuops | gpuops.nvidia.reboot_gate(before) | length == 0
  vars:
    before:
      gpus: ["0000:18:00.0"]
"""

RETURN = r"""
_value:
  description: A sentence for each thing that is wrong. None when the host is fit.
  type: list
  elements: str
"""

import typing as t


def reboot_gate(facts: dict[str, t.Any], before: dict[str, t.Any] | None = None) -> list[str]:
    """Return what is wrong with a host after its reboot."""
    gpus = {gpu["pci_address"]: gpu for gpu in facts["gpus"]}
    missing = [address for address in (before or {}).get("gpus", []) if address not in gpus]
    lost = [address for address, gpu in gpus.items() if gpu.get("lost")]
    due = facts["reboot"]["reasons"] if facts["reboot"]["required"] else []
    return [
        *([f"The GPUs {', '.join(missing)} are no longer on the PCI bus."] if missing else []),
        *([f"The GPUs {', '.join(lost)} have fallen off the bus."] if lost else []),
        *([f"The reboot did not help: {'. '.join(due)}."] if due else []),
    ]


class FilterModule:
    """The filter that this file brings."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"reboot_gate": reboot_gate}
