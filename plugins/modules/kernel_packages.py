#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_packages
short_description: Install a kernel for which there is a driver, and make it the one of the next boot
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Installs a kernel of the distribution with the host's package manager, and makes it the kernel of the next boot. It
    does not reboot.
  - Refuses a kernel that no repository offers, one without the headers that the driver is built with, and one for which
    the packages with the driver's built modules are missing that the running kernel has.
  - Installs for the new kernel the packages that the running one has, such as its extra modules.
  - The running kernel stays installed. To go back to it, give its release. That needs no repository.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details: A kernel that is refused is no failure in check mode. See RV(refused).
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
    details: Lists the packages and the kernel of the next boot.
  idempotent:
    description: A second run with the same options changes nothing.
    support: full
  platform:
    description: Where the module works.
    support: full
    platforms: Debian, Ubuntu and the Red Hat family, with GRUB
options:
  release:
    description:
      - Release of the kernel, as C(uname -r) prints it, for example V(6.8.0-60-generic).
      - V(latest) is the newest one of the flavour that runs.
    type: str
    required: true
  headers:
    description:
      - What must be true of the kernel's headers.
      - V(installed) installs them, for a driver that the host builds. V(offered) only wants a repository to offer them,
        for a driver container, which installs them itself. V(ignored) is for a driver with built modules.
    type: str
    choices: [installed, offered, ignored]
    default: installed
  lock_timeout:
    description: Seconds to wait for the lock of apt, which unattended upgrades may hold.
    type: int
    default: 600
notes:
  - systemd-boot and unified kernel images are not supported. A kernel that their next boot uses already is no change.
seealso:
  - module: gpuops.nvidia.package_hold
  - module: gpuops.nvidia.driver_packages
"""

EXAMPLES = r"""
- name: Install a kernel for the next boot
  gpuops.nvidia.kernel_packages:
    release: 6.8.0-60-generic
  register: kernel

- name: Go back to the former one
  gpuops.nvidia.kernel_packages:
    release: "{{ kernel.way_back }}"
    headers: ignored
"""

RETURN = r"""
release:
  description: Release of the wanted kernel.
  returned: success
  type: str
  sample: 6.8.0-60-generic
running:
  description: Release of the kernel that runs.
  returned: success
  type: str
  sample: 6.8.0-51-generic
next_boot:
  description: The kernel of the next boot, or in check mode the one that it would be. Null if it is not known.
  returned: success
  type: str
  sample: 6.8.0-60-generic
installs:
  description: Packages that were installed, or would be.
  returned: success
  type: list
  elements: str
  sample: [linux-image-6.8.0-60-generic, linux-modules-extra-6.8.0-60-generic, linux-headers-6.8.0-60-generic]
headers:
  description: What is true of the headers, C(installed), C(offered) or C(missing), before the run.
  returned: success
  type: str
  sample: offered
way_back:
  description: The kernel to go back to, or null.
  returned: success
  type: str
  sample: 6.8.0-51-generic
reboot_required:
  description: Whether another kernel runs than the wanted one.
  returned: success
  type: bool
  sample: true
refused:
  description: Why the host cannot get the kernel, or an empty string. Outside of check mode, the module fails with it.
  returned: success
  type: str
  sample: ""
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.kernel.run import ensure
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import Module
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below

OPTIONS: dict[str, t.Any] = {
    "release": {"type": "str", "required": True},
    "headers": {"type": "str", "choices": ["installed", "offered", "ignored"], "default": "installed"},
    "lock_timeout": {"type": "int", "default": 600},
}


def main() -> t.NoReturn:
    module = Module(argument_spec=OPTIONS, supports_check_mode=True)
    try:
        refuse_below(module.params, lock_timeout=0)
        result = ensure(Host(), module.params, module.check_mode)
    except GpuOpsError as e:
        module.fail_json(msg=e.msg, **e.details)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
