#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_args
short_description: Set the kernel arguments that one owner wants, and leave everybody else's alone
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Sets arguments for the kernels of a host, for the installed ones and those to come. They take effect at the next boot, which this
    module does not ask for; RV(reboot_required) tells whether one is due.
  - Arguments belong to an O(owner). What the owner no longer lists is taken away, and what others have set stays.
  - Arguments that the kernel would ignore (a wrong value, C(amd_iommu=on)) and those that would keep the host from booting are refused.
  - Nothing is touched when C(/boot) cannot be written, and the former state comes back when the boot loader refuses. A run that was
    killed is completed by the next.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would do.
    support: full
  diff_mode:
    description: Returns the owner's arguments before and after.
    support: full
options:
  owner:
    description: Who the arguments belong to. Owners do not see each other's arguments.
    type: str
    default: gpuops
  args:
    description: The owner's arguments, each C(name) or C(name=value), in this order. An empty list takes all of them away.
    type: list
    elements: str
    default: []
  iommu:
    description:
      - Put the arguments for the IOMMU before O(args), as the host's CPU (Intel, AMD or Arm) needs them.
      - V(enabled) is for virtual machines and containers that get a device for themselves. With V(passthrough) the host's own drivers
        also go around the IOMMU, which is faster.
    type: str
    choices: [enabled, passthrough]
  hugepages:
    description:
      - Huge pages to reserve at boot, a number for each size (V(2M), V(1G)). Their arguments come before O(args).
      - On the Red Hat family only one size, because C(grubby) keeps one value for each name.
    type: dict
    default: {}
  state:
    description: V(absent) takes all arguments of the owner away.
    type: str
    choices: [present, absent]
    default: present
notes:
  - On Debian and Ubuntu the arguments are in C(/etc/default/grub.d/zz-<owner>.cfg), and C(update-grub) runs.
  - On the Red Hat family C(grubby) sets them on every boot entry, and C(/etc/gpuops/kernel_args/<owner>.json) records what the owner
    has set and what that displaced, which comes back with O(state=absent).
  - A host that boots with systemd-boot is refused, unless there is nothing to set.
"""

EXAMPLES = r"""
- name: Turn the IOMMU on, and reserve huge pages
  gpuops.nvidia.kernel_args:
    iommu: passthrough
    hugepages: {1G: 16}
    args: [init_on_alloc=0]

- name: Take them away again
  gpuops.nvidia.kernel_args:
    state: absent
"""

RETURN = r"""
configured:
  description: The arguments of the next boot.
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
  description: Whether the running kernel has other arguments than the next boot.
  returned: success
  type: bool
  sample: true
elsewhere:
  description: Arguments of others with a name that the owner sets, too. The kernel goes by the last, which is the owner's.
  returned: success
  type: list
  elements: str
  sample: [iommu=off]
bootloader:
  description: How the boot entries are changed, C(grub) or C(grubby), or null where they cannot be.
  returned: success
  type: str
  sample: grub
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.kernel_args import set_arguments

OPTIONS: dict[str, t.Any] = {
    "owner": {"type": "str", "default": "gpuops"},
    "args": {"type": "list", "elements": "str", "default": []},
    "iommu": {"type": "str", "choices": ["enabled", "passthrough"]},
    "hugepages": {"type": "dict", "default": {}},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}


def main() -> t.NoReturn:
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    host = Host()
    try:
        with host.alone():
            result = set_arguments(host, module.params, module.check_mode)
    except GpuOpsError as e:
        module.fail_json(msg=e.msg, **e.details)
    if result["elsewhere"]:
        module.warn(
            f"{' '.join(result['elsewhere'])} is set elsewhere, too. The kernel goes by the last, which is what was set here."
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
