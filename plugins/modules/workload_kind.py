#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: workload_kind
short_description: Give the GPUs of nodes to containers or to virtual machines, with proof, and back
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Makes a node a container node, a node for GPU passthrough or a node for vGPUs, by the label
    C(nvidia.com/gpu.workload.config), which NVIDIA's operator follows at once. One call serves the whole fleet.
  - Does for each node what the operator leaves to the user. It cordons the node, lets the pods and virtual machines
    with GPUs leave, sets the label, and waits until the operands of the old kind are gone and those of the new kind are
    Ready. It puts the node back once it is proved.
  - The proof is the validator of the new kind, which is Ready, and what the node offers, which are GPUs of the new kind
    and none of the old one. A Ready pod of C(vfio-manager) is none, since it only warns about a GPU that it could not
    bind.
  - Lets each virtual machine leave as its C(evictionStrategy) says. With C(None), or with C(LiveMigrateIfPossible) if
    it cannot move, the eviction of its pod ends it, and its C(runStrategy) decides whether it starts again elsewhere.
    With C(External), its own controller acts. With C(LiveMigrate), KubeVirt refuses the eviction of a machine that
    cannot move, which is every machine with a GPU of its host. So the module names it, and stops it only with
    O(stop_machines=true).
  - Brings operands back that a killed vGPU device manager or Confidential Computing manager has left paused
    (C(paused-for-vgpu-change), C(paused-for-cc-mode-change)), on the nodes of the call. It does so only if that manager
    has no pod on the node.
  - Labels that others have set stay as they are. Which labels are its own is noted in an annotation beside the label,
    C(gpuops.nvidia/workload-kind).
attributes:
  check_mode:
    description: Can run in check mode and return what a run would do.
    support: full
    details:
      - The module sends every write as a dry run, evictions and the stop of machines included, and returns the pods and
        virtual machines in the way.
  diff_mode:
    description: Returns the labels of the nodes.
    support: full
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.check_refusal
  - gpuops.nvidia.eviction
  - gpuops.nvidia.node_rollout
  - gpuops.nvidia.progress
options:
  state:
    description:
      - V(present) gives nodes the kinds of O(kinds).
      - V(absent) removes the labels that this module has set, so that C(sandboxWorkloads.defaultWorkload) of the
        ClusterPolicy decides again. With O(kinds), it does so on the nodes named there, as far as they have that kind.
    type: str
    choices: [present, absent]
    default: present
  kinds:
    description: The kinds, each with its nodes. A node may have only one. Required with O(state=present).
    type: list
    elements: dict
    suboptions:
      kind:
        description:
          - V(container) gives the GPUs to containers.
          - V(vm-passthrough) binds all GPUs of a node to C(vfio-pci), for virtual machines of KubeVirt, or for Kata
            containers if the ClusterPolicy's C(sandboxWorkloads.mode) is C(kata).
          - V(vm-vgpu) installs NVIDIA's driver for vGPU hosts, and creates vGPUs as the label C(nvidia.com/vgpu.config)
            says.
        type: str
        choices: [container, vm-passthrough, vm-vgpu]
        required: true
      nodes:
        description:
          - Names of the nodes.
          - With O(state=present), either this option or O(kinds[].node_selector) is required.
        type: list
        elements: str
      node_selector:
        description:
          - Labels of the nodes. An empty mapping chooses all nodes. Nodes without GPUs are left out.
          - A node for virtual machines loses the labels of GPU Feature Discovery (C(nvidia.com/gpu.product) and
            others), so it is chosen by labels of your own.
        type: dict
  allow_disruption:
    description:
      - Evict the pods and virtual machines that hold GPUs of a node that changes. Without this permission, the module
        fails before its first change and lists them.
    type: bool
    default: false
  stop_machines:
    description:
      - Also stop virtual machines whose C(evictionStrategy) is C(LiveMigrate), and that cannot move with their GPU. The
        module deletes the VirtualMachineInstance. So the guest shuts down in its grace period, and the C(runStrategy)
        of its VirtualMachine decides whether it starts again elsewhere.
    type: bool
    default: false
  replace_labels:
    description: Also take nodes to which somebody else has given another kind.
    type: bool
    default: false
  policy_name:
    description:
      - Name of the ClusterPolicy.
      - If it is empty, the only one in the cluster.
    type: str
    default: ""
  namespace:
    description:
      - Namespace of the operator.
      - If it is empty, the one that the ClusterPolicy's status names.
    type: str
    default: ""
  max_unavailable:
    description: How many nodes change at once, as a number or a percentage.
    type: str
    default: "1"
  timeout:
    description:
      - Seconds without progress after which a node has failed. A driver that is compiled on the node takes about ten
        minutes.
    type: int
    default: 1200
