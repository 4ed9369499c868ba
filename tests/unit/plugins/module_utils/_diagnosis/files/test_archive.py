# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Archives and compressed files, also hostile ones, as streams."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import tracemalloc
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.files import archive


def tar(*members: tuple[tarfile.TarInfo, bytes], mode: str = "w") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as opened:  # type: ignore[call-overload]
        for member, data in members:
            member.size = len(data)
            opened.addfile(member, io.BytesIO(data))
    return file.getvalue()


def read(data: bytes, limit: int = 1 << 20) -> list[tuple[str, bytes | None]]:
    source = archive.plain(io.BytesIO(data))
    return [
        (name, content and archive.ends(content, limit)[0])
        for name, content in archive.members(archive.BoundedStream(source))
    ]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_every_compression_is_known_by_its_first_bytes(pack: type[bytes]) -> None:
    data = pack(tar((tarfile.TarInfo("a/b.log"), b"text")))
    assert read(data) == [("a/b.log", b"text")]
    source = archive.plain(io.BytesIO(data))
    assert archive.is_tar(source.read(512))
    assert not archive.is_tar(b"text" * 200)


def test_links_devices_and_folders_hold_nothing() -> None:
    link, device, folder = tarfile.TarInfo("link"), tarfile.TarInfo("device"), tarfile.TarInfo("folder")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/shadow"
    device.type, folder.type = tarfile.CHRTYPE, tarfile.DIRTYPE
    data = tar((link, b""), (device, b""), (folder, b""), (tarfile.TarInfo("x"), b"1"))
    assert read(data) == [("link", None), ("device", None), ("x", b"1")]


def test_the_beginning_and_the_end_of_a_long_stream_are_kept() -> None:
    data = b"a" * 1000 + b"b" * 5_000_000 + b"c" * 1000
    kept, left = archive.ends(archive.BoundedStream(io.BytesIO(data)), 4000)
    assert kept == b"a" * 1000 + b"b" * 1000 + b"\n" + b"b" * 1000 + b"c" * 1000
    assert left == len(data) - 4000


@pytest.mark.parametrize("size", [0, 1, 3999, 4000])
def test_a_short_stream_is_whole(size: int) -> None:
    assert archive.ends(archive.BoundedStream(io.BytesIO(b"x" * size)), 4000) == (b"x" * size, 0)


def test_a_stream_that_just_fits_keeps_its_middle() -> None:
    assert archive.ends(archive.BoundedStream(io.BytesIO(b"abcde")), 5) == (b"abcde", 0)


class Zeros(io.RawIOBase):
    """A stream of 64 MiB that needs no memory."""

    left = 1 << 26

    def read(self, size: int = -1) -> bytes:
        self.left -= size
        return bytes(size) if self.left >= 0 else b""


def test_what_is_left_out_of_a_long_stream_is_not_kept_in_memory() -> None:
    tracemalloc.start()
    try:
        kept, left = archive.ends(archive.BoundedStream(t.cast("t.BinaryIO", Zeros())), 4000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(kept), left) == (4001, (1 << 26) - 4000)
    assert peak < 1 << 23


def test_a_bomb_ends_where_the_stream_is_too_long() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    stream = archive.BoundedStream(archive.plain(io.BytesIO(bomb)), limit=10_000_000)
    kept, left = archive.ends(stream, 1000)
    assert len(kept) == 1001 and left < 10_000_000
    with pytest.raises(archive.TooMuchError):
        while True:
            stream.read()


def test_a_long_header_is_refused() -> None:
    long = tarfile.TarInfo("x" * (archive.HEADER_BYTES + 100))
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as opened:
        opened.addfile(long)
    with pytest.raises(tarfile.TarError):
        read(file.getvalue())
    pax = tarfile.TarInfo("x")
    pax.pax_headers = {"comment": "y" * (archive.HEADER_BYTES + 100)}
    with pytest.raises(tarfile.TarError):
        read(tar((pax, b"")))


@pytest.mark.parametrize("cut", [10, 100, 300])
def test_a_broken_archive_raises_what_callers_expect(cut: int) -> None:
    data = gzip.compress(tar((tarfile.TarInfo("a"), bytes(range(256)) * 10)))[:cut]
    with pytest.raises(archive.BROKEN):
        read(data)
