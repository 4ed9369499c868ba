# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which nodes of a rollout may begin now: canaries, waves with their soak, maintenance windows, and how many at once.

Every rollout of held nodes is paced by this file. It knows names and times only. Pure.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout import stages
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.maintenance_windows import ALWAYS, Windows
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.rollout_request import RolloutRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.window import Admission, Standing, Window
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few

ILL_S = 30.0
"""For how long a node that was done must be unwell before that counts: an operand may start again once."""


@dataclasses.dataclass(frozen=True)
class PaceRequest:
    """What the user asks of the pace."""

    wishes: RolloutRequest = dataclasses.field(default_factory=RolloutRequest)
    waves: tuple[str, ...] = ()
    soak_s: float = 0.0
    windows: Windows = ALWAYS

    def closed(self, now: float, slowest_s: float = 0.0) -> str:
        """Return the window that a node must wait for, or an empty string. It must be open for the slowest change."""
        open_for_s = self.windows.open_for_s(now)
        is_open = open_for_s is not None and open_for_s >= slowest_s
        return "" if is_open else f"the next maintenance window ({self.windows})"

    def why_closed(self, now: float) -> str:
        """Return the sentence that no window is open now, and when the next one opens, or an empty string."""
        if not self.closed(now):
            return ""
        return f"No maintenance window is open now ({self.windows}). The next one opens in {self._opens_in(now)}."

    def why_left(self, left: t.Sequence[str], now: float) -> str:
        """Return the sentence that nodes wait for the next window, although this one may be open for a short time."""
        if not left or not self.windows.hours:
            return ""
        waits = "waits" if len(left) == 1 else "wait"
        window = f"the next maintenance window ({self.windows}), which opens in {self._opens_in(now)}"
        return f"{first_few(left)} {waits} for {window}. Run it again then."

    def _opens_in(self, now: float) -> str:
        """Return how long it takes until the next window opens, in words."""
        minutes = int(self.windows.next_s(now) // 60)
        sizes = (("days", 24 * 60), ("hours", 60), ("minutes", 1))
        unit, size = next(each for each in sizes if minutes >= 2 * each[1] or each[1] == 1)
        return f"{minutes // size} {unit}"


@dataclasses.dataclass(frozen=True)
class Members:
    """The nodes of a rollout, and what is known of them before it begins."""

    names: tuple[str, ...] = ()
    """Those that are to be changed."""
    quiet: frozenset[str] = frozenset()
    """Those whose change leaves running pods alone. They take no room, and come before the others."""
    halfway: frozenset[str] = frozenset()
    """Those that are out of service since an earlier run. They wait for neither a wave nor a window."""
    held: frozenset[str] = frozenset()
    """Those that an earlier run still holds, cordoned or not. What it has done to them is unknown."""
    done: t.Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Those with which an earlier run of the unfinished rollout was done, and since when."""


class NodePacing:
    """The order and the limits of one rollout."""

    def __init__(self, members: Members = Members(), request: PaceRequest = PaceRequest()) -> None:
        self._request, self.members = request, members
        names = [*members.done, *(name for name in members.names if name not in members.done)]
        wishes = request.wishes
        if isinstance(wishes.canary, list):  # a canary that is as it should be is done
            wishes = dataclasses.replace(wishes, canary=[name for name in wishes.canary if str(name) in names])
        self._window = Window(names, wishes, [*members.done, *members.halfway], members.quiet)
        self._stages = stages.stages(self._window.order, self._window.canaries, request.waves)

    def without(self, names: t.Collection[str]) -> NodePacing:
        """Return the pace of the other nodes."""
        left = tuple(each for each in self.members.names if each not in names)
        return NodePacing(dataclasses.replace(self.members, names=left), self._request) if names else self

    @property
    def waves(self) -> dict[str, int]:
        """The number of each node's stage. The canaries are a stage, too."""
        return {name: number for number, stage in enumerate(self._stages, start=1) for name in stage}

    @property
    def awaited(self) -> frozenset[str]:
        """The nodes for which a later stage waits: the next run must know that they are done."""
        return frozenset(name for stage in self._stages[:-1] for name in stage)

    @property
    def budget(self) -> int:
        """How many nodes may fail."""
        return self._request.wishes.may_be_out(len(self._window.order))

    def admit(self, standing: Standing) -> Admission:
        """Return who may begin now."""
        return self._window.admit(standing)

    def gate(self, done: t.Mapping[str, float], failed: t.Collection[str], now: float) -> stages.Gate:
        """Return who must wait for an earlier stage. ``done`` says since when the nodes are well."""
        return stages.gate(self._stages, done, failed, self._request.soak_s, now)

    def closed(self, now: float, slowest_s: float = 0.0) -> str:
        """Return the window that a node must wait for, or an empty string. It must be open for the slowest change."""
        return self._request.closed(now, slowest_s)

    def deferred(self, now: float) -> frozenset[str]:
        """Return the nodes that this call does not begin: while no window is open, all that are in service."""
        return frozenset(self.members.names) - self.members.halfway if self.closed(now) else frozenset()

    def why_closed(self, now: float) -> str:
        """Return the sentence that no window is open now, and when the next one opens, or an empty string."""
        return self._request.why_closed(now)

    def why_left(self, left: t.Sequence[str], now: float) -> str:
        """Return the sentence that nodes wait for the next window, although this one may be open for a short time."""
        return self._request.why_left(left, now)
