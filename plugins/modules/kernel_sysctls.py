#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_sysctls
short_description: Set an owner's sysctls now and at boot, and restore the former values later
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Keeps all sysctls of an O(owner) in one file, C(/etc/sysctl.d/90-<owner>.conf), and in the running kernel.
  - The file also records the values that the kernel had before. A sysctl that the owner no longer lists gets its former
    value back.
attributes:
  check_mode:
    description: Can run in check mode and returns what a run would change.
    support: full
  diff_mode:
    description: Returns the file and the values of the running kernel before and after.
    support: full
options:
  owner:
    description: The owner of the sysctls.
    type: str
    default: gpuops
  values:
    description: The owner's sysctls by name. An empty dictionary restores the former values of all of them.
    type: dict
    default: {}
  state:
    description: V(absent) restores the former values of all of the owner's sysctls.
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: ansible.posix.sysctl
"""

EXAMPLES = r"""
- name: Turn automatic NUMA balancing off, and allow more memory maps
  gpuops.nvidia.kernel_sysctls:
    values:
      kernel.numa_balancing: 0
      vm.max_map_count: 1048576
"""

RETURN = r"""
pending:
  description: Sysctls that take effect only at the next boot, because they cannot be set now, for example in a
    container.
  returned: success
  type: list
  elements: str
  sample: []
overridden:
  description: Sysctls that a file with a later name sets to another value at the next boot, with that file.
  returned: success
  type: list
  elements: dict
  sample: [{name: vm.swappiness, value: "60", file: /etc/sysctl.d/99-sysctl.conf}]
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.sysctls import set_sysctls
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "owner": {"type": "str", "default": "gpuops"},
        "values": {"type": "dict", "default": {}},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    },
)


def main() -> t.NoReturn:
    run(SPEC, lambda module: set_sysctls(Host(), module.params, module.check_mode))


if __name__ == "__main__":
    main()
