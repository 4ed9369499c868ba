#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: operator_removal
short_description: Remove a release of the GPU Operator, and what it leaves in the cluster
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Deletes the GPUCluster, the ClusterPolicy and the NVIDIADrivers, in this order, and waits after each kind until its
    operands and their pods are gone. Then it deletes what the chart has installed, and Helm's records.
  - Lifts the cordons that driver upgrades have left, unless another maintainer needs them. A cordon counts as one of an
    upgrade by the note of M(gpuops.nvidia.driver_container), or by the operator's labels before these go.
  - On request, it also removes what the stack leaves in the cluster, see O(remove).
  - Needs O(allow_disruption) if pods use GPUs, since they lose their driver, and if it cuts off a driver upgrade.
  - Each step reads the cluster and does what is left to do. So a second call completes a call that was killed, and also
    a C(helm uninstall) that was interrupted. After a complete removal, a call reports no change.
  - Other releases stay as they are. The module returns what stays and why.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details:
      - It fails where the run would stop because of pods that use GPUs, or of driver upgrades that it cuts off, unless
        O(check_refusal=warn).
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
    details: Lists the steps, not whole objects.
  idempotent:
    description: A second run with the same options reports no change.
    support: full
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.check_refusal
options:
  release_name:
    description: Name of the Helm release.
    type: str
    default: gpu-operator
  release_namespace:
    description: Namespace of the Helm release.
    type: str
    default: gpu-operator
  remove:
    description:
      - Leftovers to remove as well. V(all) removes all of them.
      - V(labels) removes the labels and annotations of the operator and its operands from the nodes. Labels that users
        have set stay. A sharing configuration and a MIG layout go if this collection has set them.
      - V(taints) removes the taints that M(gpuops.nvidia.node_taints) has set.
      - V(nfd) removes the labels of Node Feature Discovery and deletes its CRDs, unless another installation of it
        runs.
      - V(crds) deletes the operator's CRDs. A CRD that still has objects stays. While another GPU Operator runs, all of
        them stay.
      - V(namespace) deletes the namespace with its Secrets and ConfigMaps, unless workloads, volumes or another release
        are in it.
    type: list
    elements: str
    choices: [all, labels, taints, nfd, crds, namespace]
    default: []
  allow_disruption:
    description: Allow the removal while pods use GPUs, or while the driver of a node is being upgraded.
    type: bool
    default: false
  helm_timeout:
    description: Time limit of a Helm operation, in Helm's notation. The module respects the lock of a younger one.
    type: str
    default: 5m0s
  break_lock:
    description:
      - Continue although Helm has locked the release, if the lock is more than half a minute older than O(helm_timeout)
        by the API server's clock.
    type: bool
    default: false
  wait_timeout:
    description: Seconds to wait after each step until the deleted objects are gone.
    type: int
    default: 600
requirements:
  - PyYAML
notes:
  - The chart's hooks are left out, because the module has already removed what they clean up.
  - Settings and packages of the hosts stay. The playbook C(gpuops.nvidia.uninstall) can remove them, too.
seealso:
  - module: gpuops.nvidia.operator_release
  - module: gpuops.nvidia.clusterpolicy
"""

EXAMPLES = r"""
- name: Remove the operator, and every trace of it in the cluster
  gpuops.nvidia.operator_removal:
    remove: [all]
  register: removal

- name: Tell what stays
  ansible.builtin.debug:
    msg: "{{ removal.report }}"
"""

RETURN = r"""
removed:
  description: What was removed, a line for each step, in the order in which it happened.
  returned: success
  type: list
  elements: str
  sample:
    - delete ClusterPolicy cluster-policy
    - delete Deployment gpu-operator/gpu-operator
    - delete release gpu-operator/gpu-operator
    - take label nvidia.com/gpu.present off 4 nodes (gpu-0000, gpu-0001, gpu-0002, gpu-0003)
left:
  description: What stays in the cluster.
  returned: success
  type: list
  elements: dict
  contains:
    what:
      description: The kind of object, or a description.
      type: str
      sample: CRDs
    names:
      description: Names of the objects, or of the nodes that have it.
      type: list
      elements: str
      sample: [clusterpolicies.nvidia.com]
    reason:
      description: Why it stays.
      type: str
      sample: Their removal was not asked for (crds).
    remedy:
      description: How to remove it. Empty if it should stay.
      type: str
      sample: Add crds to remove (uninstall_remove in the role uninstall), or set it to all.
report:
  description: What stays, as a sentence for each entry of RV(left).
  returned: success
  type: list
  elements: str
  sample:
    - >-
      CRDs (clusterpolicies.nvidia.com): Their removal was not asked for (crds). Add crds to remove (uninstall_remove in
      the role uninstall), or set it to all.
gpu_pods:
  description: Number of running pods that use a GPU, or null if this user may not list pods.
  returned: success, or failure because of them
  type: int
  sample: 0
"""

import typing as t

from ansible.module_utils.common.yaml import HAS_YAML
from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._check_refusal import CHECK_REFUSAL
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal import uninstall
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal.removal_plan import (
    EVERY_LEFTOVER,
    LEFTOVERS,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "release_name": {"type": "str", "default": "gpu-operator"},
        "release_namespace": {"type": "str", "default": "gpu-operator"},
        "remove": {
            "type": "list",
            "elements": "str",
            "choices": [EVERY_LEFTOVER, *LEFTOVERS],
            "default": [],
        },
        "allow_disruption": {"type": "bool", "default": False},
        "helm_timeout": {"type": "str", "default": "5m0s"},
        "break_lock": {"type": "bool", "default": False},
        "wait_timeout": {"type": "int", "default": 600},
    },
).including(CONNECTION, CHECK_REFUSAL)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: uninstall.remove(Cluster(module.params, module.check_mode), module.params),
        minimums={"wait_timeout": 0},
        libraries={"PyYAML": HAS_YAML},
    )


if __name__ == "__main__":
    main()
