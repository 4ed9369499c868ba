# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot_entries import (
    bls_entry,
    bootloader,
    default_arguments,
    environment_block,
    grub_defaults,
    grub_menu_entries,
    newest,
    next_entry,
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


def test_an_entry_of_the_boot_loader_specification_uses_grubs_variables() -> None:
    text = "# comment\nversion 5.14\noptions root=/dev/sda2 $kernelopts $unset\n"
    entry = bls_entry(text, "/x", {"kernelopts": "ro quiet"})
    assert (entry.version, entry.arguments, entry.source) == ("5.14", ["root=/dev/sda2", "ro", "quiet"], "/x")


def test_the_menu_of_grub_has_no_recovery_entries() -> None:
    menu = "linux /vmlinuz-6.8 ro quiet $vt_handoff\n\tlinux /vmlinuz-6.8 ro single\nlinux16 /memtest\n"
    assert [(entry.version, entry.arguments) for entry in grub_menu_entries(menu, "/x")] == [("6.8", ["ro", "quiet"])]


# ---- the entry that the next boot uses ------------------------------------------------------------------------------

OLD, NEW = "5.14.0-362.el9.x86_64", "5.14.0-427.el9.x86_64"


def with_entries(root: Path, saved: str = "") -> FakeHost:
    """Return a host with two entries of the Boot Loader Specification, and one for rescue."""
    host = FakeHost(root)
    for name, version in (("4f-old", OLD), ("4f-new", NEW), ("4f-0-rescue", "9.9.9")):
        host.put(f"/boot/loader/entries/{name}.conf", f"version {version}\noptions ro {name}\n")
    host.put("/boot/grub2/grubenv", f"# GRUB Environment Block\n{saved}\n")
    return host


@pytest.mark.parametrize(
    ("saved", "version"),
    [
        ("", NEW),
        ("saved_entry=4f-old", OLD),
        ("saved_entry=4f-new\nnext_entry=4f-old", OLD),
        ("saved_entry=4f-new\nnext_entry=", NEW),
        ("saved_entry=0", NEW),
        ("saved_entry=1", OLD),
        ("saved_entry=4f-gone", NEW),
    ],
)
def test_the_next_boot_uses_the_saved_or_the_newest_entry(tmp_path: Path, saved: str, version: str) -> None:
    entry, problem = next_entry(with_entries(tmp_path, saved))
    assert entry is not None
    assert (entry.version, problem) == (version, "")
    assert entry.arguments[0] == "ro"


def test_a_saved_number_behind_the_last_entry_is_unknown(tmp_path: Path) -> None:
    assert next_entry(with_entries(tmp_path, "saved_entry=2")) == (None, "The saved boot entry 2 does not exist")


MENU = f"""menuentry 'Ubuntu' {{
\tlinux\t/boot/vmlinuz-6.8.0-60-generic root=/dev/sda1 ro quiet
}}
submenu 'Advanced options' {{
\tlinux\t/boot/vmlinuz-6.8.0-6-generic root=/dev/sda1 ro old
\tlinux\t/boot/vmlinuz-{OLD} root=/dev/sda1 ro other
}}
"""


@pytest.mark.parametrize(
    ("default", "saved", "version"),
    [
        ("", "", "6.8.0-60-generic"),
        ("GRUB_DEFAULT=0\n", "saved_entry=Ubuntu, with Linux 6.8.0-6-generic", "6.8.0-60-generic"),
        ("GRUB_DEFAULT=saved\n", "", "6.8.0-60-generic"),
        ("GRUB_DEFAULT=saved\n", "saved_entry=Advanced options>Ubuntu, with Linux 6.8.0-6-generic", "6.8.0-6-generic"),
        (
            "GRUB_DEFAULT='gnulinux-advanced-1>gnulinux-5.14.0-362.el9.x86_64-advanced-1'\n",
            "",
            "5.14.0-362.el9.x86_64",
        ),
    ],
)
def test_the_menu_of_grub_has_a_default(tmp_path: Path, default: str, saved: str, version: str) -> None:
    host = FakeHost(tmp_path)
    host.put("/boot/grub/grub.cfg", MENU)
    host.put("/boot/grub/grubenv", f"{saved}\n")
    host.put("/etc/default/grub", default)
    entry, problem = next_entry(host)
    assert entry is not None
    assert (entry.version, entry.source, problem) == (version, "/boot/grub/grub.cfg", "")


def test_a_default_without_a_version_is_unknown(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.put("/boot/grub/grub.cfg", MENU)
    host.put("/etc/default/grub", "GRUB_DEFAULT='Windows'\n")
    assert next_entry(host) == (None, "GRUB boots the entry 'Windows', whose kernel cannot be determined")


def test_without_entries_and_menu_the_next_boot_is_unknown(tmp_path: Path) -> None:
    assert next_entry(FakeHost(tmp_path)) == (None, "Neither boot loader entries nor a grub.cfg can be read")


@pytest.mark.parametrize(
    ("older", "newer"), [("6.1~rc1", "6.1"), ("6.1rc1", "6.1a"), ("6.1", "6.1a"), ("6.1a", "6.1.1")]
)
def test_letters_in_versions_are_sorted_as_by_sort(older: str, newer: str) -> None:
    assert version_key(older) < version_key(newer)


def test_a_comment_in_an_environment_block_is_no_variable() -> None:
    assert environment_block("# a=b\nc=d\n") == {"c": "d"}


def test_a_comment_in_an_entry_is_no_field() -> None:
    assert bls_entry("#version 1\n\nversion 2\n", "/x", {}).version == "2"
