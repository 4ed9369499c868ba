#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: permissions_info
short_description: "Plumbing of the role preflight: list the permissions that the user lacks for what a run will do"
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Asks the API server whether the user may do what a run will do, and lists everything that the user may not do. So
    you can grant them all at once, before a run fails in the middle of a change.
  - A missing permission alone does not make the module fail. Use RV(missing_permissions) to decide.
  - Hosts outside of a cluster can be changed without one. If no cluster is configured, the list of missing permissions
    is empty.
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
        exporters. V(usage) reads who uses which GPU. V(diagnose) names the causes of what is wrong.
      - V(drain) drains nodes for work on their hosts, and V(evict) evicts the GPU pods that block another operation.
        V(images) asks which images the nodes' driver containers need.
      - V(driver) declares and rolls out drivers, and V(pools) does so with NVIDIADriver resources.
      - V(mig) gives nodes MIG layouts, and V(layouts) publishes new ones. V(monitoring) sets up metrics and alerts.
      - V(sharing) lets pods share GPUs, and V(scheduling) says who gets them. V(namespaces) makes missing namespaces.
      - V(kubevirt) permits GPUs to virtual machines of KubeVirt, and V(workloads) gives them those of whole nodes.
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
      - usage
      - drain
      - evict
      - images
      - driver
      - pools
      - upgrade
      - mig
      - layouts
      - monitoring
      - workload
      - sharing
      - scheduling
      - namespaces
      - claims
      - domains
      - kubevirt
      - workloads
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
  description: What is missing, by resource, and what to do. Empty if the user has all permissions.
  returned: success
  type: str
  sample: >-
    This user may not: get, patch nodes; create pods/eviction. Grant these permissions, for example with the
    ClusterRoles in roles/preflight/files of this collection, or use a kubeconfig of a cluster administrator.
namespace:
  description: The operator's namespace, for which the module checked the permissions of namespaces.
  returned: success
  type: str
  sample: gpu-operator
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.permission_checks import lacking
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.permissions import OPERATIONS
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "operations": {"type": "list", "elements": "str", "choices": list(OPERATIONS), "required": True},
        "namespace": {"type": "str", "default": ""},
        "policy_name": {"type": "str", "default": ""},
    },
).including(CONNECTION)


def main() -> t.NoReturn:
    run(SPEC, lambda module: lacking(module.params, lambda: Cluster(module.params)))


if __name__ == "__main__":
    main()
