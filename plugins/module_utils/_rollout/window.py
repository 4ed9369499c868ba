# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which members of a fleet may begin now: the canaries first, and then never more at once than the user permits.

Batches wait for their slowest member. A window does not: whenever a member is done, the next one begins. The window
keeps nothing between two questions, so a run that was killed goes on from what the members say themselves.
"""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.rollout_request import RolloutRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line


@dataclasses.dataclass(frozen=True)
class Standing:
    """Where the members stand. Those that are in none of these have not begun."""

    busy: frozenset[str] = frozenset()
    done: frozenset[str] = frozenset()
    failed: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The members that failed, each with the reason."""
    away: frozenset[str] = frozenset()
    """Members that failed and do not serve. They count as unavailable."""
    postponed: frozenset[str] = frozenset()
    """Members that have not begun and cannot at the moment."""


@dataclasses.dataclass(frozen=True)
class Admission:
    """Who may begin now, and the sentence with which nobody else may any more, if it has come to that."""

    members: tuple[str, ...] = ()
    stop: str = ""


class Window:
    """The order and the limits of one rollout. ``halfway`` are members that say that an earlier run has begun them.

    ``quiet`` members stay available during their change. They take no room, and begin before the others.
    """

    def __init__(
        self,
        members: t.Sequence[str],
        wishes: RolloutRequest,
        halfway: t.Collection[str] = (),
        quiet: t.Collection[str] = (),
    ) -> None:
        wishes.check(members)
        self._wishes = wishes
        self._quiet = frozenset(quiet)
        self._groups = wishes.groups_of(members)
        self._sizes = collections.Counter(group for member, group in self._groups.items() if member not in self._quiet)
        rank = {group: number for number, group in enumerate(dict.fromkeys(self._groups.values()))}
        self._order = sorted(members, key=lambda member: (member not in halfway, rank[self._groups[member]]))
        self.canaries = self._canaries()

    @property
    def order(self) -> tuple[str, ...]:
        """The members in the order in which they begin."""
        return tuple(self._order)

    def _canaries(self) -> tuple[str, ...]:
        named = self._wishes.named_canaries
        if named is not None:
            return tuple(member for member in self._order if member in named)
        return tuple(self._order[: self._wishes.number_of_canaries(len(self._order))])

    def admit(self, standing: Standing) -> Admission:
        """Return who may begin now."""
        stop = self._stop(standing)
        if stop:
            return Admission(stop=stop)
        begun = standing.busy | standing.done | standing.failed.keys()
        left = [member for member in self._order if member not in begun]
        ready = [member for member in self._now(left, standing) if member not in standing.postponed]
        quiet = [member for member in ready if member in self._quiet]
        if quiet or standing.busy & self._quiet:
            return Admission(tuple(self._in_turn(quiet, standing)))
        if not ready:
            return Admission()
        group = self._group_now(ready, standing)
        free = self._size(group) - len(standing.busy) - len(standing.away)
        fitting = self._in_turn(ready, standing)
        if free <= 0 and not standing.busy:
            return Admission(stop=self._blocked(standing, group))
        return Admission(tuple(fitting[: max(free, 0)]))

    def _in_turn(self, ready: t.Sequence[str], standing: Standing) -> list[str]:
        """Return those of the group whose turn it is."""
        if not ready:
            return []
        group = self._group_now(ready, standing)
        return [member for member in ready if self._groups[member] == group]

    def _now(self, left: t.Sequence[str], standing: Standing) -> t.Sequence[str]:
        """Return those whose turn it is: the canaries, until all of them are done."""
        if all(canary in standing.done for canary in self.canaries):
            return left
        return [member for member in left if member in self.canaries]

    def _group_now(self, ready: t.Sequence[str], standing: Standing) -> str | None:
        """Return the group whose turn it is. Members of two groups never change at the same time."""
        busy = [member for member in self._order if member in standing.busy]
        return self._groups[(busy or ready)[0]]

    def _size(self, group: str | None) -> int:
        return self._wishes.size(0, self._sizes[group])

    def _stop(self, standing: Standing) -> str:
        failed, names = standing.failed, self._wishes.name
        broken = [canary for canary in self.canaries if canary in failed]
        allowed = self._wishes.may_be_out(len(self._order))
        if not broken and len(failed) <= allowed:
            return ""
        why = f"{len(failed)} of {len(self._order)} {names('members')} failed, and {names('max_out')} allows {allowed}"
        if broken:
            why = f"The canary {first_few(broken)} failed"
        named = [*broken, *(member for member in failed if member not in broken)]
        return f"{why}. {first_few([f'{member}: {one_line(failed[member])}' for member in named], separator='; ')}."

    def _blocked(self, standing: Standing, group: str | None) -> str:
        names = self._wishes.name
        return (
            f"{first_few(sorted(standing.away))} failed and {'do' if len(standing.away) > 1 else 'does'} not serve, so "
            f"{names('sizes')} ({self._size(group)}) leaves no room for others. Repair them, or raise {names('sizes')}."
        )
