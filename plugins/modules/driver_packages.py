#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_packages
short_description: Install, change, remove or restore the packages of NVIDIA's driver on a host
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Brings the driver, the fabric manager, NVLSM, IMEX and the container toolkit to one version in one transaction of
    apt or dnf.
  - Keeps a driver that is already there, wherever it comes from, unless something else is asked for and O(replace)
    allows the change. What is asked for is everything but the companions (O(fabric), O(imex), O(toolkit),
    O(persistence)), which are installed in the version of the driver.
  - Names packages as the repository does that offers them (Debian, Ubuntu's archive with signed modules, NVIDIA's
    repositories before and after branch 590, with module streams on the Red Hat family).
  - Does not reboot. The result says whether the change interrupts what uses the GPUs, and why a reboot is due.
attributes:
  check_mode:
    description: Returns what a run would do. The lists of packages are brought up to date, which are a cache.
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
        branch, then the ones of NVIDIA's repository.
    type: str
    choices: [auto, distribution, nvidia]
    default: auto
  branch:
    description:
      - Branch of the driver, for example V(580). Pins keep the host in the branch.
      - If neither a branch nor a version is given, a host without a driver gets branch 580, or the newest that the
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
    description: Names of the driver's packages, if they differ from those that the module knows.
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
    description: Load the driver after its installation if nothing holds the GPUs.
    type: bool
    default: true
  lock_timeout:
    description: Seconds to wait for other programs that hold the locks of the package manager.
    type: int
    default: 600
notes:
  - Before a change the former packages are downloaded to C(/var/cache/gpuops/packages), so that the way back does not
    depend on what the repositories offer then.
  - Packages on hold are released for the transaction and held again afterwards.
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
    - What was done, or in check mode would be. C(none) and C(adopt) leave the packages as they are. C(complete) goes on
      with an installation that was cut off, as by a power failure.
  returned: always
  type: str
  sample: change
refused:
  description: Why it must not be done, or null. Without check mode the module fails with this sentence.
  returned: always
  type: str
former:
  description:
    - The driver before. C(origin) is C(nvidia), C(ubuntu), C(ubuntu-signed), C(debian), C(distribution), C(runfile),
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
  description: The driver afterwards, or null if there is none. C(packages) are those that were asked for.
  returned: always
  type: dict
transaction:
  description:
    - What the package manager did, or would do. C(install) has the name, version and former version of each package,
      C(remove) the name and version, C(pins) the files that keep the version, C(streams) the enabled module streams.
  returned: success
  type: dict
interrupts:
  description: Whether the change interrupts what uses the GPUs.
  returned: success
  type: bool
interrupt_reasons:
  description: Why it does.
  returned: success
  type: list
  elements: str
way_back:
  description:
    - Whether O(state=restored) could bring the present packages back, and C(missing), those that no repository offers
      and no file has.
  returned: success
  type: dict
  sample: {possible: true, missing: []}
loaded:
  description: Whether a driver is loaded. In check mode, whether it is loaded now.
  returned: success
  type: bool
reboot_required:
  description: Whether the driver takes effect at the next boot only.
  returned: success
  type: bool
reboot_reasons:
  description: Why a reboot is due.
  returned: success
  type: list
  elements: str
  sample: ["The driver 580.95.05 is installed, and 570.133.20 is loaded"]
messages:
  description: What the user should know, such as kernel headers that cannot be had.
  returned: success
  type: list
  elements: str
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.driver_packages import manage
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import Module

OPTIONS: dict[str, t.Any] = {
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
}
RELATIONS: dict[str, t.Any] = {"required_if": [("state", "restored", ["former"])]}


def main() -> t.NoReturn:
    module = Module(argument_spec=OPTIONS, **RELATIONS, supports_check_mode=True)
    try:
        result = manage(Host(), module.params, module.check_mode)
    except GpuOpsError as e:
        module.fail_json(msg=e.msg, **e.details)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
