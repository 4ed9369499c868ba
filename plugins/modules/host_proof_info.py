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
  - A reading that is missing is not a good one. The result V(unknown) keeps a host from being proved, and says why the
    reading is missing.
  - Changes nothing, and asks neither the host nor the cluster.
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
        when the node is back, and with V(none) there is to be none. Then only the PCI bus and the kernel log are
        judged.
    type: str
    choices: [host, container, none]
    default: host
  before:
    description: The RV(record) of an earlier proof. The host must have as many GPUs, switches, lanes and NVLinks.
    type: dict
    default: {}
  expected:
    description: What the host should have. It is stronger than O(before).
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
        description: A part of every GPU's name in the PCI table or in the driver, such as V(H100), in any case.
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
        description: GPUs that are known to be broken, by PCI address, UUID or serial number. They are not judged.
        type: list
        elements: str
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

- name: Stop if something is broken or unknown
  ansible.builtin.assert:
    that: proof.proved
    fail_msg: "{{ proof.reason }}"
"""

RETURN = r"""
proved:
  description: Whether nothing has failed and nothing is unknown.
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
  description: The findings of all checks. What has failed comes first, then what is unknown.
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

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof import proof
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import Module

EXPECTED: dict[str, t.Any] = {
    "version": {"type": "str"},
    "gpus": {"type": "int"},
    "model": {"type": "str"},
    "nvswitches": {"type": "int"},
    "persistence": {"type": "bool"},
    "pcie_generation": {"type": "int"},
    "exclude": {"type": "list", "elements": "str"},
}

OPTIONS: dict[str, t.Any] = {
    "facts": {"type": "dict", "required": True},
    "driver": {"type": "str", "choices": ["host", "container", "none"], "default": "host"},
    "before": {"type": "dict", "default": {}},
    "expected": {"type": "dict", "default": {}, "options": EXPECTED},
    "skip": {"type": "list", "elements": "str", "choices": list(proof.CHECKS), "default": []},
}


def main() -> t.NoReturn:
    module = Module(argument_spec=OPTIONS, supports_check_mode=True)
    try:
        result = proof.prove(module.params)
    except GpuOpsError as e:
        module.fail_json(msg=e.msg, **e.details)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
