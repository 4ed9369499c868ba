#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_stack_info
short_description: Show every GPU node with what it has, what is allocated, and whether the stack on it is ready
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - One pass of a handful of LIST requests for the whole fleet, whatever its size.
attributes:
  check_mode:
    description: Can run in check mode and return what a run would change.
    support: full
    details: Changes nothing in any mode.
  diff_mode:
    description: Returns a before and after when in diff mode.
    support: none
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
options:
  name:
    description: Name of the ClusterPolicy.
    type: str
    default: cluster-policy
  namespace:
    description: Namespace of the operator, where the operands run.
    type: str
    default: gpu-operator
  allocated:
    description:
      - Also count the GPUs that pods hold. This reads the pods outside the operator's namespace, which takes a while in a
        cluster with many of them.
    type: bool
    default: true
seealso:
  - module: gpuops.nvidia.clusterpolicy_info
  - plugin: gpuops.nvidia.gpu_table
    plugin_type: filter
requirements:
  - kubernetes >= 29.0.0
"""

EXAMPLES = r"""
- name: Read the fleet
  gpuops.nvidia.gpu_stack_info:
  register: stack

- name: Show it as a table
  ansible.builtin.debug:
    msg: "{{ (stack.nodes | gpuops.nvidia.gpu_table).split('\n') }}"
"""

RETURN = r"""
nodes:
  description:
    - The GPU nodes, sorted by name.
    - C(waiting_for) maps each operand that is not fine on the node to what its pod is in, for example C(driver) to
      C(CrashLoopBackOff). A node with an empty one, C(ready) and allocatable GPUs can take work.
  returned: success
  type: list
  elements: dict
  sample:
    - name: gpu-0000
      product: NVIDIA-H100-80GB-HBM3
      gpus: 8
      memory_mib: 81559
      driver: 595.91.07
      mig: {capable: true, strategy: single, config: all-disabled, state: success}
      os: ubuntu24.04
      kernel: 6.8.0-31-generic
      runtime: containerd://2.1.4
      capacity: {"nvidia.com/gpu": 8}
      allocatable: {"nvidia.com/gpu": 8}
      allocated: {"nvidia.com/gpu": 2}
      ready: true
      cordoned: false
      taints: []
      upgrade_state: upgrade-done
      waiting_for: {}
operands:
  description: How far each operand's DaemonSet is, in numbers of nodes.
  returned: success
  type: list
  elements: dict
  sample:
    - operand: driver
      daemonset: nvidia-driver-daemonset
      state: ready
      expected: 4
      desired: 4
      updated: 4
      available: 4
      images: ["nvcr.io/nvidia/driver:595.91.07-ubuntu24.04"]
summary:
  description: Totals of the fleet. C(gpus) maps each resource name to its numbers.
  returned: success
  type: dict
  sample:
    nodes: 4
    nodes_ready: 4
    gpus:
      nvidia.com/gpu: {capacity: 32, allocatable: 32, allocated: 2}
verdict:
  description: The judge's answer.
  returned: success
  type: dict
  sample:
    state: ready
    message: "The GPU stack is ready: 4 of 4 GPU nodes have allocatable GPUs."
    reasons: []
    nodes_ready: 4
    nodes_total: 4
