#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_smoke_test
short_description: Run a CUDA workload on every GPU node and report which nodes pass
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Runs a small GPU workload on each chosen node, on up to O(parallel) nodes at once. Each node gets one verdict,
    which is passed, failed, or skipped with a reason.
  - Skips nodes that are cordoned, whose GPUs are all in use or for virtual machines, or that the label
    C(nvidia.com/gpu.deploy.operands=false) keeps the operands away from. O(min_tested) limits how many may be skipped.
  - The scheduler and the device plugin allocate the GPU as they do for any workload, so a pass means that a pod can
    get a GPU on that node and compute with it.
  - Other workloads keep their GPUs. The test's pods have the lowest priority and wait for free GPUs, by a PriorityClass
    that exists only while the test runs.
  - The test deletes every object that it creates, even if the task is interrupted. If a run is killed, the next run in
    the same namespace deletes the remaining objects, and the pods end by themselves after O(timeout).
attributes:
  check_mode:
    description:
      - Can run in check mode and return the nodes that a run would test, and the verdicts that need no workload.
    support: full
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: none
    details: The test removes its objects at the end.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
options:
  namespace:
    description: Namespace to run the test in. It must exist, and contain the secrets in O(image_pull_secrets).
    type: str
    default: gpu-operator
  image:
    description: Image of the workload. The default is NVIDIA's vector addition sample.
    type: str
    default: nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04
  image_pull_policy:
    description: When the kubelet pulls the image.
    type: str
    choices: [Always, IfNotPresent, Never]
    default: IfNotPresent
  image_pull_secrets:
    description: Names of the secrets to pull the image with.
    type: list
    elements: str
    default: []
  command:
    description: Entry point of the container, instead of the image's own. Exit status 0 means that the test passed.
    type: list
    elements: str
  args:
    description: Arguments of the container, instead of the image's own.
    type: list
    elements: str
  kind:
    description: What to run on each node.
    type: str
    choices: [Pod, Job]
    default: Pod
  nodes:
    description:
      - Names of the nodes to test. A node fails if it does not exist, is not Ready, or does not offer O(resource).
      - Cordoned nodes are tested if they are named here.
      - The default is every GPU node.
    type: list
    elements: str
  node_selector:
    description: Label selector of the GPU nodes to test, for example V(pool=a,tier!=test,!spot).
    type: str
  exclude_nodes:
    description: Names of GPU nodes to leave out.
    type: list
    elements: str
    default: []
  min_tested:
    description:
      - How many nodes must be tested, as a number or a percentage (V(50%)). With fewer, RV(passed) is V(false), for
        example for a fleet whose nodes are all busy. V(0) lets such a fleet pass.
      - Nodes for virtual machines and nodes without operands are left out of the count. If fewer other nodes than this
        number exist, all of them must be tested.
    type: str
    default: "1"
  resource:
    description:
      - The extended resource to request, for example V(nvidia.com/mig-1g.10gb). A node that offers only others is
        skipped.
      - The default is chosen for each node from what it offers, which is V(nvidia.com/gpu), else shared GPUs
        (V(nvidia.com/gpu.shared)), else the MIG device of which it has the most.
      - Where pods get GPUs by claims, this is a DeviceClass, for example V(mig.nvidia.com), and the test makes a claim
        for each pod. The default is then V(gpu.nvidia.com), or V(mig.nvidia.com) on a node without whole GPUs.
    type: str
  count:
    description: How many of the resource the workload requests on each node.
    type: int
    default: 1
  skip_busy:
    description:
      - Report a node as skipped if all its GPUs are allocated to other pods.
      - With V(false) the test waits for a free GPU until O(timeout) and then fails the node.
    type: bool
    default: true
  parallel:
    description: How many nodes to test at a time.
    type: int
    default: 20
  timeout:
    description: Seconds that one node may take from the creation of its pod to the end of its workload.
    type: int
    default: 300
  tolerations:
    description: Tolerations of the pods. The default tolerates every taint.
    type: list
    elements: dict
    default:
      - operator: Exists
  runtime_class_name:
    description: RuntimeClass of the pods, if the cluster's default runtime does not give GPUs to containers.
    type: str
  priority_class_name:
    description:
      - PriorityClass of the pods, for users who may not create one. Its C(preemptionPolicy) must be V(Never).
      - By default the test creates a class of its own, and deletes it at the end. If this user may not create it, the
        test runs without a class, but only if all PriorityClasses have at least the priority of its own pods.
    type: str
  service_account_name:
    description: Service account of the pods. Its token is not mounted.
    type: str
  security_context:
    description:
      - Security context of the container. The default meets the C(restricted) pod security standard.
      - Use V({}) for an image that must run as root.
    type: dict
  log_lines:
    description: How many lines from the end of each log to return.
    type: int
    default: 20
  require_pass:
    description:
      - Fail the task if a node fails the test. The task returns the results in either case.
      - With V(false), use RV(passed) to decide.
    type: bool
    default: true
notes:
  - The test needs permission to list nodes, in O(namespace) to create, get, list and delete pods (and jobs with
    O(kind=Job)) and to read pod logs, and to create, list and delete C(priorityclasses.scheduling.k8s.io).
  - If the registry is busy or the container runtime restarts, the test waits up to 3 minutes for the container to
    start. A wrong image name or wrong credentials fail the node at once.
