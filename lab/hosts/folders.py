# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The folders for images, saved states and running hosts."""

from __future__ import annotations

import fcntl
import hashlib
import os
import typing as t
from contextlib import contextmanager
from pathlib import Path


def cache() -> Path:
    """Return the folder for images and saved states, all of which can be built again."""
    return _folder("XDG_CACHE_HOME", ".cache")


def downloads(name: str) -> Path:
    """Return a folder for files from the network, which are kept between runs."""
    folder = cache() / "downloads" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def state() -> Path:
    """Return the folder for the state of running virtual machines."""
    return _folder("XDG_STATE_HOME", ".local/state")


def _folder(variable: str, default: str) -> Path:
    base = os.environ.get(variable) or Path.home() / default
    folder = Path(base) / "gpuops-hosts"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def key(*parts: str | Path) -> str:
    """Return a short hash of texts and files, which changes when one of them changes."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part.name.encode() + part.read_bytes())
        digest.update(b"\0")
    return digest.hexdigest()[:12]


@contextmanager
def lock(path: Path) -> t.Iterator[None]:
    """Let one process at a time run the block. The lock ends with the process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
