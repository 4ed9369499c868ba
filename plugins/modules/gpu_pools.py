#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_pools
short_description: Bring every GPU node to what its pool declares, with one drain for all of its changes
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Takes the declaration of all pools of a cluster. A pool is a set of nodes, with whom their GPUs serve, how MIG
    divides them, and how pods share them.
  - Finds out what each node lacks, holds and empties it once, and takes all of its steps in the right order. A node
    that gets containers first gets its kind, then its MIG layout, then its sharing. A node that is given to virtual
    machines first loses its sharing and its layout. Each step is proved before the next one begins, and then the node
    returns to service.
  - The steps are those of M(gpuops.nvidia.workload_kind), M(gpuops.nvidia.mig_config) and M(gpuops.nvidia.gpu_sharing),
    with their checks, their proofs and their marks on the nodes.
  - Takes back what these modules have set on a node that no pool asks for any more. What others have set stays.
  - Rehearses all steps of all nodes before the first change, so a declaration that cannot work is refused as a whole.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would do.
    support: full
    details:
      - It returns the changes of each node, with the pods that a run would evict, and sends every write as a dry run.
      - A node that begins to serve containers shows its GPUs only then, so its MIG layout is checked in the run.
  diff_mode:
    description: Returns what changes on each node.
    support: full
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.check_refusal
  - gpuops.nvidia.eviction
  - gpuops.nvidia.node_rollout
  - gpuops.nvidia.progress
