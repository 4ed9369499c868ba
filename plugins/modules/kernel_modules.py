#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_modules
short_description: Blacklist kernel modules, load modules at boot and set their options, also in the initramfs
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Writes one file in C(/etc/modprobe.d) and one in C(/etc/modules-load.d) for each O(owner), and leaves all other
    files as they are.
  - If an initramfs image of the host lacks the owner's current file, the module rebuilds all images, and compares the
    file in each of them with the host's. A second run leaves the images as they are.
  - If an image cannot be built (a full disk, a failing hook), the module keeps the old one, restores the files, and
    fails. If a run was killed, the next one completes it.
attributes:
  check_mode:
    description: Can run in check mode and returns what a run would change.
    support: full
  diff_mode:
    description: Returns every file that differs.
    support: full
options:
  owner:
    description: The owner of the modules. The files are named after the owner.
    type: str
    default: gpuops
  blacklist:
    description:
      - Modules that must not be loaded for a device. A module that is already loaded stays until the reboot.
    type: list
    elements: str
    default: []
  load:
    description: Modules to load at boot.
    type: list
    elements: str
    default: []
  load_now:
    description: Also load the modules of O(load) now. This only has an effect if the kernel shows its modules, which it
      hides in some containers.
    type: bool
    default: true
  options:
    description: For each module, a dictionary of its parameters and their values.
    type: dict
    default: {}
  state:
    description: V(absent) removes everything that the owner has set. Modules that are loaded stay until the reboot.
    type: str
    choices: [present, absent]
    default: present
notes:
  - Supports initramfs-tools and dracut, with images in C(/boot). With dracut, a file in C(/etc/dracut.conf.d) also
    keeps the blacklisted modules out of the images. On Debian and Ubuntu, the package that owns C(update-initramfs)
    tells which of the two builds the images.
  - The module refuses unified kernel images and the images of systemd-boot. For these, blacklist modules with kernel
    arguments.
  - If another run is changing the host, the module waits for it, at most 20 minutes.
seealso:
  - module: gpuops.nvidia.kernel_args
  - module: gpuops.nvidia.kernel_sysctls
  - module: community.general.kernel_blacklist
  - module: community.general.modprobe
"""

EXAMPLES = r"""
- name: Keep nouveau from being loaded
  gpuops.nvidia.kernel_modules:
    blacklist: [nouveau]
    options:
      nouveau: {modeset: 0}

- name: Reserve the GPUs for virtual machines
  gpuops.nvidia.kernel_modules:
    owner: vfio
    load: [vfio-pci]
    options:
      vfio-pci: {ids: "10de:2330"}

- name: Remove the settings again
  gpuops.nvidia.kernel_modules:
    owner: vfio
    state: absent
"""

RETURN = r"""
files:
  description: The owner's files.
  returned: success
  type: list
  elements: str
  sample: [/etc/modprobe.d/zz-gpuops.conf]
initramfs:
  description: The tool, whether images were rebuilt (or in check mode would be), and the images of installed kernels.
  returned: success
  type: dict
  sample: {tool: initramfs-tools, rebuilt: true, images: [/boot/initrd.img-6.8.0-60-generic]}
loaded:
  description: The modules that were loaded, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [vfio-pci]
reboot_required:
  description: Whether some settings take effect only at the next boot.
  returned: success
  type: bool
  sample: true
reboot_reasons:
  description: The settings that take effect only at the next boot.
  returned: success
  type: list
  elements: str
  sample: [nouveau is loaded although it is blacklisted]
overridden:
  description: Options that another file sets to another value. modprobe reads that file later, so its value counts.
  returned: success
  type: list
  elements: dict
  sample: [{module: nvidia, name: NVreg_EnableGpuFirmware, value: "1", file: /etc/modprobe.d/zzz.conf}]
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.kernel_modules import set_modules
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "owner": {"type": "str", "default": "gpuops"},
        "blacklist": {"type": "list", "elements": "str", "default": []},
        "load": {"type": "list", "elements": "str", "default": []},
        "load_now": {"type": "bool", "default": True},
        "options": {"type": "dict", "default": {}},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    },
)


def main() -> t.NoReturn:
    run(SPEC, lambda module: set_modules(Host(), module.params, module.check_mode))


if __name__ == "__main__":
    main()
