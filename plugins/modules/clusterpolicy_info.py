#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: clusterpolicy_info
short_description: Report what the ClusterPolicy asks for, who owns each field, and whether the stack is ready
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Returns the ClusterPolicy with its state and conditions, the owners of each field, the rollout of each operand with
    its images, and a verdict with reasons.
  - A GPUCluster without a ClusterPolicy is judged, too.
  - With O(wait=true), waits until the stack is ready. If waiting cannot help, the module fails at once.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details: This module reads only. In check mode, it does not wait.
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: none
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.stack
  - gpuops.nvidia.progress
  - gpuops.nvidia.tolerance
options:
  wait:
    description: Wait until the stack is ready, and fail with the verdict if it does not become ready.
    type: bool
    default: false
  wait_timeout:
    description: How many seconds to wait.
    type: int
    default: 1800
seealso:
  - module: gpuops.nvidia.clusterpolicy
  - module: gpuops.nvidia.gpu_stack_info
"""

EXAMPLES = r"""
- name: Wait until the GPUs can be used
  gpuops.nvidia.clusterpolicy_info:
    wait: true
    wait_timeout: 900

- name: See who set the driver's version
  gpuops.nvidia.clusterpolicy_info:
  register: policy

- name: Show it
  ansible.builtin.debug:
    msg: "{{ policy.owners['spec.driver.version'] | default('nobody') }}"
"""

RETURN = r"""
exists:
  description: Whether the ClusterPolicy exists.
  returned: success
  type: bool
  sample: true
clusterpolicy:
  description: The object without C(managedFields). Empty if it does not exist.
  returned: success
  type: dict
  sample:
    metadata:
      name: cluster-policy
owners:
  description: The managers of each field that has been set.
  returned: success
  type: dict
  sample:
    spec.driver.version: [gpuops.nvidia]
state:
  description: The state that the operator reports. It is not sufficient proof of readiness; see RV(verdict).
  returned: success
  type: str
  sample: ready
conditions:
  description: The conditions that the operator reports.
  returned: success
  type: list
  elements: dict
  sample:
    - type: Ready
      status: "True"
      reason: Reconciled
operands:
  description: Rollout of each operand's DaemonSet, in numbers of nodes, with its images.
  returned: success
  type: list
  elements: dict
  sample:
    - operand: driver
      daemonset: nvidia-driver-daemonset
      state: ready
      expected: 4
      desired: 4
      updated: 4
      available: 4
      images: ["nvcr.io/nvidia/driver:595.91.07-ubuntu24.04"]
versions:
  description: The version of each operand's image.
  returned: success
  type: dict
  sample:
    driver: 595.91.07-ubuntu24.04
verdict:
  description: Whether the stack is ready, and the reasons if it is not.
  returned: success
  type: dict
  sample:
    state: ready
    message: "The GPU stack is ready: 4 of 4 GPU nodes have allocatable GPUs."
    reasons: []
    nodes_ready: 4
    nodes_total: 4
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import policy_info
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import PROGRESS
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "name": {"type": "str", "default": ""},
        "namespace": {"type": "str", "default": ""},
        "wait": {"type": "bool", "default": False},
        "wait_timeout": {"type": "int", "default": 1800},
    },
).including(CONNECTION, PROGRESS, tolerance.SPEC)


def main() -> t.NoReturn:
    run(SPEC, lambda module: policy_info.clusterpolicy_info(Cluster(module.params, module.check_mode), module.params))


if __name__ == "__main__":
    main()