notes:
  - A node whose change failed stays cordoned, with the reason in its annotation C(gpuops.nvidia/failed.workload-kind),
    unless it is proved that nothing on it changed. The same call continues with it, and puts it back once it is proved.
    M(gpuops.nvidia.node_maintenance) with C(state=restored) and C(purpose=workload-kind) puts it back as it is.
  - The module refuses, with the remedy, virtual machines while C(sandboxWorkloads) is off, operands that a kind needs
    and the ClusterPolicy has off, nodes with a driver of their own, nodes whose GPUs this collection shares or divides,
    nodes without GPUs, and clusters with a GPUCluster.
  - While nodes are of several kinds, give every GPU node its kind. After a restart of the operator v26.7, a node
    without the label can become a container node, whatever the default is.
  - The module needs permission to list and patch nodes, to list ClusterPolicies and pods in all namespaces, to list
    DaemonSets in the operator's namespace, and to get and delete VirtualMachineInstances. To drain, it needs what
    M(gpuops.nvidia.node_maintenance) needs. The ClusterRoles C(gpuops-workloads) have all of it.
  - The machine itself must be able to pass its GPUs on (IOMMU, SR-IOV). M(gpuops.nvidia.host_preflight_info) reads
    that.
seealso:
  - module: gpuops.nvidia.kubevirt_gpus
  - module: gpuops.nvidia.node_maintenance
  - module: gpuops.nvidia.gpu_stack_info
"""

EXAMPLES = r"""
- name: Give one pool to virtual machines, and say so on all other GPU nodes, too
  gpuops.nvidia.workload_kind:
    kinds:
      - kind: vm-passthrough
        node_selector: {pool: kubevirt}
      - kind: container
        node_selector: {pool: training}
    allow_disruption: true

- name: Say which pods and virtual machines are in the way of two nodes
  gpuops.nvidia.workload_kind:
    kinds:
      - kind: container
        nodes: [gpu-0000, gpu-0001]
    allow_disruption: true
    stop_machines: true
  check_mode: true

- name: Let the ClusterPolicy's default decide again, two nodes at a time
  gpuops.nvidia.workload_kind:
    state: absent
    allow_disruption: true
    max_unavailable: 2
