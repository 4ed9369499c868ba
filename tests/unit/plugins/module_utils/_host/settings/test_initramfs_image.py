# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.initramfs_image import file_in_image

from tests.unit.fakes.images import image

FILE = "/etc/modprobe.d/zz-gpuops.conf"
TEXT = "blacklist nouveau\n"


def by_command(*command: str) -> t.Callable[[bytes], bytes]:
    return lambda data: subprocess.run(command, input=data, capture_output=True, check=True).stdout


COMPRESSIONS: dict[str, t.Callable[[bytes], bytes]] = {
    "none": lambda data: data,
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "lzma": lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
    "bzip2": bz2.compress,
    "zstd": by_command("zstd", "-c"),
    "lz4": by_command("lz4", "-l", "-c"),
}


def put(root: Path, content: bytes) -> Host:
    (root / "image").write_bytes(content)
    return Host(str(root))


@pytest.mark.parametrize("how", COMPRESSIONS)
@pytest.mark.parametrize("dot", ["", "./"])
def test_a_file_in_an_image_and_one_that_is_not(tmp_path: Path, how: str, dot: str) -> None:
    if how != "none" and not shutil.which(how):
        pytest.skip(f"{how} is not installed.")
    host = put(tmp_path, image({FILE[1:]: TEXT}, COMPRESSIONS[how], dot))
    assert file_in_image(host, "/image", FILE) == TEXT
    assert file_in_image(host, "/image", "/kernel/x86/microcode/GenuineIntel.bin") == "m" * 5001
    assert file_in_image(host, "/image", "/etc/modprobe.d/other.conf") is None


def test_an_empty_image_does_not_have_the_file(tmp_path: Path) -> None:
    assert file_in_image(put(tmp_path, b"\0" * 9000), "/image", FILE) is None


WHOLE = image({FILE[1:]: TEXT})


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (WHOLE[:5200], "an archive in it"),
        (WHOLE[:2000], "an archive in it"),
        (WHOLE[:-60], "an archive in it"),
        (b"UBIFS\0\0", "which begins with 554249465300,"),
        (None, "No such file"),
    ],
)
def test_an_image_that_cannot_be_read_is_an_error(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    host = put(tmp_path, content) if content is not None else Host(str(tmp_path))
    with pytest.raises(GpuOpsError, match=f"The initramfs /image cannot be read: .*{sentence}"):
        file_in_image(host, "/image", "/etc/none")


def test_a_missing_decompressor_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "which", lambda self, name: None)
    with pytest.raises(GpuOpsError, match="gzip is not installed"):
        file_in_image(put(tmp_path, WHOLE), "/image", FILE)
