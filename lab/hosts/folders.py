# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the test hosts keep what they make."""

from __future__ import annotations

import fcntl
import hashlib
import os
import typing as t
from contextlib import contextmanager
from pathlib import Path


def cache() -> Path:
    """The folder of what can be made again: images and saved states."""
    return _folder("XDG_CACHE_HOME", ".cache")


def state() -> Path:
    """The folder of what runs."""
    return _folder("XDG_STATE_HOME", ".local/state")


def _folder(variable: str, default: str) -> Path:
    base = os.environ.get(variable) or Path.home() / default
    folder = Path(base) / "gpuops-hosts"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def key(*parts: str | Path) -> str:
    """A short name for what follows from these texts and files: it changes when one of them does."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part.name.encode() + part.read_bytes())
        digest.update(b"\0")
    return digest.hexdigest()[:12]


@contextmanager
def lock(path: Path) -> t.Iterator[None]:
    """Let one process at a time do something; the lock goes with the process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
