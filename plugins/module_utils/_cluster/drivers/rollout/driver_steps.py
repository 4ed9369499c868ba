# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What follows from one look at a node in its upgrade: it is done, it has failed and why, or it waits.

This file is pure. All times are on the API server's clock, which stands still while nobody answers.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_node import DriverNode
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import driver_annotations
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line

Kind = t.Literal["wait", "done", "failed"]


@dataclasses.dataclass(frozen=True)
class DriverTrack:
    """What this run knows about a node: since when it is in its upgrade, and when anything about it last changed."""

    begun: float
    moved: float
    marks: tuple[t.Any, ...] = ()
    troubled: float | None = None
    """Since when its driver pod has a trouble."""


@dataclasses.dataclass(frozen=True)
class StepVerdict:
    """What a look at a node means."""

    kind: Kind
    waits_for: str = ""
    reason: str = ""


def follow(track: DriverTrack, sight: DriverNode, now: float) -> DriverTrack:
    """Return the track after a look. A driver that is being built counts as a change."""
    pod = sight.pod if sight.is_current else None
    is_troubled = bool(pod and pod.waiting)
    troubled = (track.troubled if track.troubled is not None else now) if is_troubled else None
    moved = now if sight.marks != track.marks or sight.is_building(now) else track.moved
    return dataclasses.replace(track, moved=moved, marks=sight.marks, troubled=troubled)


def decide(sight: DriverNode, track: DriverTrack, timeout_s: float, now: float, detail: str = "") -> StepVerdict:
    """Return the verdict on a node in its upgrade. ``detail`` is what stands in the way, if that has been read."""
    waits_for = sight.waits_for(now)
    if not waits_for:
        return StepVerdict("done")
    waits_for += f": {detail}" if detail else ""
    reason = _failure(sight, track, now) or _stalled(track, timeout_s, now, waits_for)
    return StepVerdict("failed", waits_for, reason) if reason else StepVerdict("wait", waits_for)


def _failure(sight: DriverNode, track: DriverTrack, now: float) -> str:
    """Return why the node has failed for good, or an empty string."""
    if sight.state == names.UPGRADE_FAILED:
        return "The operator gave its upgrade up."
    if sight.state == names.UPGRADE_PODS and not sight.driver.deletion.is_given:
        return (
            "The upgrade policy has no podDeletion, so the operator waits without end. Set upgrade_policy.pod_deletion "
            "(an empty block will do)."
        )
    pod = sight.pod if sight.is_current else None
    if pod and track.troubled is not None and pod.is_hopeless(now - track.troubled):
        return f"Its new driver does not start. It waits for {one_line(pod.trouble(now))}."
    return ""


def _stalled(track: DriverTrack, timeout_s: float, now: float, waits_for: str) -> str:
    still_s = now - track.moved
    return f"It made no progress for {int(still_s)} s. It waited for {waits_for}." if still_s >= timeout_s else ""


OF_A_USER = f"The label {names.UPGRADE_SKIP}, which somebody else has set, keeps it from upgrades."


def why_left_out(sight: DriverNode, is_proved: bool) -> str:
    """Return why a rollout leaves a node out from the beginning, or an empty string."""
    if driver_annotations.is_of_a_user(sight.node) and not is_proved and not sight.is_begun:
        return OF_A_USER
    taints = sight.driver.kept_away_by(sight.node)
    if sight.pod is None and nodes.is_ready(sight.node) and taints:
        return f"The taint {first_few(taints)} keeps the driver's pod away from it."
    return ""


def illness(sight: DriverNode, now: float) -> str:
    """Return what an upgraded node lacks again, or an empty string if it is well."""
    return next(iter(sight.lacks(now)), "")


def is_kept_back(sight: DriverNode, starts: bool) -> bool:
    """Return whether a node must be kept back now, or, without the operator's upgrades, freed from our label."""
    if not sight.driver.automatic:
        return starts and sight.note is not None
    return sight.state != names.UPGRADE_FAILED and (starts or not nodes.skips_upgrades(sight.node))
