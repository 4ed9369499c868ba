#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_sharing
short_description: Let pods share GPUs by time-slicing or MPS, on a whole fleet
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Publishes configurations for NVIDIA's device plugin, gives them to nodes by name or label, and waits until each node
    offers what its configuration says. One call serves the whole fleet.
  - Checks every field first. The device plugin itself ignores unknown fields, so a misspelt C(timeSlicing) would
    silently leave sharing off.
  - Publishes each configuration under a key that contains a digest of its text, in one ConfigMap. So a change always
    takes effect. An edited key would not, because C(config-manager) reads only the node's label.
  - Proves each node by the labels of GPU Feature Discovery (C(nvidia.com/gpu.replicas),
    C(nvidia.com/gpu.sharing-strategy) and the product) and by what pods can allocate.
  - Deletes pods in which C(config-manager) fails for a reason that a new pod fixes, and names the cause of every other
    failure.
  - Removes unused keys. Keys, labels and ConfigMaps of others stay as they are. Which labels are its own is noted in
    an annotation beside the label, C(gpuops.nvidia/sharing).
attributes:
  check_mode:
    description: Can run in check mode and return what a run would do.
    support: full
    details: The module sends every write as a dry run, and returns the pods that would be evicted.
  diff_mode:
    description: Returns the keys of the ConfigMap, the labels of the nodes, and the ClusterPolicy's reference.
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
      - V(present) publishes O(configs) and gives them to their nodes. Nodes that have one of them, and are no longer
        chosen, get plain GPUs.
      - V(absent) gives the nodes of the configurations named in O(configs) plain GPUs, and removes the configurations.
        Without O(configs), it does so for all configurations of this module. With the last one, it also removes the
        ConfigMap and the ClusterPolicy's reference to it.
    type: str
    choices: [present, absent]
    default: present
  configs:
    description: The configurations, each with its nodes. A node may have only one.
    type: list
    elements: dict
    suboptions:
      name:
        description:
          - Name of the configuration, in at most 50 lower-case letters, digits, dots and dashes.
          - With O(state=absent), only the name counts.
        type: str
        required: true
      nodes:
        description: Names of the nodes. Either this option or O(configs[].node_selector) is required.
        type: list
        elements: str
      node_selector:
        description: Labels of the nodes. An empty mapping chooses all nodes. Nodes without GPUs are left out.
        type: dict
      strategy:
        description:
          - V(time-slicing) lets the pods on a GPU take turns. They share its memory without a limit.
          - V(mps) lets them run at the same time, through a daemon for the Multi-Process Service (MPS), which gives
            each an equal part of the memory and of the threads. It can neither share MIG devices nor work with the MIG
            strategy C(mixed), and serves at most 48 pods on a GPU (16 below compute capability 7.5).
          - V(none) keeps the nodes' GPUs plain, also where the ClusterPolicy has a default configuration.
        type: str
        choices: [time-slicing, mps, none]
      replicas:
        description: How many pods share each C(nvidia.com/gpu), at least 2. Short for O(configs[].resources).
        type: int
      resources:
        description: The resources to share.
        type: list
        elements: dict
        suboptions:
          name:
            description:
              - Name of the resource, V(nvidia.com/gpu) or a MIG device such as V(nvidia.com/mig-1g.10gb).
              - With the MIG strategy C(single), MIG devices are V(nvidia.com/gpu).
            type: str
            required: true
          replicas:
            description: How many pods share each device, at least 2.
            type: int
            required: true
      rename_by_default:
        description: Offer the shares as another resource, whose name ends with C(.shared).
        type: bool
        default: false
      fail_requests_greater_than_one:
        description:
          - Refuse pods that request more than one share. A pod with more shares would still get the same part of a GPU.
          - Without this option, the device plugin refuses them with MPS, and accepts them with time-slicing. Before
            v0.20.0, it always refuses them with MPS.
        type: bool
      config:
        description:
          - The content of the configuration in the device plugin's own words (version V(v1)), instead of the options
            from O(configs[].strategy) to O(configs[].fail_requests_greater_than_one).
          - The module checks it as strictly. It refuses fields that the operator overrides, such as
            C(flags.migStrategy), for which the operator sets E(MIG_STRATEGY) from C(mig.strategy) of the ClusterPolicy.
        type: dict
  purge:
    description:
      - Regard O(configs) as all configurations of this module. Nodes with another of its configurations get plain GPUs,
        and the module removes that configuration.
    type: bool
    default: false
  config_map:
    description:
      - Name of the ConfigMap in the operator's namespace.
      - If the ClusterPolicy already names a ConfigMap (C(devicePlugin.config.name)), set its name here. Its other keys
        stay.
    type: str
    default: gpuops-sharing
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
  replace_labels:
    description:
      - Also take nodes to which somebody else has given a configuration, with the label
        C(nvidia.com/device-plugin.config).
    type: bool
    default: false
  keep_unused:
    description:
      - Keep the keys that no node uses. Set it if nodes get their label from a template, such as those of a node pool
        that has no nodes at the moment. A node whose label names a missing key offers no GPUs.
    type: bool
    default: false
  allow_disruption:
    description:
      - Drain nodes on which the change interrupts pods, and put them back when the change is proven.
      - A change interrupts pods if it starts, changes or ends MPS on the GPUs that they use, or if they hold more of a
        resource than the node offers afterwards. Without this permission, the module then fails before its first
        change, and names the pods.
      - During all other changes, the device plugin restarts, and pods keep running with their devices.
    type: bool
    default: false
  max_unavailable:
    description:
      - How many of the nodes that must be drained change at once, as a number or a percentage.
      - Nodes whose pods keep running change at the same time, after the canary.
    type: str
    default: "1"
  wait:
    description:
      - Wait until the nodes have their configurations. Without it, the module leaves out the proof, and old keys stay.
      - Required for nodes that must be drained.
    type: bool
    default: true
  timeout:
    description: Seconds without progress after which a node has failed.
    type: int
    default: 600
