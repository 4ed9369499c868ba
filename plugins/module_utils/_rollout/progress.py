# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""How far a rollout has come, whether it may go on, and what is said and written about it."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.batches import Batch
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.former import FORMAT, STATES, Former, State
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.rollout_request import RolloutRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

PLAN, CHANGE = "plan", "change"
"""The last stage that everybody passes at the same time, and the one that has batches."""
LOST = "became unreachable in the middle of the run"
_OUT: tuple[State, ...] = ("failed", "left out")
_WORDS: dict[State, str] = {
    "done": "changed",
    "current": "with nothing to change",
    "postponed": "postponed",
    "changing": "in the middle of a change",
    "waiting": "not yet changed",
    "failed": "failed",
    "left out": "left out",
}


@dataclasses.dataclass(frozen=True)
class MemberEvidence:
    """What a member says in this run: that it passed the last stage, or why it was left out or postponed."""

    passed: str = ""
    left_out_at: str = ""
    reason: str = ""
    postponed: str = ""


@dataclasses.dataclass(frozen=True)
class Position:
    """Where the run is: the last stage that is over for everybody, who was still there at its end, and the batches."""

    over: str = ""
    there: frozenset[str] = frozenset()
    begun: int = 0
    ended: int = 0


@dataclasses.dataclass(frozen=True)
class Member:
    """One member's state, its batch, and the reason if it is out."""

    state: State
    batch: int | None = None
    reason: str = ""


UNPLANNED = Member("waiting")


@dataclasses.dataclass(frozen=True)
class Progress:
    """The state of every member, the canaries, and the sentence with which the run must stop, if it must."""

    members: t.Mapping[str, Member]
    canaries: tuple[str, ...] = ()
    stop: str = ""


def look(
    fleet: t.Mapping[str, MemberEvidence],
    batches: t.Sequence[Batch],
    position: Position,
    wishes: RolloutRequest,
    former: Former,
) -> Progress:
    """Return how far the fleet has come."""
    number_of = {member: batch.number for batch in batches for member in batch.members}
    members = {
        name: _in_batch(evidence, number_of[name], position)
        if name in number_of
        else _without_batch(evidence, name in position.there, position, former.members.get(name, {}))
        for name, evidence in fleet.items()
    }
    canaries = {member for batch in batches if batch.canary for member in batch.members}
    canaries |= (wishes.named_canaries or frozenset()) & fleet.keys()
    ordered = tuple(name for name in fleet if name in canaries)
    return Progress(members, ordered, _stop(members, ordered, wishes))


def _in_batch(evidence: MemberEvidence, number: int, position: Position) -> Member:
    if evidence.left_out_at:
        return Member("failed", number, evidence.reason)
    if evidence.passed == CHANGE:
        return Member("done", number)
    if number > position.begun:
        return Member("waiting", number)
    return Member("changing", number) if number > position.ended else Member("failed", number, LOST)


def _without_batch(evidence: MemberEvidence, there: bool, position: Position, before: Json) -> Member:
    """Return the state of a member that is out, is not planned yet, or has nothing to change."""
    if evidence.left_out_at:
        return Member("left out", None, evidence.reason)
    if not there:
        return Member("left out", None, LOST)
    if position.over != PLAN:
        return UNPLANNED
    if evidence.postponed:
        return Member("postponed", None, evidence.postponed)
    return Member("done", before.get("batch")) if before.get("state") == "done" else Member("current")


def _stop(members: t.Mapping[str, Member], canaries: t.Sequence[str], wishes: RolloutRequest) -> str:
    out = {name: member for name, member in members.items() if member.state in _OUT}
    allowed = wishes.may_be_out(len(members))
    broken = [name for name in canaries if name in out]
    if len(out) <= allowed and not broken:
        return ""
    who, limit = wishes.name("members"), wishes.name("max_out")
    why = f"The canary {first_few(broken)} did not pass" if broken else ""
    why = why or f"{len(out)} of {len(members)} {who} are out, and {limit} allows {allowed}"
    named = [*broken, *(name for name in out if name not in broken)]
    reasons = first_few([f"{name}: {one_line(out[name].reason)}" for name in named], separator="; ")
    return f"{why}. Repair these {who}, or leave them out of the inventory, and run this again. {reasons}."


def content(progress: Progress, former: Former) -> Json:
    """Return what the file says: every member of this run, and those of the former run that this one has left alone.

    What the former run knew of a member stays until this run has planned the member's change.
    """
    mine = {
        name: former.members.get(name, _entry(member)) if member == UNPLANNED else _entry(member)
        for name, member in progress.members.items()
    }
    return {
        "format": FORMAT,
        "canary": list(progress.canaries) or (sorted(former.canaries) if former.unfinished else []),
        "counts": _counts(progress.members.values()),
        "hosts": {**former.members, **mine},
    }


def _entry(member: Member) -> Json:
    fields: Json = {"state": member.state, "batch": member.batch, "reason": one_line(member.reason)}
    return {key: value for key, value in fields.items() if value not in (None, "")}


def _counts(members: t.Iterable[Member]) -> dict[str, int]:
    found = collections.Counter(member.state for member in members)
    return {state: found[state] for state in STATES if found[state]}


def lines(progress: Progress, who: str = "members", predicted: bool = False) -> list[str]:
    """Return the report: a line for each member that is out or still waits, and the totals."""
    words = {**_WORDS, "done": "to be changed"} if predicted else _WORDS
    shown = {name: member for name, member in progress.members.items() if member.state not in ("done", "current")}
    rows = [("NAME", "STATE", "BATCH", "REASON")] if shown else []
    rows += [
        (name, member.state, str(member.batch or "-"), one_line(member.reason) or "-") for name, member in shown.items()
    ]
    widths = [max(map(len, column)) for column in zip(*rows)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    counts = _counts(progress.members.values())
    totals = ", ".join(f"{counts[state]} {word}" for state, word in words.items() if state in counts)
    number = len(progress.members)
    return [*table, f"{number} {who if number != 1 else who[:-1]}: {totals}"]
