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
  - Cordons nodes, evicts the pods that hold GPUs (or all pods) through the eviction API, waits until they are gone, and later
    puts the nodes back as they were. One call serves many nodes.
  - An eviction that a PodDisruptionBudget forbids is asked for again until O(timeout), and then the PodDisruptionBudget is named.
  - Pods of DaemonSets, mirror pods of the kubelet and finished pods are left alone.
  - A node that was cordoned before stays so when it is put back.
  - What is in the way (pods without a controller, emptyDir data) is found on all nodes before the first one is touched.
  - When the call fails or is interrupted, what it took is put back, unless O(restore_on_failure=false). Evicted pods stay where
    their controllers have started them again.
  - All state is on the nodes, as annotations. So a run that was killed can be resumed by the same call again, and undone by
    anyone with O(state=restored).
attributes:
  check_mode:
    description: Can run in check mode and return what a run would do. The API server is asked, by dry run, about every cordon and every eviction.
    support: full
  diff_mode:
    description: Returns for every node whether it is cordoned, what it is held for, and which pods must go.
    support: full
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
options:
  state:
    description:
      - V(cordoned) keeps new pods away. V(drained) also evicts pods and waits until they are gone.
      - V(restored) ends the maintenance for O(purpose). When it was the last purpose, the node is uncordoned, unless it was cordoned
        before the maintenance began.
    type: str
    choices: [cordoned, drained, restored]
    required: true
  nodes:
    description:
      - Names of the nodes. An empty list is no node.
      - Either this or O(node_selector) is needed, except with O(state=restored), which without either is about every node that is
        held for O(purpose).
    type: list
    elements: str
  node_selector:
    description: Labels of the nodes.
    type: dict
  purpose:
    description:
      - What the maintenance is for, in lower-case letters, digits and dashes. A node can be held for several purposes, and goes back
        into service with the last one, so two jobs that need the same node do not disturb each other.
      - Calls with the same purpose resume and undo each other.
    type: str
    default: manual
  evict:
    description:
      - Which pods must go from a drained node.
      - V(gpu) is those that request GPUs or MIG devices, or hold a GPU by a resource claim. V(all) is all of them.
    type: str
    choices: [gpu, all]
    default: gpu
  force:
    description: Also evict pods that have no controller. Nothing starts them again.
    type: bool
    default: false
  delete_emptydir_data:
    description: Also evict pods with emptyDir volumes, whose data is then lost.
    type: bool
    default: false
  grace_period:
    description: Seconds that each pod gets to end, instead of its own grace period.
    type: int
  timeout:
    description: Seconds that one node may take from its first eviction to the end of its last pod.
    type: int
    default: 600
  parallel:
    description: How many nodes to drain at a time. All are cordoned first, so that no pod moves to a node that is next.
    type: int
    default: 10
  max_in_maintenance:
    description:
      - How many nodes of the cluster may be in maintenance at once, whatever the purpose. A call that would exceed it is refused
        before anything is touched.
      - Calls at the very same time do not see each other's nodes.
    type: int
  restore_on_failure:
    description:
      - End the call with the first node that fails, and put back every node that this call took. Nodes that an earlier call took
        stay as they were.
      - With V(false) the other nodes are drained nevertheless, and all stay in maintenance.
    type: bool
    default: true
  progress_path:
    description:
      - File, on the machine that runs the module, to which a drain appends a line whenever it has got on.
      - Without it the controller prints these lines, when it runs the module itself (connection V(local)).
    type: path
notes:
  - Needs permission to get, list and patch nodes, and to drain also to list pods in all namespaces, to create C(pods/eviction)
    and, where pods have resource claims, to list C(resourceclaims).
  - Evicting GPU pods is right for what needs the GPU driver to be idle. Use O(evict=all) before a reboot.
  - Pods that use GPUs without requesting them (privileged, or with E(NVIDIA_VISIBLE_DEVICES)) are not seen by O(evict=gpu).
  - A node is refused while the operator's driver upgrade is at work on it, because that would uncordon it. An upgrade that waits for
    the node may begin during the maintenance; it then leaves the node cordoned.
  - The annotations are C(gpuops.nvidia/maintenance.<purpose>) (since when, from which machine and by which run) and
    C(gpuops.nvidia/initial-state.unschedulable) (whether the node was cordoned before). To undo the maintenance by hand, remove both
    and run C(kubectl uncordon), unless the second one is V(true).
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

