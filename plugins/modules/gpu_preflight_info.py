#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_preflight_info
short_description: Check whether a cluster is ready for the GPU Operator
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Reads the cluster with a few list requests. Reports what would prevent the GPU Operator from working, what could
    disturb it, and the remedy for each problem.
  - Findings alone do not make the module fail. Use RV(summary.failures) to decide.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.read_only
options:
  namespace:
    description: Present or future namespace of the operator.
    type: str
    default: gpu-operator
  release_name:
    description: Name of the operator's Helm release.
    type: str
    default: gpu-operator
  operator_version:
    description:
      - Version of the GPU Operator, for example V(v26.7.0). The cluster is compared with the compatibility data of its
        release line.
      - The default is the newest line that this collection knows.
    type: str
  values:
    description:
      - Helm values of the operator's present or future release.
      - Some findings depend on them. For example, a pre-installed driver lifts the limits on operating systems.
    type: dict
    default: {}
  preset:
    description:
      - Preset of the role P(gpuops.nvidia.operator#role) from which O(values) come. The check C(platform) compares it
        with the presets that fit the nodes.
    type: str
  roles:
    description:
      - The RBAC roles of the operator's chart, in the form of RV(gpuops.nvidia.operator_chart_info#module:roles).
      - Helm creates them with the user's permissions, and Kubernetes refuses roles that grant more than their creator
        has.
    type: list
    elements: dict
    default: []
    suboptions:
      kind:
        description: Kind of the role.
        type: str
        choices: [ClusterRole, Role]
        required: true
      name:
        description: Name of the role.
        type: str
        required: true
      namespace:
        description: Namespace of a role of kind V(Role). The default is the namespace of the operator.
        type: str
      rules:
        description: The rules of the role, in the form of the Kubernetes API.
        type: list
        elements: dict
        default: []
  operations:
    description:
      - What the run will do. The check C(permissions) asks whether the user may do it.
      - M(gpuops.nvidia.permissions_info) describes the operations.
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
    default: [deploy, verify]
  skip:
    description: Checks to leave out.
    type: list
    elements: str
    choices:
      - kubernetes_version
      - permissions
      - role_grants
      - gpu_nodes
      - nfd
      - other_stacks
      - container_runtime
      - operating_system
      - driver
      - taints
      - pod_security
      - node_state
      - platform
    default: []
  wait_timeout:
    description:
      - Seconds to wait until Node Feature Discovery has labelled the nodes on which its workers run, for a check right
        after its installation. If it is missing, or not ready in time, the module takes the nodes as they are.
    type: int
    default: 0
seealso:
  - module: gpuops.nvidia.permissions_info
  - module: gpuops.nvidia.gpu_stack_info
  - module: gpuops.nvidia.operator_chart_info
"""

EXAMPLES = r"""
- name: Check the cluster
  gpuops.nvidia.gpu_preflight_info:
    operator_version: v26.7.0
  register: preflight

- name: Stop if something would prevent the operator from working
  ansible.builtin.assert:
    that: preflight.summary.failures == 0
    fail_msg: "{{ preflight.findings | selectattr('level', 'eq', 'failure') | map(attribute='message') | join(' ') }}"

- name: Check a cluster whose nodes have a pre-installed driver, and skip the check of permissions
  gpuops.nvidia.gpu_preflight_info:
    values:
      driver:
        enabled: false
    skip: [permissions]
"""

RETURN = r"""
findings:
  description: What the checks found, at least one entry for each check. Failures come first, then warnings.
  returned: success
  type: list
  elements: dict
  contains:
    check:
      description: Name of the check.
      type: str
      sample: nfd
    level:
      description: C(failure) prevents the operator from working, C(warning) may disturb it, C(ok) is harmless.
      type: str
      sample: failure
    message:
      description: What was found.
      type: str
      sample: >-
        Node Feature Discovery is already running (node-feature-discovery/nfd-worker), and a second one would fight over
        its labels.
    remedy:
      description: What to do about the finding, or an empty string.
      type: str
      sample: Set nfd.enabled to false.
    nodes:
      description: The first five nodes that the finding is about.
      type: list
      elements: str
      sample: []
    count:
      description: How many nodes the finding is about.
      type: int
      sample: 0
summary:
  description: Number of findings at each level.
  returned: success
  type: dict
  contains:
    failures:
      description: Number of findings that prevent the operator from working.
      type: int
      sample: 1
    warnings:
      description: Number of findings that may disturb the operator.
      type: int
      sample: 0
    ok:
      description: Number of findings that are harmless.
      type: int
      sample: 11
missing_permissions:
  description:
    - All permissions that the user lacks for O(operations), in the order of the operations.
    - A permission that ends in C(in) and a namespace is enough in that namespace.
  returned: success
  type: list
  elements: str
  sample: [list nodes, create secrets in gpu-operator]
facts:
  description: A summary of the cluster.
  returned: success
  type: dict
  contains:
    kubernetes_version:
      description: Version of the API server.
      type: str
      sample: v1.36.3
    nodes:
      description: How many nodes there are.
      type: int
      sample: 6
    gpu_nodes:
      description:
        - Names of the nodes that carry an NVIDIA GPU according to the labels of Node Feature Discovery.
        - Null if the labels of Node Feature Discovery are missing.
      type: list
      elements: str
      sample: [gpu-0000, gpu-0001]
    container_runtimes:
      description:
        - Container runtimes of the GPU nodes, each with the number of nodes.
        - While the GPU nodes are unknown, the nodes that their platform calls so are counted, or else all nodes that
          run workloads.
      type: dict
      sample: {"containerd://2.1.4": 4}
    operating_systems:
      description: Operating systems of these nodes, each with the number of nodes.
      type: dict
      sample: {"ubuntu 24.04": 4}
    kernels:
      description: Kernels of these nodes, each with the number of nodes.
      type: dict
      sample: {6.8.0-60-generic: 4}
    nfd:
      description: Namespaces in which Node Feature Discovery runs.
      type: list
      elements: str
      sample: [gpu-operator]
    platforms:
      description:
        - Platforms of the GPU nodes, each with the number of nodes. A node may be of a system and of a distribution,
          such as C(bottlerocket) and C(eks).
        - Nodes without a sign of a platform that this collection knows count as C(unknown).
      type: dict
      sample: {"amazon_linux": 4, "eks": 4}
    preset:
      description:
        - Preset of the role P(gpuops.nvidia.operator#role) that fits all these nodes, or null if none is known to fit.
      type: str
      sample: eks_gpu_image
    cloud:
      description: Managed cloud of the nodes (C(eks), C(gke), C(aks)), or null.
      type: str
      sample: eks
    namespace:
      description: The operator's namespace, or null if it does not exist or this user may not read it.
      type: dict
      contains:
        name:
          description: Name of the namespace.
          type: str
          sample: gpu-operator
        labels:
          description: Labels of the namespace.
          type: dict
          sample: {pod-security.kubernetes.io/enforce: privileged}
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.grants import KINDS
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.checks import CHECKS, preflight
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.permissions import OPERATIONS
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

RBAC_ROLE = ArgumentSpec(
    {
        "kind": {"type": "str", "choices": list(KINDS), "required": True},
        "name": {"type": "str", "required": True},
        "namespace": {"type": "str"},
        "rules": {"type": "list", "elements": "dict", "default": []},
    }
)
SPEC = ArgumentSpec(
    {
        "namespace": {"type": "str", "default": "gpu-operator"},
        "release_name": {"type": "str", "default": "gpu-operator"},
        "operator_version": {"type": "str"},
        "values": {"type": "dict", "default": {}},
        "preset": {"type": "str"},
        "roles": RBAC_ROLE.as_list(default=[]),
        "wait_timeout": {"type": "int", "default": 0},
        "operations": {"type": "list", "elements": "str", "choices": list(OPERATIONS), "default": ["deploy", "verify"]},
        "skip": {"type": "list", "elements": "str", "choices": list(CHECKS), "default": []},
    },
).including(CONNECTION)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: preflight(Cluster(module.params), module.params),
        secrets=["values"],
        minimums={"wait_timeout": 0},
    )


if __name__ == "__main__":
    main()
