#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_proof_info
short_description: Prove that a host's GPUs, driver and fabric are whole
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Judges the facts of M(gpuops.nvidia.gpu_facts), compares them with those of before a change and with what the host
    should have, and says whether the host can take its workloads back.
  - A missing reading counts against the host. The proof then fails with the result V(unknown), and says why the reading
    is missing.
  - Works only on the given facts.
extends_documentation_fragment:
  - gpuops.nvidia.read_only
options:
  facts:
    description: The facts, C(ansible_facts.gpuops), with the subsets V(min), V(gpus), V(services) and V(xid).
    type: dict
    required: true
  driver:
    description:
      - V(host) if the host must have a loaded driver of its own now. With V(container), the driver container loads it
        when the node is back, and V(none) is for a host without a driver. In both cases, the module judges only the PCI
        bus and the kernel log.
    type: str
    choices: [host, container, none]
    default: host
  before:
    description: The RV(record) of an earlier proof. The host must have as many GPUs, switches, lanes and NVLinks.
    type: dict
    default: {}
  expected:
    description: What the host should have. It takes precedence over O(before).
    type: dict
    default: {}
    suboptions:
      version:
        description: Version of the driver, such as V(580.95.05), or its branch, such as V(580).
        type: str
      gpus:
        description: Number of GPUs. Those of O(expected.exclude) are counted among them.
        type: int
      model:
        description: A part of every GPU's name in the PCI table or in the driver, such as V(H100), in upper or lower
          case.
        type: str
      nvswitches:
        description: Number of NVSwitches.
        type: int
      persistence:
        description: Whether persistence mode must be on.
        type: bool
      pcie_generation:
        description: The oldest PCIe generation that every GPU and its slot must be able to use together.
        type: int
      exclude:
        description: GPUs that are known to be broken, by PCI address, UUID or serial number. The proof leaves them out.
        type: list
        elements: str
      bound:
        description:
          - Whether the operator's pods must have done their part already. With V(vm-passthrough), vfio must hold every
            GPU with its functions, and with V(vm-vgpu), every GPU must offer vGPUs.
          - Without it, a GPU without a driver passes.
        type: bool
  workload_kind:
    description:
      - Whom the GPUs of the host serve, in the words of the operator's label C(nvidia.com/gpu.workload.config).
      - V(vm-passthrough) and V(vm-vgpu) add their own checks, and need the facts of the subsets V(iommu),
        V(passthrough) and V(acs), too.
    type: str
    choices: [container, vm-passthrough, vm-vgpu]
    default: container
  skip:
    description: Checks to leave out.
    type: list
    elements: str
    choices:
      - proof_driver
      - proof_gpus
      - proof_nvswitches
      - proof_memory
      - proof_pcie
      - proof_nvlink
      - proof_fabric
      - proof_persistence
      - proof_recovery
      - proof_errors
      - proof_iommu
      - proof_iommu_groups
      - proof_binding
      - proof_vgpus
    default: []
seealso:
  - module: gpuops.nvidia.gpu_facts
  - module: gpuops.nvidia.host_preflight_info
"""

EXAMPLES = r"""
- name: Gather what the driver says of the GPUs
  gpuops.nvidia.gpu_facts:
    gather_subset: [min, gpus, services, xid]
    gather_timeout: 60

- name: Prove that eight healthy H100 with their switches are there
  gpuops.nvidia.host_proof_info:
    facts: "{{ ansible_facts.gpuops }}"
    expected: {version: "580", gpus: 8, model: H100, nvswitches: 4, persistence: true}
  register: proof

- name: Gather what virtual machines depend on
  gpuops.nvidia.gpu_facts:
    gather_subset: [min, services, xid, iommu, passthrough, acs]

- name: Prove that vfio holds every GPU of the host
  gpuops.nvidia.host_proof_info:
    facts: "{{ ansible_facts.gpuops }}"
    driver: none
    workload_kind: vm-passthrough
    expected: {bound: true}
  register: for_guests

- name: Stop if something is broken or unknown
  ansible.builtin.assert:
    that: proof.proved
    fail_msg: "{{ proof.reason }}"
"""

RETURN = r"""
proved:
  description: Whether all checks have passed or were skipped.
  returned: success
  type: bool
  sample: false
reason:
  description: Why the host is not proved, with the remedy, or an empty string.
  returned: success
  type: str
  sample: >-
    GPU 0000:3a:00.0 has a PCIe link of 8 lanes instead of 16. Turn the host off and on, and reseat the GPU or its
    riser.
findings:
  description: The findings of all checks. Failed checks come first, then those with an unknown result.
  returned: success
  type: list
  elements: dict
  contains:
    check:
      description: Name of the check.
      type: str
      sample: proof_pcie
    result:
      description: V(failed), V(unknown), V(passed) or V(skipped).
      type: str
      sample: failed
    message:
      description: What was found.
      type: str
      sample: GPU 0000:3a:00.0 has a PCIe link of 8 lanes instead of 16.
    remedy:
      description: What to do about it, or an empty string.
      type: str
      sample: Turn the host off and on, and reseat the GPU or its riser.
summary:
  description: How many findings there are of each result.
  returned: success
  type: dict
  sample: {failed: 1, unknown: 0, passed: 8, skipped: 1}
record:
  description: What the host has now, for O(before) of a later proof.
  returned: success
  type: dict
  sample:
    driver: {loaded: true, version: 580.95.05, origin: nvidia}
    gpus:
      - pci_address: "0000:18:00.0"
        device_id: 10de:2330
        uuid: GPU-4f8d2a10-6c1e-4a53-9b1d-0d6f0a3c1e01
        serial: "1650124014249"
        width: 16
        generation_host: 5
        links: 18
    nvswitches: 4
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.guests import guest_problems
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof import proof
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

EXPECTED = ArgumentSpec(
    {
        "version": {"type": "str"},
        "gpus": {"type": "int"},
        "model": {"type": "str"},
        "nvswitches": {"type": "int"},
        "persistence": {"type": "bool"},
        "pcie_generation": {"type": "int"},
        "exclude": {"type": "list", "elements": "str"},
        "bound": {"type": "bool"},
    }
)

SPEC = ArgumentSpec(
    {
        "facts": {"type": "dict", "required": True},
        "driver": {"type": "str", "choices": ["host", "container", "none"], "default": "host"},
        "before": {"type": "dict", "default": {}},
        "workload_kind": {"type": "str", "choices": list(guest_problems.WORKLOAD_KINDS), "default": "container"},
        "expected": EXPECTED.as_dict(default={}),
        "skip": {"type": "list", "elements": "str", "choices": list(proof.CHECKS), "default": []},
    },
)


def main() -> t.NoReturn:
    run(SPEC, lambda module: proof.prove(module.params))


if __name__ == "__main__":
    main()
