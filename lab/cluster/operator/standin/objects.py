# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every controller writes: the objects that it manages, and the status of its custom resource."""

from __future__ import annotations

import typing as t

from lab.cluster.api import Api, Json, now
from lab.cluster.operator.standin.render import HASH

Conditions = t.Mapping[str, tuple[str, str, str]]
"""Status, reason and message of each condition type."""


def ready(reason: str, message: str) -> Conditions:
    """Return the conditions of a healthy resource."""
    return {"Ready": ("True", reason, message), "Error": ("False", "Ready", "")}


def failing(reason: str, message: str) -> Conditions:
    """Return the conditions of an unhealthy resource. Only the condition Error names the problem."""
    return {"Ready": ("False", "Error", ""), "Error": ("True", reason, message)}


def condition(kind: str, values: tuple[str, str, str], before: Json | None) -> Json:
    """Return a condition whose transition time changes only with its status."""
    status, reason, message = values
    since = before["lastTransitionTime"] if before and before["status"] == status else now()
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def report(api: Api, path: str, status: Json, conditions: Conditions, *, at_once: bool = False) -> None:
    """Write what has changed: the state, then the conditions, in two requests unless ``at_once``."""
    if _status_is_frozen(api):
        return
    present = (api.get(path) or {}).get("status") or {}
    new_state = present.get("state") != status["state"]
    if new_state and not at_once:
        api.merge(f"{path}/status", {"status": status})
    before = {item["type"]: item for item in present.get("conditions") or []}
    after = [condition(kind, values, before.get(kind)) for kind, values in conditions.items()]
    if after != [before.get(kind) for kind in conditions] or (at_once and new_state):
        api.merge(f"{path}/status", {"status": {**status, "conditions": after}})


def _status_is_frozen(api: Api) -> bool:
    """Return whether the fault ``stale-status`` is active."""
    faults = api.get("/api/v1/namespaces/kube-system/configmaps/lab-faults") or {}
    return bool((faults.get("data") or {}).get("stale-status") == "true")


def ensure(api: Api, path: str, name: str, wanted: Json | None) -> None:
    """Create a missing object, or remove an unwanted one. Do not change an existing object."""
    present = api.get(f"{path}/{name}")
    if wanted is None:
        if present is not None:
            api.delete(f"{path}/{name}")
    elif present is None:
        api.create(path, wanted)


def put(api: Api, path: str, wanted: Json) -> tuple[Json, bool]:
    """Create a DaemonSet, or replace it if its hash differs. Return it, and whether it existed before."""
    name = wanted["metadata"]["name"]
    present = api.get(f"{path}/{name}")
    if present is None:
        return api.create(path, wanted), False
    if (present["metadata"].get("annotations") or {}).get(HASH) != wanted["metadata"]["annotations"][HASH]:
        present = api.request("PUT", f"{path}/{name}", wanted)
    return present, True


def owned(item: Json, owner: Json) -> bool:
    """Return whether an object is owned by another."""
    return any(
        reference["uid"] == owner["metadata"]["uid"] for reference in item["metadata"].get("ownerReferences") or []
    )
