#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_maintenance
short_description: Take nodes out of service for maintenance, and put them back as they were
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Cordons nodes, evicts the pods that hold GPUs (or all pods) through the eviction API, waits until they are gone, and
    later puts the nodes back as they were. One call serves many nodes.
  - If a PodDisruptionBudget forbids an eviction, the module requests it again until O(timeout). Then the module fails
    and names the PodDisruptionBudget.
  - Pods of DaemonSets, mirror pods of the kubelet and finished pods stay.
  - A node that was cordoned before the maintenance remains cordoned afterwards. So does a node that another maintainer
    has taken out of service in the meantime, such as NVSentinel, kured or the GPU Operator's driver upgrade.
  - Before its first change, the module searches all nodes for pods whose eviction needs a permission (pods without a
    controller, or with emptyDir data).
  - If the call fails or is interrupted, it puts back the nodes that it has cordoned, unless
    O(restore_on_failure=false). Evicted pods stay where their controllers have restarted them.
  - All state is stored in annotations of the nodes. So the same call can resume a run that was killed, and anyone can
    undo it with O(state=restored).
attributes:
  check_mode:
    description: Can run in check mode and return what a run would do.
    support: full
    details: The module requests every cordon and every eviction as a dry run.
  diff_mode:
    description: Returns whether each node is cordoned, what it is held for, and which pods must leave it.
    support: full
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.eviction
  - gpuops.nvidia.progress
options:
  state:
    description:
      - V(cordoned) keeps new pods away. V(drained) also evicts pods and waits until they are gone.
      - V(restored) ends the maintenance for O(purpose). If it was the last purpose, the node is uncordoned, unless it
        was already cordoned before the maintenance, or another maintainer needs the cordon.
      - V(restored) also uncordons nodes whose cordon an earlier call has left for another maintainer that has finished
        since and leaves the node cordoned. Named nodes that do not exist are reported and skipped.
    type: str
    choices: [cordoned, drained, restored]
    required: true
  nodes:
    description:
      - Names of the nodes. With an empty list, the module changes no node.
      - Either this option or O(node_selector) is required, except with O(state=restored). Without either of them,
        O(state=restored) restores every node that is held for O(purpose).
    type: list
    elements: str
  node_selector:
    description: Labels of the nodes.
    type: dict
  purpose:
    description:
      - What the maintenance is for, in lower-case letters, digits and dashes.
      - A node can be held for several purposes, and returns to service with the last one. So two jobs can use the same
        node. Calls with the same purpose resume and undo each other.
      - A call resumes a call of another machine with the same purpose only after O(lease) is over, because the other
        call may still be active.
    type: str
    default: manual
  allow_shared:
    description:
      - Also take nodes with another active maintainer, such as a driver upgrade, a reboot by kured, or the
        removal of the node by an autoscaler. Some of them uncordon the node when they have finished.
      - Nodes in quarantine, and nodes that somebody has cordoned, are taken without this permission.
    type: bool
    default: false
  lease:
    description:
      - For how many seconds a hold by another machine, for the same purpose, is respected. The time counts from the
        beginning of the hold. A drain renews it. O(state=restored) always ends such a hold.
    type: int
    default: 3600
  take_over:
    description: Resume a call of another machine before O(lease) is over. Use it if that call has been killed.
    type: bool
    default: false
  pause_nvsentinel:
    description:
      - Set the label C(k8saas.nvidia.com/ManagedByNVSentinel=false) on the nodes while they are held. NVSentinel
        otherwise reports a GPU without a driver as a fault.
      - The label gets its former value back when the last purpose ends, also after a run that was killed.
    type: bool
    default: false
  taint_reason:
    description:
      - Also taint the nodes, because they must not serve for this reason, such as a failed driver. Pods then stay away
        even if somebody uncordons a node.
      - The taint is C(gpuops.nvidia/failed.<purpose>) with the effect C(NoSchedule), and its value has the beginning of
        the reason. The annotation of the same name has the whole reason.
      - O(state=restored) for the same purpose removes both, and leaves all other taints as they are. A call without
        this option leaves an earlier reason as it is.
    type: str
  evict:
    description:
      - Which pods must leave a drained node.
      - V(gpu) means pods that request GPUs or MIG devices, or hold a GPU through a resource claim.
      - V(all) means all pods.
    type: str
    choices: [gpu, all]
    default: gpu
  skip_wait_for_delete_timeout:
    description:
      - Stop waiting for pods on a node that is not Ready, if they still exist this many seconds after their grace
        period. Without a kubelet, evicted pods stay, and the drain times out.
      - These pods are returned in RV(nodes[].left). They may still run. They end when the kubelet is back, or when the
        node gets the taint C(node.kubernetes.io/out-of-service), which you may set once its host is powered off.
      - Without this option, the module waits for every pod.
    type: int
  timeout:
    description: Seconds that one node may take from its first eviction to the end of its last pod.
    type: int
    default: 600
  parallel:
    description:
      - How many nodes to drain at a time.
      - All nodes are cordoned first, so that evicted pods move to nodes that stay in service.
    type: int
    default: 10
  max_in_maintenance:
    description:
      - How many nodes of the cluster may be in maintenance at once, for all purposes together. A call that would exceed
        this limit fails before its first change.
      - Calls that start at the same time count only their own nodes.
    type: int
  restore_on_failure:
    description:
      - End the call when the first node fails, and put back every node that this call has cordoned. Nodes that an
        earlier call cordoned stay as they are.
      - With V(false), the module continues with the other nodes, and all nodes stay in maintenance.
    type: bool
    default: true