notes:
  - A node that was drained and whose change failed stays cordoned, with the reason in its annotation
    C(gpuops.nvidia/failed.sharing), unless it is proved that nothing on it changed. The same call continues with it,
    and puts it back once it is proved. M(gpuops.nvidia.node_maintenance) with C(state=restored) and C(purpose=sharing)
    puts it back as it is.
  - The module needs permission to list and patch nodes, to list ClusterPolicies and pods in all namespaces, to patch
    the ClusterPolicy, and in the operator's namespace to get, create, patch and delete ConfigMaps and to list
    DaemonSets and pods. To explain failures it reads logs and events there, and to repair them it deletes pods. To
    drain, it needs what M(gpuops.nvidia.node_maintenance) needs. The ClusterRoles C(gpuops-sharing) have all of it.
  - Sharing does not isolate pods. Pods with time-slices of a GPU can use up its memory, and a fault of one can end the
    others.
  - A pod that had a whole GPU before the change keeps it, but has to share it from then on. The module warns of such
    pods.
  - The field manager of the reference in the ClusterPolicy is C(gpuops.nvidia-sharing), so the role operator leaves it
    alone.
seealso:
  - module: gpuops.nvidia.node_maintenance
  - module: gpuops.nvidia.gpu_stack_info
"""

EXAMPLES = r"""
- name: Let four pods share each T4, and two each MIG device of the A100s
  gpuops.nvidia.gpu_sharing:
    configs:
      - name: t4
        node_selector:
          nvidia.com/gpu.product: Tesla-T4
        strategy: time-slicing
        replicas: 4
      - name: a100
        node_selector:
          pool: a100
        strategy: time-slicing
        resources:
          - name: nvidia.com/mig-1g.10gb
            replicas: 2

- name: Share the GPUs of two nodes by MPS, and evict the pods that use them now
  gpuops.nvidia.gpu_sharing:
    configs:
      - name: inference
        nodes: [gpu-0000, gpu-0001]
        strategy: mps
        replicas: 10
    allow_disruption: true

- name: Give all nodes plain GPUs again
  gpuops.nvidia.gpu_sharing:
    state: absent
"""

RETURN = r"""
config_map:
  description: The ConfigMap with the configurations, as C(namespace/name).
  returned: success
  type: str
  sample: gpu-operator/gpuops-sharing
published:
  description: The keys that the call has added to the ConfigMap.
  returned: success
  type: list
  elements: str
  sample: [t4-3e5f0c8a]
pruned:
  description: The keys that the call has removed from the ConfigMap, because they are unused.
  returned: success
  type: list
  elements: str
  sample: [t4-91b2d77e]
reference:
  description: The ConfigMap that the call has entered in the ClusterPolicy, or an empty string.
  returned: success
  type: str
  sample: gpuops-sharing
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
      sample: t4-0000
    configuration:
      description: Name of its configuration, or an empty string for plain GPUs.
      type: str
      sample: t4
    key:
      description: The key of its configuration, which is the value of its label.
      type: str
      sample: t4-3e5f0c8a
    strategy:
      description: How its pods share GPUs. Empty if the ClusterPolicy's default configuration decides.
      type: str
      sample: time-slicing
    changed:
      description: Whether the call has changed the node, its pods, or its operands.
      type: bool
      sample: true
    state:
      description:
        - V(unchanged) if the node already had its configuration, V(done) if the configuration is proven, V(failed) also
          if the call has ended before the proof, or V(pending) if the node has not started, or would start outside of
          check mode.
        - V(degraded) if the node has had its label for longer than O(timeout) and does not offer all that it should,
          for example because a GPU is unhealthy. Nothing is to be changed on it. So it is neither a canary nor a
          failure, and the module warns of it.
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
      description: Whether the node could not be brought to its configuration.
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
    interrupts:
      description: Why the change interrupts pods, or an empty string.
      type: str
      sample: ""
    pods:
      description: The pods that the change interrupts.
      type: list
      elements: str
      sample: []
    evicted:
      description: The pods that were evicted.
      type: list
      elements: str
      sample: []
    repaired:
      description: The pods of operands that were deleted, because a new pod fixes them.
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
      description: The GPUs that pods could allocate before.
      type: dict
      sample: {nvidia.com/gpu: 4}
    resources_after:
      description: The GPUs that pods can allocate now. In check mode, the same as before.
      type: dict
      sample: {nvidia.com/gpu: 16}
    seconds:
      description: How long the change of the node took.
      type: float
      sample: 7.3
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
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.share_gpus import ensure
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.sharing_options import SHARES
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import PROGRESS
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import GOES_ON, run

_CONFIG = ArgumentSpec(
    {
        "name": {"type": "str", "required": True},
        "nodes": {"type": "list", "elements": "str"},
        "node_selector": {"type": "dict"},
    }
).including(SHARES)
SPEC = ArgumentSpec(
    {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "configs": _CONFIG.as_list(),
        "purge": {"type": "bool", "default": False},
        "config_map": {"type": "str", "default": "gpuops-sharing"},
        "policy_name": {"type": "str", "default": ""},
        "namespace": {"type": "str", "default": ""},
        "replace_labels": {"type": "bool", "default": False},
        "keep_unused": {"type": "bool", "default": False},
        "allow_disruption": {"type": "bool", "default": False},
        "wait": {"type": "bool", "default": True},
        "timeout": {"type": "int", "default": 600},
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
