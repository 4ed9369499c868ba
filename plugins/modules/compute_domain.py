#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: compute_domain
short_description: Keep a ComputeDomain, in which pods on several nodes share GPU memory over NVLink (IMEX)
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Writes a ComputeDomain with server-side apply. Its controller, a part of NVIDIA's driver for Dynamic Resource
    Allocation, makes a ResourceClaimTemplate, from which pods on nodes with multi-node NVLink (such as GB200 NVL72) get
    an IMEX channel.
  - Refuses beforehand what would hang. That is a controller that does not run, a CRD with which it cannot write, too
    few free nodes in one NVLink clique, drivers that are too old or differ, and a template name that is taken.
  - Waits until the IMEX daemons are ready on every node with a pod of the ComputeDomain. Without such a pod there are
    no daemons yet, and RV(verdict) says V(idle), whatever the object's own status says.
  - Changes and removes only what this module has made, by its labels.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details: The prediction comes from the API server (a dry run). What a run would refuse fails in check mode, too.
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
  idempotent:
    description: A second run with the same options reports no change.
    support: full
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.progress
options:
  state:
    description:
      - V(absent) deletes the ComputeDomain and waits until its controller has removed what belongs to it.
      - It fails while pods use the ComputeDomain, which RV(users) names, or while the controller does not run.
    type: str
    choices: [present, absent]
    default: present
  name:
    description: Name of the ComputeDomain.
    type: str
    required: true
  namespace:
    description: Namespace of the ComputeDomain and of the pods that use it.
    type: str
    required: true
  num_nodes:
    description:
      - Number of nodes of the job. The module looks for that many free nodes in one NVLink clique.
      - V(0) follows the job. It does not work with the CRD of the operator's chart v26.7, which the module notices.
      - With the driver's feature gate C(IMEXDaemonsWithDNSNames), which is on by default, the number only counts for
        the object's own status. Without it, pods wait for exactly this number of nodes.
      - It cannot be changed later. Without a value, an existing ComputeDomain keeps its own, and a new one gets V(0).
    type: int
  channel:
    description: The IMEX channels that pods get. They cannot be changed later.
    type: dict
    suboptions:
      template:
        description: Name of the ResourceClaimTemplate that the controller makes. By default, O(name).
        type: str
      allocation_mode:
        description: Whether a claim gets one channel or all of them. By default, V(Single).
        type: str
        choices: [Single, All]
  one_clique:
    description:
      - Whether O(num_nodes) must be free in one NVLink clique.
      - With V(false), the ComputeDomain may span cliques. Memory is shared inside each of them only.
      - A ComputeDomain does not choose nodes. They come with its pods, and pods on nodes of different cliques are a
        warning with V(true).
    type: bool
    default: true
  wait:
    description: Wait until the daemons of the nodes with pods are ready, or until the ComputeDomain is gone.
    type: bool
    default: true
  wait_timeout:
    description: How many seconds to wait.
    type: int
    default: 600
seealso:
  - module: gpuops.nvidia.gpucluster
  - module: gpuops.nvidia.gpu_claims
"""

EXAMPLES = r"""
- name: Let a job of 18 nodes share GPU memory over NVLink
  gpuops.nvidia.compute_domain:
    name: training
    namespace: research
    num_nodes: 18
    channel:
      template: training-channel

- name: Start the job, whose pods name the template
  kubernetes.core.k8s:
    src: training.yml

- name: Wait until the daemons on its nodes are ready
  gpuops.nvidia.compute_domain:
    name: training
    namespace: research

- name: Remove it after the job
  gpuops.nvidia.compute_domain:
    name: training
    namespace: research
    state: absent
"""

RETURN = r"""
compute_domain:
  description:
    - The object as it is now, or as it would be (check mode), without C(managedFields). Empty with O(state=absent).
  returned: success
  type: dict
  sample:
    apiVersion: resource.nvidia.com/v1beta1
    kind: ComputeDomain
    metadata:
      name: training
      namespace: research
    spec:
      numNodes: 18
      channel:
        allocationMode: Single
        resourceClaimTemplate:
          name: training-channel
verdict:
  description:
    - What is known of the ComputeDomain. C(state) is V(pending) (its controller has not accepted it), V(idle) (no pod
      uses it yet), V(progressing), V(ready), or V(host_managed) (the hosts run IMEX, and its state is unknown).
    - C(nodes) are those with a daemon or a pod, each with its clique, its pods and the C(reason) why it is not ready.
  returned: with O(state=present), if the ComputeDomain exists
  type: dict
  sample:
    state: ready
    message: "ComputeDomain research/training is ready on the 18 nodes with its pods (NVLink clique 1a2b.1)."
    nodes:
      - {name: gpu-0000, clique: 1a2b.1, pods: [research/rank-0], reason: ""}
cliques:
  description:
    - The NVLink cliques, if too few nodes are free. C(free) is how many nodes with one version of the driver are.
  returned: if there are too few free nodes
  type: list
  elements: dict
  sample:
    - {clique: 1a2b.1, nodes: 18, free: 4, drivers: [580.95.05, 580.105.08]}
users:
  description: The pods and claims that use the ComputeDomain.
  returned: if they keep it from being removed
  type: list
  elements: str
  sample: [pod research/rank-0, claim research/rank-0-channel-x7k2p]
left:
  description: What is left of a ComputeDomain that was deleted, and is not gone.
  returned: if the wait for its removal has timed out
  type: list
  elements: str
  sample: [its finalizer resource.nvidia.com/computeDomain, label of node gpu-0000]
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains.keep_domain import ensure
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import PROGRESS
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run, with_warnings

_CHANNEL = ArgumentSpec(
    {
        "template": {"type": "str"},
        "allocation_mode": {"type": "str", "choices": ["Single", "All"]},
    }
)
SPEC = ArgumentSpec(
    {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "name": {"type": "str", "required": True},
        "namespace": {"type": "str", "required": True},
        "num_nodes": {"type": "int"},
        "channel": _CHANNEL.as_dict(),
        "one_clique": {"type": "bool", "default": True},
        "wait": {"type": "bool", "default": True},
        "wait_timeout": {"type": "int", "default": 600},
    },
).including(CONNECTION, PROGRESS)


def main() -> t.NoReturn:
    run(SPEC, lambda module: with_warnings(*ensure(Cluster(module.params, module.check_mode), module.params)))


if __name__ == "__main__":
    main()