"""

RETURN = r"""
nodes:
  description:
    - The result for each node. In check mode, the result that a run would have.
    - The list is absent if the call fails before it has a plan.
  returned: unless the call fails before it has planned anything
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node.
      type: str
      sample: gpu-0000
    kind:
      description: What the node shall be.
      type: str
      sample: vm-passthrough
    kind_before:
      description: What the operator took it for before.
      type: str
      sample: container
    label:
      description: The value that its label shall have, or an empty string for no label.
      type: str
      sample: vm-passthrough
    changed:
      description: Whether the call has changed the node, its pods, or its operands.
      type: bool
      sample: true
    state:
      description:
        - V(unchanged) if the node already was of its kind, V(done) if the kind is proved, V(failed) also if the call
          has ended before the proof, or V(pending) if the node has not started, or would start outside of check mode.
        - V(degraded) if the node has had its label for longer than O(timeout) and does not offer what it should.
          Nothing is to be changed on it, so it is no failure, and the module warns of it.
      type: str
      sample: done
    wave:
      description: The number of the node's wave. The canaries are a wave, too. V(0) if the node has nothing to change.
      type: int
      sample: 1
    waits_for:
      description: What the node lacks or waits for, or an empty string.
      type: str
      sample: ""
    failed:
      description: Whether the node could not be brought to its kind.
      type: bool
      sample: false
    degraded:
      description: What a degraded node lacks, or an empty string.
      type: str
      sample: ""
    reason:
      description: Why the node failed, and whether it stays cordoned, or an empty string.
      type: str
      sample: ""
    resumed:
      description: Whether an earlier run has left the node held. This one continues with it.
      type: bool
      sample: false
    pods:
      description: The pods with GPUs in the way, those of virtual machines included.
      type: list
      elements: str
      sample: [research/virt-launcher-windows-x7k2p]
    machines:
      description: The virtual machines in the way.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the VirtualMachineInstance, as C(namespace/name).
          type: str
          sample: research/windows
        strategy:
          description: Its C(evictionStrategy), or the cluster's.
          type: str
          sample: LiveMigrate
        way:
          description:
            - How it leaves the node. V(evict) if the eviction of its pod ends it, V(move) if KubeVirt or another
              controller moves it, V(stop) if it must be stopped.
          type: str
          sample: stop
        devices:
          description: The devices that it has.
          type: list
          elements: str
          sample: [nvidia.com/GA102GL_A10]
    evicted:
      description: The pods that were evicted, or whose virtual machines were stopped.
      type: list
      elements: str
      sample: []
    repaired:
      description: The labels of operands that were set back from a paused value.
      type: list
      elements: str
      sample: []
    unschedulable:
      description: Whether the node is cordoned now.
      type: bool
      sample: false
    purposes:
      description: What the node is held for now.
      type: list
      elements: str
      sample: []
    notes:
      description: What else happened to the node while it was held. The module also prints these as warnings.
      type: list
      elements: str
      sample: []
    resources_before:
      description: What pods could allocate of NVIDIA's plugins before.
      type: dict
      sample: {nvidia.com/gpu: 4}
    resources_after:
      description: What pods can allocate now. In check mode, the same as before.
      type: dict
      sample: {nvidia.com/GA102GL_A10: 4}
    seconds:
      description: How long the change of the node took.
      type: float
      sample: 96.4
summary:
  description: How many nodes there are, how many changed and failed, and how many pods were evicted.
  returned: unless the call fails before it has planned anything
  type: dict
  sample: {nodes: 5, changed: 5, failed: 0, evicted: 0}
finished:
  description: Whether every node had its turn. It is false if nodes wait for the next of O(windows).
  returned: success
  type: bool
  sample: true
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._check_refusal import CHECK_REFUSAL
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.option_specs import (
    EVICTION,
    NODE_ROLLOUT,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import PROGRESS
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.set_kinds import ensure
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import GOES_ON, run

_KIND = ArgumentSpec(
    {
        "kind": {"type": "str", "choices": ["container", "vm-passthrough", "vm-vgpu"], "required": True},
        "nodes": {"type": "list", "elements": "str"},
        "node_selector": {"type": "dict"},
    }
)
SPEC = ArgumentSpec(
    {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "kinds": _KIND.as_list(),
        "allow_disruption": {"type": "bool", "default": False},
        "stop_machines": {"type": "bool", "default": False},
        "replace_labels": {"type": "bool", "default": False},
        "policy_name": {"type": "str", "default": ""},
        "namespace": {"type": "str", "default": ""},
        "timeout": {"type": "int", "default": 1200},
    },
).including(CONNECTION, CHECK_REFUSAL, EVICTION, NODE_ROLLOUT, PROGRESS)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: ensure(Cluster(module.params, module.check_mode), module.params, module.warn),
        interrupted=GOES_ON,
    )


if __name__ == "__main__":
    main()
