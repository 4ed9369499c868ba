# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which layout each node shall have, according to the wishes."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.layout_request import LayoutWish
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.sight import Sight
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import GPU_PRODUCT, MIG_DISABLED
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import (
    is_gpu_node,
    matches,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.own_label import LAYOUT_LABEL
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def targets(nodes: list[Json], wishes: t.Iterable[LayoutWish]) -> dict[str, str]:
    """Return the layout of each chosen node, in the order of the wishes. Raises an error if they contradict."""
    found: dict[str, str] = {}
    clashes: dict[str, str] = {}
    for wish in wishes:
        for name in _chosen(nodes, wish):
            if found.setdefault(name, wish.layout) != wish.layout:
                clashes[name] = f"{name} ({found[name]} and {wish.layout})"
    if clashes:
        raise GpuOpsError(
            f"The layouts overlap: two are asked for {first_few(list(clashes.values()))}. "
            "Change the selectors, so that each node is in one of them.",
            reason="Invalid",
        )
    return found


def of_others(nodes: list[Json], wishes: t.Iterable[LayoutWish]) -> list[str]:
    """Return the nodes that are chosen by labels and keep their layout when layouts go: somebody else has set it."""
    ends = [wish for wish in wishes if wish.is_end and wish.nodes is None]
    chosen = {name_of(node) for wish in ends for node in _matching(nodes, wish) if _is_others(node)}
    return sorted(chosen)


def _is_others(node: Json) -> bool:
    """Return whether somebody else has divided a node's GPUs by its label. One that a change holds is ours."""
    is_divided = LAYOUT_LABEL.value_of(node) not in ("", MIG_DISABLED)
    return is_divided and not LAYOUT_LABEL.is_ours(node) and not Sight(node).is_held


def _chosen(nodes: list[Json], wish: LayoutWish) -> list[str]:
    if wish.nodes is not None:
        existing = set(map(name_of, nodes))
        missing = [name for name in wish.nodes if name not in existing]
        if missing:
            message = f"The cluster has no node {first_few(missing)}. Correct the option nodes."
            raise GpuOpsError(message, reason="NotFound")
        return list(wish.nodes)
    chosen = _matching(nodes, wish)
    if wish.selector is not None and not chosen:
        message = f"No GPU node has the labels {wish.selector}. Correct the option node_selector."
        raise GpuOpsError(message, reason="NotFound")
    return [name_of(node) for node in chosen if not (wish.is_end and _is_others(node))]


def _matching(nodes: list[Json], wish: LayoutWish) -> list[Json]:
    """Return the nodes with GPUs that a wish chooses by labels, or all of them."""
    selector = wish.selector
    return [node for node in nodes if is_gpu_node(node) and (selector is None or is_chosen(selector, node))]


def is_chosen(selector: t.Mapping[str, str], node: Json) -> bool:
    """Return whether a selector chooses a node, also if its product label has got a suffix since the selector was made.

    Feature discovery appends ``-MIG-1g.10gb`` and ``-SHARED``, so a second run would otherwise find no node. A label
    that is too long then is cut off or missing.
    """
    whole = {**labels_of(node), GPU_PRODUCT: Sight(node).whole_product}
    return matches(selector, node) or matches(selector, {"metadata": {"labels": whole}})
