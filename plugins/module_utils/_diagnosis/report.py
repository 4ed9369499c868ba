# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a person reads in a terminal: for each cause what, where, why, what to do and how sure that is. Pure."""

from __future__ import annotations

import collections
import re
import textwrap
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import WAITING
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

WIDTH = 100
_LABEL = 8
SHOWN_QUOTES, QUOTE_LENGTH, _TAIL = 3, 240, 90
"""How many pieces of evidence are shown of each cause, how much of each, and how much of that from its end."""
SHOWN_GAPS = 12

_HOW_SURE = {
    "certain": "certain: only this cause leaves this evidence",
    "likely": "likely: other causes are rare",
    "possible": "possible: other causes are as common",
}
_SEVERITIES = {"failure": "FAILURE", "warning": "WARNING", "ok": "NOTE"}
_NUMBERED = re.compile(r"(?P<head>.*?)(?P<number>\d+)(?P<tail>\D*)")


def as_text(findings: t.Sequence[Json], gaps: t.Sequence[Json], changes: Json | None = None) -> str:
    """Return the findings (in the form of a module's result), what was not seen, and one line of totals."""
    known = changes is not None
    new = collections.Counter((changes or {}).get("new") or [])
    blocks = []
    for number, finding in enumerate(findings, 1):
        is_new = known and new[finding["title"]] > 0
        new[finding["title"]] -= is_new
        blocks.append("\n".join(_finding(number, finding, is_new)))
    if not findings:
        blocks.append("Everything that could be seen is in order.")
    if changes and changes["gone"]:
        blocks.append("\n".join(["Gone since the last diagnosis:", *map(_item, changes["gone"])]))
    if gaps:
        blocks.append("\n".join(_gaps(gaps)))
    return "\n\n".join([*blocks, _totals(findings, gaps, changes)])


def _finding(number: int, finding: Json, is_new: bool) -> t.Iterator[str]:
    mark = ", new" if is_new else ""
    yield f"{number}. {_SEVERITIES[finding['severity']]}{mark}: {finding['title']}"
    yield from _field("Where", _where(finding))
    yield from _field("Why", finding["cause"])
    yield from _seen(finding["quotes"])
    yield from _field("Do", finding["remedy"] or "Nothing here knows a remedy.")
    if finding["code"] == WAITING.code:
        yield from _field("Sure", "that it is so, and not why")
    elif finding["severity"] != "ok":
        yield from _field("Sure", _HOW_SURE[finding["certainty"]])
    for text in finding["tell_apart"]:
        yield from _field("Or", text)
    if finding["consequences"]:
        yield from _field("Effect", "; ".join(map(_consequence, finding["consequences"])))
    yield from _field("Page", finding["url"])


def _where(finding: Json) -> str:
    nodes, objects = finding["nodes"], finding["objects"]
    on = folded(nodes) + (f" ({len(nodes)} nodes)" if len(nodes) > 1 else "")
    return ", ".join(filter(None, (on, first_few([one_line(each) for each in objects], 3)))) or "the cluster"


def _seen(quotes: t.Sequence[Json]) -> t.Iterator[str]:
    for index, quote in enumerate(quotes[:SHOWN_QUOTES]):
        node = f" on {quote['node']}" if quote["node"] else ""
        yield from _field("" if index else "Seen", f"{_cut(one_line(quote['text']))} [{quote['source']}{node}]")
    if len(quotes) > SHOWN_QUOTES:
        yield from _field("", f"and {len(quotes) - SHOWN_QUOTES} more")


def _cut(text: str) -> str:
    """Return the beginning and the end of a long piece of evidence: the reason mostly stands at the end."""
    if len(text) <= QUOTE_LENGTH:
        return text
    head, tail = text[: QUOTE_LENGTH - _TAIL], text[-_TAIL:]
    return f"{head.rpartition(' ')[0] or head} ... {tail.partition(' ')[2] or tail}"


def _consequence(each: Json) -> str:
    return str(each["title"]) + (f" ({folded(each['nodes'])})" if each["nodes"] else "")


def _gaps(gaps: t.Sequence[Json]) -> t.Iterator[str]:
    yield "Not seen, so its state is unknown:"
    for gap in gaps[:SHOWN_GAPS]:
        yield _item(f"{gap['what']}: {gap['why']}")
    if len(gaps) > SHOWN_GAPS:
        yield _item(f"and {len(gaps) - SHOWN_GAPS} more")


def _totals(findings: t.Sequence[Json], gaps: t.Sequence[Json], changes: Json | None) -> str:
    severities = collections.Counter(finding["severity"] for finding in findings)
    parts = [_counted(severities["failure"], "failure"), _counted(severities["warning"], "warning")]
    parts += [_counted(severities["ok"], "note")] if severities["ok"] else []
    parts.append(_counted(len(gaps), "gap"))
    since = ""
    if changes:
        since = f" Since the last diagnosis: {len(changes['new'])} new, {len(changes['gone'])} gone, "
        since += f"{changes['known']} known."
    return f"{', '.join(parts)}.{since}"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _field(label: str, text: str) -> list[str]:
    first = f"   {label + ':' if label else '':<{_LABEL}}"
    return _wrapped(one_line_kept(text), first, " " * len(first))


def _item(text: str) -> str:
    return "\n".join(_wrapped(one_line_kept(text), "   - ", "     "))


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    # A line that was copied from a log or an address must stay whole if it has no blanks.
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    ) or [first.rstrip()]


def one_line_kept(text: str) -> str:
    """Return a text on one line, with the period at its end."""
    end = "." if text.rstrip().endswith(".") else ""
    return one_line(text) + end


def folded(names: t.Sequence[str]) -> str:
    """Return names with runs of numbers folded: ``gpu-0001 to gpu-0040, gpu-0050``."""
    runs: list[list[str]] = []
    for name in sorted(names, key=_order):
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    parts = [part for run in runs for part in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else run)]
    return first_few(parts, 8)


def _order(name: str) -> tuple[str, int, str]:
    found = _NUMBERED.fullmatch(name)
    return (found["head"], int(found["number"]), found["tail"]) if found else (name, 0, "")


def _follows(one: str, other: str) -> bool:
    head, number, tail = _order(one)
    return bool(_NUMBERED.fullmatch(other)) and _order(other) == (head, number + 1, tail) and len(one) <= len(other)
