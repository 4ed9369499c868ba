# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The archives and compressed files that a user gives: read as streams, within bounds and in memory.

Pure in that it gets open files and returns bytes. Links, devices and whatever else is no plain file are left out.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import stat
import tarfile
import typing as t
import zipfile
import zlib

BROKEN = (
    *(OSError, EOFError, ValueError, NotImplementedError),
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)
"""What damaged or hostile archives raise."""

STREAM_BYTES = 1 << 31
"""How much of an archive is unpacked at most: whatever is behind that is left out."""
HEADER_BYTES = 1 << 20
"""Longer headers of a member (names, attributes) are those of an attack."""
_CHUNK = 1 << 18

Source: t.TypeAlias = "t.IO[bytes] | t.BinaryIO | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile"


class TooMuchError(ValueError):
    """The stream is longer than what is read of one."""


class BoundedStream:
    """A stream that ends with an error after a number of bytes: a small archive can unpack to any size."""

    def __init__(self, source: Source, limit: int = STREAM_BYTES) -> None:
        self._source, self._left = source, limit

    def read(self, size: int = _CHUNK) -> bytes:
        """Return the next bytes."""
        piece = self._source.read(min(size, _CHUNK)) if size > _CHUNK else self._source.read(size)
        self._left -= len(piece)
        if self._left < 0:
            raise TooMuchError("it unpacks to more than is read of an archive")
        return piece


def plain(file: t.BinaryIO) -> Source:
    """Return a stream of what a file holds, unpacked if it is compressed."""
    magic = file.read(6)
    file.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file)
    if magic.startswith(b"BZh"):
        return bz2.BZ2File(file)
    return lzma.LZMAFile(file) if magic.startswith(b"\xfd7zXZ") else file


def ends(stream: BoundedStream, limit: int) -> tuple[bytes, int]:
    """Return what a stream holds, and how many bytes are left out in the middle of a longer one."""
    half = max(limit // 2, 1)
    front, back, size = bytearray(), bytearray(), 0
    while piece := _next(stream):
        size += len(piece)
        room = max(half - len(front), 0)
        front += piece[:room]
        back += piece[room:]
        if len(back) > 2 * half + _CHUNK:
            del back[:-half]
    if size <= limit:
        return bytes(front + back), 0
    tail = bytes(back[-half:])
    return bytes(front) + b"\n" + tail, size - len(front) - len(tail)


def _next(stream: BoundedStream) -> bytes:
    """Return the next piece. A stream that is too long ends there."""
    try:
        return stream.read(_CHUNK)
    except TooMuchError:
        return b""


class _ArchiveMember(tarfile.TarInfo):
    """A member whose headers are bounded."""

    def _proc_gnulong(self, tarfile: tarfile.TarFile) -> tarfile.TarInfo:
        self._refuse_long()
        return super()._proc_gnulong(tarfile)  # type: ignore[misc,no-any-return]

    def _proc_pax(self, tarfile: tarfile.TarFile) -> tarfile.TarInfo:
        self._refuse_long()
        return super()._proc_pax(tarfile)  # type: ignore[misc,no-any-return]

    def _refuse_long(self) -> None:
        if self.size > HEADER_BYTES:
            raise tarfile.ReadError("a header is too long")


def is_tar(head: bytes) -> bool:
    """Return whether these first 512 bytes of a stream are those of an archive."""
    return head[257:262] == b"ustar"


def members(stream: BoundedStream) -> t.Iterator[tuple[str, BoundedStream | None]]:
    """Yield the name and the content of each member, in order; None stands for what is no plain file."""
    with tarfile.open(
        fileobj=t.cast("t.BinaryIO", stream), mode="r|", tarinfo=_ArchiveMember, bufsize=_CHUNK
    ) as archive:
        for member in archive:
            if member.isdir():
                continue
            opened = archive.extractfile(member) if member.isreg() else None
            yield member.name, BoundedStream(t.cast("t.BinaryIO", opened)) if opened else None
            archive.members.clear()  # type: ignore[attr-defined]  # it would grow without bound


_RATIO, _SMALL = 200, 1 << 26
"""How many times its size a ZIP archive may unpack to, if that is more than a small amount: logs shrink to a tenth."""
_ENCRYPTED = 0x1


def is_zip(head: bytes) -> bool:
    """Return whether a file begins as a ZIP archive does."""
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def zip_members(file: t.BinaryIO, size: int) -> t.Iterator[tuple[str, BoundedStream | None]]:
    """Yield the name and the content of each member of a ZIP archive of this size; None stands for no plain file.

    What the members claim to unpack to is asked first: an archive of few bytes can claim any size.
    """
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        claimed = sum(member.file_size for member in members)
        if claimed > STREAM_BYTES or claimed > max(_SMALL, size * _RATIO):
            raise TooMuchError(f"{size} bytes would unpack to {claimed}, as an attack does")
        for member in members:
            if member.is_dir():
                continue
            mode = member.external_attr >> 16
            is_plain = not member.flag_bits & _ENCRYPTED and (not stat.S_IFMT(mode) or stat.S_ISREG(mode))
            if not is_plain:
                yield member.filename, None
                continue
            with archive.open(member) as opened:
                yield member.filename, BoundedStream(opened)
