# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operator's own rules for readiness, which are weaker than a client needs: see `daemonset_ready`."""

from __future__ import annotations

import typing as t

from lab.cluster.operator.standin.operands import Json

REVISION = "controller-revision-hash"


def daemonset_ready(
    daemonset: Json, pods: t.Iterable[Json], revision: t.Callable[[], str | None], *, counts_updates: bool = True
) -> bool:
    """Judge a DaemonSet as v26.7 does. Earlier lines do not count the pods that are updated.

    A DaemonSet without pods to schedule counts as ready, even if no node admits its pods or its controller has not seen
    it yet.
    """
    status = daemonset.get("status") or {}
    desired = status.get("desiredNumberScheduled", 0)
    if desired == 0:
        return True
    if status.get("numberUnavailable", 0):
        return False
    if daemonset["spec"]["updateStrategy"]["type"] != "OnDelete":
        if not counts_updates:
            return True
        observed = status.get("observedGeneration", 0) >= daemonset["metadata"]["generation"]
        return bool(observed and status.get("updatedNumberScheduled", 0) == desired == status.get("numberAvailable", 0))
    return _all_of_revision(list(pods), revision())


def pool_ready(daemonset: Json) -> bool:
    """Judge a DaemonSet of an NVIDIADriver as v26.7 does: by counts, which may be older than its last edit."""
    status = daemonset.get("status") or {}
    desired, available, updated = (
        status.get(key, 0) for key in ("desiredNumberScheduled", "numberAvailable", "updatedNumberScheduled")
    )
    if desired:
        return bool(desired == available == updated)
    misplaced = status.get("numberMisscheduled", 0) or status.get("currentNumberScheduled", 0)
    return status.get("observedGeneration", 0) >= daemonset["metadata"]["generation"] and not misplaced


def _all_of_revision(pods: list[Json], newest: str | None) -> bool:
    return bool(pods) and all(
        in_sync(pod, newest) and pod["status"].get("phase") == "Running" and containers_ready(pod) for pod in pods
    )


def in_sync(pod: Json, revision: str | None) -> bool:
    """Return whether a pod has the newest revision."""
    return revision is not None and pod["metadata"]["labels"].get(REVISION) == revision


def containers_ready(pod: Json) -> bool:
    """Return whether every container that the kubelet reports is ready."""
    return all(status.get("ready") for status in pod["status"].get("containerStatuses") or [])


def newest_revision(revisions: t.Iterable[Json], daemonset: Json) -> str | None:
    """Return the hash of a DaemonSet's newest ControllerRevision; None if it has none."""
    uid = daemonset["metadata"]["uid"]
    owned = [
        item for item in revisions if any(owner["uid"] == uid for owner in item["metadata"].get("ownerReferences", []))
    ]
    newest = max(owned, key=lambda item: int(item["revision"]), default=None)
    return newest["metadata"]["labels"].get(REVISION) if newest else None
