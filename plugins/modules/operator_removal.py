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
  - On request, it also removes what all of that leaves in the cluster, see O(remove).
  - Needs O(allow_disruption) if pods use GPUs, since they lose their driver.
  - Each step looks at the cluster and does what is still to be done. So a second call completes a call that was killed,
    and also a C(helm uninstall) that was cut off. Where nothing is left, it changes nothing.
  - Leaves every other release alone, and returns what it leaves and why.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details: Running pods that use GPUs are a warning in check mode.
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: full
    details: Lists the steps, not whole objects.
  idempotent:
    description: A second run with the same options changes nothing.
    support: full
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
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
      - Leftovers to remove as well.
      - V(labels) takes the labels and annotations of the operator and its operands off the nodes, and uncordons a node
        that one of its driver upgrades has left cordoned. Labels that users have set stay, such as
        a layout in C(nvidia.com/mig.config).
      - V(taints) takes off the taints that M(gpuops.nvidia.node_taints) has set.
      - V(nfd) takes off the labels of Node Feature Discovery and deletes its CRDs, unless another installation of it
        runs.
      - V(crds) deletes the operator's CRDs. One that still has objects stays, and so do all while another GPU Operator
        runs.
      - V(namespace) deletes the namespace with its Secrets and ConfigMaps, unless workloads, volumes or another release
        are in it.
    type: list
    elements: str
    choices: [labels, taints, nfd, crds, namespace]
    default: []
  allow_disruption:
    description: Allow the removal while pods use GPUs.
    type: bool
    default: false
  helm_timeout:
    description: Time limit of a Helm operation, in Helm's notation. The lock of a younger one is respected.
    type: str
    default: 5m0s
  break_lock:
    description:
      - Go on although Helm has locked the release for an installation or an upgrade that began more than half a minute
        longer ago than O(helm_timeout), by the API server's clock.
    type: bool
    default: false
  wait_timeout:
    description: Seconds to wait after each step until what it deletes is gone.
    type: int
    default: 600
requirements:
  - PyYAML
notes:
  - The chart's hooks do not run. What they clean up is gone when their turn comes.
  - Settings and packages of the hosts stay. The playbook C(gpuops.nvidia.uninstall) can remove them, too.
seealso:
  - module: gpuops.nvidia.operator_release
  - module: gpuops.nvidia.clusterpolicy
"""

EXAMPLES = r"""
- name: Remove the operator, and every trace of it in the cluster
  gpuops.nvidia.operator_removal:
    remove: [labels, taints, nfd, crds, namespace]
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
      description: The kind of object, or what it is otherwise.
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
      description: How it goes. Empty if it should stay.
      type: str
      sample: Add crds to remove (uninstall_remove in the role uninstall).
report:
  description: What stays, as a sentence for each entry of RV(left).
  returned: success
  type: list
  elements: str
  sample:
    - >-
      CRDs (clusterpolicies.nvidia.com): Their removal was not asked for (crds). Add crds to remove (uninstall_remove in
      the role uninstall).
gpu_pods:
  description: Number of running pods that use a GPU, or null if this user may not list pods.
  returned: success, or failure because of them
  type: int
  sample: 0
"""

import typing as t

from ansible.module_utils.common.yaml import HAS_YAML
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, argument_spec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal import run
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal.plan import LEFTOVERS
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import Module
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below

OPTIONS: dict[str, t.Any] = {
    "release_name": {"type": "str", "default": "gpu-operator"},
    "release_namespace": {"type": "str", "default": "gpu-operator"},
    "remove": {
        "type": "list",
        "elements": "str",
        "choices": [*LEFTOVERS],
        "default": [],
    },
    "allow_disruption": {"type": "bool", "default": False},
    "helm_timeout": {"type": "str", "default": "5m0s"},
    "break_lock": {"type": "bool", "default": False},
    "wait_timeout": {"type": "int", "default": 600},
}


def main() -> t.NoReturn:
    module = Module(argument_spec=argument_spec(**OPTIONS), supports_check_mode=True)
    if not HAS_YAML:
        module.fail_json(msg="This module needs PyYAML on the machine that runs it.")
    try:
        refuse_below(module.params, wait_timeout=0)
        result = run.remove(Cluster(module.params, module.check_mode), module.params)
    except GpuOpsError as e:
        module.fail_json(msg=e.msg, **e.details)
    for warning in result.pop("warnings"):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
