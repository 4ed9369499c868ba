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
  description: Sysctls that take effect at the next boot only, because they cannot be set now, as in a container.
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

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.sysctls import set_sysctls
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import Module

OPTIONS: dict[str, t.Any] = {
    "owner": {"type": "str", "default": "gpuops"},
    "values": {"type": "dict", "default": {}},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}


def main() -> t.NoReturn:
    module = Module(argument_spec=OPTIONS, supports_check_mode=True)
    try:
        result = set_sysctls(Host(), module.params, module.check_mode)
    except GpuOpsError as e:
        module.fail_json(msg=e.msg, **e.details)
    if result["pending"]:
        pending = ", ".join(result["pending"])
        module.warn(f"{pending} cannot be set in the running kernel from here. The next boot sets it.")
    for other in result["overridden"]:
        name, value, path = other["name"], other["value"], other["file"]
        module.warn(f"{path} sets {name} to {value} at the next boot, because it is read last. Remove the line there.")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
