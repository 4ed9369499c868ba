# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which container has which GPU or MIG instance by a claim, as a kubelet tells the exporters of its node."""

from __future__ import annotations

import typing as t

from lab.cluster.api import Json
from lab.cluster.nodes.agents.dra.devices import Slice


def results_of(claim: Json) -> list[Json]:
    """Return the devices that a claim has got."""
    return claim["status"]["allocation"].get("devices", {}).get("results") or []


def held_devices(pod: Json, claims: list[Json], slices: list[Slice]) -> list[Json]:
    """Return the GPUs and MIG instances of a pod's containers. Init containers are left out, as kubelets do."""
    known = {device["name"]: device["attributes"] for item in slices for device in item.get("devices") or []}
    found = []
    for claim in claims:
        name, meta = _entry(pod, claim), claim["metadata"]
        for result in results_of(claim):
            if result["driver"] == "gpu.nvidia.com":
                told = {"claim": meta["name"], "namespace": meta["namespace"], **_told(result, known[result["device"]])}
                found += [{"container": container, **told} for container in _users(pod, name)]
    return found


def _entry(pod: Json, claim: Json) -> str:
    """Return the name that a pod has for a claim."""
    made = (pod.get("status") or {}).get("resourceClaimStatuses") or []
    names = {item.get("resourceClaimName"): item["name"] for item in (*made, *pod["spec"]["resourceClaims"])}
    return str(names[claim["metadata"]["name"]])


def _users(pod: Json, entry: str) -> t.Iterator[str]:
    for container in pod["spec"]["containers"]:
        claims = (container.get("resources") or {}).get("claims") or []
        if any(claim["name"] == entry for claim in claims):
            yield str(container["name"])


def _told(result: Json, attributes: Json) -> Json:
    found = {"device": result["device"], "pool": result["pool"], "admin": bool(result.get("adminAccess"))}
    if attributes["type"]["string"] != "mig":
        return found
    return {**found, "profile": attributes["profile"]["string"], "uuid": attributes.get("uuid", {}).get("string", "")}
