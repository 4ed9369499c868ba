# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a rollout of drivers writes on a node: the label that keeps it from its upgrade, and a note that says so.

The operator remembers nothing about canaries and waves, so all of that is on the nodes: a run that was killed goes on
where it was, and a label without our note belongs to a user. Every patch is accepted only for the version of the node
that it was made for.
"""

from __future__ import annotations

import dataclasses
import typing as t
from datetime import UTC, datetime

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.marks import Holder
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import (
    DEPLOY_PREFIX,
    DRIVER_PAUSED,
    UPGRADE_DONE,
    UPGRADE_ENDED,
    UPGRADE_FAILED,
    UPGRADE_FINISHED,
    UPGRADE_FOUND_CORDONED,
    UPGRADE_IDLE,
    UPGRADE_REQUIRED,
    UPGRADE_SKIP,
    UPGRADE_STATE,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import (
    is_cordoned,
    skips_upgrades,
    upgrade_state,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import (
    annotations_of,
    labels_of,
    timestamp,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

NOTE = "gpuops.nvidia/driver-rollout"
"""Annotation of a node: how far a rollout is with it, since when, and why it failed."""

Kind = t.Literal["held", "paused", "turn", "done", "failed"]
NOTE_KINDS: tuple[Kind, ...] = ("held", "paused", "turn", "done", "failed")
HoldersOf = t.Callable[[Json], list[Holder]]
MakePatch = t.Callable[[Json], "Json | None"]

WAS_CORDONED = "found cordoned"
"""What the note of a turn says about a node that stays cordoned after its upgrade, as it was before."""

_REASON_LENGTH = 500


@dataclasses.dataclass(frozen=True)
class Note:
    """What a rollout has noted on a node."""

    kind: Kind
    since: float = 0.0
    reason: str = ""

    def __str__(self) -> str:
        moment = datetime.fromtimestamp(self.since, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"{self.kind} {moment} {one_line(self.reason)[:_REASON_LENGTH]}".rstrip()


def note_of(node: Json) -> Note | None:
    """Return what a rollout has noted on a node, or None. A note that nobody can read keeps a node back."""
    text = annotations_of(node).get(NOTE)
    if text is None:
        return None
    word, dummy, rest = text.partition(" ")
    moment, dummy, reason = rest.partition(" ")
    kind: Kind = next((each for each in NOTE_KINDS if each == word), "held")
    try:
        return Note(kind, timestamp(moment), reason)
    except ValueError:
        return Note(kind)


def has_cordoned(note: Note | None) -> bool:
    """Return whether a cordon of the node is that of our rollout, by its note. The operator's labels end before ours.

    The operator removes its labels with its ClusterPolicy (``removeNodeUpgradeStateLabels`` in
    controllers/upgrade_controller.go of v26.7.0), and the cordon stays.
    """
    return note is not None and note.kind == "turn" and note.reason != WAS_CORDONED


def is_ours(node: Json) -> bool:
    """Return whether a rollout of ours keeps the node from its upgrade, rather than a user."""
    return skips_upgrades(node) and NOTE in annotations_of(node)


def is_of_a_user(node: Json) -> bool:
    """Return whether somebody else keeps the node from upgrades: a user, or a maintenance that holds it."""
    return skips_upgrades(node) and NOTE not in annotations_of(node)


def is_begun(node: Json) -> bool:
    """Return whether the node has been given its turn, or the operator is working on it anyway."""
    state, note = upgrade_state(node), note_of(node)
    if state not in UPGRADE_IDLE:
        return True
    return state == UPGRADE_REQUIRED and not skips_upgrades(node) and note is not None and note.kind == "turn"


def would_stay_cordoned(node: Json) -> bool:
    """Return whether a note that an upgrade has left makes the operator leave the node cordoned the next time.

    An upgrade that ends without its operator (it was removed, or ``autoUpgrade`` switched off) leaves the note, and so
    does whoever lifts the cordon before the node's turn: the operator removes it only when an upgrade ends
    (``removeNodeUpgradeStateLabels`` in controllers/upgrade_controller.go, ``updateNodeToUncordonOrDoneState`` in
    NVIDIA/k8s-operator-libs).
    """
    is_noted = UPGRADE_FOUND_CORDONED in annotations_of(node)
    return is_noted and not is_cordoned(node) and upgrade_state(node) in UPGRADE_IDLE


# ---- patches ------------------------------------------------------------------------------------------------------


def hold_patch(node: Json, now: float) -> Json | None:
    """Return the patch that keeps a node from its upgrade, or None if it is kept or must not be."""
    note = note_of(node)
    is_held = is_ours(node) and note is not None and note.kind == "held"
    if is_held or is_begun(node) or is_of_a_user(node):
        return None
    return _patch(node, {UPGRADE_SKIP: "true"}, Note("held", now))


def pause_patch(node: Json, now: float) -> Json | None:
    """Return the patch with which no run gives the node its turn, until a run is asked for again."""
    note = note_of(node)
    is_paused = is_ours(node) and note is not None and note.kind == "paused"
    if is_paused or is_begun(node) or is_of_a_user(node):
        return None
    return _patch(node, {UPGRADE_SKIP: "true"}, Note("paused", now))


def turn_patch(node: Json, now: float) -> Json | None:
    """Return the patch that gives a node its turn, or None if it has it or somebody has paused it.

    The operator takes a cordoned node even if its own limits are reached, so the node is cordoned at once. The operator
    lifts the cordon in the end, unless it notes that it has found the node cordoned. It makes that note before a node
    is to be upgraded; for a cordon that somebody has set since then, it is made here, and for one that somebody has
    lifted, it is removed.
    """
    note, state = note_of(node), upgrade_state(node)
    if state not in (UPGRADE_REQUIRED, UPGRADE_FAILED) or is_begun(node) or is_of_a_user(node):
        return None
    if note is not None and note.kind == "paused":
        return None
    labels: dict[str, str | None] = {UPGRADE_SKIP: None} if skips_upgrades(node) else {}
    labels |= {UPGRADE_STATE: UPGRADE_REQUIRED} if state == UPGRADE_FAILED else {}
    is_foreign = is_cordoned(node) and state != UPGRADE_FAILED and UPGRADE_FOUND_CORDONED not in annotations_of(node)
    extra: dict[str, str | None] = {UPGRADE_FOUND_CORDONED: "true"} if is_foreign else {}
    extra |= {UPGRADE_FOUND_CORDONED: None} if would_stay_cordoned(node) else {}
    noted = extra.get(UPGRADE_FOUND_CORDONED, annotations_of(node).get(UPGRADE_FOUND_CORDONED))
    note = Note("turn", now, WAS_CORDONED if noted else "")
    return _patch(node, labels, note, {"unschedulable": True}, extra)


def park_patch(node: Json, now: float, reason: str, holders_of: HoldersOf) -> Json | None:
    """Return the patch that puts a node back whose upgrade has failed before its driver was touched.

    The node waits for another try, keeps no slot of the operator, and serves with the driver that it has.
    """
    labels: dict[str, str | None] = {UPGRADE_SKIP: "true", UPGRADE_STATE: UPGRADE_REQUIRED}
    parked = _patch(node, labels, Note("failed", now, reason))
    after = hold.patched(node, parked)
    needs = hold.hold_of(after).purposes or hold.cordoned_for(after, holders_of(after))
    if is_cordoned(node) and UPGRADE_FOUND_CORDONED not in annotations_of(node) and not needs:
        parked["spec"] = {"unschedulable": None}
    return parked


def fail_patch(node: Json, now: float, reason: str) -> Json | None:
    """Return the patch that notes why a node failed whose driver does not run. The operator's state stays."""
    note = note_of(node)
    if note is not None and note.kind == "failed" and note.reason == Note("failed", 0.0, reason).reason:
        return None
    return _patch(node, {}, Note("failed", now, reason))