notes:
  - The module needs permission to get, list and patch nodes. To drain, it also needs permission to list pods in all
    namespaces, to create C(pods/eviction) and, if pods have resource claims, to list C(resourceclaims).
  - O(evict=gpu) is enough for work that needs an idle GPU driver. Use O(evict=all) before a reboot.
  - O(evict=gpu) misses pods that use GPUs without requesting them (privileged pods, or pods with
    E(NVIDIA_VISIBLE_DEVICES)).
  - To know about kured and NVIDIA's maintenance operator, the module lists DaemonSets in all namespaces, and
    NodeMaintenances of C(maintenance.nvidia.com). Without these permissions, it warns and leaves them out.
  - A node that waits for its driver upgrade has the label C(nvidia.com/gpu-driver-upgrade.skip=true) while it is held,
    because the operator would otherwise upgrade a cordoned node before all others.
  - During a drain, the module checks every few seconds whether somebody has uncordoned the node, and cordons it again.
    If somebody uncordons it between two calls, the next call says so.
  - The module recognises the marks of the GPU Operator, k8s-driver-manager, NVSentinel, NodeWright, kured, medik8s,
    NVIDIA's maintenance operator, AMD's GPU operator, Karpenter, the cluster autoscaler and others. A second cordon of
    a node leaves no trace, so the module cannot recognise it.
  - The annotations are C(gpuops.nvidia/maintenance.<purpose>) (since when, from which machine and by which run) and
    C(gpuops.nvidia/initial-state.unschedulable) (whether the node was cordoned before). The other annotations
    C(gpuops.nvidia/initial-state.*) say which labels to restore, and C(gpuops.nvidia/left-cordoned) names the
    maintainer for whom a cordon was left. To undo the maintenance by hand, remove them and run C(kubectl uncordon),
    unless the second one is V(true). Remove a taint with C(kubectl taint node gpu-0000 gpuops.nvidia/failed.change-).
seealso:
  - module: kubernetes.core.k8s_drain
  - module: gpuops.nvidia.gpu_stack_info
"""

EXAMPLES = r"""
- name: Free the GPUs of two nodes
  gpuops.nvidia.node_maintenance:
    state: drained
    nodes: [gpu-0000, gpu-0001]
    purpose: mig-change

- name: Put them back
  gpuops.nvidia.node_maintenance:
    state: restored
    nodes: [gpu-0000, gpu-0001]
    purpose: mig-change

- name: Empty the nodes of a rack before a reboot, at most four nodes of the cluster at once
  gpuops.nvidia.node_maintenance:
    state: drained
    node_selector:
      topology.kubernetes.io/zone: rack-7
    purpose: reboot
    evict: all
    delete_emptydir_data: true
    max_in_maintenance: 4
    timeout: 1800

