# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: verification
short_description: Turn what is known about a GPU stack into one list of checks
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Puts the results of M(gpuops.nvidia.gpu_stack_info), M(gpuops.nvidia.gpu_smoke_test) and M(gpuops.nvidia.dcgm_exporter_info)
    together as a list of checks, one for the stack and up to three for each node.
  - The list is what P(gpuops.nvidia.junit#filter) takes.
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
      - How many GPUs nodes must offer, by the name of the node. A node that is missing fails.
      - Other nodes must offer what GPU Feature Discovery counts on them.
    type: dict
    default: {}
  min_nodes:
    description: How many GPU nodes there must be.
    type: int
    default: 1
"""

EXAMPLES = r"""
- name: Write what is known about the stack where CI finds it
  ansible.builtin.copy:
    content: "{{ stack | gpuops.nvidia.verification(smoke=smoke, dcgm=dcgm) | gpuops.nvidia.junit('gpu-stack') }}"
    dest: reports/gpu-stack.xml
    mode: "0644"
"""

RETURN = r"""
_value:
  description:
    - The checks. Each has C(classname) (C(stack), C(gpus), C(smoke) or C(dcgm)), C(name) (of the node, or of what was checked), and
      C(failure), the reason why it failed or an empty string.
    - C(skipped), C(time) and C(output) are there for checks that ran a workload.
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

Check = dict[str, t.Any]

_WHOLE_GPU = "nvidia.com/gpu"
"""A GPU, or with sharing (``nvidia.com/gpu.shared``) a part of its time. Everything else is a MIG device."""


def verification(
    stack: t.Any,
    smoke: dict[str, t.Any] | None = None,
    dcgm: dict[str, t.Any] | None = None,
    expected_gpus: dict[str, int] | None = None,
    min_nodes: int = 1,
) -> list[Check]:
    """Return every check with its outcome."""
    if not isinstance(stack, dict) or "nodes" not in stack or "verdict" not in stack:
        raise AnsibleFilterError("gpuops.nvidia.verification needs the result of gpuops.nvidia.gpu_stack_info.")
    expected = expected_gpus or {}
    return [
        {"classname": "stack", "name": "operands", "failure": _operands(stack["verdict"])},
        {"classname": "stack", "name": "nodes", "failure": _count(len(stack["nodes"]), int(min_nodes))},
        *_gpus(stack["nodes"], expected),
        *map(_workload, (smoke or {}).get("results") or []),
        *_without_results("smoke", "workload", smoke or {}, "msg"),
        *map(_exporter, (dcgm or {}).get("results") or []),
        *_without_results("dcgm", "exporter", dcgm or {}, "msg", "reason"),
    ]


def _operands(verdict: dict[str, t.Any]) -> str:
    if verdict["state"] == "ready":
        return ""
    blocking = [reason for reason in verdict["reasons"] if reason["level"] != "note"]
    return " ".join(f"{reason['message']} {reason['remedy']}".strip() for reason in blocking[:5]) or str(
        verdict["message"]
    )


def _count(found: int, wanted: int) -> str:
    return (
        ""
        if found >= wanted
        else f"{found} of at least {wanted} GPU nodes are there. Check Node Feature Discovery and that the nodes have joined."
    )


def _gpus(nodes: list[dict[str, t.Any]], expected: dict[str, int]) -> t.Iterator[Check]:
    by_name = {node["name"]: node for node in nodes}
    for name in sorted({*by_name, *expected}):
        failure = (
            _allocatable(by_name[name], expected.get(name))
            if name in by_name
            else "The node is missing, or has no GPU."
        )
        yield {"classname": "gpus", "name": name, "failure": failure}


def _allocatable(node: dict[str, t.Any], wanted: int | None) -> str:
    """Compare the GPUs that pods can get with those that should be there. A node cut into MIG devices must offer some."""
    offered = node["allocatable"]
    whole = {name for name in (*offered, *node["capacity"]) if name.startswith(_WHOLE_GPU)}
    found = sum(offered.get(name, 0) for name in whole)
    if wanted is not None:
        return "" if found == int(wanted) else f"Pods can get {found} GPUs, and {wanted} are expected."
    if sum(offered.values()) > found:
        return ""
    there = max(node["gpus"] or 0, sum(node["capacity"].get(name, 0) for name in whole))
    return (
        ""
        if found >= there > 0
        else f"Pods can get {found} of {there} GPUs. See the log of the device plugin's pod there."
    )


def _workload(row: dict[str, t.Any]) -> Check:
    reason = "" if row["passed"] else row["reason"] or "The workload did not pass."
    return {
        "classname": "smoke",
        "name": row["node"],
        "failure": "" if row["skipped"] else reason,
        "skipped": reason if row["skipped"] else "",
        "time": row["seconds"],
        "output": row["log"],
    }


def _exporter(row: dict[str, t.Any]) -> Check:
    return {"classname": "dcgm", "name": row["node"], "failure": "" if row["ok"] else row["reason"]}


def _without_results(classname: str, name: str, result: dict[str, t.Any], *sentences: str) -> t.Iterator[Check]:
    """A test that could not begin has failed too."""
    said = next((result[key] for key in sentences if result.get(key)), "")
    if said and not result.get("results"):
        yield {"classname": classname, "name": name, "failure": said}


class FilterModule:
    """The filter that this file brings."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"verification": verification}
