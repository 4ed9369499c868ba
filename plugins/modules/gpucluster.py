#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpucluster
short_description: Set the GPUCluster of NVIDIA's GPU Operator, with which pods get GPUs by claims
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Writes the GPUCluster with server-side apply and strict field validation. With it, the operator (v26.7 and newer)
    deploys NVIDIA's driver for Dynamic Resource Allocation in the place of the device plugin. NVIDIA calls the
    GPUCluster a technology preview.
  - Checks what the API server accepts and the driver does not. Feature gates that do not exist, that exclude each
    other, or that need a feature gate of Kubernetes end the driver on every node.
  - Waits until every operand runs its newest revision and every GPU node offers its GPUs in complete ResourceSlices.
  - The GPUCluster needs a cluster without a ClusterPolicy. It manages no driver. Use NVIDIADrivers, or a driver on the
    hosts.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details:
      - The prediction comes from the API server (a dry run). Before the CRD is installed, it is the given spec.
      - A change that interrupts GPU workloads without permission fails, unless O(check_refusal=warn).
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
    details:
      - Shows the spec, the labels, the annotations and the fields that this collection owns, without the status.
      - Secrets in environment variables and credentials in URLs are hidden.
  idempotent:
    description: A second run with the same options reports no change.
    support: full
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.check_refusal
  - gpuops.nvidia.gpu_stack_object
  - gpuops.nvidia.progress
  - gpuops.nvidia.tolerance
options:
  state:
    description:
      - V(absent) deletes the GPUCluster. The operator first removes its own pods with claims, and then the driver.
      - Delete pods with claims and ComputeDomains before. Without the driver, such pods stay in Terminating.
    type: str
    choices: [present, absent]
    default: present
  dra_driver:
    description: NVIDIA's driver for Dynamic Resource Allocation.
    type: dict
    suboptions:
      repository:
        description: Registry and path of the image.
        type: str
      image:
        description: Name of the image.
        type: str
      version:
        description: Tag or digest of the image.
        type: str
      feature_gates:
        description:
          - Feature gates of the driver, each V(true) or V(false).
          - C(TimeSlicingSettings) and C(MPSSupport) let claims share GPUs, C(DynamicMIG) makes MIG devices for claims
            (C(DRAPartitionableDevices) in Kubernetes), C(NVMLDeviceHealthCheck) taints devices after errors
            (C(DRADeviceTaints)), and C(ConsumableShares) gives parts of a GPU (C(DRAConsumableCapacity)).
        type: dict
      gpus:
        description: Settings of the container C(gpus), in the API's spelling (C(kubeletPlugin)).
        type: dict
      compute_domains:
        description:
          - ComputeDomains for multi-node NVLink, in the API's spelling (C(enabled), C(controller), C(kubeletPlugin)).
          - The chart switches them on. In a GPUCluster without this block, they are off.
          - They can be switched off only while no ComputeDomain exists.
        type: dict
  purge:
    description:
      - Reset every field, label and annotation that this collection has set before and that the task leaves out.
      - Use it where one task describes the whole GPUCluster. Fields that others have set stay as they are.
    type: bool
    default: false
  wait_timeout:
    description: How many seconds to wait.
    type: int
    default: 1800
  allow_disruption:
    description:
      - Allow the deletion of the GPUCluster while pods use GPUs, or the feature gate C(DynamicMIG), with which the
        driver deletes all MIG devices that it has not made itself.
    type: bool
    default: false
seealso:
  - module: gpuops.nvidia.gpucluster_info
  - module: gpuops.nvidia.compute_domain
  - module: gpuops.nvidia.gpu_stack_info
"""

EXAMPLES = r"""
- name: Give GPUs by claims, and taint devices after errors
  gpuops.nvidia.gpucluster:
    dra_driver:
      repository: nvcr.io/nvidia
      image: dra-driver-nvidia-gpu
      version: v0.5.0
      feature_gates:
        NVMLDeviceHealthCheck: true
    dcgm_exporter:
      enabled: true

- name: Make MIG devices for claims
  gpuops.nvidia.gpucluster:
    dra_driver:
      feature_gates:
        DynamicMIG: true
    allow_disruption: true

- name: Remove the stack
  gpuops.nvidia.gpucluster:
    state: absent
"""

RETURN = r"""
gpucluster:
  description:
    - The object as it is now, or as it would be (check mode), without C(managedFields). Empty with O(state=absent).
  returned: success
  type: dict
  sample:
    apiVersion: nvidia.com/v1alpha1
    kind: GPUCluster
    metadata:
      name: gpu-cluster
    spec:
      draDriver:
        version: v0.5.0
verdict:
  description: Whether the stack is ready, and the reasons if it is not.
  returned: with O(state=present), not in check mode
  type: dict
  sample:
    state: ready
    message: "The GPU stack is ready: 4 of 4 GPU nodes have allocatable GPUs."
    reasons: []
    nodes_ready: 4
    nodes_total: 4
operands:
  description: Rollout of each operand's DaemonSet, in numbers of nodes.
  returned: with O(state=present), not in check mode
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
disruption:
  description:
    - What interrupts running GPU pods, with at most 20 of these pods and of their nodes by name.
    - C(pods_total) is null if this user may not list pods.
  returned: with O(state=present)
  type: dict
  sample:
    changes: []
    pods: []
    pods_total: 0
    nodes: []
    nodes_total: 0
conflicts:
  description: The fields that other managers own with other values, each with its manager.
  returned: if O(force=true) would be needed
  type: list
  elements: dict
  sample:
    - field: spec.draDriver.version
      manager: kubectl-edit
gpu_pods:
  description: Number of running pods that use a GPU. Null if this user may not list pods.
  returned: with O(state=absent), if the GPUCluster existed
  type: int
  sample: 0
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._check_refusal import CHECK_REFUSAL
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpucluster import gpucluster_apply
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpucluster.gpucluster_request import (
    GPUCLUSTER_BLOCKS,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import PROGRESS
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "namespace": {"type": "str", "default": "gpu-operator"},
        "spec": {"type": "dict", "default": {}},
        "labels": {"type": "dict", "default": {}},
        "annotations": {"type": "dict", "default": {}},
        "purge": {"type": "bool", "default": False},
        "force": {"type": "bool", "default": False},
        "wait": {"type": "bool", "default": True},
        "wait_timeout": {"type": "int", "default": 1800},
        "allow_disruption": {"type": "bool", "default": False},
    },
).including(CONNECTION, CHECK_REFUSAL, GPUCLUSTER_BLOCKS, PROGRESS, tolerance.SPEC)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: gpucluster_apply.ensure(Cluster(module.params, module.check_mode), module.params, module.warn),
        secrets=SPEC.options,
    )


if __name__ == "__main__":
    main()
