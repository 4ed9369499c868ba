#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpucluster_info
short_description: Report what the GPUCluster asks for, which feature gates are on, and whether the stack is ready
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Returns the GPUCluster with its state and conditions, the owners of each field, the feature gates of the driver and
    those of Kubernetes that it can need, the rollout of each operand, and a verdict with reasons.
  - The feature gates of Kubernetes come from dry runs that create ResourceSlices. They are those of the API server.
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
  - gpuops.nvidia.progress
  - gpuops.nvidia.tolerance
options:
  namespace:
    description: Namespace of the operator. By default, the one that the status of the GPUCluster names.
    type: str
    default: ""
  wait:
    description: Wait until the stack is ready, and fail with the verdict if it does not become ready.
    type: bool
    default: false
  wait_timeout:
    description: How many seconds to wait.
    type: int
    default: 1800
seealso:
  - module: gpuops.nvidia.gpucluster
  - module: gpuops.nvidia.gpu_stack_info
"""

EXAMPLES = r"""
- name: See whether claims can share GPUs
  gpuops.nvidia.gpucluster_info:
  register: found

- name: Show it
  ansible.builtin.debug:
    msg: "{{ found.feature_gates['TimeSlicingSettings'] }}, {{ found.kubernetes.feature_gates }}"
"""

RETURN = r"""
exists:
  description: Whether the GPUCluster exists.
  returned: success
  type: bool
  sample: true
gpucluster:
  description: The object, without C(managedFields). Empty if it does not exist.
  returned: success
  type: dict
  sample:
    metadata:
      name: gpu-cluster
feature_gates:
  description: The driver's feature gates, with the defaults of those that are not set. Empty without a GPUCluster.
  returned: success
  type: dict
  sample:
    DynamicMIG: false
    ComputeDomainCliques: true
kubernetes:
  description:
    - C(resource_api) is the newest served version of resource.k8s.io, or null.
    - C(feature_gates) says of each feature gate that the driver can need whether it is V(on), V(off) or V(unknown).
  returned: success
  type: dict
  sample:
    resource_api: v1
    feature_gates:
      DRADeviceTaints: "on"
owners:
  description: The managers of each field.
  returned: success
  type: dict
  sample:
    spec.draDriver.version: [gpuops.nvidia]
state:
  description: What the operator reports.
  returned: success
  type: str
  sample: ready
conditions:
  description: The conditions that the operator reports.
  returned: success
  type: list
  elements: dict
  sample: []
versions:
  description: The version of each operand that runs.
  returned: success
  type: dict
  sample:
    dra-driver: v0.5.0
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
operands:
  description: Rollout of each operand's DaemonSet, in numbers of nodes.
  returned: success
  type: list
  elements: dict
  sample:
    - operand: dra-driver
      daemonset: nvidia-dra-driver-kubelet-plugin
      state: ready
      expected: 4
      desired: 4
      updated: 4
      available: 4
      images: ["nvcr.io/nvidia/dra-driver-nvidia-gpu:v0.5.0"]
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpucluster import describe_gpucluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import PROGRESS
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "namespace": {"type": "str", "default": ""},
        "wait": {"type": "bool", "default": False},
        "wait_timeout": {"type": "int", "default": 1800},
    },
).including(CONNECTION, PROGRESS, tolerance.SPEC)


def main() -> t.NoReturn:
    run(SPEC, lambda module: describe_gpucluster.describe(Cluster(module.params, module.check_mode), module.params))


if __name__ == "__main__":
    main()