- name: Keep a node out of service, and tell everybody why
  gpuops.nvidia.node_maintenance:
    state: cordoned
    nodes: [gpu-0000]
    purpose: change
    taint_reason: The driver 580.95.05 is installed, and its module cannot be loaded

- name: Put back all nodes that an interrupted run left in maintenance
  gpuops.nvidia.node_maintenance:
    state: restored
    purpose: reboot
"""

RETURN = r"""
nodes:
  description:
    - The result for each node. In check mode, the result that a run would have.
    - The list is absent if the call fails before it changes a node.
  returned: unless the call fails before it changes a node
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node.
      type: str
      sample: gpu-0001
    changed:
      description: Whether the call changed the node or evicted pods from it.
      type: bool
      sample: true
    unschedulable:
      description: Whether the node is cordoned now.
      type: bool
      sample: true
    purposes:
      description: What the node is held for now.
      type: list
      elements: str
      sample: [reboot]
    held_by:
      description:
        - The other maintainers of the node according to their marks, and whether they are active.
        - V(unknown) is somebody who has cordoned the node without a mark.
      type: list
      elements: dict
      sample: [{owner: nvsentinel, mark: annotation quarantineHealthEventIsCordoned=True, at_work: false}]
    absent:
      description: Whether the node does not exist. This happens only with O(state=restored).
      type: bool
      sample: false
    failures:
      description: Why the node is tainted now (O(taint_reason)), by purpose.
      type: dict
      sample: {}
    evicted:
      description: The pods that were evicted, as C(namespace/name).
      type: list
      elements: str
      sample: [default/training-0]
    left:
      description:
        - The pods that did not leave the node, and why. If the node has not failed, the module stopped waiting for
          these pods, as O(skip_wait_for_delete_timeout) permits.
        - In check mode, the pods whose eviction is currently forbidden. A run would request it again until O(timeout).
      type: dict
      sample:
        default/web-1: >-
          the PodDisruptionBudget default/web forbids its eviction: it needs 2 healthy pods and has 2 currently
    failed:
      description: Whether the node could not be brought to O(state).
      type: bool
      sample: false
    reason:
      description: Why the node failed or was put back, or an empty string.
      type: str
      sample: ""
    seconds:
      description: How long the drain of the node took.
      type: float
      sample: 31.4
    notes:
      description: What else happened to the node, or an empty list. The module also prints these as warnings.
      type: list
      elements: str
      sample: [Somebody else uncordoned it while it was held. It is cordoned again.]
summary:
  description: How many nodes there are, how many changed and failed, and how many pods were evicted.
  returned: unless the call fails before it changes a node
  type: dict
  sample: {nodes: 2, changed: 2, failed: 0, evicted: 5}
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintain import maintain
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.option_specs import EVICTION, HOLD
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import PROGRESS
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import GOES_ON, run, with_warnings

SPEC = ArgumentSpec(
    {
        "state": {"type": "str", "choices": ["cordoned", "drained", "restored"], "required": True},
        "nodes": {"type": "list", "elements": "str"},
        "node_selector": {"type": "dict"},
        "purpose": {"type": "str", "default": "manual"},
        "evict": {"type": "str", "choices": ["gpu", "all"], "default": "gpu"},
        "taint_reason": {"type": "str"},
        "skip_wait_for_delete_timeout": {"type": "int"},
        "timeout": {"type": "int", "default": 600},
        "parallel": {"type": "int", "default": 10},
        "max_in_maintenance": {"type": "int"},
        "restore_on_failure": {"type": "bool", "default": True},
    },
    mutually_exclusive=[("nodes", "node_selector")],
    required_if=[("state", state, ("nodes", "node_selector"), True) for state in ("cordoned", "drained")],
).including(CONNECTION, EVICTION, HOLD, PROGRESS)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: with_warnings(*maintain(Cluster(module.params, module.check_mode), module.params)),
        interrupted=GOES_ON,
    )


if __name__ == "__main__":
    main()
