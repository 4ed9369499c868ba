# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The file of the page on the controller: what the former page has kept, and the new page in its place."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import tempfile
import typing as t

from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report import changes

LARGEST_PAGE = 64 * 1024 * 1024
"""A larger file is no page of ours."""


def former_state(path: str) -> t.Any:
    """Return the state that the former page has kept, or None if there is no page, or none of ours."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = changes.state_text(file.read(LARGEST_PAGE))
        return json.loads(text) if text else None
    except (OSError, ValueError, RecursionError):
        return None


def mode_of(text: str) -> int:
    """Return permissions from an octal number."""
    if not re.fullmatch(r"0?[0-7]{3}", text):
        raise ValueError(f'mode is {text}: write it as an octal number in quotes, such as "0640".')
    return int(text, 8)


def write(path: str, text: str, mode: int, is_new: bool, check_mode: bool) -> bool:
    """Write the page in one step, and return whether anything but its time has changed."""
    former = _mode(path)
    if not check_mode:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        _replace(path, text, mode)
    return is_new or former != mode


def _mode(path: str) -> int | None:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        return None


def _replace(path: str, text: str, mode: int) -> None:
    """Write a file beside the page and rename it, so that readers always see a whole page."""
    descriptor, beside = tempfile.mkstemp(dir=os.path.dirname(path), prefix=f".{os.path.basename(path)[:100]}.")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(beside, mode)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise
