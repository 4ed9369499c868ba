#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mig_config
short_description: Give nodes their MIG layouts, a few nodes at a time
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Divides the GPUs of nodes into MIG devices, or makes them whole again. One call serves a whole fleet, with one
    layout or with one for each of several groups of nodes. The GPU Operator's MIG manager does the work on the GPUs.
  - Before its first change, the module checks that every node can have its layout (its MIG manager knows the name, the
    profiles fit on its GPUs, the device plugin offers them), and that the pods on the nodes may be evicted.
  - Then it takes the nodes one after the other. It cordons a node and evicts the pods that hold GPUs, sets the label
    C(nvidia.com/mig.config) and clears the old state, waits for the MIG manager, proves that the node offers what its
    layout says, and puts the node back as it was.
  - It repairs the known ways in which such a change gets stuck forever, and says so (RV(nodes[].repaired)).
  - A node that already has its layout stays in service. So the same call can resume a run that failed or was killed. It
    reads from the nodes how far they are.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would do.
    support: full
    details: It returns the plan for each node, with the pods that a run would evict.
  diff_mode:
    description: Returns the layout, the resources and the pods of each node that changes.
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
      - V(present) gives the nodes their layouts.
      - V(absent) makes their GPUs whole again (layout C(all-disabled)), and removes the label, unless the operator
        would set it again (C(migManager.config.default) in the ClusterPolicy). Of nodes that a selector chooses, it
        leaves alone those whose layout somebody else has set, and warns. The annotation C(gpuops.nvidia/mig) of a node
        says which layout this collection has set.
    type: str
    choices: [present, absent]
    default: present
  layouts:
    description:
      - The layouts, each with its nodes. Two of them must not ask for different layouts of one node.
      - Use either this option or O(layout) with O(nodes) or O(node_selector).
    type: list
    elements: dict
    suboptions:
      layout:
        description: Name of the layout, as in O(layout). With O(state=absent), only the nodes count.
        type: str
      nodes:
        description: Names of the nodes.
        type: list
        elements: str
      node_selector:
        description: Labels of the nodes. Nodes without a GPU are left out.
        type: dict
  layout:
    description:
      - Name of the layout, such as V(all-1g.10gb), V(all-balanced) or V(all-disabled). The ConfigMap
        C(<node>-mig-config) in the operator's namespace, or else C(default-mig-parted-config), lists a node's layouts.
        If the ClusterPolicy names a ConfigMap (C(migManager.config.name)), only its layouts exist.
    type: str
  nodes:
    description: Names of the nodes. With an empty list, the module changes no node.
    type: list
    elements: str
  node_selector:
    description: Labels of the nodes. Nodes without a GPU are left out.
    type: dict
  allow_disruption:
    description:
      - Evict the pods that hold GPUs of a node that changes. Without this permission, the module fails before its first
        change and lists them.
      - The MIG manager itself ignores running pods, and fails if a process uses a GPU.
    type: bool
    default: false
  allow_reboot:
    description:
      - Also change nodes that the MIG manager may reboot, because C(WITH_REBOOT) is V(true) in C(migManager.env). It
        reboots a node whose MIG mode cannot be changed otherwise. Use O(evict=all) with it.
    type: bool
    default: false
  evict:
    description: Which pods must leave a node, as in M(gpuops.nvidia.node_maintenance).
    type: str
    choices: [gpu, all]
    default: gpu
  timeout:
    description:
      - Seconds without progress after which the module restarts the MIG manager on the node. If that does not help, the
        node has failed.
      - The MIG manager itself waits up to 300 seconds for each operand to end.
    type: int
    default: 600
  repair:
    description:
      - Repair a change that is stuck. The module restarts the MIG manager if it does not react or has given up, removes
        the label and sets it again if the manager has overlooked it, and restarts operands that were left paused.
    type: bool
    default: true
  verify:
    description: Also run a workload on one device of each node before the node is put back.
    type: bool
    default: false
  workload:
    description: The workload of O(verify), as in M(gpuops.nvidia.gpu_smoke_test).
    type: dict
    default: {}
    suboptions:
      image:
        description: Image with a CUDA program.
        type: str
        default: nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04
      image_pull_secrets:
        description: Names of the Secrets to pull the image with.
        type: list
        elements: str
        default: []
      command:
        description: Command of the container. Without it, the image's own.
        type: list
        elements: str
      namespace:
        description: Namespace of the pods.
        type: str
        default: gpu-operator
      runtime_class_name:
        description: RuntimeClass of the pods.
        type: str
      timeout:
        description: Seconds that the workload may take on one node.
        type: int
        default: 300
      tolerations:
        description: Tolerations of the pods, in addition to that of the cordon.
        type: list
        elements: dict
        default: [{operator: Exists}]
  content:
    description:
      - The content that the ConfigMap of the layouts is going to have, as M(gpuops.nvidia.mig_layout) returns it. Check
        mode then plans with layouts that are not published yet.
      - Outside of check mode, it must be empty.
    type: str
    default: ""
  policy_name:
    description: Name of the ClusterPolicy. Without it, the only one.
    type: str
    default: ""
  namespace:
    description: Namespace of the operator. Without it, the one that the ClusterPolicy names.
    type: str
    default: ""
