# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The few things that are done to files here."""

from __future__ import annotations

import os
import shutil


def write(path: str, text: str | bytes) -> None:
    """Write a file in place: it may be mounted somewhere, which a new file in its stead would not be."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())


def read(path: str) -> str:
    """Return a file's text, or nothing when it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def link(path: str, target: str) -> None:
    """Make a symbolic link, relative as those of sysfs; one that is there gives way."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.unlink(path)
    os.symlink(os.path.relpath(target, os.path.dirname(path)), path)


def empty(folder: str) -> None:
    """Remove what is in a folder, but not the folder: it may be a mount."""
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
