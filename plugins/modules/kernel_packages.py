#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_packages
short_description: >-
  Plumbing of the role host_kernel: install a kernel for which there is a driver, and make it the one of the next boot
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Installs a kernel of the distribution with the host's package manager, and makes it the kernel of the next boot. It
    leaves the reboot to its caller.
  - Refuses a kernel that repositories do not offer, or whose headers for the build of the driver are missing. If the
    running kernel uses packages with built driver modules, the new kernel must have them too.
  - Installs for the new kernel the packages that the running one has, such as its extra modules.
  - The running kernel stays installed. To go back to it, give its release. That works without a repository.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details: In check mode, RV(refused) says why a kernel is refused, instead of a failure.
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
    details: Lists the packages and the kernel of the next boot.
  idempotent:
    description: A second run with the same options reports no change.
    support: full
  platform:
    description: Where the module works.
    support: full
    platforms: Debian, Ubuntu and the Red Hat family, with GRUB
options:
  release:
    description:
      - Release of the kernel, as C(uname -r) prints it, for example V(6.8.0-60-generic).
      - V(latest) is the release that the host's metapackage resolves to by apt's own policy. Without a metapackage, it
        is the newest release of the series and the flavour that run. Another series needs its release.
    type: str
    required: true
  headers:
    description:
      - What must be true of the kernel's headers.
      - V(installed) installs them, for a driver that the host builds. V(offered) only checks that a repository offers
        them, for a driver container, which installs them itself. V(ignored) is for a driver with built modules.
    type: str
    choices: [installed, offered, ignored]
    default: installed
  lock_timeout:
    description: Seconds to wait for the lock of apt, which unattended upgrades may hold.
    type: int
    default: 600
notes:
  - systemd-boot and unified kernel images are not supported, except for a kernel that their next boot already uses.
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
  description: Release of the running kernel.
  returned: success
  type: str
  sample: 6.8.0-51-generic
next_boot:
  description: The kernel of the next boot, or in check mode the one that it would be. Null if it is unknown.
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

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.kernel.change_kernel import ensure
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "release": {"type": "str", "required": True},
        "headers": {"type": "str", "choices": ["installed", "offered", "ignored"], "default": "installed"},
        "lock_timeout": {"type": "int", "default": 600},
    },
)


def main() -> t.NoReturn:
    run(SPEC, lambda module: ensure(Host(), module.params, module.check_mode), minimums={"lock_timeout": 0})


if __name__ == "__main__":
    main()