options:
  pools:
    description:
      - All pools of the cluster. A node may be in one of them only.
      - What a pool does not name is plain on its nodes, as far as this collection has set it. With an empty list, that
        holds for all nodes.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the pool, in at most 50 lower-case letters, digits, dots and dashes.
        type: str
        required: true
      nodes:
        description: Names of the nodes. Either this option or O(pools[].node_selector) is required.
        type: list
        elements: str
      node_selector:
        description:
          - Labels of the nodes. An empty mapping chooses all nodes. Nodes without GPUs are left out.
          - A pool for virtual machines needs labels of your own, because such a node loses the labels of GPU Feature
            Discovery (C(nvidia.com/gpu.product) and others).
        type: dict
      kind:
        description:
          - Whom the GPUs serve, as in O(gpuops.nvidia.workload_kind#module:kinds[].kind).
          - Without it, C(sandboxWorkloads.defaultWorkload) of the ClusterPolicy decides.
        type: str
        choices: [container, vm-passthrough, vm-vgpu]
      mig_layout:
        description:
          - Name of the MIG layout, which the MIG manager must know. M(gpuops.nvidia.mig_layout) publishes layouts.
          - Without it, a node on which this collection has set a layout gets whole GPUs.
        type: str
      sharing:
        description:
          - How pods share the GPUs. The configuration has the name of the pool.
          - Without it, a node on which this collection has set a configuration gets plain GPUs.
        type: dict
        suboptions:
          strategy:
            description: The strategy, as in O(gpuops.nvidia.gpu_sharing#module:configs[].strategy).
            type: str
            choices: [time-slicing, mps, none]
          replicas:
            description: How many pods share each C(nvidia.com/gpu), at least 2. Short for O(pools[].sharing.resources).
            type: int
          resources:
            description: The resources to share.
            type: list
            elements: dict
            suboptions:
              name:
                description: Name of the resource, V(nvidia.com/gpu) or a MIG device such as V(nvidia.com/mig-1g.10gb).
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
            description: Refuse pods that request more than one share.
            type: bool
          config:
            description: >-
              The content of the configuration in the device plugin's own words, as in
              O(gpuops.nvidia.gpu_sharing#module:configs[].config).
            type: dict
  allow_disruption:
    description:
      - Evict the pods and virtual machines that hold GPUs of a node that changes. Without this permission, the module
        fails before its first change and lists them.
    type: bool
    default: false
  allow_reboot:
    description: Also change the layout of nodes that the MIG manager may reboot (its C(WITH_REBOOT)).
    type: bool
    default: false
  stop_machines:
    description:
      - Also stop virtual machines whose C(evictionStrategy) is C(LiveMigrate), and that cannot move with their GPU.
    type: bool
    default: false
  replace_labels:
    description: Also take nodes to which somebody else has given another kind or configuration.
    type: bool
    default: false
  sharing_config_map:
    description: Name of the ConfigMap with the configurations for sharing, in the operator's namespace.
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
  max_unavailable:
    description:
      - How many of the nodes that must be emptied change at once, as a number or a percentage.
      - Nodes that are empty at the same time take their steps together.
    type: str
    default: "1"
  timeout:
    description:
      - Seconds without progress after which a step of a node has failed. A driver that is compiled on the node takes
        about ten minutes.
    type: int
    default: 1200
notes:
  - A node whose change failed stays cordoned, with the reason in its annotation C(gpuops.nvidia/failed.pool), unless
    nothing on it changed. The same call continues with it, and puts it back once it is proved.
    M(gpuops.nvidia.node_maintenance) with C(state=restored) and C(purpose=pool) puts it back as it is.
  - The module needs the permissions of the modules of its steps, as far as a pool or a node has something of theirs.
    The ClusterRoles C(gpuops-pools) have all of them.
seealso:
  - module: gpuops.nvidia.workload_kind
  - module: gpuops.nvidia.mig_config
  - module: gpuops.nvidia.gpu_sharing
  - module: gpuops.nvidia.gpu_stack_info
"""

EXAMPLES = r"""
- name: Bring three pools to their declaration, two nodes at a time
  gpuops.nvidia.gpu_pools:
    pools:
      - name: training
        node_selector: {pool: training}
      - name: notebooks
        node_selector: {pool: notebooks}
        mig_layout: all-1g.10gb
        sharing:
          strategy: time-slicing
          resources:
            - name: nvidia.com/mig-1g.10gb
              replicas: 2
      - name: desktops
        node_selector: {pool: desktops}
        kind: vm-passthrough
    allow_disruption: true
    max_unavailable: 2

- name: Say what the next run of the declaration would do
  gpuops.nvidia.gpu_pools:
    pools: "{{ gpuops_pools }}"
    allow_disruption: true
  check_mode: true

- name: Take back everything that the pools have set
  gpuops.nvidia.gpu_pools:
    pools: []
    allow_disruption: true
"""

RETURN = r"""
nodes:
  description:
    - The result for each node that is in a pool, or on which this collection has set something. In check mode, the
      result that a run would have.
    - The list is absent if the call fails before it has a plan.
  returned: unless the call fails before it has planned anything
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node.
      type: str
      sample: gpu-0000
    pool:
      description: Name of its pool, or an empty string for a node in none.
      type: str
      sample: notebooks
    changes:
      description:
        - What changes, by the name of the step. C(kind) has the old and the new kind, C(mig) the layout, and C(sharing)
          the configuration, or V(plain).
      type: dict
      sample: {mig: all-1g.10gb, sharing: notebooks}
    changed:
      description: Whether the call has changed the node, its pods, or its operands.
      type: bool
      sample: true
    state:
      description:
        - V(unchanged) if the node already was as its pool says, V(done) if all of its steps are proved, V(failed) also
          if the call has ended before the proof, or V(pending) if the node has not started, or would start outside of
          check mode.
        - V(degraded) if nothing is to be changed on the node, and it does not offer all that it should. It is no
          failure, and the module warns of it.
      type: str
      sample: done
    wave:
      description: The number of the node's wave. The canaries are a wave, too. V(0) if the node has nothing to change.
      type: int
      sample: 1
    waits_for:
      description: What the node waits for, or an empty string.
      type: str
      sample: ""
    failed:
      description: Whether the node could not be brought to what its pool says.
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
    drained:
      description: Whether the node is emptied for its changes. That happens once for all of them.
      type: bool
      sample: true
    pods:
      description: The pods with GPUs that leave the node, those of virtual machines included.
      type: list
      elements: str
      sample: [research/train-0]
    evicted:
      description: The pods that were evicted, or whose virtual machines were stopped.
      type: list
      elements: str
      sample: [research/train-0]
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
      sample: {nvidia.com/gpu: 8}
    resources_after:
      description: What pods can allocate now. In check mode, the same as before.
      type: dict
      sample: {nvidia.com/mig-1g.10gb: 112}
    seconds:
      description: How long the change of the node took.
      type: float
      sample: 96.4
summary:
  description: How many nodes there are, how many changed and failed, and how many pods were evicted.
  returned: unless the call fails before it has planned anything
  type: dict
  sample: {nodes: 5, changed: 5, failed: 0, evicted: 0}
pruned:
  description: The configurations for sharing that the call has removed, because no pool names them any more.
  returned: success
  type: list
  elements: str
  sample: [notebooks-91b2d77e]
finished:
  description:
    - Whether every node had its turn. It is false if nodes wait for the next of O(windows), or for an operand that does
      not run there yet.
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
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.set_pools import ensure
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.sharing_options import SHARES
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import PROGRESS
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import GOES_ON, run

_POOL = ArgumentSpec(
    {
        "name": {"type": "str", "required": True},
        "nodes": {"type": "list", "elements": "str"},
        "node_selector": {"type": "dict"},
        "kind": {"type": "str", "choices": ["container", "vm-passthrough", "vm-vgpu"]},
        "mig_layout": {"type": "str"},
        "sharing": SHARES.as_dict(),
    }
)
SPEC = ArgumentSpec(
    {
        "pools": _POOL.as_list(required=True),
        "allow_disruption": {"type": "bool", "default": False},
        "allow_reboot": {"type": "bool", "default": False},
        "stop_machines": {"type": "bool", "default": False},
        "replace_labels": {"type": "bool", "default": False},
        "sharing_config_map": {"type": "str", "default": "gpuops-sharing"},
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
