#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: permissions_info
short_description: List the permissions that the user lacks for what a run will do
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Asks the API server whether the user may do what a run will do, and lists everything that the user may not do. So a
    run need not fail at one permission after the other, in the middle of a change.
  - The module never fails because of a missing permission. Use RV(missing_permissions) to decide.
  - Hosts that are no nodes can be changed without a cluster. If no cluster is configured at all, nothing is missing.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.read_only
options:
  operations:
    description:
      - What the run will do.
      - V(deploy) installs or changes the stack, and V(quota) also creates a ResourceQuota for critical pods, as GKE
        needs. V(upgrade) is what an upgrade of the operator needs besides V(deploy).
      - V(remove) removes the stack. V(uninstall) and the operations that begin with V(uninstall_) also remove what it
        leaves, named as in the option O(gpuops.nvidia.operator_removal#module:remove).
      - V(verify) reads the verdict on the stack. V(workload) proves nodes with pods, and V(metrics) reads their
        exporters. V(diagnose) names the causes of what is wrong.
      - V(drain) drains nodes for work on their hosts, and V(evict) evicts the GPU pods that are in the way of another
        operation. V(images) asks which images the nodes' driver containers need.
      - V(driver) declares and rolls out drivers, and V(pools) does so with NVIDIADriver resources.
      - V(mig) gives nodes MIG layouts, and V(layouts) publishes new ones.
      - V(sharing) lets pods share GPUs, and V(scheduling) says who gets them.
    type: list
    elements: str
    choices:
      - deploy
      - remove
      - uninstall
      - uninstall_labels
      - uninstall_taints
      - uninstall_nfd
      - uninstall_crds
      - uninstall_namespace
      - quota
      - verify
      - metrics
      - drain
      - evict
      - images
      - driver
      - pools
      - upgrade
      - mig
      - layouts
      - workload
      - sharing
      - scheduling
      - diagnose
    required: true
  namespace:
    description: Namespace of the operator. Without it, the one that the ClusterPolicy names.
    type: str
    default: ""
  policy_name:
    description: Name of the ClusterPolicy that names the namespace. Without it, the oldest one.
    type: str
    default: ""
seealso:
  - module: gpuops.nvidia.gpu_preflight_info
"""

EXAMPLES = r"""
- name: Ask whether the user may change MIG layouts
  gpuops.nvidia.permissions_info:
    operations: [mig, evict]
  register: permissions

- name: Stop before anything is changed
  ansible.builtin.fail:
    msg: "{{ permissions.message }}"
  when: permissions.missing_permissions | length > 0
"""

RETURN = r"""
missing_permissions:
  description:
    - The permissions that the user lacks, in the order of the operations.
    - A permission that ends in C(in) and a namespace is enough in that namespace.
  returned: success
  type: list
  elements: str
  sample: [patch nodes, create pods/eviction, create configmaps in gpu-operator]
message:
  description: What is missing, by resource, and what to do. Empty if nothing is missing.
  returned: success
  type: str
  sample: >-
    This user may not: get, patch nodes; create pods/eviction. Grant these permissions, for example with the
    ClusterRoles in roles/preflight/files of this collection, or use a kubeconfig of a cluster administrator.
namespace:
  description: The operator's namespace, in which the permissions of namespaces were asked for.
  returned: success
  type: str
  sample: gpu-operator
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, argument_spec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.access import lacking
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.permissions import OPERATIONS
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import Module

OPTIONS: dict[str, t.Any] = {
    "operations": {"type": "list", "elements": "str", "choices": list(OPERATIONS), "required": True},
    "namespace": {"type": "str", "default": ""},
    "policy_name": {"type": "str", "default": ""},
}


def main() -> t.NoReturn:
    module = Module(argument_spec=argument_spec(**OPTIONS), supports_check_mode=True)
    try:
        result = lacking(module.params, lambda: Cluster(module.params))
    except GpuOpsError as e:
        module.fail_json(msg=e.msg, **e.details)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