"""

import typing as t
from concurrent.futures import ThreadPoolExecutor

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, argument_spec, assert_libraries
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.names import UPGRADE_STATE
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.nodes import (
    format_taint,
    gpu_quantities,
    is_gpu_node,
    is_ready,
    taints_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.objects import labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.operands import operand_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pods import GpuPod, gpu_pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.judge import judge
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.observe import observe, outcome
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Observation
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

OPTIONS: dict[str, t.Any] = {
    "name": {"type": "str", "default": "cluster-policy"},
    "namespace": {"type": "str", "default": "gpu-operator"},
    "allocated": {"type": "bool", "default": True},
}


def read(options: t.Mapping[str, t.Any]) -> Json:
    """Read the fleet once and describe it."""
    cluster = Cluster(options)
    with ThreadPoolExecutor(1) as beside:
        pods = beside.submit(gpu_pods, cluster, options["namespace"]) if options["allocated"] else None
        seen = observe(cluster, options["namespace"], options["name"])
        held = allocations(pods.result()) if pods else {}
    late = waiting(seen)
    rows = (
        describe(node, held.get(name_of(node), {}), late.get(name_of(node), {}))
        for node in seen.nodes
        if is_gpu_node(node)
    )
    nodes = sorted(rows, key=lambda row: row["name"])
    return {"nodes": nodes, "summary": summary(nodes), **outcome(seen, judge(seen))}


def allocations(pods: t.Iterable[GpuPod]) -> dict[str, dict[str, int]]:
    """Add up what pods hold, by node and resource name."""
    held: dict[str, dict[str, int]] = {}
    for pod in pods:
        mine = held.setdefault(pod.node, {})
        for name, number in pod.gpus.items():
            mine[name] = mine.get(name, 0) + number
    return held


def waiting(seen: Observation) -> dict[str, dict[str, str]]:
    """Sort the operands' pods that are not fine by node: operand to status."""
    found: dict[str, dict[str, str]] = {}
    for daemonset in seen.daemonsets:
        for row in seen.troubled.get(name_of(daemonset), ()):
            found.setdefault(row.node, {})[operand_name(daemonset) or name_of(daemonset)] = row.status
    return found


def describe(node: Json, allocated: dict[str, int], waiting_for: dict[str, str]) -> Json:
    """Return one row of the fleet. What the stack has not told yet is None."""
    labels, info = labels_of(node), (node.get("status") or {}).get("nodeInfo") or {}
    nfd = "feature.node.kubernetes.io/system-os_release."
    return {
        "name": name_of(node),
        "product": labels.get("nvidia.com/gpu.product"),
        "gpus": _number(labels.get("nvidia.com/gpu.count")),
        "memory_mib": _number(labels.get("nvidia.com/gpu.memory")),
        "driver": driver_version(labels),
        "mig": {
            "capable": labels.get("nvidia.com/mig.capable") == "true",
            "strategy": labels.get("nvidia.com/mig.strategy"),
            "config": labels.get("nvidia.com/mig.config"),
            "state": labels.get("nvidia.com/mig.config.state"),
        },
        "os": labels[nfd + "ID"] + labels.get(nfd + "VERSION_ID", "") if nfd + "ID" in labels else info.get("osImage"),
        "kernel": info.get("kernelVersion"),
        "runtime": info.get("containerRuntimeVersion"),
        "capacity": gpu_quantities(node, "capacity"),
        "allocatable": gpu_quantities(node, "allocatable"),
        "allocated": allocated,
        "ready": is_ready(node),
        "cordoned": bool((node.get("spec") or {}).get("unschedulable")),
        "taints": [format_taint(taint) for taint in taints_of(node)],
        "upgrade_state": labels.get(UPGRADE_STATE),
        "waiting_for": waiting_for,
    }


def driver_version(labels: t.Mapping[str, str]) -> str | None:
    """Return the driver's version from GPU Feature Discovery's labels, new spelling first."""
    full = labels.get("nvidia.com/cuda.driver-version.full")
    if full:
        return full
    parts = [labels.get(f"nvidia.com/cuda.driver.{part}", "") for part in ("major", "minor", "rev")]
    return ".".join(part for part in parts if part) or None


def summary(nodes: list[Json]) -> Json:
    """Add up the fleet."""
    gpus: dict[str, dict[str, int]] = {}
    for node in nodes:
        for field in ("capacity", "allocatable", "allocated"):
            for name, number in node[field].items():
                totals = gpus.setdefault(name, {"capacity": 0, "allocatable": 0, "allocated": 0})
                totals[field] += number
    return {"nodes": len(nodes), "nodes_ready": sum(node["ready"] for node in nodes), "gpus": gpus}


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def main() -> t.NoReturn:
    module = AnsibleModule(argument_spec=argument_spec(**OPTIONS), supports_check_mode=True)
    assert_libraries(module)
    try:
        result = read(module.params)
    except GpuOpsError as e:
        module.fail_json(msg=e.msg, **e.details)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
