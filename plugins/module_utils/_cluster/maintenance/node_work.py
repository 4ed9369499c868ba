# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What every change of held nodes brings along: how it is applied, how it is proved, and what a failure means.

`held_nodes.HeldNodesRollout` does all the rest, and is the same for every change.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_result import NodeResult
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import AWAY, GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

NOTHING, WAITING, DRAIN, DONE, FAILED = "nothing", "waiting", "drain", "done", "failed"
"""The steps that every change has: ``nothing`` if the node is as it should be. The others are its own."""

GONE = "The node was deleted in the meantime."


@dataclasses.dataclass(kw_only=True)
class HeldRow:
    """What a rollout records of one node."""

    held: NodeResult = dataclasses.field(default_factory=lambda: NodeResult(""))
    """How the node is held, and what was evicted from it."""
    step: str = WAITING
    wave: int = 0
    """The number of the node's stage, or 0 if the node has nothing to change."""
    waits_for: str = ""
    since: float = 0.0
    """Since when the node has waited for that (monotonic seconds)."""
    changed: bool = False
    failed: bool = False
    reason: str = ""
    degraded: str = ""
    """What a node lacks on which nothing is to be changed, or an empty string. It is no failure."""
    kept: bool = False
    """Whether the node failed and was not put back."""
    seconds: float = 0.0

    def wait(self, waits_for: str, now: float) -> None:
        """Note what the node waits for, and since when."""
        if waits_for != self.waits_for:
            self.waits_for, self.since = waits_for, now

    def degrade(self, reason: str) -> None:
        """Record what the node lacks, on which nothing was to be changed."""
        self.degraded, self.step, self.waits_for = reason, DONE, ""

    def fail(self, reason: str) -> None:
        """Record that the change of the node failed, and why."""
        self.failed, self.reason, self.step = True, reason, FAILED

    def keep(self, purpose: str) -> None:
        """Record that a node that failed was not put back."""
        self.kept, self.reason = True, f"{self.reason} It stays cordoned for the purpose {purpose}."


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How far the change of a node is after a look at it."""

    kind: t.Literal["wait", "done", "failed"] = "wait"
    reason: str = ""
    is_unchanged: bool = False
    """After a failure: whether it is proved that nothing on the node changed."""


WAIT, PROVED = Outcome(), Outcome("done")


def progress_line(
    rows: t.Mapping[str, HeldRow], done: str, causes: t.Mapping[str, str], now: float, closed: str
) -> str:
    """Return a line about how far the nodes are, and what the first of those that wait waits for.

    ``done`` says what the nodes have that are done, and ``causes`` why a node waits. ``closed`` is what the others wait
    for, beyond this call.
    """
    due = {name: row for name, row in rows.items() if row.step != NOTHING}
    line = f"{sum(row.step == DONE for row in due.values())}/{len(due)} nodes {done}"
    busy = {name: row for name, row in due.items() if row.step not in (WAITING, DONE, FAILED)}
    waits = {name: row for name, row in (busy or due).items() if row.waits_for and row.step not in (DONE, FAILED)}
    if waits:
        name, first = next(iter(waits.items()))
        minutes, seconds = divmod(int(now - first.since), 60)
        line += f"; {first_few(list(waits), 3)}: {first.waits_for}"
        line += f"; {causes[name]}" if causes.get(name) else ""
        line += f" (for {minutes:02}:{seconds:02})"
    return f"{line}; the others wait for {closed}" if closed else line


class _NamedRow(t.Protocol):
    name: str
    step: str
    kept: bool
    failed: bool
    reason: str


def failure(rows: t.Sequence[_NamedRow], stop: str) -> GpuOpsError:
    """Return the error about nodes that failed. ``stop`` says why the others were not begun, if so."""
    bad = [f"{row.name}: {one_line(row.reason).rstrip('.')}" for row in rows if row.failed]
    said = stop.rstrip(".") or first_few(bad, separator="; ")
    return GpuOpsError(f"{said}. {closing(rows)}", reason="NodesFailed")


def closing(rows: t.Sequence[_NamedRow]) -> str:
    """Return the last sentences of an error, which say in what state the call has left the nodes."""
    held = [row.name for row in rows if row.kept]
    left = [row.name for row in rows if row.step == WAITING]
    said = f"{first_few(held)} {'stay' if len(held) > 1 else 'stays'} cordoned. " if held else ""
    rest = f"Not begun: {first_few(left)}. " if left else ""
    return f"{said}{rest}Run it again; it does not repeat what is done."


Row = t.TypeVar("Row", bound=HeldRow)


class NodeWork(abc.ABC, t.Generic[Row]):
    """The special part of one kind of change, and its rows."""

    purpose: str
    """What the nodes are held for."""
    timeout_s: float
    """For how many seconds a node may wait for other maintainers."""
    rows: t.Mapping[str, Row]

    def __init__(self) -> None:
        self.touched: set[str] = set()
        """Nodes to which a change was sent, also without an answer. Others are as they were."""

    @contextlib.contextmanager
    def touching(self, name: str) -> t.Iterator[None]:
        """Note that the block sends a change to a node, unless the API server refuses the first one."""
        was_touched = name in self.touched
        self.touched.add(name)
        try:
            yield
        except GpuOpsError as e:
            if e.reason not in AWAY and not was_touched:
                self.touched.discard(name)
            raise

    @abc.abstractmethod
    def look(self) -> dict[str, Json]:
        """Return all nodes by name."""

    @abc.abstractmethod
    def consult(self, busy: t.Collection[str]) -> None:
        """Look now and then at what else may explain why nodes wait."""

    @abc.abstractmethod
    def begin(self, name: str, now: float) -> None:
        """Set the step of a node that is held and empty, or needs neither."""

    def is_under_way(self, name: str, node: Json) -> bool:
        """Return whether the change of a node that is to be held goes on already, so that it must not be drained."""
        return False

    @abc.abstractmethod
    def advance(self, name: str, node: Json, now: float) -> Outcome:
        """Take as many steps on a node as are possible now. Several nodes advance at the same time."""

    def prove_together(self) -> dict[str, str]:
        """Prove what is cheaper for several nodes at once. Return the reason for each node that failed."""
        return {}

    def explain(self, name: str, reason: str) -> str:
        """Return the reason of a failure with its cause."""
        return reason

    @abc.abstractmethod
    def illness(self, name: str, node: Json) -> str:
        """Return what a node that was done lacks again, or an empty string."""

    def tidies(self, name: str) -> bool:
        """Return whether the end of the change may write more on a node than the end of its hold."""
        return False

    def end_patch(self, name: str, node: Json, released: Json | None) -> Json | None:
        """Return the patch that ends the change of a node that is proved. ``released`` ends its hold."""
        return released

    @abc.abstractmethod
    def describe(self, name: str, node: Json) -> None:
        """Note in a row what a node offers now."""

    @abc.abstractmethod
    def progress(self, now: float, closed: str) -> str:
        """Return a line about how far the nodes are. ``closed`` is what the others wait for, beyond this call."""
