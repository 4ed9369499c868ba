# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: verification
short_description: Turn the results about a GPU stack into one list of checks
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Combines the results of M(gpuops.nvidia.gpu_stack_info), M(gpuops.nvidia.gpu_smoke_test) and
    M(gpuops.nvidia.dcgm_exporter_info) into a list of checks, two for the stack and up to three for each node.
  - P(gpuops.nvidia.junit#filter) accepts the list.
positional: smoke, dcgm, expected_gpus, min_nodes
options:
  _input:
    description: Result of M(gpuops.nvidia.gpu_stack_info).
    type: dict
    required: true
  smoke:
    description: Result of M(gpuops.nvidia.gpu_smoke_test).
    type: dict
  dcgm:
    description: Result of M(gpuops.nvidia.dcgm_exporter_info).
    type: dict
  expected_gpus:
    description:
      - Number of GPUs that a node must offer, by the node's name. A node that does not exist fails.
      - Every other node must offer all GPUs that GPU Feature Discovery counts on it.
    type: dict
    default: {}
  min_nodes:
    description: Minimum number of GPU nodes.
    type: int
    default: 1
"""

EXAMPLES = r"""
- name: Write the checks of the stack to a file that CI reads
  ansible.builtin.copy:
    content: "{{ stack | gpuops.nvidia.verification(smoke=smoke, dcgm=dcgm) | gpuops.nvidia.junit('gpu-stack') }}"
    dest: reports/gpu-stack.xml
    mode: "0644"
"""

RETURN = r"""
_value:
  description:
    - The checks. Each has C(classname) (C(stack), C(gpus), C(smoke) or C(dcgm)), C(name) (the node or the part of the
      stack), and C(failure), the reason for the failure or an empty string.
    - Checks that ran a workload also have C(skipped), C(time) and C(output).
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.names import GPU_RESOURCE
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Check = dict[str, t.Any]


def verification(
    stack: t.Any,
    smoke: Json | None = None,
    dcgm: Json | None = None,
    expected_gpus: dict[str, int] | None = None,
    min_nodes: int = 1,
) -> list[Check]:
    """Return every check with its result."""
    if not isinstance(stack, dict) or not {"nodes", "verdict"} <= stack.keys():
        raise AnsibleFilterError("gpuops.nvidia.verification needs the result of gpuops.nvidia.gpu_stack_info.")
    smoke, dcgm = smoke or {}, dcgm or {}
    return [
        {"classname": "stack", "name": "operands", "failure": _operands(stack["verdict"])},
        {"classname": "stack", "name": "nodes", "failure": _count(len(stack["nodes"]), int(min_nodes))},
        *_gpus(stack["nodes"], expected_gpus or {}),
        *map(_workload, smoke.get("results") or []),
        *_without_results("smoke", "workload", smoke, "msg"),
        *map(_exporter, dcgm.get("results") or []),
        *_without_results("dcgm", "exporter", dcgm, "msg", "reason"),
    ]


def _operands(verdict: Json) -> str:
    if verdict["state"] == "ready":
        return ""
    blocking = [reason for reason in verdict["reasons"] if reason["level"] != "note"]
    sentences = [f"{reason['message']} {reason['remedy']}".strip() for reason in blocking]
    return first_few(sentences, separator=" ") or str(verdict["message"])


def _count(found: int, wanted: int) -> str:
    if found >= wanted:
        return ""
    return (
        f"The cluster has {found} GPU nodes, but at least {wanted} are expected. "
        "Check that Node Feature Discovery runs and that the nodes have joined the cluster."
    )


def _gpus(nodes: list[Json], expected: dict[str, int]) -> t.Iterator[Check]:
    by_name = {node["name"]: node for node in nodes}
    for name in sorted({*by_name, *expected}):
        node = by_name.get(name)
        failure = _allocatable(node, expected.get(name)) if node else "The node is missing, or has no GPU."
        yield {"classname": "gpus", "name": name, "failure": failure}


def _allocatable(node: Json, wanted: int | None) -> str:
    """Compare the GPUs that pods can get with the GPUs that the node should offer."""
    offered, capacity = node["allocatable"], node["capacity"]
    found, present = _whole_gpus(offered), max(node["gpus"] or 0, _whole_gpus(capacity))
    if wanted is not None:
        return "" if found == int(wanted) else f"Pods can get {found} GPUs, but {wanted} are expected."
    has_mig_devices = sum(offered.values()) > found
    if has_mig_devices or found >= present > 0:
        return ""
    return f"Pods can get {found} of {present} GPUs. See the log of the device plugin's pod on the node."


def _whole_gpus(resources: dict[str, int]) -> int:
    """Count the GPUs, or with sharing (``nvidia.com/gpu.shared``) their shares. Do not count MIG devices."""
    return sum(amount for name, amount in resources.items() if name.startswith(GPU_RESOURCE))


def _workload(row: Json) -> Check:
    reason = "" if row["passed"] else row["reason"] or "The workload did not pass."
    return {
        "classname": "smoke",
        "name": row["node"],
        "failure": "" if row["skipped"] else reason,
        "skipped": reason if row["skipped"] else "",
        "time": row["seconds"],
        "output": row["log"],
    }


def _exporter(row: Json) -> Check:
    return {"classname": "dcgm", "name": row["node"], "failure": "" if row["ok"] else row["reason"]}


def _without_results(classname: str, name: str, result: Json, *sentences: str) -> t.Iterator[Check]:
    """Yield a failed check for a test that could not start."""
    message = next((result[key] for key in sentences if result.get(key)), "")
    if message and not result.get("results"):
        yield {"classname": classname, "name": name, "failure": message}


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"verification": verification}
