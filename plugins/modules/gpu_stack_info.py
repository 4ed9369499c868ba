#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_stack_info
short_description: Report the GPUs of each node, how many are allocated, and whether the stack is ready
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Reads the whole fleet with a few LIST requests, regardless of its size.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.stack
  - gpuops.nvidia.tolerance
  - gpuops.nvidia.read_only
options:
  allocated:
    description:
      - Also count the GPUs that pods hold. This reads all pods outside the operator's namespace, which takes a while in
        a cluster with many pods.
    type: bool
    default: true
seealso:
  - module: gpuops.nvidia.clusterpolicy_info
  - plugin: gpuops.nvidia.gpu_table
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Read the fleet
  gpuops.nvidia.gpu_stack_info:
  register: stack

- name: Show it as a table
  ansible.builtin.debug:
    msg: "{{ (stack.nodes | gpuops.nvidia.gpu_table).split('\n') }}"
"""

RETURN = r"""
nodes:
  description:
    - The GPU nodes, sorted by name.
    - C(waiting_for) maps each operand that is not ready on the node to the status of its pod, for example C(driver) to
      C(CrashLoopBackOff). A node can run new GPU pods if C(waiting_for) is empty, C(ready) is true,
      C(cordoned) is false, and C(allocatable) contains GPUs.
    - C(claimable) says whether pods get its GPUs by claims (Dynamic Resource Allocation) instead of the device plugin.
    - C(devices) lists what NVIDIA's driver for Dynamic Resource Allocation offers on the node. C(claims) are those that
      have the device, each with its pods, or null without O(allocated). Claims with C(admin_access) only monitor a
      device, and leave it to others.
    - C(device_health) lists the GPUs that pods hold and that the kubelet does not call healthy, each with its pod.
      C(health) is V(Unhealthy) or V(Unknown), C(resource) the resource or C(claim:NAME/REQUEST), and C(device) the ID
      that the device plugin or the driver gave. It is null without O(allocated). Kubelets say this in the pods' status
      from Kubernetes 1.36 on, and NVIDIA's driver for claims tells them with its feature gate C(NVMLDeviceHealthCheck).
      Without it, they do not know (V(Unknown)).
    - C(kind) says who gets the GPUs, V(container), V(vm-passthrough) or V(vm-vgpu). C(machines) lists the virtual
      machines of KubeVirt that have devices of the node, with C(name) and C(devices). It is null without O(allocated),
      and if this user may not list them.
    - C(left_out) is the code of the reason why the node is not judged, for example C(OperandsSwitchedOff), or null.
      The page of the verdict's reasons explains the codes.
    - C(replicas) is the number of pods that share each GPU, and C(sharing) has the strategy (V(none), V(time-slicing),
      V(mps)) and the key of the device plugin's configuration.
    - C(slices) has an entry for whole GPUs and for each MIG profile, also with the MIG strategy V(single), which offers
      MIG devices as C(nvidia.com/gpu). C(devices) and C(replicas) are what GPU Feature Discovery has counted,
      C(expected) is what pods should therefore be able to get, C(allocatable) what they can get, and C(allocated) what
      they hold, or null without O(allocated). Shares under a name of their own (C(nvidia.com/gpu.shared)) are counted
      under the name without it.
    - For claims, the resource in C(slices) is the DeviceClass, V(gpu.nvidia.com), V(mig.nvidia.com) or
      V(vfio.gpu.nvidia.com), and C(allocatable) leaves out devices with a taint that keeps claims away.
    - A value that the stack has not reported yet is null.
  returned: success
  type: list
  elements: dict
  sample:
    - name: gpu-0000
      product: NVIDIA-H100-80GB-HBM3
      gpus: 8
      replicas: 1
      memory_mib: 81559
      driver: 595.91.07
      mig: {capable: true, strategy: single, config: all-disabled, state: success}
      sharing: {strategy: none, config: null}
      slices:
        - resource: nvidia.com/gpu
          profile: null
          devices: 8
          replicas: 1
          expected: 8
          allocatable: 8
          allocated: 2
      os: ubuntu24.04
      kernel: 6.8.0-31-generic
      runtime: containerd://2.1.4
      capacity: {"nvidia.com/gpu": 8}
      allocatable: {"nvidia.com/gpu": 8}
      allocated: {"nvidia.com/gpu": 2}
      ready: true
      cordoned: false
      taints: []
      upgrade_state: upgrade-done
      waiting_for: {}
      claimable: false
      devices: []
      device_health: []
      left_out: null
      kind: container
      machines: []
operands:
  description: Rollout of each operand's DaemonSet, in numbers of nodes.
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
policy:
  description: Name of the ClusterPolicy, or null if it does not exist.
  returned: success
  type: str
  sample: cluster-policy
namespace:
  description: Namespace of the operator.
  returned: success
  type: str
  sample: gpu-operator
summary:
  description: Totals of the fleet, by resource (C(gpus)) and by MIG profile (C(slices)).
  returned: success
  type: dict
  sample:
    nodes: 4
    nodes_ready: 4
    gpus:
      nvidia.com/gpu: {capacity: 32, allocatable: 32, allocated: 2}
    slices: {}
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
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import node_rows, tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "name": {"type": "str", "default": ""},
        "namespace": {"type": "str", "default": ""},
        "allocated": {"type": "bool", "default": True},
    },
).including(CONNECTION, tolerance.SPEC)


def main() -> t.NoReturn:
    run(SPEC, lambda module: node_rows.fleet_info(Cluster(module.params), module.params))


if __name__ == "__main__":
    main()