notes:
  - A node whose change failed stays cordoned, with the reason in its annotation C(gpuops.nvidia/failed.mig), unless it
    is proved that nothing on it changed. The same call continues with it, and puts it back once it is proved.
  - The ClusterRole C(gpuops-mig) that ships with the role preflight has the permissions that the module needs.
  - The nodes are held for the purpose C(mig). M(gpuops.nvidia.node_maintenance) with C(state=restored) and this purpose
    puts back nodes that a killed run has left behind.
  - With C(mig.strategy=single) in the ClusterPolicy, every GPU of a node must have the same profile. A layout with
    several profiles needs C(mixed).
  - The annotation C(gpuops.nvidia/gpus) has the number of a node's GPUs, which its labels do not say once they count
    MIG devices (C(mig.strategy=single)).
seealso:
  - module: gpuops.nvidia.node_maintenance
  - module: gpuops.nvidia.gpu_stack_info
  - module: gpuops.nvidia.gpu_smoke_test
"""

EXAMPLES = r"""
- name: Divide the A100s of a pool into seven devices each, at most two nodes at a time
  gpuops.nvidia.mig_config:
    layout: all-1g.10gb
    node_selector:
      pool: inference
    allow_disruption: true
    max_unavailable: 2

- name: Give a whole fleet its layouts at night, one canary first, then in waves, a tenth of the nodes at a time
  gpuops.nvidia.mig_config:
    layouts:
      - layout: all-1g.10gb
        node_selector: {pool: notebooks}
      - layout: all-balanced
        node_selector: {pool: inference}
      - layout: all-disabled
        node_selector: {pool: training}
    allow_disruption: true
    canary: 1
    soak: 600
    waves: [10%, 50%]
    max_unavailable: 10%
    max_failed: 2
    windows: ['22:00-04:00']
    time_zone: Europe/Berlin
    verify: true

- name: Show what would happen, with the pods that would be evicted
  gpuops.nvidia.mig_config:
    layout: all-2g.20gb
    nodes: [gpu-0000]
    allow_disruption: true
  check_mode: true

- name: Make the GPUs of two nodes whole again
  gpuops.nvidia.mig_config:
    state: absent
    nodes: [gpu-0000, gpu-0001]
    allow_disruption: true
