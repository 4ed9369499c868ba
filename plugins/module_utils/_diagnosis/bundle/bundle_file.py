# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The file of a bundle: the one place that writes it."""

from __future__ import annotations

import contextlib
import os
import tempfile

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError


def write(path: str, content: bytes) -> bool:
    """Write a file that only its owner can read, whole or not at all. Return whether its content is new."""
    target = os.path.abspath(os.path.expanduser(path))
    try:
        if _content(target) == content:
            return False
        _replace(target, content)
    except OSError as e:
        raise GpuOpsError(
            f"The bundle {target} cannot be written: {e.strerror}. Set bundle_path to a file in a folder that exists "
            "and that you may write to.",
            reason="NotWritable",
        ) from e
    return True


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _replace(target: str, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".gpuops-bundle-")  # its mode is 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
