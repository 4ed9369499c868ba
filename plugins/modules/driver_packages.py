#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_packages
short_description: >-
  Plumbing of the role host_driver: install, change, remove or restore the packages of NVIDIA's driver on a host
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Brings the driver, the fabric manager, NVLSM, IMEX and the container toolkit to one version in one transaction of
    apt or dnf.
  - Keeps an installed driver, wherever it comes from, unless the options ask for another one and O(replace) allows the
    change. Its companions (O(fabric), O(imex), O(toolkit), O(persistence)) are installed in the version of the driver.
  - Names packages as the repository does that offers them (Debian, Ubuntu's archive with signed modules, NVIDIA's
    repositories before and after branch 590, with module streams on the Red Hat family).
  - Leaves the reboot to its caller. The result says whether the change interrupts the users of the GPUs, and why the
    host needs a reboot.
attributes:
  check_mode:
    description: Returns what a run would do. Updates the lists of packages, which are a cache.
    support: full
  diff_mode:
    description: Returns no diff. RV(transaction) has every change.
    support: none
options:
  state:
    description:
      - V(present) installs or changes the driver, V(absent) removes it and its services.
      - V(restored) returns to O(former), from the repositories or from the files that were kept before the change.
    type: str
    choices: [present, absent, restored]
    default: present
  origin:
    description:
      - Whose packages to install. V(auto) prefers those of the distribution that come with signed modules or in the
        branch, then those of NVIDIA's repository.
    type: str
    choices: [auto, distribution, nvidia]
    default: auto
  branch:
    description:
      - Branch of the driver, for example V(580). Pins keep the host in the branch.
      - Without a branch and a version, a host without a driver gets branch 580, or the newest branch that the
        repositories offer and the GPUs support.
    type: str
    default: ""
  version:
    description: Exact upstream version, for example V(580.95.05). Pins keep the host at it.
    type: str
    default: ""
  flavour:
    description: Kernel modules to install. V(auto) chooses them according to the GPUs and the branch.
    type: str
    choices: [auto, open, proprietary]
    default: auto
  gpus:
    description: The host's GPUs, C(gpus) of M(gpuops.nvidia.gpu_facts). They decide about the flavour.
    type: list
    elements: dict
    default: []
  packages:
    description: Names of the driver's packages, if they differ from the module's own names.
    type: list
    elements: str
    default: []
  fabric:
    description:
      - The kind of the NVLink fabric, C(fabric.kind) of M(gpuops.nvidia.gpu_facts). V(nvswitch) needs the fabric
        manager, V(nvlink5) also NVLSM.
    type: str
    choices: [none, nvswitch, nvlink5, nvl72]
    default: none
  imex:
    description: Install IMEX.
    type: bool
    default: false
  toolkit:
    description: Install the container toolkit.
    type: bool
    default: false
  persistence:
    description: Install the persistence daemon.
    type: bool
    default: false
  kernels:
    description: Kernels to install modules or headers for, the next one last. By default, the running kernel.
    type: list
    elements: str
    default: []
  replace:
    description:
      - Permission to replace or change an installed driver, and to run the uninstaller of NVIDIA's C(.run) installer.
    type: bool
    default: false
  former:
    description: With O(state=restored), RV(former) of an earlier result.
    type: dict
  load:
    description: Load the driver after its installation if the GPUs are free.
    type: bool
    default: true
  lock_timeout:
    description: Seconds to wait for other programs that hold the locks of the package manager.
    type: int
    default: 600
notes:
  - Before a change the former packages are downloaded to C(/var/cache/gpuops/packages), so that O(state=restored) works
    without the repositories.
  - Packages on hold are released for the transaction and held again afterwards.
seealso:
  - module: gpuops.nvidia.kernel_packages
  - module: gpuops.nvidia.package_hold
  - module: gpuops.nvidia.gpu_facts
"""

EXAMPLES = r"""
- name: See what a change to another branch would do
  gpuops.nvidia.driver_packages:
    branch: "590"
    gpus: "{{ ansible_facts.gpuops.gpus }}"
    replace: true
  check_mode: true
  register: plan

