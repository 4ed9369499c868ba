# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.boot_entries import (
    bootloader,
    default_arguments,
    environment_block,
    grub_defaults,
    newest,
    shell_assignments,
    split_arguments,
    version_key,
)

from lab.nvml.tree import write
from tests.unit.fakes.host import FakeHost

LOADER_INFO = "sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("5.15.0-91-generic", "5.15.0-119-generic"),
        ("6.1.0-9-amd64", "6.1.0-25-amd64"),
        ("5.14.0-362.8.1.el9_3.x86_64", "5.14.0-427.13.1.el9_4.x86_64"),
        ("4.18.0-477.el8.x86_64", "4.18.0-477.10.1.el8_8.x86_64"),
        ("6.12.0-rc3-amd64", "6.12.0-amd64"),
        ("6.9.12", "6.10.1"),
    ],
)
def test_kernel_versions_are_sorted(older: str, newer: str) -> None:
    assert version_key(older) < version_key(newer)
    assert newest([newer, older]) == newer


def test_without_kernels_there_is_no_newest_one() -> None:
    assert newest([]) is None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("A=1\nB=\"$A two\"\nC='$A'\n", {"A": "1", "B": "1 two", "C": "$A"}),
        ('A="x"\nA+=" y"\nA="$A ${A}"\n', {"A": "x y x y"}),
        ('A="one \\\ntwo"\n', {"A": "one two"}),
        ('A="say \\"hi\\" for \\$5"\n', {"A": 'say "hi" for $5'}),
        ("export A=1 # why\n# B=2\n  C=3; D=4\n", {"A": "1", "C": "3"}),
        ("GRUB_DISTRIBUTOR=`lsb_release -i`\nA=\"a\"'b'c\n", {"GRUB_DISTRIBUTOR": "`lsb_release", "A": "abc"}),
        ("A=$UNSET\n", {"A": ""}),
    ],
)
def test_assignments_of_a_shell_fragment(text: str, values: dict[str, str]) -> None:
    assert shell_assignments(text) == values


def test_arguments_are_split_as_the_kernel_does() -> None:
    assert split_arguments('ro  a="b c"\tdyndbg="file x +p; module y +p" quiet\n') == [
        "ro",
        'a="b c"',
        'dyndbg="file x +p; module y +p"',
        "quiet",
    ]


def test_without_a_file_grub_has_no_defaults(tmp_path: Path) -> None:
    assert grub_defaults(FakeHost(tmp_path)) is None
    assert default_arguments({}) == []


def test_an_environment_block_is_padded() -> None:
    assert environment_block("# GRUB Environment Block\nsaved_entry=x=y\nempty=\n#######") == {
        "saved_entry": "x=y",
        "empty": "",
    }


def announce(text: str) -> bytes:
    return b"\x06\x00\x00\x00" + text.encode("utf-16-le") + b"\x00\x00"


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({LOADER_INFO: announce("systemd-boot 255.4-1ubuntu8.5"), "boot/grub/grub.cfg": b""}, "systemd-boot"),
        ({LOADER_INFO: announce("GRUB 2.12"), "boot/efi/EFI/systemd/systemd-bootx64.efi": b""}, "grub"),
        ({"boot/grub2/grub.cfg": b""}, "grub"),
        ({"etc/default/grub": b""}, "grub"),
        ({"efi/EFI/systemd/systemd-bootx64.efi": b""}, "systemd-boot"),
        ({"boot/extlinux/extlinux.conf": b""}, None),
    ],
)
def test_the_boot_loader(tmp_path: Path, files: dict[str, bytes], name: str | None) -> None:
    for path, content in files.items():
        write(tmp_path / path, content)
    assert bootloader(FakeHost(tmp_path)) == name


@pytest.mark.parametrize(
    ("older", "newer"), [("6.1~rc1", "6.1"), ("6.1rc1", "6.1a"), ("6.1", "6.1a"), ("6.1a", "6.1.1")]
)
def test_letters_in_versions_are_sorted_as_by_sort(older: str, newer: str) -> None:
    assert version_key(older) < version_key(newer)


def test_a_comment_in_an_environment_block_is_no_variable() -> None:
    assert environment_block("# a=b\nc=d\n") == {"c": "d"}
