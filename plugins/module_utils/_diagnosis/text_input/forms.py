# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Lines as their programs wrote them: joined where a terminal or a runtime has broken them, and whose they are. Pure.

People paste the output of commands for several hosts and pods, and what a terminal of 80 columns has wrapped.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.files.layout import Origin
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import LINE_LENGTH

_CRI = re.compile(r"\d{4}-\d\d-\d\dT\S{8,40} (?:stdout|stderr) (?P<part>[PF]) ")
"""What a container runtime writes before a line in its log file: P for a part of a line, F for its end."""

_BYTES = re.compile(r'"MESSAGE" ?: ?\[')

_ANSIBLE = re.compile(
    r"(?P<host>[\w.-]{1,253}) \| (?:CHANGED|SUCCESS|FAILED|UNREACHABLE!?)(?: \| rc=-?\d+ >>(?: ?\(stdout\))?| =>.*)$"
)
"""What ``ansible -m shell`` writes before the output of a host."""

_PROMPT = re.compile(r"\W{0,2}(?:\(\S{1,40}\) ?)?\S{0,80}?[#$%>] ?(?P<command>[a-z]\S*.*)?$")
_COMMAND = re.compile(r"(?:\W{0,2}\S{0,80}?[#$%>] ?)?(?:sudo )?(?:kubectl|oc|k)\b.{0,200}? logs\b(?P<rest>.{1,300})$")
_CONTAINER = re.compile(r"(?:-c|--container)[ =](?P<name>[\w.-]+)")
_POD = re.compile(r"(?:^| )(?:pod/|ds/|deploy/|deployment/)?(?P<name>[a-z][\w.-]*-[\w.-]+)(?= |$)")
_OPTION = re.compile(r" (?:-n|--namespace|-l|--tail|--since|-c|--container)[ =]\S+")

_WRAPPED_AT = 70
"""A shorter line was not broken by a terminal."""
_SAME = 8
"""A line that begins with as many characters as the one before is the next line of a log, and not the rest of it."""
_JOINED = 8
"""How many pieces of a line are joined at most."""
_ENDS = re.compile(r"[.;{}\])>|!?]\s*$")
_CONTINUES = re.compile(r" {0,4}(?![\w./-]{1,60}(?:\[\d+\])?: |[\w-]+=)[a-z\"'(,:]")


def joined(lines: t.Iterable[str]) -> t.Iterator[str]:
    """Yield lines with the parts of a container runtime's log joined, and messages of the journal as text."""
    parts = ""
    for line in lines:
        found = _CRI.match(line) if "std" in line[:60] else None
        if found and found["part"] == "P":
            parts = (parts + line[found.end() :])[:LINE_LENGTH]
            continue
        yield parts + line[found.end() :] if found else _of_bytes(line)
        parts = ""
    if parts:
        yield parts


def _of_bytes(line: str) -> str:
    """Return an entry of the journal whose message is a list of bytes, because it is no UTF-8, with a text instead."""
    if '"MESSAGE"' not in line or not _BYTES.search(line):
        return line
    try:
        entry = json.loads(line)
        message = bytes(entry["MESSAGE"]).decode("utf-8", "replace")
    except (ValueError, TypeError, KeyError, RecursionError):
        return line
    return json.dumps({**entry, "MESSAGE": message})


def unwrapped(lines: t.Iterable[str]) -> t.Iterator[str]:
    """Yield lines with those joined that a terminal has wrapped: the next one goes on in the middle of a sentence."""
    whole, pieces, last = "", 0, ""
    for line in lines:
        is_next = line[:_SAME] == whole[:_SAME] or _ENDS.search(last) or not _CONTINUES.match(line)
        if 0 < pieces < _JOINED and len(last) >= _WRAPPED_AT and not is_next:
            whole, pieces, last = f"{whole.rstrip()} {line.strip()}", pieces + 1, line
            continue
        if pieces:
            yield whole
        whole, pieces, last = line, 1, line
    if pieces:
        yield whole


def ends(line: str) -> tuple[str, ...]:
    """Return a line, or the beginning and the end of one that is too long to search."""
    return (line,) if len(line) <= LINE_LENGTH else (line[:LINE_LENGTH], line[-LINE_LENGTH:])


class Speakers:
    """Follows the headers and commands in a text, and says who wrote the lines below them."""

    def __init__(self, origin: Origin) -> None:
        self._whole = self._now = origin

    def of(self, line: str) -> Origin:
        """Return what wrote a line."""
        if "|" not in line and "logs" not in line and self._now is self._whole:
            return self._now
        if line.startswith("```"):
            self._now = self._whole
        elif " | " in line[:300]:
            found = _ANSIBLE.match(line[:500])
            self._now = dataclasses.replace(self._whole, node=found["host"]) if found else self._now
        elif " logs " in line[:300] or self._now.kind != self._whole.kind:
            self._now = self._after(line[:500])
        return self._now

    def _after(self, line: str) -> Origin:
        """Return what writes the lines below this one, which may be a command."""
        found = _COMMAND.match(line)
        if not found:
            return self._whole if _PROMPT.match(line) else self._now
        container = _CONTAINER.search(found["rest"])
        pod = _POD.search(_OPTION.sub("", f" {found['rest']} "))
        if not pod or self._whole.kind != "text":
            return self._whole
        name = f"pod {pod['name']}"
        source = f"{name}, container {container['name']}" if container else name
        return dataclasses.replace(self._whole, kind="pod", source=source, object=name)
