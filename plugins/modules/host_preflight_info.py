#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_preflight_info
short_description: Find everything on a host that would keep its GPUs from serving a cluster
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Checks the facts of M(gpuops.nvidia.gpu_facts) and a few more properties of the host. Returns every problem with its
    remedy.
  - Only reads, and works with the host's own Python without further packages.
extends_documentation_fragment:
  - gpuops.nvidia.read_only
options:
  facts:
    description: The facts, C(ansible_facts.gpuops), with the subsets V(min), V(services), V(secure_boot) and V(xid).
    type: dict
    required: true
  driver:
    description: Where the driver should come from, a driver container or the host's packages.
    type: str
    choices: [container, host]
    default: container
  precompiled:
    description: Whether the driver containers are precompiled (C(driver.usePrecompiled)).
    type: bool
    default: false
  operator_version:
    description: Version of the GPU Operator. The default is the newest release line.
    type: str
  remove_host_driver:
    description:
      - Whether the run may remove a driver of the host that would conflict with a driver container. It is then a
        warning, and a failure otherwise.
    type: bool
    default: false
  workload_kind:
    description:
      - Whom the GPUs of the host serve, in the words of the operator's label C(nvidia.com/gpu.workload.config).
      - V(vm-passthrough) and V(vm-vgpu) need the facts of the subsets V(iommu), V(passthrough) and V(acs), too. Those
        of V(hugepages) add a hint.
    type: str
    choices: [container, vm-passthrough, vm-vgpu]
    default: container
  skip:
    description:
      - Checks to skip.
      - V(host_modules) and V(host_imex) belong to containers, V(host_iommu), V(host_iommu_groups) and
        V(host_virtualization) to virtual machines, V(host_vfio) to V(vm-passthrough) and V(host_vgpu) to V(vm-vgpu).
    type: list
    elements: str
    choices:
      - host_gpus
      - host_operating_system
      - host_kernel
      - host_modules
      - host_imex
      - host_iommu
      - host_iommu_groups
      - host_vfio
      - host_vgpu
      - host_virtualization
      - host_secure_boot
      - host_disk
      - host_clock
      - host_driver
    default: []
seealso:
  - module: gpuops.nvidia.gpu_facts
  - module: gpuops.nvidia.gpu_preflight_info
"""

EXAMPLES = r"""
- name: Gather the facts
  gpuops.nvidia.gpu_facts:

- name: Check the host
  gpuops.nvidia.host_preflight_info:
    facts: "{{ ansible_facts.gpuops }}"
    operator_version: v26.7.0
  register: preflight

- name: Check whether the host can give whole GPUs to virtual machines
  gpuops.nvidia.host_preflight_info:
    facts: "{{ ansible_facts.gpuops }}"
    workload_kind: vm-passthrough
  register: for_guests
"""

RETURN = r"""
findings:
  description: The findings of all checks. Failures come first, then warnings.
  returned: success
  type: list
  elements: dict
  contains:
    check:
      description: Name of the check.
      type: str
      sample: host_secure_boot
    level:
      description: C(failure) keeps the GPUs from serving, C(warning) may cause problems, C(ok) needs no action.
      type: str
      sample: failure
    message:
      description: What was found.
      type: str
      sample: Secure boot is on, so the kernel refuses the unsigned modules that a driver container builds.
    remedy:
      description: What to do about it, or an empty string.
      type: str
      sample: >-
        Either install the driver on the host with modules signed by a key that the firmware knows (mokutil --import),
        or turn secure boot off.
summary:
  description: How many findings there are of each level.
  returned: success
  type: dict
  sample: {failures: 1, warnings: 0, ok: 8}
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._host import preflight
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.guests import guest_problems
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "facts": {"type": "dict", "required": True},
        "driver": {"type": "str", "choices": ["container", "host"], "default": "container"},
        "precompiled": {"type": "bool", "default": False},
        "operator_version": {"type": "str"},
        "remove_host_driver": {"type": "bool", "default": False},
        "workload_kind": {"type": "str", "choices": list(guest_problems.WORKLOAD_KINDS), "default": "container"},
        "skip": {"type": "list", "elements": "str", "choices": list(preflight.CHECKS), "default": []},
    },
)


def main() -> t.NoReturn:
    run(SPEC, lambda module: preflight.check(Host(), module.params))


if __name__ == "__main__":
    main()
