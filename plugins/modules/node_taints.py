#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_taints
short_description: Keep pods without GPUs off GPU nodes with taints that the stack tolerates
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Gives nodes the taints in O(taints), and removes those of earlier calls that are no longer listed.
  - Checks beforehand that the operands, the drivers of NVIDIADrivers and Node Feature Discovery tolerate every taint.
    Without a toleration the operator still reports C(ready), and the node would lose its GPUs with the next restart.
  - Names the pods with GPUs that run there and do not tolerate a new taint.
  - Changes a whole fleet in one call.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details: Every change is sent to the API server as a dry run.
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
    details: Returns the taints of every node that changes.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
options:
  taints:
    description:
      - The complete list of the taints that this collection keeps in the cluster. V([]) removes them all.
      - A node may be in several entries.
    type: list
    elements: dict
    required: true
    suboptions:
      key:
        description: Key of the taint, for example V(nvidia.com/gpu), which the operands tolerate by default.
        type: str
        required: true
      value:
        description: Value of the taint.
        type: str
        default: ""
      effect:
        description:
          - V(NoSchedule) keeps new pods away, and V(PreferNoSchedule) does so if there is room elsewhere.
          - V(NoExecute) also evicts the pods that run there. It needs O(allow_disruption).
        type: str
        choices: [NoSchedule, PreferNoSchedule, NoExecute]
        default: NoSchedule
      nodes:
        description: Names of the nodes. Exclusive with O(taints[].node_selector).
        type: list
        elements: str
      node_selector:
        description: >-
          Labels of the nodes, for example C({nvidia.com/gpu.present: "true"}).
        type: dict
  allow_disruption:
    description: Let Kubernetes evict the pods that do not tolerate a new taint with the effect V(NoExecute).
    type: bool
    default: false
notes:
  - The module needs permission to get, list and patch nodes, to list pods and DaemonSets in all namespaces, and to list
    ClusterPolicies, GPUClusters and NVIDIADrivers.
  - The annotation C(gpuops.nvidia/taints) of a node lists the taints that the module has set. A taint of somebody else
    stays. If it conflicts with a wanted one, the call fails before its first change.
  - A node that joins later gets its taints with the next call. Until then, C(--register-with-taints) of its kubelet
    keeps pods away.
  - The admission plugin C(ExtendedResourceToleration) gives every pod tolerations whose keys are the resources that it
    requests. So a pod that requests C(nvidia.com/mig-1g.10gb) tolerates C(nvidia.com/mig-1g.10gb), but not
    C(nvidia.com/gpu).
seealso:
  - module: kubernetes.core.k8s_taint
  - module: gpuops.nvidia.gpu_access
"""

EXAMPLES = r"""
- name: Keep pods without a toleration off all GPU nodes
  gpuops.nvidia.node_taints:
    taints:
      - key: nvidia.com/gpu
        node_selector:
          nvidia.com/gpu.present: "true"

- name: Remove all taints that the collection has set
  gpuops.nvidia.node_taints:
    taints: []
"""

RETURN = r"""
nodes:
  description: The nodes that have or had a wanted taint. In check mode, the result that a run would have.
  returned: success
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node.
      type: str
      sample: gpu-0000
    changed:
      description: Whether the call changed the node.
      type: bool
      sample: true
    added:
      description: The taints that the node got.
      type: list
      elements: str
      sample: ["nvidia.com/gpu:NoSchedule"]
    removed:
      description: The taints that the node lost.
      type: list
      elements: str
      sample: []
    evicted:
      description: The pods that Kubernetes evicts because of a new taint, as C(namespace/name).
      type: list
      elements: str
      sample: []
    not_replaced:
      description: The pods with GPUs that keep running, but do not tolerate a new taint.
      type: list
      elements: str
      sample: [ml/training-0]
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.scheduling.keep_taints import keep
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import GOES_ON, run, with_warnings

_TAINT = ArgumentSpec(
    {
        "key": {"type": "str", "required": True, "no_log": False},
        "value": {"type": "str", "default": ""},
        "effect": {"type": "str", "choices": ["NoSchedule", "PreferNoSchedule", "NoExecute"], "default": "NoSchedule"},
        "nodes": {"type": "list", "elements": "str"},
        "node_selector": {"type": "dict"},
    },
    mutually_exclusive=[("nodes", "node_selector")],
    required_one_of=[("nodes", "node_selector")],
)
SPEC = ArgumentSpec(
    {
        "taints": _TAINT.as_list(required=True),
        "allow_disruption": {"type": "bool", "default": False},
    },
).including(CONNECTION)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: with_warnings(*keep(Cluster(module.params, module.check_mode), module.params)),
        interrupted=GOES_ON,
    )


if __name__ == "__main__":
    main()
