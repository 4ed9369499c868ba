# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Parts of a description or of an object's YAML, as people paste them: which container lacked memory. Pure.

A part without its beginning names no pod. The image of a container tells what it is.
"""

from __future__ import annotations

import re
import typing as t

_IMAGE = re.compile(r" *(?:- )?[Ii]mage: +(?P<image>[\w./:@-]+)$")
_KILLED = re.compile(r" *[Rr]eason: +OOMKilled$")
_LIMITS = re.compile(r" *[Ll]imits:$")
_MEMORY = re.compile(r" *memory: +(?P<limit>\S+)$")
_REACH = 60
"""So many lines of a container may stand between its image, its end and its limit."""


class Containers:
    """Looks at each line of a text, and remembers the containers that were killed for want of memory."""

    def __init__(self) -> None:
        self._killed: dict[str, str] = {}
        self._image = ""
        self._since = self._limits = _REACH

    def look(self, line: str) -> None:
        """Take the next line."""
        line = line.rstrip()[:300]
        self._since += 1
        self._limits += 1
        found = _IMAGE.match(line) if "mage:" in line else None
        if found:
            self._image, self._since = found["image"], 0
        elif self._since < _REACH and "OOMKilled" in line and _KILLED.match(line):
            self._killed.setdefault(self._image, "")
        elif self._image in self._killed and not self._killed[self._image]:
            self._note_limit(line)

    def _note_limit(self, line: str) -> None:
        found = _MEMORY.match(line)
        if _LIMITS.match(line):
            self._limits = 0
        elif found and self._limits <= 2 and self._since < _REACH:
            self._killed[self._image] = found["limit"]

    def killed(self) -> t.Iterator[str]:
        """Yield what happened to each container, in one line."""
        for image, limit in self._killed.items():
            yield f"OOMKilled: container of the image {image}, memory limit {limit or 'unknown'}"