- name: Put back whatever an interrupted run left
  gpuops.nvidia.node_maintenance:
    state: restored
    purpose: reboot
"""

RETURN = r"""
nodes:
  description:
    - What came of each node, or in check mode, what would.
    - When the call fails before it touches a node, the list is absent.
  returned: when the options are right
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
    evicted:
      description: The pods that were evicted, as C(namespace/name).
      type: list
      elements: str
      sample: [default/training-0]
    left:
      description:
        - The pods that did not go, and why.
        - In check mode, the pods whose eviction is forbidden at present; a run would ask again until O(timeout).
      type: dict
      sample: {default/web-1: "the PodDisruptionBudget default/web forbids its eviction: it needs 2 healthy pods and has 2 currently"}
    failed:
      description: Whether the node could not be brought to O(state).
      type: bool
      sample: false
    reason:
      description: Why not, or an empty string.
      type: str
      sample: ""
    seconds:
      description: Time that the node took.
      type: float
      sample: 31.4
summary:
  description: How many nodes there are, how many changed and failed, and how many pods were evicted.
  returned: when the options are right
  type: dict
  sample: {nodes: 2, changed: 2, failed: 0, evicted: 5}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, argument_spec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import plan, run
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

OPTIONS: dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["cordoned", "drained", "restored"], "required": True},
    "nodes": {"type": "list", "elements": "str"},
    "node_selector": {"type": "dict"},
    "purpose": {"type": "str", "default": "manual"},
    "evict": {"type": "str", "choices": ["gpu", "all"], "default": "gpu"},
    "force": {"type": "bool", "default": False},
    "delete_emptydir_data": {"type": "bool", "default": False},
    "grace_period": {"type": "int"},
    "timeout": {"type": "int", "default": 600},
    "parallel": {"type": "int", "default": 10},
    "max_in_maintenance": {"type": "int"},
    "restore_on_failure": {"type": "bool", "default": True},
    "progress_path": {"type": "path"},
}


def maintain(options: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """Bring the chosen nodes to the state; in check mode only ask the API server for it."""
    plan.check_options(options)
    fleet = run.Fleet(Cluster(options, check_mode), options)
    nodes = fleet.nodes()
    chosen = plan.select(nodes, options)
    plan.check_nodes(nodes, chosen, options)
    plans = plan.plan((chosen, fleet.pods(chosen)), options, run.stamp())
    outcomes = run.predict(fleet, plans) if check_mode else run.apply(fleet, plans)
    diff = {
        "before": {each.name: each.facts(False) for each in plans},
        "after": {each.name: each.facts(True) for each in plans},
    }
    return {**run.report(outcomes), "diff": diff}


def main() -> t.NoReturn:
    module = AnsibleModule(
        argument_spec=argument_spec(**OPTIONS),
        mutually_exclusive=[("nodes", "node_selector")],
        required_if=[("state", state, ("nodes", "node_selector"), True) for state in ("cordoned", "drained")],
        supports_check_mode=True,
    )
    try:
        result = maintain(module.params, module.check_mode)
    except GpuOpsError as e:
        module.fail_json(msg=e.msg, **e.details)
    except KeyboardInterrupt:
        module.fail_json(
            msg="The call was interrupted. Run it again: what is done is not done twice.", reason="Interrupted"
        )
    for row in result["nodes"]:
        for pod, why in row["left"].items():
            module.warn(
                f"Pod {pod} on {row['node']} could not be evicted now: {why}. A run would ask again until timeout."
            )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
