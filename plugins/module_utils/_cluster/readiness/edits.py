# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Whether the operator has acted on the ClusterPolicy's last edit, also if that changes no image.

The operator writes no observedGeneration. When an edit changes an operand, it writes the operand's DaemonSet within
seconds, with another hash in an annotation. An edit that changes no DaemonSet (an upgrade policy) leaves no trace: for
such an edit, there is only time. This file is pure.
"""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import (
    Leader,
    Marks,
    Observation,
    Reason,
    Reasons,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

FRESH_EDIT_S = 3
"""Age of an edit before the status can refer to it. In recordings, the operator reacts within 0.3 s."""

UNSEEN_S = 60
"""When an edit that no DaemonSet shows counts as done. A new operator needs up to 17 s for the lease of one that was
killed, and then some seconds to read the cluster."""

SILENT_S = 30
"""Age of a lease that is no longer renewed: the operator does that every 2 s, perhaps with another clock."""

HASH = "nvidia.com/last-applied-hash"
LEASE = "53822513.nvidia.com"
"""The lease of the operator that acts, if there are several. Its name is in the operator's source."""


def marks(subject: Json | None, daemonsets: list[Json]) -> Marks:
    """Return what an edit of the ClusterPolicy or GPUCluster will change, from before the edit."""
    return Marks(_generation(subject or {"metadata": {}}), _hashes(daemonsets))


def _generation(subject: Json) -> int:
    return int(subject["metadata"].get("generation", 0))


def _hashes(daemonsets: list[Json]) -> dict[str, str]:
    return {objects.name_of(item): objects.annotations_of(item).get(HASH, "") for item in daemonsets}


def elects_leader(operators: list[Json]) -> bool:
    """Return whether the operator holds a lease while it acts, as it does with the chart's arguments."""
    return any(word in ("--leader-elect", "--leader-elect=true") for item in operators for word in _command(item))


def _command(deployment: Json) -> list[str]:
    containers = (deployment["spec"]["template"].get("spec") or {}).get("containers") or []
    return [word for item in containers for field in ("command", "args") for word in item.get(field) or []]


def leader(lease: Json) -> Leader | None:
    """Return since when the acting operator acts, and when it was last alive."""
    spec = lease.get("spec") or {}
    if not spec.get("renewTime"):
        return None
    return Leader(objects.timestamp(spec.get("acquireTime")), objects.timestamp(spec["renewTime"]))


def has_acted(observation: Observation) -> bool:
    """Return whether a DaemonSet shows that the operator has seen the last edit, or whether there was no edit."""
    subject, before = observation.subject or {"metadata": {}}, observation.before
    if before and before.generation == _generation(subject):
        return True
    if before and before.hashes != _hashes(observation.daemonsets):
        return True
    uid, edited = subject["metadata"].get("uid"), objects.last_write(subject)
    return any(objects.last_write(item) >= edited for item in observation.daemonsets if _is_owned(item, uid))


def _is_owned(item: Json, uid: str | None) -> bool:
    return any(owner["uid"] == uid for owner in item["metadata"].get("ownerReferences") or [])


def about_edit(observation: Observation) -> Reasons:
    """Yield that the status may still be about the spec before the last edit."""
    age_s = observation.seconds_since_edit
    if age_s < FRESH_EDIT_S:
        message = f"The {observation.kind} was changed a moment ago, so its status may still be about the old spec."
        yield Reason("progressing", "JustChanged", message)
    elif not has_acted(observation):
        yield from _about_unseen(observation, age_s)


def _about_unseen(observation: Observation, age_s: float) -> Reasons:
    acting = observation.leader
    silent_s = observation.now - acting.renewed if acting else 0.0
    if silent_s > max(age_s, SILENT_S):
        message = (
            f"The operator last renewed its lease {LEASE} {int(silent_s)} s ago, before the {observation.kind} was "
            "changed, so the change still waits for the operator."
        )
        remedy = f"See the log of the operator's pod in namespace {observation.namespace}."
        yield Reason("progressing", "OperatorSilent", message, remedy)
        return
    led_s = observation.now - acting.acquired if acting else age_s
    # An operator that took over after the edit had less time for it.
    if age_s < UNSEEN_S or (age_s < 2 * UNSEEN_S and led_s < min(age_s, UNSEEN_S)):
        message = (
            f"The {observation.kind} was changed {int(age_s)} s ago, and no DaemonSet has changed since: the operator "
            f"has not acted yet, or the change concerns no operand. It counts as done after {UNSEEN_S} s."
        )
        # A single look does not know what was before. A wait that does may have found the edit done a moment ago.
        yield Reason("progressing" if observation.waits else "note", "JustChanged", message)
