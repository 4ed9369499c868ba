# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which layout each node shall have, according to the options."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import GPU_PRODUCT, MIG_DISABLED
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import (
    is_gpu_node,
    matches,
    selector_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]


def targets(nodes: list[Json], options: Options) -> dict[str, str]:
    """Return the layout of each chosen node, in the order of the options. Raises an error if they contradict."""
    found: dict[str, str] = {}
    clashes: dict[str, str] = {}
    for wish in wishes(options):
        for name in _chosen(nodes, wish):
            if found.setdefault(name, wish["layout"]) != wish["layout"]:
                clashes[name] = f"{name} ({found[name]} and {wish['layout']})"
    if clashes:
        raise GpuOpsError(
            f"The layouts overlap: two are asked for {first_few(list(clashes.values()))}. "
            "Change the selectors, so that each node is in one of them.",
            reason="Invalid",
        )
    return found


def wishes(options: Options) -> list[Json]:
    """Return the options as a list of layouts, each with its nodes."""
    if options["layouts"] is not None:
        listed = [dict(wish) for wish in options["layouts"]]
    else:
        listed = [{key: options[key] for key in ("layout", "nodes", "node_selector")}]
    if options["state"] == "absent":
        if options["layout"]:
            raise GpuOpsError("state=absent takes the layout away: leave out layout.", reason="Invalid")
        return [{**wish, "layout": MIG_DISABLED} for wish in listed]
    for wish in listed:
        if not wish.get("layout"):
            raise GpuOpsError("layout is missing: name it for each selector, or set state=absent.", reason="Invalid")
        if (wish.get("nodes") is None) == (wish.get("node_selector") is None):
            message = f"Give either nodes or node_selector for the layout {wish['layout']}."
            raise GpuOpsError(message, reason="Invalid")
    return listed


def _chosen(nodes: list[Json], wish: Json) -> list[str]:
    if wish.get("nodes") is not None:
        existing = set(map(name_of, nodes))
        missing = [name for name in wish["nodes"] if name not in existing]
        if missing:
            message = f"The cluster has no node {first_few(missing)}. Correct the option nodes."
            raise GpuOpsError(message, reason="NotFound")
        return list(dict.fromkeys(wish["nodes"]))
    if wish.get("node_selector") is None:
        return [name_of(node) for node in nodes if is_gpu_node(node)]
    selector = selector_of(wish["node_selector"])
    chosen = [name_of(node) for node in nodes if is_gpu_node(node) and _is_chosen(selector, node)]
    if not chosen:
        message = f"No GPU node has the labels {selector}. Correct the option node_selector."
        raise GpuOpsError(message, reason="NotFound")
    return chosen


def _is_chosen(selector: dict[str, str], node: Json) -> bool:
    """Return whether a selector chooses a node, also if its product label has got a suffix since the selector was made.

    Feature discovery appends ``-MIG-1g.10gb`` and ``-SHARED``, so a second run would otherwise find no node.
    """
    labels = labels_of(node)
    whole = {**labels, GPU_PRODUCT: _SUFFIX.sub("", labels.get(GPU_PRODUCT, ""))}
    return matches(selector, node) or matches(selector, {"metadata": {"labels": whole}})


_SUFFIX = re.compile(r"(-MIG-[^-]+)?(-SHARED)?$")
