# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ResourceSlices of a node, written as the library of DRA drivers writes them.

The names, the owner and the rules for the generation are those of ``resourceslicecontroller.go`` of
k8s.io/dynamic-resource-allocation v0.36: a change that takes one request keeps the generation.
"""

from __future__ import annotations

import typing as t

from lab.cluster.api import Api, Json
from lab.cluster.nodes.agents.dra.devices import Slice

GROUP = "/apis/resource.k8s.io/v1"
SLICES = f"{GROUP}/resourceslices"
INCOMPLETE, STALE = "incomplete", "stale"
"""The faults: a slice is missing, or a slice of an older generation is left."""


class SliceWriter:
    """Writes the slices of nodes."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def publish(self, node: Json, driver: str, present: list[Json], wanted: list[Slice], fault: str = "") -> None:
        """Make the slices of a driver on a node what is wanted. ``present`` are those that it has."""
        generation = max((_generation(item) for item in present), default=0)
        known, obsolete = _matched(present, generation, len(wanted))
        missing = 1 if fault == INCOMPLETE else 0
        pool = {"name": node["metadata"]["name"], "resourceSliceCount": len(wanted) + missing}
        specs = [{"driver": driver, "nodeName": node["metadata"]["name"], "pool": pool, **item} for item in wanted]
        changed = [index for index, item in known.items() if _differs(item, specs[index], generation)]
        keeps = len(known) == len(wanted) and len(changed) <= 1
        new = generation if keeps else generation + 1
        for item in obsolete:
            if fault != STALE:
                self._api.delete(f"{SLICES}/{item['metadata']['name']}")
        for index, spec in enumerate(specs):
            spec["pool"] = {**pool, "generation": new}
            if index not in known:
                self._api.create(SLICES, self._slice(node, driver, index, spec))
            elif index in changed or not keeps:
                metadata = known[index]["metadata"]
                body = {**known[index], "spec": spec, "metadata": metadata}
                self._api.request("PUT", f"{SLICES}/{metadata['name']}", body)
        if fault == STALE and not obsolete:
            old = {**specs[0], "pool": {**pool, "generation": new - 1}}
            self._api.create(SLICES, self._slice(node, driver, 0, old))

    def _slice(self, node: Json, driver: str, index: int, spec: Json) -> Json:
        name, uid = node["metadata"]["name"], node["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid, "controller": True}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"generateName": f"{index:05x}-{driver}-{name}-", "ownerReferences": [owner]},
            "spec": spec,
        }

    def remove(self, present: t.Iterable[Json]) -> None:
        """Remove the slices of a driver that has been away for long, as a kubelet does."""
        for item in present:
            self._api.delete(f"{SLICES}/{item['metadata']['name']}")


def _generation(item: Json) -> int:
    return int(item["spec"]["pool"].get("generation", 0))


def _matched(present: list[Json], generation: int, count: int) -> tuple[dict[int, Json], list[Json]]:
    """Return the slices of the newest generation by their index, which their names begin with, and all others."""
    known: dict[int, Json] = {}
    obsolete = []
    for item in present:
        index = int(item["metadata"]["name"].split("-")[0], 16)
        if _generation(item) < generation or index >= count or index in known:
            obsolete.append(item)
        else:
            known[index] = item
    return known, obsolete


def _differs(item: Json, wanted: Json, generation: int) -> bool:
    spec = item["spec"]
    pool = {**wanted["pool"], "generation": generation}
    same = {**pool} == {"generation": 0, **spec["pool"]}
    return not same or any(spec.get(key) != wanted.get(key) for key in ("devices", "sharedCounters"))
