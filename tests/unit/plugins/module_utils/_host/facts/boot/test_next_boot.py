# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import tempfile
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.next_boot import NextBoot, next_boot
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import FIXTURES, FakeHost, recorded

OLD, NEW = "5.14.0-362.el9.x86_64", "5.14.0-427.el9.x86_64"
VARIABLE = "/sys/firmware/efi/efivars/{}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"


class Booted(t.NamedTuple):
    version: str | None
    arguments: list[str] | None


def short(found: NextBoot) -> Booted:
    return Booted(found.version, found.arguments)


def announce(host: FakeHost, name: str, text: str) -> None:
    path = Path(host.path(VARIABLE.format(name)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x06\x00\x00\x00" + text.encode("utf-16-le") + b"\x00\x00")


# ---- GRUB's own menu -------------------------------------------------------------------------------------------------


def with_menu(root: Path, text: str, environment: str = "", cmdline: str = "") -> FakeHost:
    host = FakeHost(root)
    host.put("/boot/grub/grub.cfg", text)
    host.put("/boot/grub/grubenv", f"# GRUB Environment Block\n{environment}\n#####")
    host.put("/proc/cmdline", cmdline)
    return host


def test_an_image_of_amazons_cloud_has_a_second_try(tmp_path: Path) -> None:
    found = next_boot(with_menu(tmp_path, recorded("menus/ubuntu-aws.cfg")))
    second = [
        "root=PARTUUID=26f22d2b-892e-459e-ba29-0fdab351f296",
        "ro",
        "console=tty1",
        "console=ttyS0",
        "cma=8G",
        "nvme_core.io_timeout=4294967295",
    ]
    assert found == NextBoot(
        "6.5.13",
        [*second, "panic=-1"],
        second,
        "/boot/grub/grub.cfg",
        ("/boot/grub/grub.cfg",),
    )


def test_a_second_try_that_is_not_known_is_none(tmp_path: Path) -> None:
    text = 'if [ "$initrdfail" = 1 ]; then default=$root; fi\nmenuentry A {linux /vmlinuz-6.8 ro}'
    found = next_boot(with_menu(tmp_path, text))
    assert (found.version, found.fallback) == ("6.8", None)


def test_a_second_try_counts_only_if_the_choice_is_not_for_one_boot(tmp_path: Path) -> None:
    text = (
        'load_env\nset default="$next_entry"\n'
        'menuentry A {if [ "$initrdfail" = 1 ]; then linux /vmlinuz-6.8 two; else linux /vmlinuz-6.8 one; fi}'
    )
    found = next_boot(with_menu(tmp_path, text))
    assert (found.arguments, found.fallback) == (["one"], ["two"])
    assert next_boot(with_menu(tmp_path, text, "next_entry=0")).fallback is None


def test_a_choice_for_one_boot_counts_whatever_the_default_is(tmp_path: Path) -> None:
    found = next_boot(with_menu(tmp_path, recorded("menus/ubuntu-aws.cfg"), "next_entry=1>2"))
    assert (found.version, found.fallback) == ("6.5.0-1020-aws", None)
    # What is in the environment block may have changed without the menu.
    assert found.files[1:] == ("/boot/grub2/grubenv", "/boot/grub/grubenv", "/boot/efi/EFI/redhat/grubenv")


@pytest.mark.parametrize(
    ("cmdline", "known"),
    [
        ("BOOT_IMAGE=/vmlinuz-6.8.0-88-generic ro", True),
        ("BOOT_IMAGE=(hd0,gpt2)/vmlinuz-6.8.0-88-generic ro", True),
        ("", True),
        # pxelinux, GRUB from the network, and a loader that gives no BOOT_IMAGE
        ("BOOT_IMAGE=ubuntu/vmlinuz initrd=ubuntu/initrd", False),
        ("BOOT_IMAGE=(http,10.0.0.1)/vmlinuz-6.8.0-88-generic ro", False),
        ("BOOT_IMAGE=(tftp)/vmlinuz-6.8.0-88-generic ro", False),
        ("BOOT_IMAGE= ro", False),
        ("console=ttyS0 reboot=k panic=1 pci=off", False),
    ],
)
def test_a_menu_counts_if_the_host_has_booted_from_one(tmp_path: Path, cmdline: str, known: bool) -> None:
    found = next_boot(with_menu(tmp_path, recorded("menus/ubuntu-24.04.cfg"), cmdline=cmdline))
    assert found.version == ("6.8.0-88-generic" if known else None)
    reason = "This boot did not come from GRUB's menu on the disk (BOOT_IMAGE in /proc/cmdline)"
    assert found.reason == ("" if known else reason)


@pytest.mark.parametrize(
    ("text", "version", "reason"),
    [
        ("menuentry A {", None, "does not say what the next boot uses: its script cannot be followed: there is no }"),
        ("menuentry A {linux /vmlinuz ro}", None, "boots something else than a kernel with a version in its name"),
        ("menuentry W {chainloader +1}", None, "boots something else than a kernel with a version in its name"),
        ("menuentry A {linux $root/vmlinuz-6.8 ro}", "6.8", ""),
        ("menuentry A {linux /boot/vmlinuz-6.8 $root}", "6.8", "depend on what only GRUB knows"),
        # A line of SLES 12, from the documentation of Azure Site Recovery
        (
            "menuentry A {linux /boot/vmlinuz-3.12.49-11-default root=/dev/sda2  ${extra_cmdline} quiet showopts}",
            "3.12.49-11-default",
            "",
        ),
        ("menuentry A {linux /boot/Image-6.4.0-150600.21-default ro}", "6.4.0-150600.21-default", ""),
        ("menuentry A {linux /@/boot/vmlinuz-6.4.0-150600.21-default ro}", "6.4.0-150600.21-default", ""),
    ],
)
def test_a_menu(tmp_path: Path, text: str, version: str | None, reason: str) -> None:
    found = next_boot(with_menu(tmp_path, text))
    assert found.version == version
    assert found.reason.endswith(reason)
    assert found.reason == "" or "/boot/grub/grub.cfg" in found.reason


def test_the_menu_of_a_host_with_uefi_may_be_in_its_system_partition(tmp_path: Path) -> None:
    host = with_menu(tmp_path, "menuentry A {linux /vmlinuz-1.1}")
    host.put("/sys/firmware/efi/x", "")
    host.put(
        "/boot/efi/EFI/debian/grub.cfg",
        "search.fs_uuid 12 root\nset prefix=($root)'/grub'\nconfigfile $prefix/grub.cfg\n",
    )
    assert next_boot(host).version == "1.1"
    host.put("/boot/efi/EFI/redhat/grub.cfg", "menuentry B {linux /vmlinuz-2.2}")
    assert (next_boot(host).version, next_boot(host).source) == ("2.2", "/boot/efi/EFI/redhat/grub.cfg")
    host.put("/boot/efi/EFI/other/grub.cfg", "menuentry B {linux /vmlinuz-3.3}")
    assert next_boot(host).version == "1.1"


@pytest.mark.parametrize(
    ("saved", "version"),
    [
        ("", "6.1.0-18-amd64"),
        ("next_entry=0", "6.1.0-25-amd64"),
        ("next_entry=1>0", "6.1.0-25-amd64"),
    ],
)
def test_a_menu_with_a_default(tmp_path: Path, saved: str, version: str) -> None:
    assert next_boot(with_menu(tmp_path, recorded("debian-12/boot/grub/grub.cfg"), saved)).version == version


# ---- entries of the Boot Loader Specification ------------------------------------------------------------------------

# The part of Rocky Linux 9's menu that chooses the entry
ROCKY = """load_env
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="${saved_entry}"
fi
set tuned_params="isolcpus=2"
insmod blscfg
blscfg
"""


def with_entries(root: Path, saved: str = "", menu: str = "") -> FakeHost:
    """Return a host with two entries and one for rescue."""
    host = FakeHost(root)
    for name, version in (("4f-5.14.0-362", OLD), ("4f-5.14.0-427", NEW), ("4f-0-rescue", "0-rescue-4f")):
        fields = f"title {name} T\nversion {version}\nlinux /vmlinuz-{version}\n"
        options = f"options ro {name} $kernelopts\noptions $tuned_params\n"
        host.put(f"/boot/loader/entries/{name}.conf", fields + options)
    host.put("/boot/grub2/grubenv", f"# GRUB Environment Block\n{saved}\nkernelopts=a b\n")
    if menu:
        host.put("/boot/grub2/grub.cfg", menu)
    return host


@pytest.mark.parametrize("menu", ["", ROCKY])
@pytest.mark.parametrize(
    ("saved", "version"),
    [
        ("", NEW),
        ("saved_entry=4f-5.14.0-362", OLD),
        ("saved_entry=4f-5.14.0-427\nnext_entry=4f-5.14.0-362", OLD),
        ("saved_entry=4f-5.14.0-427\nnext_entry=", NEW),
        ("saved_entry=4f-5.14.0-362 T", OLD),
        ("saved_entry=0", NEW),
        ("saved_entry=1", OLD),
        ("saved_entry=2", "0-rescue-4f"),
        # GRUB boots its first entry if the chosen one does not exist.
        ("saved_entry=3", NEW),
        ("saved_entry=4f-gone", NEW),
    ],
)
def test_the_entry_that_grub_chooses(tmp_path: Path, menu: str, saved: str, version: str) -> None:
    assert next_boot(with_entries(tmp_path, saved, menu)).version == version


def test_variables_in_an_entry_are_those_of_the_menu(tmp_path: Path) -> None:
    found = next_boot(with_entries(tmp_path, "tuned_params=nohz=on", ROCKY))
    assert found.arguments == ["ro", "4f-5.14.0-427", "a", "b", "isolcpus=2"]
    assert found.source == "/boot/loader/entries/4f-5.14.0-427.conf"
    assert found.files[:3] == (
        "/boot/grub2/grub.cfg",
        "/boot/loader/entries/4f-5.14.0-427.conf",
        "/boot/loader/entries",
    )
    assert next_boot(with_entries(tmp_path / "2", "tuned_params=nohz=on")).arguments[-1:] == ["nohz=on"]


def test_a_damaged_entry_boots_nothing_known(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.put("/boot/loader/entries/x.conf", "version 6.8\nlinux /vmlinuz-6.8\noptions 'a\n")
    assert short(next_boot(host)) == (None, None)


def test_recorded_entries_of_red_hat() -> None:
    assert next_boot(FakeHost(FIXTURES / "rhel-8")).version == "4.18.0-513.5.1.el8_9.x86_64"
    assert next_boot(FakeHost(FIXTURES / "rocky-9")).version == "5.14.0-427.13.1.el9_4.x86_64"


# ---- systemd-boot ----------------------------------------------------------------------------------------------------


def with_systemd_boot(root: Path, configuration: str = "") -> FakeHost:
    host = FakeHost(root)
    announce(host, "LoaderInfo", "systemd-boot 255.4")
    for version in ("6.8.0-87-generic", "6.8.0-88-generic", "6.8.0-99-generic"):
        counter = "+0-3" if "99" in version else ""
        text = f"version {version}\nmachine-id ab12\nsort-key ubuntu\nlinux /ab12/{version}/linux\n"
        text += "options root=/dev/sda2 ro\n"
        host.put(f"/boot/efi/loader/entries/ab12-{version}{counter}.conf", text)
    host.put("/boot/efi/loader/loader.conf", configuration)
    return host


@pytest.mark.parametrize(
    ("configuration", "variables", "version"),
    [
        ("timeout 3\n", {}, "6.8.0-88-generic"),
        ("default ab12-6.8.0-87-*\n", {}, "6.8.0-87-generic"),
        ("default none\n", {}, "6.8.0-88-generic"),
        ("default ab12-*\n", {"LoaderEntryDefault": "ab12-6.8.0-87-generic.conf"}, "6.8.0-87-generic"),
        (
            "",
            {"LoaderEntryDefault": "x", "LoaderEntryOneShot": "ab12-6.8.0-87-generic.conf"},
            "6.8.0-87-generic",
        ),
        ("default @saved\n", {}, None),
        ("default auto-windows\n", {}, None),
    ],
)
def test_the_entry_that_systemd_boot_chooses(
    tmp_path: Path, configuration: str, variables: dict[str, str], version: str | None
) -> None:
    host = with_systemd_boot(tmp_path, configuration)
    for name, text in variables.items():
        announce(host, name, text)
    found = next_boot(host)
    assert found.version == version
    assert found.arguments == (["root=/dev/sda2", "ro"] if version else None)
    assert found.source == (f"/boot/efi/loader/entries/ab12-{version}.conf" if version else None)


def test_entries_of_several_systems_are_unknown(tmp_path: Path) -> None:
    host = with_systemd_boot(tmp_path)
    host.put("/boot/loader/entries/other.conf", "version 6.9\nmachine-id cd34\nlinux /vmlinuz-6.9\n")
    assert next_boot(host).reason == wording("The entries of systemd-boot belong to no or to several systems")


def test_an_entry_of_systemd_boot_without_a_kernel_is_unknown(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    announce(host, "LoaderInfo", "systemd-boot 255.4")
    host.put("/efi/loader/entries/x.conf", "efi /shell.efi\n")
    assert next_boot(host) == NextBoot(reason=wording("/efi/loader/entries/x.conf has no kernel with a version"))


# ---- what is unknown -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/run/ostree-booted", "ostree writes the boot entry of an update only while the host shuts down"),
        (VARIABLE.format("StubInfo"), "The host boots a unified kernel image, which contains its arguments"),
    ],
)
def test_systems_whose_next_boot_is_decided_elsewhere(tmp_path: Path, path: str, reason: str) -> None:
    host = with_entries(tmp_path)
    host.put(path, "")
    assert next_boot(host) == NextBoot(reason=reason)


def test_unified_images_beside_entries_are_unknown(tmp_path: Path) -> None:
    host = with_systemd_boot(tmp_path)
    host.put("/boot/efi/EFI/Linux/ab12-6.8.efi", "")
    reason = "systemd-boot also shows unified kernel images, which contain their arguments"
    assert next_boot(host) == NextBoot(reason=reason)


def test_without_entries_and_menu_the_next_boot_is_unknown(tmp_path: Path) -> None:
    assert next_boot(FakeHost(tmp_path)) == NextBoot(reason=wording("Boot loader entries and grub.cfg cannot be read"))


PIECES = ["if", "then", "else", "fi", "[ $initrdfail = 1 ]", "menuentry A {", "}", "linux /vmlinuz-6.8 ro $x", "blscfg"]
PIECES += [
    "submenu S {",
    "load_env",
    "default=$saved_entry",
    "default=$root",
    "search --set=x",
    "source $prefix/a",
    "\n",
]
WORDS = st.lists(st.sampled_from([*PIECES, ";", "'", '"', "$", "\\", "1>0", "function f {", "f"]), max_size=40)
TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=40)


@settings(max_examples=100)
@given(WORDS.map(" ".join), TEXT, TEXT, st.booleans())
def test_no_file_of_a_boot_loader_breaks_the_reader(menu: str, block: str, entry: str, announces: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        host = with_menu(Path(folder), menu, f"saved_entry={block}\n{block}")
        host.put("/boot/loader/entries/a-6.8.conf", f"linux /vmlinuz-6.8\noptions {entry}\n{entry}\n")
        host.put("/boot/loader/loader.conf", f"default {entry}\n")
        if announces:
            announce(host, "LoaderInfo", "systemd-boot 257")
        found = next_boot(host)
        assert (found.arguments is None) is bool(found.reason)
        assert found.version is not None or found.source is None