def done_patch(node: Json, now: float, keeps: bool = False) -> Json | None:
    """Return the patch for a node that has its driver: the label goes, and so does the note unless it is to be kept.

    The note says when the node was done, which a later run must know if a wave is to be well for some time.
    """
    note = note_of(node)
    if note is None or (keeps and note.kind == "done"):
        return None
    labels: dict[str, str | None] = {UPGRADE_SKIP: None} if skips_upgrades(node) else {}
    return _patch(node, labels, Note("done", now) if keeps else None)


def let_go_patch(node: Json) -> Json | None:
    """Return the patch that removes our note, and our label with it. The operator may begin with the node at once."""
    if NOTE not in annotations_of(node):
        return None
    return _patch(node, {UPGRADE_SKIP: None} if skips_upgrades(node) else {}, None)


def free_patch(node: Json) -> Json | None:
    """Return the patch that lets a node go whose driver pod is current: our note and label go, and a due upgrade.

    The operator never compares the driver of a node again that is to be upgraded. Without the label, it would evict GPU
    pods for nothing (``ProcessUpgradeRequiredNodes`` in NVIDIA/k8s-operator-libs). For a node without a state, it
    compares, and writes the right one.
    """
    patch = let_go_patch(node)
    if patch is not None and upgrade_state(node) == UPGRADE_REQUIRED:
        patch["metadata"]["labels"][UPGRADE_STATE] = None
    return patch


