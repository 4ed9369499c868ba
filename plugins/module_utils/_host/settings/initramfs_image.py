# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Reads one file from an initramfs image: a sequence of cpio archives, the last of which is compressed.

The distributions' tools do not help: lsinitramfs only lists names, and lsinitrd takes a second or more for one file.
The files in an image are sorted by name. /etc comes early, so only a small part of the image is decompressed.
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host

_ARCHIVE = b"07070"
_HEADER = 110
_CHUNK = 1 << 20
_DECOMPRESSORS = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ": "xz",
    b"\x5d\x00\x00": "lzma",
    b"BZh": "bzip2",
    b"\x02\x21\x4c\x18": "lz4",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x89LZO": "lzop",
}


def file_in_image(host: Host, image: str, path: str) -> str | None:
    """Return the text of a file in an image, or None if it is not there. Raise if the image cannot be read."""
    try:
        with host.stream(image) as file:
            while _skip_padding(file):
                found = _in_next_archive(host, file, path)
                if found is not None:
                    return found
    except (OSError, ValueError) as e:
        raise GpuOpsError(f"The initramfs {image} cannot be read: {e}.", reason="Initramfs") from e
    return None


def _in_next_archive(host: Host, file: t.BinaryIO, path: str) -> str | None:
    magic = file.read(6)
    file.seek(-len(magic), os.SEEK_CUR)
    if magic.startswith(_ARCHIVE):
        return _find(file, path)
    with host.piped([_decompressor(magic), "--decompress", "--stdout"], file) as stream:
        found = _find(stream, path)
    file.seek(0, os.SEEK_END)
    return found


def _skip_padding(file: t.BinaryIO) -> bool:
    """Skip the zeros between archives. Return whether another archive follows."""
    while chunk := file.read(4096):
        rest = chunk.lstrip(b"\0")
        if rest:
            file.seek(-len(rest), os.SEEK_CUR)
            return True
    return False


def _decompressor(magic: bytes) -> str:
    for start, command in _DECOMPRESSORS.items():
        if magic.startswith(start):
            return command
    raise ValueError(f"its compression, which begins with {magic.hex()}, is unknown")


def _find(stream: t.BinaryIO, path: str) -> str | None:
    """Read a cpio archive (format newc) up to the file, or to the end."""
    while True:
        header = stream.read(_HEADER)
        if len(header) < _HEADER or not header.startswith(_ARCHIVE):
            raise ValueError("an archive in it is incomplete")
        size, length = int(header[54:62], 16), int(header[94:102], 16)
        name = stream.read(length + -(_HEADER + length) % 4)[: length - 1].decode("utf-8", "replace")
        if name == "TRAILER!!!":
            return None
        if name.removeprefix(".").lstrip("/") == path.lstrip("/"):
            return stream.read(size).decode("utf-8", "replace")
        _skip(stream, size + -size % 4)


def _skip(stream: t.BinaryIO, count: int) -> None:
    while count > 0:
        got = len(stream.read(min(count, _CHUNK)))
        if not got:
            raise ValueError("an archive in it is incomplete")
        count -= got