"""

RETURN = r"""
nodes:
  description: >-
    The result for each node, in the order of the options. In check mode, what a run would do. After a failure, the
    nodes that lack their layout or are degraded.
  returned: unless the call fails before it changes a node
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node.
      type: str
      sample: gpu-0001
    layout:
      description: The wanted layout of the node.
      type: str
      sample: all-1g.10gb
    action:
      description:
        - What the plan does with the node. V(nothing) means that the node has its layout.
        - V(change) sets the layout. V(resume) continues a change that has started. V(repair) only restarts paused
          operands. V(prove) only waits until the node offers what its layout says, and removes the label with
          O(state=absent). V(wait) means that the node had another active maintainer.
        - V(degraded) means that the node has its layout and does not offer all of it, for example because a device is
          unhealthy, or that no label proves the layout. Nothing is to be changed on it. So it is neither a canary nor a
          failure, and the module warns of it.
        - V(left) means that no pod of the MIG manager runs on the node, as it does on others. The module leaves it out,
          and warns of it.
      type: str
      sample: change
    why:
      description: Why the plan does this, or an empty string.
      type: str
      sample: its layout is all-disabled
    changed:
      description: Whether the call changed the node or evicted pods from it.
      type: bool
      sample: true
    state:
      description: The MIG manager's state of the node, as in the label C(nvidia.com/mig.config.state).
      type: str
      sample: success
    step:
      description: >-
        How far the node is: V(waiting) (not started), V(drain), V(set), V(reset), V(watch), V(prove), V(done) or
        V(failed).
      type: str
      sample: done
    wave:
      description: The number of the node's wave. The canaries are a wave, too. V(0) if the node has nothing to change.
      type: int
      sample: 1
    waits_for:
      description: What the node was waiting for at the end of the call, or an empty string.
      type: str
      sample: ""
    pods:
      description: The pods that the plan evicts, as C(namespace/name).
      type: list
      elements: str
      sample: [default/training-0]
    evicted:
      description: The pods that were evicted.
      type: list
      elements: str
      sample: [default/training-0]
    repaired:
      description: What was stuck and has been repaired, one sentence each.
      type: list
      elements: str
      sample: ["operands that were left paused (device-plugin) were set back"]
    before:
      description: The GPU resources that the node offered before.
      type: dict
      sample: {"nvidia.com/gpu": 8}
    after:
      description: The GPU resources that the node offers now. In check mode, those of the layout.
      type: dict
      sample: {"nvidia.com/mig-1g.10gb": 56}
    unschedulable:
      description: Whether the node is cordoned now.
      type: bool
      sample: false
    purposes:
      description: What the node is held for now.
      type: list
      elements: str
      sample: []
    held_by:
      description: The other maintainers of the node, as in M(gpuops.nvidia.node_maintenance).
      type: list
      elements: dict
      sample: []
    notes:
      description: What else happened to the node. The module also prints these as warnings.
      type: list
      elements: str
      sample: []
    failed:
      description: Whether the node did not get its layout.
      type: bool
      sample: false
    degraded:
      description: What a degraded node lacks, or what no label tells, or an empty string.
      type: str
      sample: ""
    reason:
      description: Why the node failed, and whether it stays cordoned, or an empty string.
      type: str
      sample: ""
    seconds:
      description: How long the node's change took.
      type: float
      sample: 71.5
summary:
  description: How many nodes exist, changed, failed, have not started and were repaired, and how many pods were
    evicted.
  returned: unless the call fails before it changes a node
  type: dict
  sample: {nodes: 2, changed: 2, failed: 0, waiting: 0, evicted: 5, repaired: 0}
finished:
  description:
    - Whether every node had its turn. It is false if nodes wait for the next of O(windows), or for a pod of the MIG
      manager.
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
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.call import configure
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import PROGRESS
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import GOES_ON, run, with_warnings

WORKLOAD = ArgumentSpec(
    {
        "image": {"type": "str", "default": "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04"},
        "image_pull_secrets": {"type": "list", "elements": "str", "default": [], "no_log": False},
        "command": {"type": "list", "elements": "str"},
        "namespace": {"type": "str", "default": "gpu-operator"},
        "runtime_class_name": {"type": "str"},
        "timeout": {"type": "int", "default": 300},
        "tolerations": {"type": "list", "elements": "dict", "default": [{"operator": "Exists"}]},
    }
)
CHOICE = ArgumentSpec(
    {
        "layout": {"type": "str"},
        "nodes": {"type": "list", "elements": "str"},
        "node_selector": {"type": "dict"},
    }
)
SPEC = ArgumentSpec(
    {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "layouts": CHOICE.as_list(),
        "allow_disruption": {"type": "bool", "default": False},
        "allow_reboot": {"type": "bool", "default": False},
        "evict": {"type": "str", "choices": ["gpu", "all"], "default": "gpu"},
        "timeout": {"type": "int", "default": 600},
        "repair": {"type": "bool", "default": True},
        "verify": {"type": "bool", "default": False},
        "workload": WORKLOAD.as_dict(default={}, apply_defaults=True),
        "content": {"type": "str", "default": ""},
        "policy_name": {"type": "str", "default": ""},
        "namespace": {"type": "str", "default": ""},
    },
    mutually_exclusive=[("layouts", "layout"), ("layouts", "nodes", "node_selector")],
    required_one_of=[("layouts", "nodes", "node_selector")],
).including(CONNECTION, CHECK_REFUSAL, CHOICE, EVICTION, NODE_ROLLOUT, PROGRESS)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: with_warnings(*configure(Cluster(module.params, module.check_mode), module.params)),
        interrupted=GOES_ON,
    )


if __name__ == "__main__":
    main()
