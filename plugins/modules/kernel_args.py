#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_args
short_description: Set an owner's kernel arguments, and leave those of others as they are
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Sets arguments for all installed kernels of a host and for kernels that are installed later. They take effect at the
    next boot. The module leaves the reboot to its caller. RV(reboot_required) says whether the host needs one.
  - Arguments belong to an O(owner). Arguments that the owner no longer lists are removed. Those of others stay.
  - Refuses arguments that the kernel would ignore (a wrong value, C(amd_iommu=on)) or that would keep the host from
    booting.
  - Arguments whose value is a list (C(modprobe.blacklist), C(rd.driver.blacklist), C(module_blacklist)) are shared.
    The owner adds its items, and removes only items that it alone has set.
  - Fails before its first change if C(/boot) is not writable, and restores the former state if the boot loader fails.
    If a run was killed, the next one completes it.
attributes:
  check_mode:
    description: Can run in check mode and returns what a run would change.
    support: full
  diff_mode:
    description: Returns the owner's arguments before and after.
    support: full
options:
  owner:
    description: The owner of the arguments. Owners do not affect each other's arguments.
    type: str
    default: gpuops
  args:
    description: The owner's arguments, each C(name) or C(name=value), in this order. An empty list removes all of them.
    type: list
    elements: str
    default: []
  iommu:
    description:
      - Add the arguments that the IOMMU of the host's CPU (Intel, AMD or Arm) needs, before O(args).
      - V(enabled) is for virtual machines and containers that get their own device. With V(passthrough), the
        host's own drivers also bypass the IOMMU, which is faster.
    type: str
    choices: [enabled, passthrough]
  hugepages:
    description:
      - How many huge pages of each size (V(2M), V(1G)) to reserve at boot. Their arguments come before O(args).
      - On the Red Hat family only one size is possible, because C(grubby) keeps one value for each name.
    type: dict
    default: {}
  state:
    description: V(absent) removes all arguments of the owner.
    type: str
    choices: [present, absent]
    default: present
notes:
  - On Debian and Ubuntu the arguments are in C(/etc/default/grub.d/zz-<owner>.cfg), and C(update-grub) runs.
  - On the Red Hat family C(grubby) sets them on every boot entry, and C(/etc/gpuops/kernel_args/<owner>.json) records
    what the owner has set and which arguments it has replaced. The replaced arguments come back with O(state=absent).
    Since C(grubby) keeps one value for each name, the module refuses a second C(console).
  - It refuses a host that boots with systemd-boot, unless the host already has its settings.
seealso:
  - module: gpuops.nvidia.kernel_modules
  - module: gpuops.nvidia.kernel_sysctls
"""

EXAMPLES = r"""
- name: Turn the IOMMU on, and reserve huge pages
  gpuops.nvidia.kernel_args:
    iommu: passthrough
    hugepages: {1G: 16}
    args: [init_on_alloc=0]

- name: Remove them again
  gpuops.nvidia.kernel_args:
    state: absent
"""

RETURN = r"""
configured:
  description: The arguments of the next boot, or null if the boot loader's choice is unknown.
  returned: success
  type: list
  elements: str
  sample: [root=UUID=2f0c, ro, quiet, intel_iommu=on, iommu=pt]
running:
  description: The arguments of the running kernel.
  returned: success
  type: list
  elements: str
  sample: [BOOT_IMAGE=/vmlinuz-6.8.0-60-generic, root=UUID=2f0c, ro, quiet]
reboot_required:
  description: Whether the arguments of the running kernel differ from those of the next boot.
  returned: success
  type: bool
  sample: true
reboot_reasons:
  description: One sentence for each difference between the running kernel's arguments and those of the next boot.
  returned: success
  type: list
  elements: str
  sample: [The kernel runs without the configured arguments iommu=pt]
entries_without:
  description: Titles of boot entries that lack the arguments because somebody wrote them by hand, such as those in
    C(/etc/grub.d/40_custom).
  returned: success
  type: list
  elements: str
  sample: [Rescue by network]
elsewhere:
  description: Arguments of others that have the same name as an argument of the owner. The kernel uses the last one,
    which is the owner's.
  returned: success
  type: list
  elements: str
  sample: [iommu=off]
bootloader:
  description: How the boot entries are changed, C(grub) or C(grubby), or null if they cannot be changed.
  returned: success
  type: str
  sample: grub
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.kernel_args import set_arguments
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "owner": {"type": "str", "default": "gpuops"},
        "args": {"type": "list", "elements": "str", "default": []},
        "iommu": {"type": "str", "choices": ["enabled", "passthrough"]},
        "hugepages": {"type": "dict", "default": {}},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    },
)


def main() -> t.NoReturn:
    run(SPEC, lambda module: set_arguments(Host(), module.params, module.check_mode))


if __name__ == "__main__":
    main()
