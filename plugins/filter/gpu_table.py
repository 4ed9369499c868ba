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
  - Shows the nodes that M(gpuops.nvidia.gpu_stack_info) returns, one line for each, and a line of totals.
positional: limit
options:
  _input:
    description: RV(gpuops.nvidia.gpu_stack_info#module:nodes).
    type: list
    elements: dict
    required: true
  limit:
    description:
      - Maximum number of nodes to show, nodes with problems first. The totals count all nodes.
      - V(0) shows all nodes.
    type: int
    default: 0
seealso:
  - module: gpuops.nvidia.gpu_stack_info
"""

EXAMPLES = r"""
- name: Read the fleet
  gpuops.nvidia.gpu_stack_info:
  register: stack

- name: Show the table
  ansible.builtin.debug:
    msg: "{{ (stack.nodes | gpuops.nvidia.gpu_table).splitlines() }}"
# NODE      PRODUCT                DRIVER     MIG  IN USE  STATE
# gpu-0000  NVIDIA-H100-80GB-HBM3  595.91.07  -       2/8  Ready
# gpu-0001  NVIDIA-H100-80GB-HBM3  595.91.07  -       0/8  cordoned
# 2 nodes, 2 of 16 nvidia.com/gpu in use
"""

RETURN = r"""
_value:
  description: The table, with a line break at the end of each line.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.names import GPU_RESOURCE, UPGRADE_FINISHED
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_TITLES = ("NODE", "PRODUCT", "DRIVER", "MIG", "IN USE", "STATE")
_RIGHT_ALIGNED = frozenset({"IN USE"})
_HEALTHY = "Ready"


def gpu_table(nodes: t.Any, limit: int = 0) -> str:
    """Lay out the nodes as a table with totals."""
    if not isinstance(nodes, list) or not all(map(_is_node, nodes)):
        raise AnsibleFilterError("gpuops.nvidia.gpu_table needs the list of nodes that gpu_stack_info returns.")
    if not nodes:
        return "There are no GPU nodes.\n"
    shown = sorted(nodes, key=lambda node: _state(node) == _HEALTHY)[:limit] if 0 < limit < len(nodes) else nodes
    lines = _aligned([_TITLES, *map(_cells, shown)])
    if len(shown) < len(nodes):
        lines.append(f"... and {len(nodes) - len(shown)} more")
    return "\n".join([*lines, _totals(nodes)]) + "\n"


def _is_node(node: t.Any) -> bool:
    return isinstance(node, dict) and bool(node.get("name"))


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Return the rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(map(_padded, row, _TITLES, widths)).rstrip() for row in rows]


def _cells(node: Json) -> tuple[str, ...]:
    return node["name"], node.get("product") or "-", node.get("driver") or "-", _mig(node), _in_use(node), _state(node)


def _padded(cell: str, title: str, width: int) -> str:
    return cell.rjust(width) if title in _RIGHT_ALIGNED else cell.ljust(width)


def _mig(node: Json) -> str:
    mig = node.get("mig") or {}
    config = mig.get("config")
    if not mig.get("capable") or config in (None, "", "all-disabled"):
        return "-"
    return str(config) if mig.get("state") == "success" else f"{config} ({mig.get('state') or 'unknown'})"


def _in_use(node: Json) -> str:
    allocatable, allocated = node.get("allocatable") or {}, node.get("allocated") or {}
    if allocatable.keys() == {GPU_RESOURCE}:
        return f"{allocated.get(GPU_RESOURCE, 0)}/{allocatable[GPU_RESOURCE]}"
    cells = [
        f"{resource.removeprefix('nvidia.com/')} {allocated.get(resource, 0)}/{amount}"
        for resource, amount in sorted(allocatable.items())
        if amount
    ]
    return " ".join(cells) or "0/0"


def _state(node: Json) -> str:
    upgrade = node.get("upgrade_state") or ""
    waiting_for = node.get("waiting_for") or {}
    allocatable = node.get("allocatable") or {}
    states = [
        *(["NotReady"] if not node.get("ready", True) else []),
        *(["cordoned"] if node.get("cordoned") else []),
        *([upgrade] if upgrade not in UPGRADE_FINISHED else []),
        *(f"{operand} {status}" for operand, status in sorted(waiting_for.items())),
        *(["no GPU"] if not any(allocatable.values()) else []),
    ]
    return ", ".join(states) or _HEALTHY


def _totals(nodes: list[Json]) -> str:
    offered = [node.get("allocatable") or {} for node in nodes]
    resources = sorted({resource for amounts in offered for resource, amount in amounts.items() if amount})
    counts = [
        f"{_sum(nodes, 'allocated', resource)} of {_sum(nodes, 'allocatable', resource)} {resource} in use"
        for resource in resources
    ]
    return ", ".join([f"{len(nodes)} node{'s' if len(nodes) > 1 else ''}", *counts])


def _sum(nodes: list[Json], field: str, resource: str) -> int:
    return sum(int((node.get(field) or {}).get(resource, 0)) for node in nodes)


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"gpu_table": gpu_table}
