# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every controller writes: objects that are to be there, and what it thinks of its custom resource."""

from __future__ import annotations

import typing as t

from lab.cluster.api import Api, Json, now
from lab.cluster.operator.standin.render import HASH

Conditions = t.Mapping[str, tuple[str, str, str]]
"""Status, reason and message of each type."""


def ready(reason: str, message: str) -> Conditions:
    """The conditions of a resource that is well."""
    return {"Ready": ("True", reason, message), "Error": ("False", "Ready", "")}


def failing(reason: str, message: str) -> Conditions:
    """The conditions of a resource that is not; what is the matter stands in Error alone."""
    return {"Ready": ("False", "Error", ""), "Error": ("True", reason, message)}


def condition(kind: str, values: tuple[str, str, str], before: Json | None) -> Json:
    """A condition whose time moves only when its status does."""
    status, reason, message = values
    since = before["lastTransitionTime"] if before and before["status"] == status else now()
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def report(api: Api, path: str, status: Json, conditions: Conditions, *, at_once: bool = False) -> None:
    """Write the state first and the conditions second, as two requests unless ``at_once``; nothing where nothing changed."""
    faults = api.get("/api/v1/namespaces/kube-system/configmaps/lab-faults") or {}
    if (faults.get("data") or {}).get("stale-status") == "true":
        return
    present = (api.get(path) or {}).get("status") or {}
    if present.get("state") != status["state"] and not at_once:
        api.merge(f"{path}/status", {"status": status})
    before = {item["type"]: item for item in present.get("conditions") or []}
    after = [condition(kind, values, before.get(kind)) for kind, values in conditions.items()]
    if after != [before.get(kind) for kind in conditions] or (at_once and present.get("state") != status["state"]):
        api.merge(f"{path}/status", {"status": {**status, "conditions": after}})


def ensure(api: Api, path: str, name: str, wanted: Json | None) -> None:
    """Create what is missing, remove what is not wanted; leave alone what is there."""
    present = api.get(f"{path}/{name}")
    if wanted is None:
        if present is not None:
            api.delete(f"{path}/{name}")
    elif present is None:
        api.create(path, wanted)


def put(api: Api, path: str, wanted: Json) -> tuple[Json, bool]:
    """Create a DaemonSet, or replace one of another hash; the DaemonSet as it is now, and whether it was there."""
    name = wanted["metadata"]["name"]
    present = api.get(f"{path}/{name}")
    if present is None:
        return api.create(path, wanted), False
    if (present["metadata"].get("annotations") or {}).get(HASH) != wanted["metadata"]["annotations"][HASH]:
        present = api.request("PUT", f"{path}/{name}", wanted)
    return present, True


def owned(item: Json, owner: Json) -> bool:
    """Whether a thing belongs to another."""
    return any(
        reference["uid"] == owner["metadata"]["uid"] for reference in item["metadata"].get("ownerReferences") or []
    )
