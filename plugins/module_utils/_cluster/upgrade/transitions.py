# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What is known of the steps between releases of the operator, and which steps a jump consists of. Pure.

``_operator/operator_lines.py`` has the records, and ``OperatorLine.steps`` says what each field means.
"""

from __future__ import annotations

import dataclasses
import itertools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Version = tuple[int, int, int]
Line = tuple[int, int]
Verdict = t.Literal["safe", "manual", "unknown", "blocked"]

_WORST_LAST: tuple[Verdict, ...] = ("safe", "manual", "unknown", "blocked")


@dataclasses.dataclass(frozen=True)
class ReleaseChange:
    """Something that a step removes, renames or changes, and when that concerns a cluster."""

    name: str
    level: t.Literal["warning", "failure"]
    message: str
    remedy: str
    when: Json


@dataclasses.dataclass(frozen=True)
class Transition:
    """What is known of one step, between two lines or between the releases of one line."""

    older: Line
    newer: Line
    since: Version
    last: Version
    verdict: Verdict
    changes: tuple[ReleaseChange, ...]
    restarts: Json
    back: Json
    sources: tuple[str, ...]

    @property
    def title(self) -> str:
        """The step as a person writes it."""
        return f"{line_text(self.older)} to {line_text(self.newer)}"


def parse(records: t.Iterable[Json]) -> list[Transition]:
    """Return records as transitions. Raise for one that is incomplete, and for two of one step."""
    parsed = [_parse(record) for record in records]
    steps = [(item.older, item.newer) for item in parsed]
    twice = next((item for item in parsed if steps.count((item.older, item.newer)) > 1), None)
    if twice:
        raise GpuOpsError(f"There are two records of the step from {twice.title}. Delete one.", reason="Invalid")
    return parsed


def _parse(record: Json) -> Transition:
    try:
        older, newer, since, last = (_version(record[key]) for key in ("from", "to", "since", "last"))
        verdicts = [record["verdict"], record["back"]["verdict"]]
        if not set(verdicts) <= set(_WORST_LAST) or not record["sources"]:
            raise ValueError(f"verdict is one of {', '.join(_WORST_LAST)}, and there is a source")
        return Transition(
            older=older[:2],
            newer=newer[:2],
            since=since,
            last=last,
            verdict=record["verdict"],
            changes=tuple(_change(change) for change in record["changes"]),
            restarts=record["restarts"],
            back=record["back"],
            sources=tuple(record["sources"]),
        )
    except (KeyError, TypeError, ValueError) as e:
        step = f"{record.get('from')} to {record.get('to')}" if isinstance(record, dict) else str(record)
        message = f"The record of the step from {step} is incomplete: {e}. Correct it in transitions."
        raise GpuOpsError(message, reason="Invalid") from e


def _change(change: Json) -> ReleaseChange:
    fields = {key: change[key] for key in ("name", "level", "message", "remedy", "when")}
    return ReleaseChange(**fields)


def _version(text: str) -> Version:
    found = operands.release(text)
    if found is None:
        raise ValueError(f"{text!r} is no release")
    return found


def line_text(line: Line | Version) -> str:
    """Return a line, or a release, as NVIDIA writes it: ``v26.7``, ``v26.7.0``."""
    return "v" + ".".join(map(str, line))


# ---- a jump -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Jump:
    """The way from one release to another."""

    older: Version
    newer: Version
    is_back: bool
    steps: tuple[Transition, ...]
    """The steps between lines, in the order in which they are taken; within a line, the record of that line."""
    gap: str = ""
    """The step for which there is no record, or an empty string."""

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all steps."""
        if self.gap:
            return "unknown"
        found: list[Verdict] = [step.back["verdict"] if self.is_back else step.verdict for step in self.steps]
        return max(found, key=_WORST_LAST.index, default="safe")

    @property
    def stops(self) -> list[str]:
        """The releases on which to stop on the way, if NVIDIA does not support the jump at once."""
        if self.is_back:
            return [line_text(step.older) for step in self.steps[:-1]]
        return [line_text(step.last) for step in self.steps[:-1]]

    @property
    def evicts(self) -> bool:
        """Whether the operator evicts GPU pods and reloads the driver, if the drivers are not held."""
        return any(step.restarts.get("driver") == "evicts" for step in self.steps) or bool(self.gap)

    @property
    def restarts(self) -> list[str]:
        """What the jump restarts, apart from the drivers."""
        names = ("operator", "operands", "runtime")
        return [name for name in names if self.gap or any(step.restarts.get(name) for step in self.steps)]


def jump(records: t.Sequence[Transition], before: Version, after: Version) -> Jump:
    """Return the way from one release to another, up or back."""
    is_back = after < before
    older, newer = (after, before) if is_back else (before, after)
    if older[:2] == newer[:2]:
        own = _record(records, older[:2], newer[:2])
        missing = "" if own or older == newer else f"{line_text(older)} to {line_text(newer)}"
        steps = [own] if own and older != newer else []
        return Jump(before, after, is_back, tuple(steps), missing)
    lines = _lines(records, older[:2], newer[:2])
    found = [_record(records, *pair) for pair in itertools.pairwise(lines)]
    known = [step for step in found if step is not None]
    gap = next((pair for pair, step in zip(itertools.pairwise(lines), found) if step is None), None)
    ordered = reversed(known) if is_back else known
    text = f"{line_text(gap[0])} to {line_text(gap[1])}" if gap else ""
    return Jump(before, after, is_back, tuple(ordered), text)


def _record(records: t.Iterable[Transition], older: Line, newer: Line) -> Transition | None:
    return next((item for item in records if (item.older, item.newer) == (older, newer)), None)


def _lines(records: t.Iterable[Transition], older: Line, newer: Line) -> list[Line]:
    """Return the lines from one to another, with those between them that there are records of."""
    known = {line for item in records for line in (item.older, item.newer) if older < line < newer}
    return [older, *sorted(known), newer]


def is_newer_than_known(records: t.Iterable[Transition], release: Version) -> bool:
    """Return whether the release is newer than all that is known of its line."""
    known = [item.last for item in records if item.newer == release[:2]]
    return bool(known) and release > max(known)
