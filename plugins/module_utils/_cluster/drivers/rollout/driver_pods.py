# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a rollout keeps of a pod of the driver or of the validator: about a hundredth of it."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import rollouts, troubles
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import (
    labels_of,
    name_of,
    timestamp,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.operands import DRIVER
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

PROBE_PERIOD_S, PROBE_FAILURES = 10, 3
"""What Kubernetes takes for fields that a probe does not have."""

CRASH_LOOP = "CrashLoopBackOff"


@dataclasses.dataclass(frozen=True)
class PodView:
    """One pod."""

    name: str
    uid: str
    node: str
    owner: str = ""
    """The DaemonSet of the pod, or an empty string for a pod that its DaemonSet has left behind."""
    revision: str = ""
    created: float = 0.0
    is_ready: bool = False
    """Whether it runs with all its containers ready, as the operator asks for."""
    is_ending: bool = False
    restarts: int = 0
    waiting: str = ""
    """Why its first waiting container does not run, in the kubelet's word."""
    message: str = ""
    cause: str = ""
    """What holds it up, for people."""
    builds: tuple[float, float] = (0.0, 0.0)
    """Since when a driver is being built, and until when its startup probe allows that. Only for the first try."""

    def is_building(self, now: float) -> bool:
        """Return whether the driver is being built, within the time that its startup probe allows."""
        return self.builds[0] > 0 and now < self.builds[1]

    def is_hopeless(self, lasts_s: float) -> bool:
        """Return whether the pod needs manual intervention. ``lasts_s`` is how long it has had its trouble."""
        if self.waiting == CRASH_LOOP:
            return self.restarts >= rollouts.CRASHES and lasts_s >= pods.HEALS_S
        return bool(self.waiting) and pods.never_starts(self.waiting, self.message, lasts_s)

    def trouble(self, now: float) -> str:
        """Return what the pod waits for, for people."""
        if self.is_ending:
            return f"pod {self.name} to end"
        if self.is_building(now):
            seconds = int(now - self.builds[0])
            return f"pod {self.name}, which builds its driver (for {seconds // 60:02}:{seconds % 60:02})"
        why = self.cause or self.waiting
        return f"pod {self.name} to be ready" + (f" ({why})" if why else "")


def view(pod: Json) -> PodView:
    """Return what is kept of a pod."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    own = status.get("containerStatuses") or []
    every = [*(status.get("initContainerStatuses") or []), *own]
    waits = [found for item in every if (found := (item.get("state") or {}).get("waiting"))]
    waiting: Json = next((item for item in waits if item.get("reason") not in (None, "PodInitializing")), {})
    is_ready = status.get("phase") == "Running" and bool(own) and all(item.get("ready") for item in own)
    return PodView(
        name=name_of(pod),
        uid=str(metadata.get("uid") or ""),
        node=pod["spec"].get("nodeName") or "",
        owner=_owner(metadata),
        revision=labels_of(pod).get(troubles.REVISION, ""),
        created=timestamp(metadata.get("creationTimestamp")),
        is_ready=is_ready,
        is_ending=bool(metadata.get("deletionTimestamp")),
        restarts=max([int(item.get("restartCount") or 0) for item in every], default=0),
        waiting=str(waiting.get("reason") or ""),
        message=one_line(waiting.get("message") or ""),
        cause="" if is_ready else troubles.held_up_by(pod),
        builds=_builds(pod, own),
    )


def _owner(metadata: Json) -> str:
    owners = metadata.get("ownerReferences") or []
    return next((str(owner["name"]) for owner in owners if owner.get("kind") == "DaemonSet"), "")


def _builds(pod: Json, statuses: t.Iterable[Json]) -> tuple[float, float]:
    """Return the beginning and the latest end of the build of a driver, or zeros.

    The driver's container builds the driver when it starts, and its startup probe fails until then. When that has taken
    too long, the kubelet starts it again, and nothing says that another try goes better.
    """
    status: Json = next((item for item in statuses if item["name"] == DRIVER.container), {})
    running = (status.get("state") or {}).get("running") or {}
    spec: Json = next((item for item in pod["spec"]["containers"] if item["name"] == DRIVER.container), {})
    probe = spec.get("startupProbe")
    if not running.get("startedAt") or not probe or status.get("ready") or status.get("restartCount"):
        return 0.0, 0.0
    period_s, failures = probe.get("periodSeconds") or PROBE_PERIOD_S, probe.get("failureThreshold") or PROBE_FAILURES
    since = timestamp(running["startedAt"])
    return since, since + (probe.get("initialDelaySeconds") or 0) + period_s * failures
