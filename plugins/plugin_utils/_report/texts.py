# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Texts from outside, as the page may show them. Pure."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._text import printable

LONGEST = 200
"""How much of a text is shown. Names are shorter, and whoever writes longer ones does not read them."""


def short(text: object, longest: int = LONGEST) -> str:
    """Return a text from outside as the page may show it: printable, on one line, and not too long."""
    line = printable(" ".join(str(text)[: longest + 1].split()))
    return line if len(line) <= longest else f"{line[:longest]}…"
