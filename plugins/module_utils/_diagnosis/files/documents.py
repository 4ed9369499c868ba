# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The one file of the room that opens files: what a path holds, file by file, within bounds.

Nothing is written. Links are not followed, so that a folder from outside cannot point at the controller's own files.
"""

from __future__ import annotations

import dataclasses
import io
import os
import stat
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.files import archive, layout
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line

FILES = 5000
"""How many files are read of a folder or an archive."""
TOTAL = 16
"""How much is read in all, as a multiple of what is read of one file."""


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """Something that was not read, and why."""

    name: str
    why: str


class Documents:
    """The files at a path: iterate over their names and contents. What was not read is in ``left_out`` afterwards."""

    def __init__(self, path: str, limit: int) -> None:
        self._path, self._limit = os.path.abspath(os.path.expanduser(path)), limit
        self._room, self._count = limit * TOTAL, 0
        self.left_out: list[LeftOut] = []

    def __iter__(self) -> t.Iterator[tuple[str, bytes]]:
        try:
            mode = os.stat(self._path).st_mode
        except OSError as e:
            raise GpuOpsError(
                f"{self._path} cannot be read: {e.strerror}. Set path to a file, a folder or an archive on the "
                "controller.",
                reason="NotFound",
            ) from e
        files = self._walked() if stat.S_ISDIR(mode) else [(os.path.basename(self._path), self._path)]
        for name, path in files:
            for found in self._opened(name, path):
                if not self._has_room(found[0], len(found[1])):
                    return
                yield found

    def _leave(self, name: str, why: str) -> None:
        if len(self.left_out) < FILES:
            self.left_out.append(LeftOut(name, why))

    def _has_room(self, name: str, size: int) -> bool:
        self._count, self._room = self._count + 1, self._room - size
        if self._count <= FILES and self._room >= 0:
            return True
        self._leave(f"{name} and what follows", f"More than {FILES} files or {self._limit * TOTAL >> 20} MiB.")
        return False

    def _walked(self) -> t.Iterator[tuple[str, str]]:
        parent = os.path.dirname(self._path)
        for folder, folders, files in os.walk(self._path):
            folders.sort()
            for file in sorted(files):
                path = os.path.join(folder, file)
                yield os.path.relpath(path, parent), path

    def _opened(self, name: str, path: str) -> t.Iterator[tuple[str, bytes]]:
        if layout.SECRETS.fullmatch(name):
            self._leave(name, "It may hold secrets.")
            return
        try:
            # Opening a pipe must not wait, and a link may point anywhere. The path itself is the user's word.
            follow = 0 if path == self._path else os.O_NOFOLLOW
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | follow), "rb") as file:
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    yield from self._content(name, file)
                else:
                    self._leave(name, "It is no file.")
        except archive.BROKEN as e:
            self._leave(name, f"It cannot be read: {one_line(getattr(e, 'strerror', None) or e)}.")

    def _content(self, name: str, file: io.BufferedReader) -> t.Iterator[tuple[str, bytes]]:
        source = archive.plain(file)
        head = source.read(512)
        if archive.is_tar(head):
            file.seek(0)
            yield from self._members(archive.members(archive.BoundedStream(archive.plain(file))))
            return
        if source is file and archive.is_zip(head):
            yield from self._members(archive.zip_members(file, os.fstat(file.fileno()).st_size))
            return
        file.seek(0)
        if source is file:
            data, left = _ends(file, self._limit)
        else:
            data, left = archive.ends(archive.BoundedStream(archive.plain(file)), self._limit)
        yield from self._cut(name, data, left)

    def _cut(self, name: str, data: bytes, left: int) -> t.Iterator[tuple[str, bytes]]:
        if left:
            self._leave(f"{left} bytes in the middle of {name}", f"At most {self._limit >> 20} MiB are read of a file.")
        yield name, data

    def _members(self, members: t.Iterator[tuple[str, archive.BoundedStream | None]]) -> t.Iterator[tuple[str, bytes]]:
        for name, content in members:
            if content is None:
                self._leave(name, "It is no plain file.")
            elif layout.SECRETS.fullmatch(name):
                self._leave(name, "It may hold secrets.")
            else:
                yield from self._member(name, *archive.ends(content, self._limit))

    def _member(self, name: str, data: bytes, left: int) -> t.Iterator[tuple[str, bytes]]:
        inner = archive.plain(io.BytesIO(data))
        if isinstance(inner, io.BytesIO):
            yield from self._cut(name, data, left)
            return
        try:
            yield from self._cut(name, *archive.ends(archive.BoundedStream(inner), self._limit))
        except archive.BROKEN as e:
            self._leave(name, f"It cannot be unpacked: {one_line(e)}.")


def _ends(file: io.BufferedReader, limit: int) -> tuple[bytes, int]:
    """Return what a file holds, and how many bytes are left out in the middle of a longer one."""
    size = os.fstat(file.fileno()).st_size
    if size <= limit:
        return file.read(limit), 0
    front = file.read(limit // 2)
    file.seek(size - limit // 2)
    return front + b"\n" + file.read(limit // 2), size - 2 * (limit // 2)
