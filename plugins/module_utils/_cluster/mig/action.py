# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""One look at a node during its change, and the action that follows from it."""

from __future__ import annotations

import dataclasses
import math
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.mig_plan import NodePlan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.sight import (
    GPUS_NOTE,
    PRODUCT_NOTE,
    Sight,
    resumed,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import MIG_STATE
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import annotations_of, labels_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.own_label import LAYOUT_LABEL
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Step = t.Literal["drain", "set", "reset", "watch", "prove", "restore", "done", "failed"]
Kind = t.Literal["wait", "go", "patch", "restart", "test", "restore", "fail"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the user permits, and how long to wait."""

    timeout_s: float = 600.0
    """For how long a node may make no progress."""
    repair: bool = True
    test: bool = False
    """Whether a workload shall run on the node."""
    puts_back: bool = False
    """Whether the operator sets a layout on a node whose label was removed."""
    fresh_until: float = -math.inf
    """Until when a MIG manager may not see the last edit of the layouts (monotonic seconds)."""
    workload: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    """The workload of the test."""


@dataclasses.dataclass(frozen=True)
class Track:
    """What this run knows about a node: its step, since when, when the node last changed, and what was repaired."""

    step: Step
    since: float
    moved: float
    version: int = 0
    """The version of the node after our last patch. An older answer says nothing."""
    asked: float = -math.inf
    """When this run last set the label."""
    repaired: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    """The words of the repairs, each of which is tried once."""
    tested: bool = False


@dataclasses.dataclass(frozen=True)
class Seen:
    """One look at a node during its change."""

    sight: Sight
    plan: NodePlan
    track: Track
    settings: Settings
    now: float
    version: int = 0
    manager: str = "Running"
    """The status of the MIG manager's pod, or an empty string if there is none."""
    cause: str = ""
    """The last error in the MIG manager's log, if it says that its run has failed."""

    @property
    def still_s(self) -> float:
        """For how many seconds the node has not changed."""
        return self.now - self.track.moved

    @property
    def is_stuck(self) -> bool:
        """Whether the node has made no progress for as long as the user permits."""
        return self.still_s >= self.settings.timeout_s


@dataclasses.dataclass(frozen=True)
class Action:
    """What to do now, and the step that the node is in afterwards."""

    kind: Kind
    step: Step
    waits_for: str = ""
    reason: str = ""
    patch: Json | None = None
    repair: str = ""
    """The word of a repair, and in ``reason`` what was repaired."""
    may_be_unchanged: bool = False
    """After a failure: whether the GPUs may be as they were before, which must be proved."""


# ---- patches ------------------------------------------------------------------------------------------------------


def set_patch(seen: Seen) -> Json:
    """Return the patch that asks for the layout, marks it, clears the old state, and ends pauses that would stay."""
    own = LAYOUT_LABEL.metadata(seen.plan.layout)
    labels = {**own["labels"], MIG_STATE: None, **unpaused(seen.sight)}
    product = {PRODUCT_NOTE: seen.sight.whole_product} if seen.sight.whole_product else {}
    notes = {**own["annotations"], GPUS_NOTE: str(seen.plan.count), **product}
    return {"metadata": {"labels": labels, "annotations": notes}}


def unpaused(sight: Sight) -> dict[str, str | None]:
    """Return the deploy labels without the pause."""
    return {key: resumed(sight.labels[key]) for key in sight.paused}


def remove_patch() -> Json:
    """Return the patch that takes the label and its mark away, so that setting it again is a change."""
    own = LAYOUT_LABEL.metadata(None)
    return {"metadata": {**own, "labels": {**own["labels"], MIG_STATE: None}}}


def tidied(node: Json, released: Json | None, removes: bool) -> Json | None:
    """Return the patch that releases a node with whole GPUs, and also removes what it no longer needs.

    This is the number of its GPUs, their product and the mark of its layout, and with ``removes`` the layout's labels.
    """
    labels = {key: None for key in (LAYOUT_LABEL.label, MIG_STATE) if removes and key in labels_of(node)}
    notes = {key: None for key in (GPUS_NOTE, PRODUCT_NOTE, LAYOUT_LABEL.mark) if key in annotations_of(node)}
    if not labels and not notes:
        return released
    metadata = (released or {}).get("metadata") or {}
    both = {"labels": {**(metadata.get("labels") or {}), **labels}}
    both |= {"annotations": {**(metadata.get("annotations") or {}), **notes}}
    return {**(released or {}), "metadata": {**metadata, **both}}
