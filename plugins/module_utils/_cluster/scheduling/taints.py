# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which taints the collection keeps on which nodes, and what a call changes on each node.

An annotation of the node lists the taints that we have set, so that they can be removed later, and so that a taint of
somebody else stays.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes as node_objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import annotations_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

OURS = "gpuops.nvidia/taints"
"""The annotation with the taints that we have set on a node: a JSON list of ``key=value:effect``."""

_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_RESERVED = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "gpuops.nvidia/failed.")
"""Taints that Kubernetes, a cloud's controller or node_maintenance sets and removes."""

Slot = tuple[str, str]
"""The key and the effect of a taint. A node has at most one taint for each."""
Slots = dict[Slot, str]
"""Values of taints."""


# ---- what is wanted -----------------------------------------------------------------------------------------------


def wanted_by_node(wishes: list[Json], nodes: list[Json]) -> dict[str, Slots]:
    """Return the wanted taints of each node by its name. Raises for a wish that is no taint or that finds no node."""
    wanted: dict[str, Slots] = {name_of(node): {} for node in nodes}
    for wish in wishes:
        _check(wish)
        slot, value = (wish["key"], wish["effect"]), wish.get("value") or ""
        for name in _chosen(wish, nodes):
            former = wanted[name].setdefault(slot, value)
            if former != value:
                raise GpuOpsError(
                    f"Two entries of taints give node {name} the values {former!r} and {value!r} for {_text(slot)}, "
                    "and a node can have one. Choose their nodes so that they do not overlap.",
                    reason="Invalid",
                )
    return wanted


def _check(wish: Json) -> None:
    key, value = wish["key"], wish.get("value") or ""
    if not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
        raise GpuOpsError(
            f"{key!r} with value {value!r} is no taint of Kubernetes. Write the key like a label's, such as "
            "nvidia.com/gpu, and the value with letters, digits, dashes, dots and underscores.",
            reason="Invalid",
        )
    if key.startswith(_RESERVED):
        raise GpuOpsError(
            f"The taint {key} belongs to Kubernetes or to node_maintenance, which set and remove it. Use another key.",
            reason="Invalid",
        )


def _chosen(wish: Json, nodes: list[Json]) -> list[str]:
    """Return the names of the nodes of a wish."""
    if wish.get("nodes") is not None:
        missing = sorted(set(wish["nodes"]) - set(map(name_of, nodes)))
        if missing:
            message = f"The cluster has no node {first_few(missing)}. Correct nodes of the taint {wish['key']}."
            raise GpuOpsError(message, reason="NotFound")
        return list(wish["nodes"])
    selector = node_objects.selector_of(wish["node_selector"])
    found = [name_of(node) for node in nodes if node_objects.matches(selector, node)]
    if not found:
        message = f"No node has the labels {selector}. Correct node_selector of the taint {wish['key']}."
        raise GpuOpsError(message, reason="NotFound")
    return found


# ---- what changes on a node ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class TaintChange:
    """What a call changes on one node. ``taints`` is the list that the node gets."""

    node: Json
    taints: list[Json]
    ours: frozenset[str]
    """The taints in the annotation afterwards."""
    added: list[Json]
    removed: list[Json]

    @property
    def name(self) -> str:
        """The node's name."""
        return name_of(self.node)

    @property
    def patch(self) -> Json | None:
        """The patch for the version of the node that was read, or None if there is nothing to change."""
        if not (self.added or self.removed) and self.ours == _recorded(self.node):
            return None
        metadata: Json = {"annotations": {OURS: json.dumps(sorted(self.ours)) if self.ours else None}}
        version = self.node["metadata"].get("resourceVersion")
        metadata |= {"resourceVersion": version} if version else {}
        return {"metadata": metadata, "spec": {"taints": self.taints or None}}


def change(node: Json, wanted: Slots) -> TaintChange:
    """Return what brings a node to the wanted taints. Taints of others stay, and one in the way is an error."""
    present = {(taint["key"], taint.get("effect", "")): taint for taint in taints_of(node)}
    ours = _ours(node, present)
    _refuse_foreign(node, wanted, present, ours)
    removed = [present[slot] for slot in ours if _differs(present[slot], wanted.get(slot))]
    added = as_taints({slot: value for slot, value in wanted.items() if _is_new(slot, value, present)})
    unchanged = [present[slot] for slot in ours if present[slot] not in removed]
    taints = [*(taint for taint in present.values() if taint not in removed), *added]
    return TaintChange(node, taints, frozenset(map(node_objects.format_taint, [*unchanged, *added])), added, removed)


def _ours(node: Json, present: t.Mapping[Slot, Json]) -> list[Slot]:
    recorded = _recorded(node)
    return [slot for slot, taint in present.items() if node_objects.format_taint(taint) in recorded]


def _refuse_foreign(node: Json, wanted: Slots, present: t.Mapping[Slot, Json], ours: t.Collection[Slot]) -> None:
    others = sorted(wanted.keys() & present.keys() - set(ours))
    slot = next((slot for slot in others if _differs(present[slot], wanted[slot])), None)
    if slot:
        found = node_objects.format_taint(present[slot])
        raise GpuOpsError(
            f"Node {name_of(node)} already has the taint {found}, which somebody else has set, and the value "
            f"{wanted[slot]!r} is wanted. Remove it with `kubectl taint node {name_of(node)} {_text(slot)}-`, or want "
            "its value.",
            reason="Conflict",
        )


def _differs(taint: Json, value: str | None) -> bool:
    return value is None or (taint.get("value") or "") != value


def _is_new(slot: Slot, value: str, present: t.Mapping[Slot, Json]) -> bool:
    return slot not in present or _differs(present[slot], value)


def as_taints(slots: Slots) -> list[Json]:
    """Return taints as a node lists them."""
    return [
        {"key": key, **({"value": value} if value else {}), "effect": effect}
        for (key, effect), value in sorted(slots.items())
    ]


def taints_of(node: Json) -> list[Json]:
    """Return all taints of a node, also those that keep no pod away."""
    return (node.get("spec") or {}).get("taints") or []


def _recorded(node: Json) -> frozenset[str]:
    """Return the taints that we have set. A text in our annotation that is not a list means an empty one."""
    try:
        listed = json.loads(annotations_of(node).get(OURS, "[]"))
    except ValueError:
        return frozenset()
    return frozenset(filter(lambda text: isinstance(text, str), listed)) if isinstance(listed, list) else frozenset()


def _text(slot: Slot) -> str:
    return f"{slot[0]}:{slot[1]}"
