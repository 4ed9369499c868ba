# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The GPUs of the nodes that MIG can divide, as far as labels tell them. Nodes that are alike are one group. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.sight import Sight
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.parted import LayoutEntry, NodeGpu
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.table import Model
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class Host:
    """A node whose GPUs MIG can divide. ``count`` is None where no label tells how many GPUs it has."""

    name: str
    node: Json
    product: str
    model: Model | None
    count: int | None
    layout: str

    def gpus(self, entries: t.Iterable[LayoutEntry] = ()) -> tuple[NodeGpu, ...]:
        """Return its GPUs. Where their number is unknown, those that the entries name exist."""
        named = [index + 1 for entry in entries for index in entry.devices or ()]
        count = max([1, *named]) if self.count is None else self.count
        return tuple(NodeGpu(index, self.model) for index in range(count))


def host_of(node: Json) -> Host:
    """Return a node as far as its labels tell its GPUs."""
    each = Sight(node)
    return Host(each.name, node, each.product, each.model, each.counted, each.config)


def hosts(nodes: t.Iterable[Json]) -> list[Host]:
    """Return the nodes whose GPUs MIG can divide."""
    return [host_of(node) for node in nodes if Sight(node).is_capable]


def chosen(all_hosts: t.Iterable[Host], selector: t.Mapping[str, str] | None) -> list[Host]:
    """Return the nodes that a selector picks; without one, all of them."""
    return [each for each in all_hosts if matches(selector, each.node)]


def alike(some: t.Iterable[Host]) -> list[list[Host]]:
    """Return the nodes in groups of the same model and number of GPUs, so that each kind is checked once."""
    groups: dict[tuple[str, int | None], list[Host]] = {}
    for each in some:
        groups.setdefault((each.model.name if each.model else f"?{each.product}", each.count), []).append(each)
    return list(groups.values())


def models(some: t.Iterable[Host]) -> list[Model]:
    """Return the models of the nodes, by name."""
    found = {each.model.name: each.model for each in some if each.model}
    return [found[name] for name in sorted(found)]
