# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evictions from a node as kubectl's drain helper makes them, with its rules and its words."""

from __future__ import annotations

import math
import threading
import time
import typing as t

from lab.cluster.api import Api, ApiError, Json
from lab.cluster.operator.standin.images import ReconcileError

BARE = "Pods that declare no controller (use --force to override)"
KEEPS_DATA = "Pods with local storage (use --delete-emptydir-data to override)"
RETRY_S = 0.2
"""The helper asks again after 5 seconds."""


class EvictionError(Exception):
    """Pods that cannot be evicted, in the helper's words."""


class StoppedError(ReconcileError):
    """The operator has ended in the middle of its work."""


def of_daemonset(pod: Json) -> bool:
    """Return whether a DaemonSet controls a pod. The helper passes over such pods."""
    owners = pod["metadata"].get("ownerReferences") or []
    return any(owner["kind"] == "DaemonSet" and owner.get("controller") for owner in owners)


def alive(pod: Json) -> bool:
    """Return whether a pod runs, or may run."""
    return pod["status"].get("phase") in ("Running", "Pending")


def obstacles(pods: t.Iterable[Json], rules: Json) -> list[str]:
    """Return why the rules of an upgrade policy forbid an eviction: one line for each reason."""
    named: dict[str, list[str]] = {}
    for pod in pods:
        for reason in _reasons(pod, rules):
            named.setdefault(reason, []).append(_name(pod))
    return [f"cannot delete {reason}: {', '.join(names)}" for reason, names in named.items()]


def undeletable(pod: Json, rules: Json) -> bool:
    """Return whether the rules forbid the eviction of a pod."""
    return bool(_reasons(pod, rules))


def _reasons(pod: Json, rules: Json) -> list[str]:
    bare = not any(owner.get("controller") for owner in pod["metadata"].get("ownerReferences") or [])
    keeps_data = any("emptyDir" in volume for volume in pod["spec"].get("volumes") or [])
    running = pod["status"].get("phase") not in ("Succeeded", "Failed")
    found = [KEEPS_DATA] if keeps_data and running and not rules.get("deleteEmptyDir") else []
    return found + ([BARE] if bare and running and not rules.get("force") else [])


def _name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def claims_gpu(api: Api, pod: Json, *, admin: bool = False) -> bool:
    """Return whether a pod has a GPU by a claim. One for administration takes no GPU, and counts only if ``admin``."""
    names = {item["name"]: item.get("resourceClaimName") for item in pod["status"].get("resourceClaimStatuses") or []}
    for item in pod["spec"].get("resourceClaims") or []:
        name = item.get("resourceClaimName") or names.get(item["name"])
        path = f"/apis/resource.k8s.io/v1/namespaces/{pod['metadata']['namespace']}/resourceclaims/{name}"
        claim = (api.get(path) if name else None) or {}
        devices = ((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}
        results = devices.get("results") or []
        if any(item["driver"] == "gpu.nvidia.com" and (admin or not item.get("adminAccess")) for item in results):
            return True
    return False


def evict(api: Api, pods: list[Json], timeout_s: float, stopped: threading.Event) -> None:
    """Evict pods and wait until they are gone. Raise after the timeout, if there is one."""
    deadline = time.monotonic() + (timeout_s or math.inf)
    left = {_path(pod): pod for pod in pods}
    refused: set[str] = set()
    while left:
        for path, pod in list(left.items()):
            present = api.get(path)
            if present is None or present["metadata"]["uid"] != pod["metadata"]["uid"]:
                del left[path]
            elif not present["metadata"].get("deletionTimestamp"):
                refused = _try(api, path, present, refused)
        if left and time.monotonic() >= deadline:
            raise EvictionError(_joined([_too_late(pod, path in refused, timeout_s) for path, pod in left.items()]))
        if left and stopped.wait(RETRY_S):
            raise StoppedError("the operator has ended")


def _path(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _try(api: Api, path: str, pod: Json, refused: set[str]) -> set[str]:
    """Ask for an eviction, and return the pods whose disruption budgets have refused it."""
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace")}
    try:
        api.create(f"{path}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})
    except ApiError as error:
        if error.status == 429:
            return refused | {path}
        if error.status != 404:
            names = f'error when evicting pods/"{pod["metadata"]["name"]}" -n "{pod["metadata"]["namespace"]}"'
            raise EvictionError(f"{names}: {error}") from error
    return refused - {path}


def _too_late(pod: Json, refused: bool, timeout_s: float) -> str:
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    if refused:
        return f'error when evicting pods/"{name}" -n "{namespace}": global timeout reached: {_duration(timeout_s)}'
    waiting = f'error when waiting for pod "{name}" in namespace "{namespace}" to terminate'
    return f"{waiting}: global timeout reached: {_duration(timeout_s)}"


def _duration(seconds: float) -> str:
    """Return a duration as Go prints it."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _joined(errors: list[str]) -> str:
    """Return several errors as Kubernetes joins them."""
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
