# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: gpu_table
short_description: Show the GPU nodes of a fleet as a table for a terminal
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Lays out the nodes that M(gpuops.nvidia.gpu_stack_info) returns, one line each, with a line of totals below.
positional: limit
options:
  _input:
    description: RV(gpuops.nvidia.gpu_stack_info#module:nodes).
    type: list
    elements: dict
    required: true
  limit:
    description:
      - Show at most so many nodes, those that are not well first. The totals count all of them.
      - With V(0) all are shown.
    type: int
    default: 0
seealso:
  - module: gpuops.nvidia.gpu_stack_info
"""

EXAMPLES = r"""
- name: Look at the fleet
  gpuops.nvidia.gpu_stack_info:
  register: stack

- name: Show it
  ansible.builtin.debug:
    msg: "{{ (stack.nodes | gpuops.nvidia.gpu_table).splitlines() }}"
# NODE      PRODUCT                DRIVER     MIG  IN USE  STATE
# gpu-0000  NVIDIA-H100-80GB-HBM3  595.91.07  -       2/8  Ready
# gpu-0001  NVIDIA-H100-80GB-HBM3  595.91.07  -       0/8  cordoned
# 2 nodes, 2 of 16 nvidia.com/gpu in use
"""

RETURN = r"""
_value:
  description: The table, with a line break after each line.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError

Node = dict[str, t.Any]

_TITLES = ("NODE", "PRODUCT", "DRIVER", "MIG", "IN USE", "STATE")
_RIGHT = frozenset({"IN USE"})
_WELL = "Ready"


def gpu_table(nodes: t.Any, limit: int = 0) -> str:
    """Lay out the nodes as a table with totals."""
    if not isinstance(nodes, list) or not all(isinstance(node, dict) and node.get("name") for node in nodes):
        raise AnsibleFilterError("gpuops.nvidia.gpu_table needs the list of nodes that gpu_stack_info returns.")
    if not nodes:
        return "There are no GPU nodes.\n"
    shown = sorted(nodes, key=lambda node: _state(node) == _WELL)[:limit] if limit and limit < len(nodes) else nodes
    rows = [_TITLES, *(_cells(node) for node in shown)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES))]
    lines = [
        "  ".join(_padded(cell, title, width) for cell, title, width in zip(row, _TITLES, widths)).rstrip()
        for row in rows
    ]
    if len(shown) < len(nodes):
        lines.append(f"... and {len(nodes) - len(shown)} more")
    return "\n".join([*lines, _totals(nodes)]) + "\n"


def _cells(node: Node) -> tuple[str, ...]:
    return node["name"], node.get("product") or "-", node.get("driver") or "-", _mig(node), _in_use(node), _state(node)


def _padded(cell: str, title: str, width: int) -> str:
    return cell.rjust(width) if title in _RIGHT else cell.ljust(width)


def _mig(node: Node) -> str:
    mig = node.get("mig") or {}
    if not mig.get("capable") or mig.get("config") in (None, "", "all-disabled"):
        return "-"
    return f"{mig['config']}" if mig.get("state") == "success" else f"{mig['config']} ({mig.get('state') or 'unknown'})"


def _short(resource: str) -> str:
    return resource.removeprefix("nvidia.com/")


def _in_use(node: Node) -> str:
    allocatable, allocated = node.get("allocatable") or {}, node.get("allocated") or {}
    used = {resource: f"{allocated.get(resource, 0)}/{amount}" for resource, amount in sorted(allocatable.items())}
    if list(used) in ([], ["nvidia.com/gpu"]):
        return used.get("nvidia.com/gpu", "0/0")
    return " ".join(f"{_short(resource)} {text}" for resource, text in used.items() if not text.endswith("/0")) or "0/0"


def _state(node: Node) -> str:
    states = []
    if not node.get("ready", True):
        states.append("NotReady")
    if node.get("cordoned"):
        states.append("cordoned")
    if node.get("upgrade_state") not in (None, "", "upgrade-done"):
        states.append(str(node["upgrade_state"]))
    states += [f"{operand} {status}" for operand, status in sorted((node.get("waiting_for") or {}).items())]
    if not any((node.get("allocatable") or {}).values()):
        states.append("no GPU")
    return ", ".join(states) or _WELL


def _totals(nodes: list[Node]) -> str:
    resources = sorted(
        {resource for node in nodes for resource, amount in (node.get("allocatable") or {}).items() if amount}
    )
    counts = [
        f"{_sum(nodes, 'allocated', resource)} of {_sum(nodes, 'allocatable', resource)} {resource} in use"
        for resource in resources
    ]
    return ", ".join([f"{len(nodes)} node{'s' if len(nodes) > 1 else ''}", *counts])


def _sum(nodes: list[Node], field: str, resource: str) -> int:
    return sum(int((node.get(field) or {}).get(resource, 0)) for node in nodes)


class FilterModule:
    """The filter that this file brings."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"gpu_table": gpu_table}
