# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""An Xid that somebody or another program tells in own words, without the kernel's line."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View, text_of_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import catalogue

_NAMED = pattern(r"(?<![\w-])xids?(?: error)?(?: code)?[ #:=]{1,3}(?P<xid>\d{1,3})\b(?![.:]\d)", "xid")
_KERNEL = pattern(r"NVRM: Xid \(", "xid (", "kernel")
_ELSEWHERE = re.compile(r"XidCriticalError|NVRM: |health ?check|ignor|skip|map\[", re.IGNORECASE)
"""Lines that other rules read, and those that only list which Xids a program looks for."""
_OF_GPU = re.compile(r"\bgpus?\b|nvidia|dcgm|\bcuda\b", re.IGNORECASE)
_SHORT = 80
"""A line of a few words is a person's, who need not say that an Xid is about a GPU."""


def _told(view: View) -> t.Iterator[Sighting]:
    """Yield the Xids of NVIDIA's catalog that a text tells. The kernel's own line, where it is there, says more."""
    known = {text_of_line(hit.line) for hit in view.hits(_KERNEL)}
    for hit in view.hits(_NAMED):
        text, meaning = hit.line.text, catalogue.meaning(int(hit.values["xid"]))
        is_told = hit.line.kind in ("text", "pod") and text_of_line(hit.line) not in known
        if is_told and meaning and not _ELSEWHERE.search(text) and (len(text) < _SHORT or _OF_GPU.search(text)):
            yield matches.sighting(hit, "possible", meaning=meaning)


RULES = (
    Rule(
        code="XidToldInWords",
        title="A text tells of an error of a GPU",
        severity="warning",
        cause="The text names Xid {xid} ({meaning}), without the line of the kernel, which says on which GPU it was "
        "and what it was about.",
        remedy="Run journalctl -k -g 'Xid.*: {xid},' on the node, and explain what it shows (playbooks/explain.yml): "
        "that line decides between starting the application again, a reset of the GPU, and service.",
        sources=(catalogue.CATALOG_PAGE, "https://github.com/NVIDIA/NVSentinel/pull/714"),
        check=_told,
        patterns=(_NAMED, _KERNEL),
        certainty="possible",
    ),
)
