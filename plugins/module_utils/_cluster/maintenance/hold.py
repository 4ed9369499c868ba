# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""How a node is held for maintenance: for which purposes, and what it was like before.

All state is stored on the node, so that anyone can resume or undo an interrupted run; `hold_stamp` says which run that
is. A node can be held for several purposes at once, and returns to service when the last of them ends: a reboot must
not uncordon a node that somebody else is repairing. The same holds for other maintainers, which `marks` knows.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.hold_stamp import (
    PURPOSE_PREFIX,
    Stamp,
    stamp_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.marks import (
    FOUND_CORDONED,
    NVSENTINEL_SWITCH,
    Holder,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import (
    UPGRADE_FOUND_CORDONED,
    UPGRADE_REQUIRED,
    UPGRADE_SKIP,
    UPGRADE_STATE,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import is_cordoned
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import (
    annotations_of,
    labels_of,
    name_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_INITIAL = "gpuops.nvidia/initial-state."
"""Prefix of annotations that say what the node was like before it was held for the first purpose."""
INITIALLY_CORDONED = _INITIAL + "unschedulable"
INITIAL_HOLDERS = _INITIAL + "held-by"
"""The maintainers whose marks were there although the node was not cordoned: they do not need the cordon."""
INITIAL_LABELS = {
    NVSENTINEL_SWITCH: _INITIAL + "managed-by-nvsentinel",
    UPGRADE_SKIP: _INITIAL + "driver-upgrade-skip",
}
"""Labels that are ``false`` or ``true`` during a hold, and the annotations with their former values ("" if unset)."""

LEFT_CORDONED = "gpuops.nvidia/left-cordoned"
"""Annotation with the maintainers for which our cordon was left on a node, and the time of the cordon."""

_CORDON_TAINT = "node.kubernetes.io/unschedulable"

FAILED_PREFIX = "gpuops.nvidia/failed."
"""Prefix of a taint and of an annotation; a purpose follows. The annotation says why the node may not serve.

The taint keeps pods away even if somebody uncordons the node. Its value is the reason in the letters of a label.
"""
_VALUE_LENGTH = 63
"""How long the value of a taint may be."""


# ---- what is written on a node ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Hold:
    """How a node is held: for which purposes, and whether it was cordoned before the first of them."""

    unschedulable: bool
    purposes: tuple[str, ...]
    initially_cordoned: bool
    left_cordoned: bool = False
    """Whether the node is held no more, and the note is still there that our cordon was left for others."""


def hold_of(node: Json) -> Hold:
    """Return how a node is held."""
    notes = annotations_of(node)
    purposes = sorted(key.removeprefix(PURPOSE_PREFIX) for key in notes if key.startswith(PURPOSE_PREFIX))
    left = not purposes and LEFT_CORDONED in notes
    return Hold(is_cordoned(node), tuple(purposes), notes.get(INITIALLY_CORDONED) == "true", left)


# ---- taking a node ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Claim:
    """What a run asks of the nodes that it holds."""

    purpose: str
    stamp: Stamp
    now: float
    lease_s: float
    take_over: bool = False
    pause_nvsentinel: bool = False
    resumes: bool = False
    """Whether the run itself goes on with a node that an earlier one holds. Its process is then named there. A drain
    outlives its process, and finds nothing to do the second time."""
    renews: bool = False
    """Whether the run is at work on nodes that it holds, and keeps their leases from running out."""
    failure: str = ""
    """Why the nodes must not serve, or an empty string: then a reason that is there already stays."""


def hold_patch(node: Json, claim: Claim, holders: t.Iterable[Holder]) -> Json | None:
    """Return the patch that cordons a node for a purpose, or None if nothing is left to do.

    Raises an error if another run holds the node for the same purpose and may still be at work.
    """
    taken = _taking_patch(node, claim, holders)
    is_told = not claim.failure or failures_of(node).get(claim.purpose) == claim.failure
    return taken if is_told else _tainted(node, taken, claim)


def _taking_patch(node: Json, claim: Claim, holders: t.Iterable[Holder]) -> Json | None:
    hold = hold_of(node)
    labels, notes = _switches(node, claim, hold)
    stamp = _stamp_to_write(node, claim)
    if stamp is None and hold.unschedulable and not labels:
        return None
    annotations: dict[str, str | None] = dict(notes)
    if stamp is not None:
        annotations[PURPOSE_PREFIX + claim.purpose] = str(stamp)
    # If somebody has lifted an earlier cordon, that cordon must not come back at the end.
    if not hold.purposes or not hold.unschedulable:
        annotations |= _initial_state(node, hold, holders)
    return _patch(node, annotations, {"unschedulable": True}, labels)


def _stamp_to_write(node: Json, claim: Claim) -> Stamp | None:
    """Return the stamp to write, or None if the stamp on the node stays.

    A run on the same machine resumes an earlier one whose process has ended, and a run on another machine takes over
    from a run whose lease is over. The stamp then names the new machine and process, so that a third run leaves the
    node alone, and still the old run, because a node that an earlier run has taken stays held if a later run fails.
    """
    if claim.purpose not in hold_of(node).purposes:
        return claim.stamp
    other = stamp_of(node, claim.purpose)
    if other is None or other.machine == claim.stamp.machine:
        if other is not None and other.is_at_work and not claim.take_over:
            raise held_elsewhere([node], claim.purpose)
        if other is not None and claim.resumes and other.process != claim.stamp.process:
            return other.resumed_by(claim.stamp)
        is_due = other is not None and claim.renews and other.age_s(claim.now) >= claim.lease_s / 2
        return other.renewed(claim.now) if other and is_due else None
    if not claim.take_over and other.age_s(claim.now) < claim.lease_s:
        raise held_elsewhere([node], claim.purpose)
    return other.resumed_by(claim.stamp)


def is_held_elsewhere(node: Json, claim: Claim) -> bool:
    """Return whether another run holds the node for the same purpose and may still be at work."""
    try:
        _stamp_to_write(node, claim)
    except GpuOpsError:
        return True
    return False


def held_elsewhere(nodes: list[Json], purpose: str) -> GpuOpsError:
    """Return the error about nodes that another run holds for the same purpose."""
    stamps = [(name_of(node), stamp_of(node, purpose)) for node in nodes]
    held = [f"{name} ({_who(stamp)} since {stamp.since})" for name, stamp in stamps if stamp]
    return GpuOpsError(
        f"Another run holds {first_few(held)} for the purpose {purpose}, and may still be active. Wait for it, or "
        "set take_over: true if it has ended.",
        reason="HeldElsewhere",
    )


def _who(stamp: Stamp) -> str:
    return f"process {stamp.process} on {stamp.machine}" if stamp.is_at_work else f"by {stamp.machine}"


def _switches(node: Json, claim: Claim, hold: Hold) -> tuple[dict[str, str | None], dict[str, str]]:
    """Return the labels to set during the hold, and annotations: the former values, and a note for the operator.

    Without the label for the operator, a node that waits for its driver upgrade would be upgraded at once, since the
    operator lets cordoned nodes go first. If it has already decided to, the note keeps it from uncordoning the node.
    """
    waits_for_upgrade = not hold.purposes and labels_of(node).get(UPGRADE_STATE) == UPGRADE_REQUIRED
    wanted = {NVSENTINEL_SWITCH: "false"} if claim.pause_nvsentinel else {}
    wanted |= {UPGRADE_SKIP: "true"} if waits_for_upgrade else {}
    labels: dict[str, str | None] = {key: value for key, value in wanted.items() if labels_of(node).get(key) != value}
    former = {INITIAL_LABELS[key]: labels_of(node).get(key, "") for key in labels}
    note = {UPGRADE_FOUND_CORDONED: "true"} if waits_for_upgrade and not hold.unschedulable else {}
    return labels, former | note


def _initial_state(node: Json, hold: Hold, holders: t.Iterable[Holder]) -> dict[str, str | None]:
    """Return the annotations about what the node was like before it was held, or before its cordon was lifted."""
    initially_cordoned = hold.unschedulable and not (hold.left_cordoned and _is_our_cordon(node))
    without_cordon = [] if hold.unschedulable else [holder.owner for holder in holders if not holder.at_work]
    annotations: dict[str, str | None] = {INITIALLY_CORDONED: "true" if initially_cordoned else "false"}
    annotations |= _or_none(node, INITIAL_HOLDERS, ",".join(dict.fromkeys(without_cordon)))
    return annotations | _or_none(node, LEFT_CORDONED, "")


def _or_none(node: Json, key: str, value: str) -> dict[str, str | None]:
    """Return the change of an annotation to a value; an empty value removes the annotation."""
    if value:
        return {key: value}
    return {key: None} if key in annotations_of(node) else {}


# ---- letting a node go --------------------------------------------------------------------------------------------


def release_patch(node: Json, purpose: str, holders: t.Iterable[Holder]) -> Json | None:
    """Return the patch that ends a purpose, or None if there is nothing to end.

    The patch for the last purpose restores the node as it was, unless another maintainer needs the cordon. A node whose
    cordon was left for others is uncordoned as soon as they do not need it any more. A taint for the purpose ends with
    it, and all other taints stay.
    """
    released = _releasing_patch(node, purpose, holders)
    return _untainted(node, released, purpose) if purpose in failures_of(node) else released


def _releasing_patch(node: Json, purpose: str, holders: t.Iterable[Holder]) -> Json | None:
    hold = hold_of(node)
    if hold.left_cordoned:
        return _release_left(node, holders)
    if purpose not in hold.purposes:
        return None
    annotations: dict[str, str | None] = {PURPOSE_PREFIX + purpose: None}
    if hold.purposes != (purpose,):
        return _patch(node, annotations, {})
    if hold.initially_cordoned:
        return _end(node, annotations, {})
    left_for = cordoned_for(node, holders)
    return _leave_cordoned(node, annotations, left_for) if left_for else _uncordon(node, annotations)


def cordoned_for(node: Json, holders: t.Iterable[Holder]) -> list[Holder]:
    """Return the other maintainers that need the cordon of a node."""
    without_cordon = annotations_of(node).get(INITIAL_HOLDERS, "").split(",")
    needing = (holder for holder in holders if holder.needs_cordon)
    return [holder for holder in needing if holder.at_work or holder.owner not in without_cordon]


def _release_left(node: Json, holders: t.Iterable[Holder]) -> Json | None:
    """Return the patch for a node whose cordon was left for others, or None while they need it."""
    if not is_cordoned(node) or not _is_our_cordon(node):
        return _end(node, {}, {})
    return None if cordoned_for(node, holders) else _uncordon(node, {})


def _uncordon(node: Json, annotations: dict[str, str | None]) -> Json:
    return _end(node, {**annotations, **_forgotten(node)}, {"unschedulable": None})


def _leave_cordoned(node: Json, annotations: dict[str, str | None], left_for: list[Holder]) -> Json:
    """Return the patch that leaves the cordon to those who need it.

    Whoever lifts the cordon may have done so already, before it was set again for our maintenance. So the note is
    always made, and a later call lifts a cordon that nobody needs any more.
    """
    made = {**annotations, **_forgotten(node)}
    if is_cordoned(node):
        made[LEFT_CORDONED] = _left_note([holder.owner for holder in left_for], _cordoned_since(node))
    return _end(node, made, {})


def _left_note(owners: t.Iterable[str], since: str) -> str:
    return f"{','.join(dict.fromkeys(owners))} {since}".rstrip()


def _cordoned_since(node: Json) -> str:
    """Return since when the node is cordoned, which Kubernetes writes into the taint for it, or an empty string."""
    return next((taint.get("timeAdded") or "" for taint in _taints(node) if taint["key"] == _CORDON_TAINT), "")


def _is_our_cordon(node: Json) -> bool:
    """Return whether the cordon is the one that was left, rather than a later one of somebody else."""
    since = annotations_of(node)[LEFT_CORDONED].partition(" ")[2]
    return not since or since == _cordoned_since(node)


def leave_patch(node: Json, holders: t.Iterable[Holder]) -> Json | None:
    """Return the patch that cordons a node again which was uncordoned a moment ago, or None if that is right.

    A maintainer that records its work in another object may have found the node cordoned just before that. It believes
    that the node still is.
    """
    hold = hold_of(node)
    believers = [holder.owner for holder in holders if holder.needs_cordon and not holder.lifts]
    if hold.purposes or hold.unschedulable or not believers:
        return None
    return _patch(node, {LEFT_CORDONED: _left_note(believers, "")}, {"unschedulable": True})


def _forgotten(node: Json) -> dict[str, str | None]:
    """Return the removal of the notes by which others remember our cordon: they would leave the node cordoned."""
    return {key: None for key in FOUND_CORDONED if key in annotations_of(node)}


def _end(node: Json, annotations: dict[str, str | None], spec: Json) -> Json:
    """Return the patch that removes everything that the hold has written, and sets back labels."""
    notes = annotations_of(node)
    own = [INITIALLY_CORDONED, INITIAL_HOLDERS, LEFT_CORDONED, *INITIAL_LABELS.values()]
    removed: dict[str, str | None] = {key: None for key in own if key in notes and key not in annotations}
    labels = {key: notes[note] or None for key, note in INITIAL_LABELS.items() if note in notes}
    return _patch(node, {**annotations, **removed}, spec, labels)


# ---- nodes that failed --------------------------------------------------------------------------------------------


def failures_of(node: Json) -> dict[str, str]:
    """Return why a node must not serve, by purpose, according to this collection's taints and annotations."""
    notes = annotations_of(node)
    purposes = [taint["key"].removeprefix(FAILED_PREFIX) for taint in _taints(node) if _is_ours(taint)]
    purposes += [key.removeprefix(FAILED_PREFIX) for key in notes if key.startswith(FAILED_PREFIX)]
    return {purpose: notes.get(FAILED_PREFIX + purpose, "") for purpose in sorted(set(purposes))}


def _taints(node: Json) -> list[Json]:
    return (node.get("spec") or {}).get("taints") or []


def _is_ours(taint: Json) -> bool:
    return bool(taint["key"].startswith(FAILED_PREFIX))


def _tainted(node: Json, patch: Json | None, claim: Claim) -> Json:
    key = FAILED_PREFIX + claim.purpose
    value = re.sub(r"[^A-Za-z0-9_.]+", "-", claim.failure)[:_VALUE_LENGTH].strip("-_.")
    others = [taint for taint in _taints(node) if taint["key"] != key]
    taints = [*others, {"key": key, "value": value, "effect": "NoSchedule"}]
    return _with_taints(node, patch, taints, {key: claim.failure})


def _untainted(node: Json, patch: Json | None, purpose: str) -> Json:
    key = FAILED_PREFIX + purpose
    notes = {key: None} if key in annotations_of(node) else {}
    return _with_taints(node, patch, [taint for taint in _taints(node) if taint["key"] != key], notes)


def _with_taints(node: Json, patch: Json | None, taints: list[Json], notes: t.Mapping[str, str | None]) -> Json:
    """Return a patch that also sets the taints. A merge patch replaces the whole list, hence all that shall stay."""
    patch = patch or _patch(node, {}, {})
    annotations = {**patch["metadata"]["annotations"], **notes}
    spec = {**(patch.get("spec") or {}), "taints": taints or None}
    return {**patch, "metadata": {**patch["metadata"], "annotations": annotations}, "spec": spec}


# ---- patches ------------------------------------------------------------------------------------------------------


def _patch(
    node: Json, annotations: t.Mapping[str, str | None], spec: Json, labels: t.Mapping[str, str | None] | None = None
) -> Json:
    """Return a merge patch that the API server accepts only for this version of the node."""
    metadata = {"annotations": dict(annotations), "resourceVersion": node["metadata"].get("resourceVersion")}
    metadata |= {"labels": dict(labels)} if labels else {}
    return {"metadata": metadata, **({"spec": spec} if spec else {})}


def patched(node: Json, patch: Json | None) -> Json:
    """Return a node after a patch."""
    changes = (patch or {}).get("metadata") or {}
    metadata = {
        key: {name: value for name, value in (now | (changes.get(key) or {})).items() if value is not None}
        for key, now in (("annotations", annotations_of(node)), ("labels", labels_of(node)))
    }
    spec = node["spec"] | ((patch or {}).get("spec") or {})
    return {**node, "metadata": {**node["metadata"], **metadata}, "spec": spec}