seealso:
  - module: gpuops.nvidia.dcgm_exporter_info
  - module: gpuops.nvidia.gpu_stack_info
"""

EXAMPLES = r"""
- name: Test one GPU on every GPU node
  gpuops.nvidia.gpu_smoke_test:

- name: Test the eight GPUs of two nodes with an image from a private registry
  gpuops.nvidia.gpu_smoke_test:
    nodes: [gpu-0000, gpu-0001]
    count: 8
    image: registry.example.com/gpu/nccl-tests:2.27
    command: [all_reduce_perf, -g, "8"]
    image_pull_secrets: [registry-example]
    timeout: 900

- name: Test a MIG slice on the H100 nodes, and continue regardless of the result
  gpuops.nvidia.gpu_smoke_test:
    node_selector: nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3
    resource: nvidia.com/mig-1g.10gb
    require_pass: false
  register: smoke
"""

RETURN = r"""
passed:
  description: V(true) if O(min_tested) nodes were tested and all of them passed. Absent in check mode.
  returned: when the test ran
  type: bool
  sample: true
too_few_tested:
  description: Why fewer nodes than O(min_tested) were tested, or an empty string.
  returned: when the test ran
  type: str
  sample: ""
nodes:
  description: The nodes that the options select.
  returned: always
  type: list
  elements: str
  sample: [gpu-0000, gpu-0001]
results:
  description: The verdict for each node. In check mode, only the verdicts that need no workload.
  returned: always
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node.
      type: str
      sample: gpu-0001
    passed:
      description: Whether the workload ended with status 0.
      type: bool
      sample: false
    skipped:
      description: Whether the node was not tested.
      type: bool
      sample: false
    code:
      description:
        - Why the node was skipped, in one word, or an empty string. V(Cordoned), V(Busy) (other pods hold the GPUs),
          V(Displaced) (another pod preempted the test's pod), V(OperandsSwitchedOff), V(VirtualMachineNodes), or
          V(OtherResource).
      type: str
      sample: ""
    resource:
      description: The resource or DeviceClass that the workload requested, or null without a workload.
      type: str
      sample: nvidia.com/gpu
    phase:
      description: Last phase of the pod, or null without a pod.
      type: str
      sample: Failed
    exit_code:
      description: Exit status of the workload, or null if it did not end.
      type: int
      sample: 1
    reason:
      description: Why the node failed or was skipped, or an empty string.
      type: str
      sample: "The workload ended with status 1: CUDA error: no CUDA-capable device is detected"
    log:
      description: End of the workload's log.
      type: str
      sample: "[Vector addition of 50000 elements]\nTest PASSED\nDone\n"
    pod:
      description: Name of the pod, or null without a pod.
      type: str
      sample: gpu-smoke-test-7x2vq
    devices:
      description:
        - The devices that the scheduler allocated to the pod's claim, if the test made one. If the log of the workload
          names the UUID of another GPU, as that of C(nvidia-smi -L) would, the node fails.
        - An empty list if no claim was made, or if it was gone before it could be read.
      type: list
      elements: dict
      sample:
        - name: gpu-0
          type: gpu
          uuid: GPU-6f3e5a1c-0b7d-4f7e-9c55-2d1c8e0a9b11
          profile: null
          parent_uuid: null
    seconds:
      description: How long the test of the node took.
      type: float
      sample: 4.2
summary:
  description: How many nodes passed, failed and were skipped.
  returned: always
  type: dict
  sample: {nodes: 4, passed: 3, failed: 1, skipped: 0}
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.smoke_test import prove
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "namespace": {"type": "str", "default": "gpu-operator"},
        "image": {"type": "str", "default": "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04"},
        "image_pull_policy": {"type": "str", "choices": ["Always", "IfNotPresent", "Never"], "default": "IfNotPresent"},
        "image_pull_secrets": {"type": "list", "elements": "str", "default": [], "no_log": False},
        "command": {"type": "list", "elements": "str"},
        "args": {"type": "list", "elements": "str"},
        "kind": {"type": "str", "choices": ["Pod", "Job"], "default": "Pod"},
        "nodes": {"type": "list", "elements": "str"},
        "node_selector": {"type": "str"},
        "exclude_nodes": {"type": "list", "elements": "str", "default": []},
        "min_tested": {"type": "str", "default": "1"},
        "resource": {"type": "str"},
        "count": {"type": "int", "default": 1},
        "skip_busy": {"type": "bool", "default": True},
        "parallel": {"type": "int", "default": 20},
        "timeout": {"type": "int", "default": 300},
        "tolerations": {"type": "list", "elements": "dict", "default": [{"operator": "Exists"}]},
        "runtime_class_name": {"type": "str"},
        "priority_class_name": {"type": "str"},
        "service_account_name": {"type": "str"},
        "security_context": {"type": "dict"},
        "log_lines": {"type": "int", "default": 20},
        "require_pass": {"type": "bool", "default": True, "no_log": False},
    },
    mutually_exclusive=[("nodes", "node_selector")],
).including(CONNECTION)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: prove(Cluster(module.params, module.check_mode), module.params),
        interrupted="The GPU smoke test was interrupted. Its pods are deleted; run it again.",
    )


if __name__ == "__main__":
    main()
