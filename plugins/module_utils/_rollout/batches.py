# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The order in which the members of a fleet change: which batches there are, and who is in which.

The first batch is the canary. Where several members wait for something that nobody has proved, one of them is a canary
in a batch of its own before. Members that an interrupted run left halfway come next, then everybody else, then those
that failed in the former run. Batches never mix values of the grouping variable.
"""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.former import Former
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.rollout_request import RolloutRequest

LEAST_IN_A_WAVE = 16


@dataclasses.dataclass(frozen=True)
class Batch:
    """Members that change at the same time. ``group`` is their common value, if the user groups them."""

    number: int
    members: tuple[str, ...]
    canary: bool = False
    group: str | None = None


def plan(
    members: t.Sequence[str],
    wishes: RolloutRequest,
    former: Former,
    resuming: t.Collection[str] = (),
    unproved: t.Mapping[str, str] | None = None,
) -> list[Batch]:
    """Return the batches, in order. ``resuming`` are members that say themselves that they are halfway.

    ``unproved`` says what nobody has proved yet for a member. Members with the same text wait for the same proof.
    """
    groups = wishes.groups_of(members)
    halfway = former.halfway.union(resuming)
    canaries = _canaries(members, wishes, former)
    first = _pioneers(_in_turn(members, canaries, halfway, former), unproved or {})
    canaries = [member for member in canaries if member not in first]
    early = {*first, *canaries}
    left = [member for member in members if member not in early]
    parts = _parts(left, halfway, former)
    chunks = [*([member] for member in first), *([canaries] if canaries else [])]
    before = len(chunks)
    chunks += _chunks([each for part in parts for each in _by_group(part, groups)], wishes, groups)
    return [
        Batch(number, tuple(chunk), number <= before, _common(chunk, groups)) for number, chunk in enumerate(chunks, 1)
    ]


def _parts(members: t.Sequence[str], halfway: t.Collection[str], former: Former) -> tuple[list[str], ...]:
    """Return those that are halfway, the others, and those that failed."""
    begun = [member for member in members if member in halfway]
    failed = [member for member in members if member in former.failed and member not in halfway]
    named = {*begun, *failed}
    return begun, [member for member in members if member not in named], failed


def _in_turn(
    members: t.Sequence[str], canaries: t.Sequence[str], halfway: t.Collection[str], former: Former
) -> list[str]:
    """Return the members in the order in which they are asked to prove something: who is halfway has begun to."""
    begun, others, failed = _parts(members, halfway, former)
    before = [member for member in members if member in former.canaries]
    return list(dict.fromkeys([*begun, *canaries, *before, *others, *failed]))


def _pioneers(members: t.Sequence[str], unproved: t.Mapping[str, str]) -> list[str]:
    """Return the first member of each set that waits for the same proof. Nobody waits for a member that is alone."""
    waiting = collections.Counter(unproved.get(member, "") for member in members)
    found: dict[str, str] = {}
    for member in members:
        proof = unproved.get(member, "")
        if proof and waiting[proof] > 1:
            found.setdefault(proof, member)
    return list(found.values())


def waves(batches: t.Sequence[Batch], least: int = LEAST_IN_A_WAVE) -> list[int]:
    """Return how many members each run of consecutive batches has, so that each has ``least``, if there are as many.

    A wave is lost only if all its members are lost, whatever the size of its batches.
    """
    found: list[int] = []
    for batch in batches:
        if found and found[-1] < least:
            found[-1] += len(batch.members)
        else:
            found.append(len(batch.members))
    if len(found) > 1 and found[-1] < least:
        last = found.pop()
        found[-1] += last
    return found


def _chunks(
    together: t.Sequence[list[str]], wishes: RolloutRequest, groups: t.Mapping[str, str | None]
) -> t.Iterator[list[str]]:
    """Yield lists of members of one group. A percentage is one of the whole group, or of everybody without groups."""
    total = collections.Counter(groups.values())
    count = 0
    for members in together:
        start = 0
        while start < len(members):
            size = wishes.size(count, total[groups[members[start]]])
            yield members[start : start + size]
            start, count = start + size, count + 1


def _by_group(members: t.Sequence[str], groups: t.Mapping[str, str | None]) -> list[list[str]]:
    """Return the members of each group together, in the order of the groups."""
    found: dict[str | None, list[str]] = {group: [] for group in groups.values()}
    for member in members:
        found[groups[member]].append(member)
    return [each for each in found.values() if each]


def _common(members: t.Sequence[str], groups: t.Mapping[str, str | None]) -> str | None:
    values = {groups[member] for member in members}
    return values.pop() if len(values) == 1 else None


def _canaries(members: t.Sequence[str], wishes: RolloutRequest, former: Former) -> list[str]:
    """Return the canaries. None are needed if those of the unfinished former run are done and nothing is due there."""
    named = wishes.named_canaries
    if named is not None:
        return [member for member in members if member in named]
    if former.canaries_passed and not former.canaries & set(members):
        return []
    before = [member for member in members if member in former.canaries]
    fresh = [member for member in members if member not in {*former.canaries, *former.failed}]
    last = [member for member in members if member in former.failed - former.canaries]
    return [*before, *fresh, *last][: wishes.number_of_canaries(len(members))]
