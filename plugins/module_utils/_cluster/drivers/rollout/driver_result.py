# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The result of a rollout: for each node, and for the call."""

from __future__ import annotations

import collections
import dataclasses
import re
import typing as t
from datetime import UTC, datetime

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_node import DriverNode
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.sets import reported_version
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Step = t.Literal["waiting", "upgrade", "done", "failed", "left out"]

_DIGITS = re.compile(r"\d+")


@dataclasses.dataclass
class DriverRow:
    """The result for one node."""

    node: str
    step: Step = "waiting"
    action: t.Literal["upgrade", "nothing"] = "upgrade"
    daemonset: str = ""
    state: str = ""
    before: str = ""
    after: str = ""
    wave: int = 0
    waits_for: str = ""
    since: float = 0.0
    """Since when the node has waited for that, on the API server's clock."""
    evicted: list[str] = dataclasses.field(default_factory=list)
    unschedulable: bool = False
    changed: bool = False
    failed: bool = False
    reason: str = ""
    degraded: str = ""
    """What a node waits for that has the newest driver already, or an empty string."""
    kept_back: bool = False
    """Whether our label keeps it from its upgrade."""
    notes: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0

    def wait(self, waits_for: str, now: float) -> None:
        """Note what the node waits for, and since when. A number that counts up is the same wait."""
        is_same = waits_for == self.waits_for or _without_numbers(waits_for) == _without_numbers(self.waits_for)
        if not is_same or not self.since:
            self.since = now
        self.waits_for = waits_for

    def fail(self, reason: str) -> None:
        """Record that the node did not get its driver, and why."""
        self.failed, self.step, self.reason = True, "failed", reason

    def end(self, seconds: float) -> None:
        """Record that the node has its driver."""
        if self.failed:
            self.note(f"It came right after it had failed: {one_line(self.reason)}.")
        self.failed, self.step, self.reason, self.waits_for = False, "done", "", ""
        self.seconds = round(seconds, 1)

    def leave_out(self, reason: str) -> None:
        """Record that the rollout is not about this node."""
        self.step, self.reason, self.waits_for, self.action = "left out", reason, "", "nothing"

    def degrade(self, waits_for: str) -> None:
        """Record that nothing is to be changed on the node, and that it is not well."""
        self.leave_out(f"It has the newest driver already, and waits for {waits_for}.")
        self.degraded = waits_for

    def note(self, text: str) -> None:
        """Add a note once."""
        if text not in self.notes:
            self.notes.append(text)

    def describe(self, sight: DriverNode) -> None:
        """Take over what the last look saw."""
        self.state, self.daemonset = sight.state, sight.driver.name
        self.after = reported_version(sight.node)
        self.unschedulable = nodes.is_cordoned(sight.node)

    def as_result(self) -> Json:
        """Return the node's part of the module's result."""
        waits_for = "" if self.failed and one_line(self.waits_for) in one_line(self.reason) else self.waits_for
        since = datetime.fromtimestamp(self.since, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if self.since else ""
        return {
            "node": self.node,
            "step": self.step,
            "action": self.action,
            "state": self.state,
            "waits_for": waits_for,
            "since": since if waits_for else "",
            "wave": self.wave,
            "daemonset": self.daemonset,
            "before": self.before,
            "after": self.after,
            "evicted": sorted(set(self.evicted)),
            "unschedulable": self.unschedulable,
            "kept_back": self.kept_back,
            "changed": self.changed,
            "failed": self.failed,
            "reason": self.reason,
            "degraded": self.degraded,
            "notes": self.notes,
            "seconds": self.seconds,
        }


def _without_numbers(text: str) -> str:
    """Return a text without the numbers and the seconds in it, which change while a node waits for the same."""
    return _DIGITS.sub("", text)


@dataclasses.dataclass(frozen=True)
class RolloutResult:
    """The result of one call."""

    rows: t.Sequence[DriverRow]
    stop: str = ""
    """Why no further node was begun, or an empty string."""

    @property
    def finished(self) -> bool:
        """Whether no node waits for its turn or is in its upgrade."""
        return not any(row.step in ("waiting", "upgrade") for row in self.rows)

    @property
    def changed(self) -> bool:
        """Whether the call changed anything."""
        return any(row.changed for row in self.rows)

    @property
    def failed(self) -> list[DriverRow]:
        """The nodes that failed."""
        return [row for row in self.rows if row.failed]

    @property
    def degraded(self) -> list[str]:
        """A warning of each node on which nothing is to be changed, and which is not well."""
        return [
            f"Degraded, which stops no other node: {row.node}: it waits for {one_line(row.degraded)}."
            for row in self.rows
            if row.degraded
        ]

    def as_result(self) -> Json:
        """Return the keys of the module's result."""
        steps = collections.Counter(row.step for row in self.rows)
        summary = {
            "nodes": len(self.rows),
            "upgraded": sum(row.step == "done" and row.action == "upgrade" for row in self.rows),
            "current": sum(row.step == "done" and row.action == "nothing" for row in self.rows),
            "failed": steps["failed"],
            "waiting": steps["waiting"],
            "upgrading": steps["upgrade"],
            "left_out": steps["left out"],
            "cordoned": sum(row.unschedulable for row in self.rows),
            "kept_back": sum(row.kept_back for row in self.rows),
        }
        return {
            "nodes": [row.as_result() for row in self.rows],
            "summary": summary,
            "finished": self.finished,
            "changed": self.changed,
        }

    def as_failure(self) -> Json:
        """Return the same for a call that fails, without the nodes that have their driver: Ansible prints it whole."""
        return {**self.as_result(), "nodes": [row.as_result() for row in self.rows if row.step != "done"]}

    @property
    def closing(self) -> str:
        """What the call has left behind, and what to do. Empty if it has left nothing."""
        rows, parts = self.rows, []
        cordoned = [row.node for row in rows if row.failed and row.unschedulable]
        if cordoned:
            parts.append(f"{first_few(cordoned)} {'stay' if len(cordoned) > 1 else 'stays'} cordoned.")
        busy = [row.node for row in rows if row.step == "upgrade"]
        if busy:
            parts.append(f"The upgrade of {first_few(busy)} continues without this call.")
        kept = [row.node for row in rows if row.kept_back]
        if kept:
            what = "node does" if len(kept) == 1 else "nodes do"
            parts.append(
                f"{len(kept)} {what} not get the driver until this runs again ({first_few(kept)}): the label "
                f"{names.UPGRADE_SKIP} keeps them from it."
            )
        return " ".join(parts)


def progress(rows: t.Collection[DriverRow], now: float) -> str:
    """Return a line about how far the rollout is, and for each node in its upgrade, what it waits for and how long."""
    due = [row for row in rows if row.action == "upgrade"]
    done, failed = (sum(row.step == step for row in due) for step in ("done", "failed"))
    busy = sorted((row for row in due if row.step == "upgrade"), key=lambda row: (row.since, row.node))
    line = f"{done}/{len(due)} nodes have their driver, {len(busy)} in their upgrade"
    line += f", {failed} failed" if failed else ""
    shown = busy or [row for row in due if row.step == "waiting" and row.waits_for][:1]
    return "; ".join([line, *(_told(row, now) for row in shown[:3])])


def _told(row: DriverRow, now: float) -> str:
    seconds = max(int(now - row.since), 0)
    state = f" ({row.state})" if row.state else ""
    return f"{row.node}{state} waits for {one_line(row.waits_for)} (for {seconds // 60:02}:{seconds % 60:02})"
