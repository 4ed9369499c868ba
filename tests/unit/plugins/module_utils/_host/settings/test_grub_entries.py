# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings import grub_entries
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.grub_entries import MenuEntry

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
    with pytest.raises(GpuOpsError, match=r"left as they are: .*: there is no \}\. Repair the file"):
        grub_entries.read("menuentry A {\n linux /k\n")