- name: Change the driver
  gpuops.nvidia.driver_packages:
    branch: "590"
    gpus: "{{ ansible_facts.gpuops.gpus }}"
    replace: true

- name: Return to the former driver
  gpuops.nvidia.driver_packages:
    state: restored
    former: "{{ plan.former }}"
"""

RETURN = r"""
action:
  description:
    - What was done, or in check mode would be. C(none) and C(adopt) leave the packages as they are. C(complete)
      finishes an installation that was interrupted, for example by a power failure.
  returned: always
  type: str
  sample: change
refused:
  description: Why the module refuses the change, or null. Without check mode the module fails with this sentence.
  returned: always
  type: str
former:
  description:
    - The former driver. C(origin) is C(nvidia), C(ubuntu), C(ubuntu-signed), C(debian), C(distribution), C(runfile),
      C(container), C(unknown) or null.
  returned: always
  type: dict
  sample:
    present: true
    origin: ubuntu-signed
    version: 570.133.20
    branch: "570"
    flavour: open
    packages: {nvidia-utils-570-server: 570.133.20-0ubuntu0.24.04.1}
    holds: []
    pins: {/etc/apt/preferences.d/gpuops-nvidia: null}
    uninstaller: null
    described: the driver 570.133.20 of Ubuntu's archive with signed modules
wanted:
  description: The wanted driver, or null. C(packages) are those of the options.
  returned: always
  type: dict
transaction:
  description:
    - What the package manager did, or would do. C(install) has the name, version and former version of each package,
      C(remove) the name and version, C(pins) the files that keep the version, C(streams) the enabled module streams.
  returned: success
  type: dict
interrupts:
  description: Whether the change interrupts the users of the GPUs.
  returned: success
  type: bool
interrupt_reasons:
  description: Why the change interrupts them.
  returned: success
  type: list
  elements: str
way_back:
  description:
    - Whether O(state=restored) could reinstall the present packages. C(missing) lists packages that repositories and
      kept files lack.
  returned: success
  type: dict
  sample: {possible: true, missing: []}
loaded:
  description: Whether a driver is loaded. In check mode, whether it is loaded now.
  returned: success
  type: bool
reboot_required:
  description: Whether the driver takes effect only at the next boot.
  returned: success
  type: bool
reboot_reasons:
  description: Why the host needs a reboot.
  returned: success
  type: list
  elements: str
  sample: ["The driver 580.95.05 is installed, and 570.133.20 is loaded"]
messages:
  description: What the user should know, such as kernel headers that are unavailable.
  returned: success
  type: list
  elements: str
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.driver_packages import manage
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "state": {"type": "str", "choices": ["present", "absent", "restored"], "default": "present"},
        "origin": {"type": "str", "choices": ["auto", "distribution", "nvidia"], "default": "auto"},
        "branch": {"type": "str", "default": ""},
        "version": {"type": "str", "default": ""},
        "flavour": {"type": "str", "choices": ["auto", "open", "proprietary"], "default": "auto"},
        "gpus": {"type": "list", "elements": "dict", "default": []},
        "packages": {"type": "list", "elements": "str", "default": []},
        "fabric": {"type": "str", "choices": ["none", "nvswitch", "nvlink5", "nvl72"], "default": "none"},
        "imex": {"type": "bool", "default": False},
        "toolkit": {"type": "bool", "default": False},
        "persistence": {"type": "bool", "default": False},
        "kernels": {"type": "list", "elements": "str", "default": []},
        "replace": {"type": "bool", "default": False},
        "former": {"type": "dict"},
        "load": {"type": "bool", "default": True},
        "lock_timeout": {"type": "int", "default": 600},
    },
    required_if=[("state", "restored", ["former"])],
)


def main() -> t.NoReturn:
    run(SPEC, lambda module: manage(Host(), module.params, module.check_mode))


if __name__ == "__main__":
    main()
