# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which members must wait for an earlier stage: canaries first, then waves, each with a time in which it must be well.

A window admits member after member and knows no stages. This file says who is not to be admitted yet, and why. It keeps
nothing between two questions: the members themselves say when they were done.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.amounts import amount

NAME = "waves"


@dataclasses.dataclass(frozen=True)
class Gate:
    """Who must wait, and for what; empty if nobody has to."""

    closed: frozenset[str] = frozenset()
    waits_for: str = ""
    soaks_for_s: float = 0.0
    """For how many seconds the stage before must still be well."""


def check(waves: t.Sequence[t.Any]) -> None:
    """Raise if a wave has no size."""
    for size in waves:
        amount(size, 1, NAME, least=1)


def stages(order: t.Sequence[str], canaries: t.Collection[str], waves: t.Sequence[t.Any]) -> list[list[str]]:
    """Return the members of each stage, in their order. Without waves, there is one stage after the canaries."""
    first = [member for member in order if member in canaries]
    rest = [member for member in order if member not in canaries]
    found, position = [first] if first else [], 0
    while rest:
        size = amount(waves[min(position, len(waves) - 1)], len(order), NAME, least=1) if waves else len(rest)
        found.append(rest[:size])
        rest, position = rest[size:], position + 1
    return found


def gate(
    stages_of: t.Sequence[t.Sequence[str]],
    done: t.Mapping[str, float],
    failed: t.Collection[str],
    soak_s: float,
    now: float,
) -> Gate:
    """Return who must wait now. ``done`` are the members that are done, each with the time since when it is well."""
    for number, stage in enumerate(stages_of[:-1]):
        left = [member for member in stage if member not in done and member not in failed]
        soaks_for_s = max((done[member] + soak_s - now for member in stage if member in done), default=0.0)
        if left or soaks_for_s > 0:
            closed = frozenset(member for later in stages_of[number + 1 :] for member in later)
            what = f"stage {number + 1} of {len(stages_of)}"
            waits_for = f"the end of {what}" if left else f"{what} to be well for {int(soak_s)} s"
            return Gate(closed, waits_for, max(soaks_for_s, 0.0))
    return Gate()
