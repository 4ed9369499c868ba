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
  - The column IN USE has, for each resource, how many devices pods hold and how many they can get together. If nobody
    has counted what pods hold, the column is called OFFERS and has what they can get. Resources are named if the fleet
    has several.
  - The column STATE also says how many of the GPUs that pods hold are unhealthy.
  - The table fits a terminal of 80 columns. If it is too wide, a driver that all nodes have moves to the last line, and
    then the names of nodes get lines of their own.
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
# NODE      PRODUCT         SHARING                    IN USE  STATE
# gpu-0000  H100-80GB-HBM3  -                         gpu 2/8  Ready
# gpu-0001  H100-80GB-HBM3  all-1g.10gb      mig-1g.10gb 7/56  Ready
# t4-0000   Tesla-T4        time-slicing x4   gpu.shared 0/16  cordoned
# 3 nodes, driver 595.91.07
#   2 of 8 nvidia.com/gpu in use
#   0 of 16 nvidia.com/gpu.shared in use
#   7 of 56 nvidia.com/mig-1g.10gb in use
"""

RETURN = r"""
_value:
  description: The table, with a line break at the end of each line.
  type: str
"""

import itertools
import textwrap
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_health
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import UPGRADE_FINISHED
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.plugin_utils import _devices
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._devices import Devices

_TITLES = ("NODE", "PRODUCT", "DRIVER", "SHARING", "IN USE", "STATE")
_NODE = 0
_DRIVER = 2
_USE = 4
_OFFERS = "OFFERS"
"""The title of the numbers if nobody has counted what pods hold."""

_WIDTH = 69
"""What a terminal of 80 columns leaves to a line: Ansible puts 8 spaces, quotation marks and a comma around it."""

_STATE_WIDTH = 20

_WHOLE_WORDS: dict[str, t.Any] = {"break_long_words": False, "break_on_hyphens": False}

_HEALTHY = "Ready"
_VENDOR = "NVIDIA-"

_Cells = list[list[str]]
"""The cells of a node, each with its lines."""


def gpu_table(nodes: t.Any, limit: int = 0) -> str:
    """Lay out the nodes as a table with totals."""
    if not isinstance(nodes, list) or not all(map(_is_node, nodes)):
        raise AnsibleFilterError("gpuops.nvidia.gpu_table needs the list of nodes that gpu_stack_info returns.")
    if not nodes:
        return "There are no GPU nodes.\n"
    shown = sorted(nodes, key=lambda node: _state(node) == [_HEALTHY])[:limit] if 0 < limit < len(nodes) else nodes
    lines, everywhere = _laid_out(shown, _devices.totals(nodes))
    if len(shown) < len(nodes):
        lines.append(f"... and {len(nodes) - len(shown)} more")
    return "\n".join([*lines, *_totals(nodes, everywhere)]) + "\n"


def _is_node(node: t.Any) -> bool:
    return isinstance(node, dict) and bool(node.get("name"))


def _laid_out(nodes: list[Json], totals: list[Devices]) -> tuple[list[str], str]:
    """Return the lines of the table, and what holds for all of its nodes instead of in a column.

    Where the table is too wide, a driver that all nodes have leaves its column, and then names get lines of their own.
    """
    titles = [[_OFFERS if title == "IN USE" and not _is_counted(totals) else title] for title in _TITLES]
    rows, everywhere = [titles, *(_cells(node, len(totals) > 1) for node in nodes)], ""
    if _width(rows) > _WIDTH and len({row[_DRIVER][0] for row in rows[1:]}) == 1:
        everywhere = f"driver {rows[1][_DRIVER][0]}"
        rows = [row[:_DRIVER] + row[_DRIVER + 1 :] for row in rows]
    use = len(titles) - 2 - bool(everywhere)
    if _width(rows) <= _WIDTH:
        return [line for row in rows for line in _aligned(row, _widths(rows), use)], everywhere
    names, rest = [row[_NODE][0] for row in rows], [[[""], *row[_NODE + 1 :]] for row in rows]
    blocks = ([name, *_aligned(row, _widths(rest), use)] for name, row in zip(names, rest))
    return [line for block in blocks for line in block], everywhere


def _widths(rows: list[_Cells]) -> list[int]:
    return [max(len(line) for cell in column for line in cell) for column in zip(*rows)]


def _width(rows: list[_Cells]) -> int:
    widths = _widths(rows)
    return sum(widths) + 2 * (len(widths) - 1)


def _aligned(row: _Cells, widths: list[int], use: int) -> list[str]:
    """Return the lines of a row with aligned columns. Numbers stand on the right."""
    lines = itertools.zip_longest(*row, fillvalue="")
    return [
        "  ".join(
            cell.rjust(width) if place == use else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    ]


def _cells(node: Json, names_devices: bool) -> _Cells:
    return [
        [node["name"]],
        [(node.get("product") or "-").removeprefix(_VENDOR)],
        [node.get("driver") or "-"],
        _sharing(node),
        _in_use(node, names_devices),
        _state(node),
    ]


def _sharing(node: Json) -> list[str]:
    """Return the MIG layout, and how devices are shared."""
    shared = [part["replicas"] for part in node.get("slices") or [] if (part["replicas"] or 0) > 1]
    strategy = (node.get("sharing") or {}).get("strategy")
    how = strategy if strategy not in (None, "", "none") else "shared"
    parts = [_mig(node), f"{how} x{max(shared)}" if shared else ""]
    return list(filter(None, parts)) or ["-"]


def _mig(node: Json) -> str:
    mig = node.get("mig") or {}
    config = mig.get("config")
    if not mig.get("capable") or config in (None, "", "all-disabled"):
        return ""
    return str(config) if mig.get("state") == "success" else f"{config} ({mig.get('state') or 'unknown'})"


def _in_use(node: Json, names_devices: bool) -> list[str]:
    """Return what pods hold of what they can get, for each resource."""
    found = _devices.of_node(node)
    return [f"{each.short} {_numbers(each)}" if names_devices else _numbers(each) for each in found] or ["0"]


def _numbers(each: Devices) -> str:
    return str(each.offered) if each.held is None else f"{each.held}/{each.offered}"


def _is_counted(totals: list[Devices]) -> bool:
    return any(each.held is not None for each in totals) or not totals


def _state(node: Json) -> list[str]:
    upgrade = node.get("upgrade_state") or ""
    waiting_for = node.get("waiting_for") or {}
    states = [
        *(["NotReady"] if not node.get("ready", True) else []),
        *(["cordoned"] if node.get("cordoned") else []),
        *([upgrade] if upgrade not in UPGRADE_FINISHED else []),
        *(f"{operand} {status}" for operand, status in sorted(waiting_for.items())),
        *filter(None, [device_health.counted_sick(node)]),
        *([] if _has_gpus(node) else ["no GPU"]),
    ]
    return [line for text in states for line in textwrap.wrap(text, _STATE_WIDTH, **_WHOLE_WORDS)] or [_HEALTHY]


def _has_gpus(node: Json) -> bool:
    """Return whether pods can get GPUs, from the device plugin or by claims."""
    return bool(node.get("claimable")) or any((node.get("allocatable") or {}).values())


def _totals(nodes: list[Json], everywhere: str) -> list[str]:
    counts = [
        f"{each.offered} {each.resource}"
        if each.held is None
        else f"{each.held} of {each.offered} {each.resource} in use"
        for each in _devices.totals(nodes)
    ]
    about = ", ".join(filter(None, [f"{len(nodes)} node{'s' if len(nodes) > 1 else ''}", everywhere]))
    line = ", ".join([about, *counts])
    return [line] if len(line) <= _WIDTH else [about, *(f"  {count}" for count in counts)]


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"gpu_table": gpu_table}
