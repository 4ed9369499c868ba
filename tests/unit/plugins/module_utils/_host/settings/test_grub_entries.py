# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_menu import BootMachine, boot, parse
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import grub_entries
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.grub_entries import (
    KernelLine,
    MenuEntry,
    kernel_lines,
)
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import recorded

# As grub-mkconfig 2.06 of Debian 12 writes it, shortened.
MENU = """
### BEGIN /etc/grub.d/10_linux ###
menuentry 'Debian GNU/Linux' --class debian --class os $menuentry_id_option 'gnulinux-simple-2f0c' {
\tload_video
\techo\t'Loading Linux 6.1.0-41-amd64 ...'
\tlinux\t/boot/vmlinuz-6.1.0-41-amd64 root=UUID=2f0c ro console=ttyS0,115200 quiet $vt_handoff
\techo\t'Loading initial ramdisk ...'
\tinitrd\t/boot/initrd.img-6.1.0-41-amd64
}
submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option 'gnulinux-advanced-2f0c' {
\tmenuentry 'Debian GNU/Linux, with Linux 6.1.0-41-amd64 (recovery mode)' --class debian {
\t\tlinux\t/boot/vmlinuz-6.1.0-41-amd64 root=UUID=2f0c ro single console=ttyS0,115200
\t}
}
### END /etc/grub.d/10_linux ###
### BEGIN /etc/grub.d/30_os-prober ###
menuentry 'Fedora Linux 40 (on /dev/sda3)' {
\tlinux /boot/vmlinuz-6.8.5-301.fc40.x86_64 root=/dev/sda3
}
### END /etc/grub.d/30_os-prober ###
### BEGIN /etc/grub.d/40_custom ###
menuentry "iPXE" {
\tlinux16 /boot/ipxe.lkrn
}
menuentry Rescue {
\tlinuxefi /rescue/vmlinuz single
\tlinuxefi /rescue/vmlinuz ro
}
### END /etc/grub.d/40_custom ###
"""


def test_entries_are_told_apart_by_the_script_that_wrote_them() -> None:
    assert grub_entries.read(MENU) == [
        MenuEntry("Debian GNU/Linux", ["root=UUID=2f0c", "ro", "console=ttyS0,115200", "quiet"], generated=True),
        MenuEntry("iPXE", [], generated=False),
        MenuEntry("Rescue", ["ro"], generated=False),
    ]


def test_a_menu_of_zfs_and_one_without_marks_are_generated() -> None:
    zfs = MENU.replace("10_linux", "10_linux_zfs")
    assert grub_entries.read(zfs)[0].generated
    by_hand = "menuentry 'One' {\n linux /vmlinuz root=/dev/vda1\n}\n"
    assert grub_entries.read(by_hand) == [MenuEntry("One", ["root=/dev/vda1"], generated=True)]
    assert grub_entries.read("") == []


def test_a_menu_that_cannot_be_followed_is_an_error_with_a_remedy() -> None:
    with pytest.raises(GpuOpsError) as error:
        grub_entries.read("menuentry A {\n linux /k\n")
    assert error.value.reason == "BootLoader"
    assert error.value.msg == wording(
        "The boot menu /boot/grub/grub.cfg cannot be read, so its kernel arguments are left as they are: its script cannot be followed: there is no }. Repair the file of /etc/grub.d that writes this, and run update-grub."
    )


# ---- all kernel lines

AWS = recorded("menus/ubuntu-aws.cfg")


def lines(text: str) -> list[KernelLine]:
    return list(kernel_lines(parse(text)))


def shown(text: str) -> list[str]:
    return [" ".join([line.title, *line.arguments]) for line in lines(text)]


def test_every_branch_of_an_entry_is_read() -> None:
    entry = "if a; then linux /k one; elif b; then linux /k two; else linux /k three; fi"
    assert shown(f"menuentry A {{\n{entry}\n}}") == ["A one", "A two", "A three"]
    assert shown("if linux /k a; then true; fi; while linux /k b; do linux /k c; done") == [" a", " b", " c"]


def test_submenus_loops_and_functions_are_read() -> None:
    text = (
        "function f {\n linux /k of-function\n}\n"
        "submenu S {\n menuentry A --class x {\n linux16 /k of-entry\n }\n linuxefi /k of-submenu\n}\n"
        "for i in 1 2; do\n menuentry B {\n linux /k of-loop\n }\ndone\n"
    )
    assert shown(text) == [" of-function", "A of-entry", "S of-submenu", "B of-loop"]


def test_a_variable_is_no_argument_and_its_place_in_an_argument_stays() -> None:
    text = "menuentry $x 'A' $menuentry_id_option 'a' {\n linux /k root=$root \"$a\" ro $vt_handoff ${b}\n}"
    assert lines(text) == [KernelLine("A", ("root=$root", "ro"), "")]


def test_arguments_are_quoted_as_grub_does() -> None:
    assert lines("menuentry A {\n linux /k 'dyndbg=file a +p' b\\\"c\n}")[0].arguments == (
        '"dyndbg=file a +p"',
        'b\\"c',
    )


def test_commands_that_load_no_kernel_are_no_lines() -> None:
    assert lines("menuentry A {\n chainloader +1\n}\necho linux /k\n$linux /k x\nlinux_gfx_mode /k") == []


def test_lines_belong_to_the_script_whose_marks_are_around_them() -> None:
    text = (
        "linux /k before\n"
        "### BEGIN /etc/grub.d/10_linux ###\nmenuentry A {\n linux /k inside\n}\n### END /etc/grub.d/10_linux ###\n"
        "linux /k between\n### BEGIN of something ###\nlinux /k no-mark\n"
        "### BEGIN /etc/grub.d/40_custom ###\nlinux /k last\n"
    )
    assert [(line.arguments[0], line.origin) for line in lines(text)] == [
        ("before", ""),
        ("inside", "/etc/grub.d/10_linux"),
        ("between", ""),
        ("no-mark", ""),
        ("last", "/etc/grub.d/40_custom"),
    ]


@pytest.mark.parametrize("choice", ["", "1>0", "1>1", "1>2", "1>3"])
@pytest.mark.parametrize("failed", ["", "1"])
def test_what_grub_boots_is_one_of_the_lines(choice: str, failed: str) -> None:
    machine = BootMachine(
        prefix="/boot/grub",
        platform="pc",
        cpu="x86_64",
        environment={"next_entry": choice, "initrdfail": failed},
        read={"/boot/grub/grubenv": "x"}.get,
        entries=lambda value_of: (),
    )
    booted = boot(parse(AWS), machine)
    assert booted.kernel.arguments in [line.arguments for line in lines(AWS) if line.title == booted.entry.title]