def paused_operands(node: Json) -> dict[str, str]:
    """Return the deploy labels that a driver upgrade has left paused, each with the value that it had before."""
    if upgrade_state(node) not in UPGRADE_ENDED:
        return {}
    found = labels_of(node).items()
    paused = {key: value for key, value in found if key.startswith(DEPLOY_PREFIX) and DRIVER_PAUSED in value}
    return {key: value.replace(DRIVER_PAUSED, "").strip("_") or "true" for key, value in paused.items()}


def repair_patch(node: Json) -> Json | None:
    """Return the patch that sets back what an upgrade has left: paused operands, and the note of a cordon.

    The operator itself never sets operands back, and ignores it if their labels are removed.
    """
    labels = paused_operands(node)
    notes = {UPGRADE_FOUND_CORDONED: None} if would_stay_cordoned(node) else {}
    return _merge(node, {"labels": labels, "annotations": notes}) if labels or notes else None


def wake_patch(node: Json) -> Json | None:
    """Return the patch of one node that makes the operator look at all nodes at once, or None if this node cannot.

    The operator otherwise looks every two minutes: it watches the states of upgrades, and neither the pods nor, in
    v26.3, the label that keeps nodes back. A node without a state is to it like one that is done, and it writes the
    right state again (``SetupWithManager`` in controllers/upgrade_controller.go of v25.10 to v26.7, and
    ``ProcessDoneOrUnknownNodes`` in pkg/upgrade/common_manager.go of NVIDIA/k8s-operator-libs). It would note a cordon
    that it finds then as one to keep, so a cordoned node is left alone.
    """
    state = upgrade_state(node)
    is_kept = state == UPGRADE_REQUIRED and is_ours(node)
    if is_cordoned(node) or not (state == UPGRADE_DONE or is_kept):
        return None
    return _merge(node, {"labels": {UPGRADE_STATE: None}})


def require_patch(node: Json) -> Json | None:
    """Return the patch that marks a node for its upgrade whose driver pod is orphaned, or None if it is none of ours.

    The operator writes the same (``labelNodesWithOrphanedDriverPods`` in controllers/nodelabeling_controller.go of
    v26.7.0), but only when it happens to look after the garbage collector has orphaned the pod: nothing that follows
    makes it look again.
    """
    if upgrade_state(node) not in UPGRADE_FINISHED or not is_ours(node):
        return None
    return _merge(node, {"labels": {UPGRADE_STATE: UPGRADE_REQUIRED}})


def uncordon_patch(node: Json) -> Json:
    """Return the patch that lifts a cordon which an upgrade has left behind."""
    return {**_merge(node, {}), "spec": {"unschedulable": None}}


def _patch(
    node: Json,
    labels: t.Mapping[str, str | None],
    note: Note | None,
    spec: Json | None = None,
    annotations: t.Mapping[str, str | None] | None = None,
) -> Json:
    notes: dict[str, str | None] = {**(annotations or {}), NOTE: str(note) if note else None}
    patch = _merge(node, {"labels": dict(labels), "annotations": notes})
    return {**patch, "spec": spec} if spec else patch


def _merge(node: Json, metadata: Json) -> Json:
    return {"metadata": {**metadata, "resourceVersion": node["metadata"].get("resourceVersion")}}
