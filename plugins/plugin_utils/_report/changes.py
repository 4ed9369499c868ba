# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What has changed since the last report. Each page keeps a small state, which the next report reads. Pure.

A report of an unchanged fleet keeps the changes that the former one has shown, so that only its time differs.
"""

from __future__ import annotations

import collections
import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CHANGES_LISTED = 60
"""How many changes a page lists."""

FORM = 1
"""The form of the state. A state in another form is no state."""

_STATE = re.compile(r'<script type="application/json" id="state">(.*?)</script>', re.DOTALL)
_FIELDS = ("state", "GPUs", "driver", "kernel")


@dataclasses.dataclass(frozen=True)
class Changes:
    """What differs, as sentences, and since when (ISO 8601). The first report knows no time."""

    since: str | None
    lines: tuple[str, ...]
    more: int = 0
    is_new: bool = True
    """Whether anything but the time differs from the former page."""


def state_text(page: str) -> str | None:
    """Return the state in a page, as JSON, or None if it has none."""
    found = _STATE.search(page)
    return found[1] if found else None


def compare(state: Json, former: t.Any) -> tuple[Json, Changes]:
    """Return the state to keep, and what has changed since the former state."""
    state = {"form": FORM, **state}
    if not _is_state(former):
        kept: Json = {"since": None, "lines": [], "more": 0}
        return {**state, "changes": kept}, Changes(None, ())
    if former["digest"] == state["digest"]:
        kept = former["changes"]
        return {**state, "changes": kept}, Changes(kept["since"], tuple(kept["lines"]), kept["more"], is_new=False)
    lines = [*_nodes(former["nodes"], state["nodes"]), *_findings(former["findings"], state["findings"])]
    kept = {"since": former["taken"], "lines": lines[:CHANGES_LISTED], "more": max(0, len(lines) - CHANGES_LISTED)}
    return {**state, "changes": kept}, Changes(kept["since"], tuple(kept["lines"]), kept["more"])


def _is_state(former: t.Any) -> t.TypeGuard[Json]:
    """Return whether this is a state of the present form. A page is a file that anybody may have edited."""
    if not isinstance(former, dict) or former.get("form") != FORM:
        return False
    kept, nodes, findings = former.get("changes"), former.get("nodes"), former.get("findings")
    return (
        isinstance(former.get("taken"), str)
        and isinstance(former.get("digest"), str)
        and isinstance(nodes, dict)
        and all(_is_texts(each, len(_FIELDS)) for each in nodes.values())
        and isinstance(findings, list)
        and all(_is_texts(each, 3) for each in findings)
        and isinstance(kept, dict)
        and (kept.get("since") is None or isinstance(kept["since"], str))
        and isinstance(kept.get("lines"), list)
        and _is_texts(kept["lines"], len(kept["lines"]))
        and isinstance(kept.get("more"), int)
    )


def _is_texts(value: t.Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length and all(isinstance(each, str) for each in value)


def _nodes(before: t.Mapping[str, list[str]], now: t.Mapping[str, list[str]]) -> t.Iterator[str]:
    """Yield what has changed about nodes. The same change of several nodes is one sentence."""
    for verb, names in (("new", sorted(now.keys() - before.keys())), ("gone", sorted(before.keys() - now.keys()))):
        if names:
            yield f"{_counted(names)} {'is' if len(names) == 1 else 'are'} {verb}: {first_few(names)}."
    same: dict[tuple[str, str, str], list[str]] = collections.defaultdict(list)
    for name in sorted(before.keys() & now.keys()):
        for field, was, is_ in zip(_FIELDS, before[name], now[name], strict=True):
            if was != is_:
                same[field, was, is_].append(name)
    ordered = sorted(same.items(), key=lambda each: (_FIELDS.index(each[0][0]), -len(each[1])))
    for (field, was, is_), names in ordered:
        yield f"{first_few(names, 3)}: {field} {was or 'unknown'} → {is_ or 'unknown'}."


def _counted(names: t.Sequence[str]) -> str:
    return "1 node" if len(names) == 1 else f"{len(names):,} nodes"


def _findings(before: t.Sequence[list[str]], now: t.Sequence[list[str]]) -> t.Iterator[str]:
    known, found = (
        {(code, cause): title for code, cause, title in before},
        {(c, cause): title for c, cause, title in now},
    )
    yield from (f"New finding: {title}." for identity, title in found.items() if identity not in known)
    yield from (f"Solved: {title}." for identity, title in known.items() if identity not in found)
