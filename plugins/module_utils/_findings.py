# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Findings of the checks of a cluster and of a host, and their form in a module's result."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

Level = t.Literal["ok", "warning", "failure"]

_ORDER: tuple[Level, ...] = ("failure", "warning", "ok")


@dataclasses.dataclass(frozen=True)
class CheckFinding:
    """A finding of one check."""

    check: str
    level: Level
    message: str
    remedy: str = ""


AnyFinding = t.TypeVar("AnyFinding", bound=CheckFinding)


def worst_first(findings: t.Iterable[AnyFinding]) -> list[AnyFinding]:
    """Sort by level; failures come first."""
    return sorted(findings, key=lambda finding: _ORDER.index(finding.level))


def as_result(findings: t.Sequence[CheckFinding]) -> dict[str, t.Any]:
    """Return the findings and their number at each level, as a module's result."""
    levels = collections.Counter(finding.level for finding in findings)
    return {
        "findings": [dataclasses.asdict(finding) for finding in findings],
        "summary": {"failures": levels["failure"], "warnings": levels["warning"], "ok": levels["ok"]},
    }
