# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""A section of the host's facts. For each fact it has the source, or the reason why the fact is null."""

from __future__ import annotations

import dataclasses
import typing as t


def known_from(source: str) -> dict[str, str | None]:
    """Return the entry of a fact that is known."""
    return {"source": source, "reason": None}


def unknown(reason: str) -> dict[str, str | None]:
    """Return the entry of a fact that is null."""
    return {"source": None, "reason": reason}


def known_if(value: t.Any, source: str, reason: str) -> dict[str, str | None]:
    """Return the entry of a fact that is null if ``value`` is None."""
    return unknown(reason) if value is None else known_from(source)


@dataclasses.dataclass(frozen=True)
class Section:
    """One top-level fact. ``sources`` has an entry for each field, or an entry under ``""`` for the fact as a whole."""

    facts: t.Any
    sources: dict[str, dict[str, str | None]] = dataclasses.field(default_factory=dict)
