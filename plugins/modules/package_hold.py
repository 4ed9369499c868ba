#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: package_hold
short_description: Hold installed packages against upgrades, by patterns of their names
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Holds every installed package that matches a pattern, in one call. An unattended upgrade of the kernel or the driver
    can make a node's GPUs unusable, either immediately or at the next reboot.
  - Holds belong to an O(owner). The module releases packages that the owner no longer lists. Holds of others stay.
attributes:
  check_mode:
    description: Can run in check mode and returns what a run would change.
    support: full
  diff_mode:
    description: Returns what the owner holds before and after.
    support: full
options:
  owner:
    description: The owner of the holds.
    type: str
    default: gpuops
  packages:
    description: Shell patterns of package names. A pattern may match no package.
    type: list
    elements: str
    default: []
  driver:
    description:
      - Also hold the packages of the installed driver and of the container toolkit. The owners of the driver's files
        and the driver's version tell which they are, so that other packages of NVIDIA stay free, such as those of a
        DGX's platform.
    type: bool
    default: false
  state:
    description: V(absent) releases all packages that the owner holds.
    type: str
    choices: [present, absent]
    default: present
  lock_timeout:
    description: Seconds to wait for other programs that hold the locks of apt.
    type: int
    default: 600
notes:
  - On Debian and Ubuntu the packages are put on hold (C(apt-mark showhold)), and
    C(/etc/gpuops/package_hold/<owner>.json) records which of the holds are the owner's.
  - On the Red Hat family the installed versions are locked in C(/etc/dnf/plugins/versionlock.list), which needs the
    package C(python3-dnf-plugin-versionlock). If this package is missing and there are packages to hold, the module
    installs it. dnf 5 is not supported.
seealso:
  - module: ansible.builtin.dpkg_selections
  - module: community.general.dnf_versionlock
"""

EXAMPLES = r"""
- name: Hold the kernel and the driver
  gpuops.nvidia.package_hold:
    packages: ["linux-image-*", "linux-headers-*"]
    driver: true
"""

RETURN = r"""
held:
  description: The packages that the owner holds, or the lines that lock them.
  returned: success
  type: list
  elements: str
  sample: [linux-image-6.8.0-60-generic, nvidia-driver-580-server]
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.packages import hold
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "owner": {"type": "str", "default": "gpuops"},
        "packages": {"type": "list", "elements": "str", "default": []},
        "driver": {"type": "bool", "default": False},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "lock_timeout": {"type": "int", "default": 600},
    },
)


def main() -> t.NoReturn:
    run(SPEC, lambda module: hold(Host(), module.params, module.check_mode))


if __name__ == "__main__":
    main()
