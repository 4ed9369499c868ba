# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Initramfs images in the form of real ones: an archive with microcode, padding, and a compressed archive."""

from __future__ import annotations

import gzip
import typing as t


def archive(files: t.Mapping[str, str]) -> bytes:
    """Return a cpio archive in the format newc."""
    members = [_member(name, text.encode()) for name, text in files.items()]
    return b"".join([*members, _member("TRAILER!!!", b"")])


def _member(name: str, content: bytes) -> bytes:
    fields = [0, 0o100644, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
    header = b"070701" + b"".join(f"{field:08X}".encode() for field in fields) + name.encode() + b"\0"
    return _padded(header) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def image(files: t.Mapping[str, str], compress: t.Callable[[bytes], bytes] = gzip.compress, dot: str = "") -> bytes:
    """Return an image that contains these files and others."""
    early = archive({"kernel/x86/microcode/GenuineIntel.bin": "m" * 5001})
    rest = {"bin/sh": "#!", **files, "usr/lib/modules/6.8/kernel/drivers/gpu/drm/nouveau/nouveau.ko": "k" * 70_003}
    return early + b"\0" * 700 + compress(archive({f"{dot}{name}": text for name, text in rest.items()}))
