# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Where a host's facts come from: every section of facts carries, for each fact, its source or the reason why it is missing."""

from __future__ import annotations

import dataclasses
import typing as t


def known(source: str) -> dict[str, str | None]:
    """Say where a fact comes from."""
    return {"source": source, "reason": None}


def missing(reason: str) -> dict[str, str | None]:
    """Say why a fact is null."""
    return {"source": None, "reason": reason}


def either(value: t.Any, source: str, reason: str) -> dict[str, str | None]:
    """Say where a value comes from, or why it is null."""
    return missing(reason) if value is None else known(source)


@dataclasses.dataclass(frozen=True)
class Section:
    """One top-level fact. The keys of ``sources`` are its fields' names, or an empty string for the fact as a whole."""

    facts: t.Any
    sources: dict[str, dict[str, str | None]] = dataclasses.field(default_factory=dict)
