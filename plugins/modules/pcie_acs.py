#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: pcie_acs
short_description: Turn the access control services of PCIe bridges off, now and at every boot
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - With access control services (ACS), a PCIe switch sends traffic between two devices below it up to the root complex.
    GPUDirect peer-to-peer traffic on bare metal is fast only without them. They isolate virtual machines from each
    other.
  - Clears the ACS control register of every PCIe bridge with C(setpci), reads it back, and fails if a bridge has kept
    its value. A rule for udev does the same at every boot, and records the former values.
attributes:
  check_mode:
    description: Can run in check mode and returns what a run would change.
    support: full
  diff_mode:
    description: Returns the rule and the registers before and after.
    support: full
options:
  state:
    description: V(present) turns ACS off. V(absent) restores the former values of the registers, and removes the rule.
    type: str
    choices: [present, absent]
    default: present
notes:
  - Needs C(setpci), which is in the package pciutils.
  - A kernel that secure boot has locked down refuses changes of the registers. On such a host, use the kernel argument
    C(pci=disable_acs_redir=).
seealso:
  - module: gpuops.nvidia.kernel_args
"""

EXAMPLES = r"""
- name: Let GPUs and network cards below one PCIe switch talk directly
  gpuops.nvidia.pcie_acs:

- name: Isolate them again
  gpuops.nvidia.pcie_acs:
    state: absent
"""

RETURN = r"""
bridges:
  description: The PCIe bridges that have ACS, and their control register as it is now (in check mode as it would be).
  returned: success
  type: list
  elements: dict
  sample: [{address: "0000:00:01.0", control: "0000"}]
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.acs import set_acs
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    },
)


def main() -> t.NoReturn:
    run(SPEC, lambda module: set_acs(Host(), module.params, module.check_mode))


if __name__ == "__main__":
    main()
