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
  - The column SHARING has the MIG layout (with its state, unless that is V(success)), and how many pods share a device.
  - MIG devices are counted by their profile, whichever resource they are requested as.
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
# NODE      PRODUCT                DRIVER     SHARING                IN USE  STATE
# gpu-0000  NVIDIA-H100-80GB-HBM3  595.91.07  -                         2/8  Ready
# gpu-0001  NVIDIA-H100-80GB-HBM3  595.91.07  all-1g.10gb      1g.10gb 7/56  Ready
# t4-0000   Tesla-T4-SHARED        595.91.07  time-slicing x4          0/16  cordoned
# 3 nodes, 2 of 24 nvidia.com/gpu in use, 7 of 56 1g.10gb in use
"""

RETURN = r"""
_value:
  description: The table, with a line break at the end of each line.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import GPU_RESOURCE, UPGRADE_FINISHED
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_TITLES = ("NODE", "PRODUCT", "DRIVER", "SHARING", "IN USE", "STATE")
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
    return (
        node["name"],
        node.get("product") or "-",
        node.get("driver") or "-",
        _sharing(node),
        _in_use(node),
        _state(node),
    )


def _padded(cell: str, title: str, width: int) -> str:
    return cell.rjust(width) if title in _RIGHT_ALIGNED else cell.ljust(width)


def _sharing(node: Json) -> str:
    """Return the MIG layout, and how devices are shared."""
    shared = [part["replicas"] for part in node.get("slices") or [] if (part["replicas"] or 0) > 1]
    strategy = (node.get("sharing") or {}).get("strategy")
    how = strategy if strategy not in (None, "", "none") else "shared"
    parts = [_mig(node), f"{how} x{max(shared)}" if shared else ""]
    return ", ".join(filter(None, parts)) or "-"


def _mig(node: Json) -> str:
    mig = node.get("mig") or {}
    config = mig.get("config")
    if not mig.get("capable") or config in (None, "", "all-disabled"):
        return ""
    return str(config) if mig.get("state") == "success" else f"{config} ({mig.get('state') or 'unknown'})"


def _in_use(node: Json) -> str:
    parts = node.get("slices") or []
    cells = [(_kind(part), f"{_held(part)}/{part['allocatable']}") for part in parts]
    if [kind for kind, dummy in cells] == [GPU_RESOURCE]:
        return cells[0][1]
    return ", ".join(f"{kind.removeprefix('nvidia.com/')} {use}" for kind, use in cells) or "0/0"


def _held(part: Json) -> str:
    """Return how many pods hold, or a dash if nobody has counted."""
    return "-" if part["allocated"] is None else str(part["allocated"])


def _kind(part: Json) -> str:
    """Return what the devices are called: their MIG profile, or the resource of whole GPUs."""
    return str(part["profile"] or part["resource"])


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
    totals: dict[str, list[int]] = {}
    parts = [part for node in nodes for part in node.get("slices") or []]
    for part in parts:
        found = totals.setdefault(_kind(part), [0, 0])
        found[0] += part["allocated"] or 0
        found[1] += part["allocatable"]
    is_counted = all(part["allocated"] is not None for part in parts)
    counts = [
        f"{held} of {offered} {kind} in use" if is_counted else f"{offered} {kind}"
        for kind, (held, offered) in sorted(totals.items(), key=_whole_first)
    ]
    return ", ".join([f"{len(nodes)} node{'s' if len(nodes) > 1 else ''}", *counts])


def _whole_first(item: tuple[str, list[int]]) -> tuple[bool, str]:
    return item[0] != GPU_RESOURCE, item[0]


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"gpu_table": gpu_table}
