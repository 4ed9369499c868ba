#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dcgm_exporter_info
short_description: Check that the DCGM exporter of every GPU node serves metrics for all its GPUs
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Fetches C(/metrics) from the DCGM exporter pod of every GPU node through the API server's port forwarding. This
    works from outside the cluster, without a Service, Prometheus, or a network path to the pods.
  - Compares the number of GPUs that the exporter reports with the number of GPUs that the node has.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - gpuops.nvidia.cluster
  - gpuops.nvidia.read_only
options:
  namespace:
    description: Namespace of the exporter's pods.
    type: str
    default: gpu-operator
  label_selector:
    description: Labels of the exporter's pods.
    type: str
    default: app=nvidia-dcgm-exporter
  port:
    description: Port of the metrics in the pods.
    type: int
    default: 9400
  nodes:
    description:
      - Names of the nodes to check.
      - The default is every node that the operator deploys the exporter to, and every other node that runs an exporter.
    type: list
    elements: str
  metrics:
    description: Names of metrics that each node must report.
    type: list
    elements: str
    default: []
  parallel:
    description: How many exporters to query at a time.
    type: int
    default: 10
  timeout:
    description: Seconds that one exporter may take to answer.
    type: int
    default: 15
notes:
  - The module needs permission to list nodes, to list pods in O(namespace), and the verbs C(get) and C(create) on
    C(pods/portforward) there.
seealso:
  - module: gpuops.nvidia.gpu_smoke_test
  - module: gpuops.nvidia.gpu_stack_info
"""

EXAMPLES = r"""
- name: Query every DCGM exporter
  gpuops.nvidia.dcgm_exporter_info:
  register: dcgm

- name: Fail unless every node reports all its GPUs and their power
  gpuops.nvidia.dcgm_exporter_info:
    metrics: [DCGM_FI_DEV_POWER_USAGE]
  register: dcgm
  failed_when: not dcgm.ok
"""

RETURN = r"""
ok:
  description: Whether every node's exporter serves the metrics of all its GPUs.
  returned: success
  type: bool
  sample: true
reason:
  description: Why RV(ok) is false, with the first five nodes that failed, or an empty string.
  returned: success
  type: str
  sample: "gpu-0001: The exporter reports 7 GPUs, but the node has 8."
results:
  description: What each node's exporter reports.
  returned: success
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node.
      type: str
      sample: gpu-0000
    ok:
      description: Whether the exporter serves the metrics of all the node's GPUs.
      type: bool
      sample: true
    reason:
      description: Why the node failed, or an empty string.
      type: str
      sample: The exporter reports 7 GPUs, but the node has 8.
    pod:
      description: Name of the exporter's pod, or null.
      type: str
      sample: nvidia-dcgm-exporter-x7b2k
    gpus:
      description: How many different GPUs the metrics name.
      type: int
      sample: 8
    expected_gpus:
      description: How many GPUs the node has according to the label of GPU Feature Discovery, or null if it has none.
      type: int
      sample: 8
    metrics:
      description: Names of the DCGM metrics.
      type: list
      elements: str
      sample: [DCGM_FI_DEV_GPU_TEMP, DCGM_FI_DEV_GPU_UTIL, DCGM_FI_DEV_POWER_USAGE]
    jobs:
      description: Jobs that a workload manager has named for the node's GPUs.
      type: list
      elements: str
      sample: ["4711"]
    job_problem:
      description: What is wrong in the files of jobs of O(gpuops.nvidia.gpu_monitoring#module:job_directory), or an
        empty string.
      type: str
      sample: The files of jobs have an empty line for GPU 0.
summary:
  description: Number of nodes that passed and failed, and number of GPUs that the exporters report.
  returned: success
  type: dict
  sample: {nodes: 4, ok: 4, failed: 0, gpus: 32}
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.metrics import exporter_info
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "namespace": {"type": "str", "default": "gpu-operator"},
        "label_selector": {"type": "str", "default": "app=nvidia-dcgm-exporter"},
        "port": {"type": "int", "default": 9400},
        "nodes": {"type": "list", "elements": "str"},
        "metrics": {"type": "list", "elements": "str", "default": []},
        "parallel": {"type": "int", "default": 10},
        "timeout": {"type": "int", "default": 15},
    },
).including(CONNECTION)


def main() -> t.NoReturn:
    run(SPEC, lambda module: exporter_info(Cluster(module.params), module.params))


if __name__ == "__main__":
    main()
