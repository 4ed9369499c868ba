# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The virtual machine: what it shows, real reboots, and the NVIDIA identity of its devices."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.hosts import LabError, VmHost
from lab.hosts.vm import qemu
from lab.hosts.vm.qemu import Shape
from tests.support.plays import Plays

HEADER = b"\x36\x1b\x05\x00" + b"\x00" * 4 + b"\x00\x00\xff\x00" + b"\x00" * 32 + b"\xf4\x1a\x00\x11"


def test_the_memory_search_finds_only_headers_of_test_devices() -> None:
    assert len(qemu.TEST_DEVICE.findall(b"\x00" * 7 + HEADER + b"\xff" * 9 + HEADER)) == 2
    assert not qemu.TEST_DEVICE.findall(HEADER.replace(b"\xff", b"\x02"))
    assert not qemu.TEST_DEVICE.findall(HEADER[:-4] + b"\x00" * 4)


def test_the_identity_is_written_over_the_header() -> None:
    """A child process has two headers in its heap, as qemu does."""
    code = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.sbrk.restype = ctypes.c_void_p
heap = libc.sbrk(4096)
for at in (64, 1024):
    for offset, value in enumerate(sys.argv[1].split(",")):
        ctypes.c_ubyte.from_address(heap + at + offset).value = int(value)
print("ready", flush=True)
sys.stdin.readline()
print(ctypes.string_at(heap + 64, 12).hex(), ctypes.string_at(heap + 1024, 12).hex())
"""
    numbers = ",".join(map(str, HEADER))
    with subprocess.Popen(
        [sys.executable, "-c", code, numbers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stdin
        process.stdout.readline()
        with pytest.raises(LabError, match="has 3 test devices, but 2"):
            qemu.disguise(process.pid, Shape(gpus=3))
        said = process.communicate("\n")[0].split()
    assert said == ["de10302300000000a1000203"] * 2


def test_intel_iommu_precedes_the_devices_that_it_serves() -> None:
    argv = qemu.command_line(Shape(gpus=8), Path("disk"), 2222, Path("folder"))
    assert argv.index("intel-iommu,intremap=on,caching-mode=on") < next(
        i for i, word in enumerate(argv) if "virtio-blk" in word
    )
    assert sum("pci-testdev" in word for word in argv) == 8
    assert not any(
        "intel-iommu" in word for word in qemu.command_line(Shape(iommu="none"), Path("disk"), 2222, Path("folder"))
    )


def test_before_and_after_a_reboot(vm_host: VmHost) -> None:
    assert vm_host.shell("lspci -nn -d 10de:").count("[10de:2330]") == 2
    assert "nouveau" in vm_host.shell("lsmod")
    assert vm_host.shell("ls /sys/kernel/iommu_groups") == ""
    assert abs(int(vm_host.shell("date +%s")) - time.time()) < 60

    line = 'GRUB_CMDLINE_LINUX_DEFAULT="intel_iommu=on iommu=pt"'
    vm_host.shell(f"sed -i 's/^GRUB_CMDLINE_LINUX_DEFAULT=.*/{line}/' /etc/default/grub && update-grub")
    vm_host.shell("echo 'blacklist nouveau' > /etc/modprobe.d/test.conf")
    before = vm_host.boot_id
    vm_host.reboot()

    assert vm_host.boots == 2
    assert vm_host.boot_id != before
    assert "iommu=pt" in vm_host.shell("cat /proc/cmdline")
    assert "nouveau" not in vm_host.shell("lsmod")
    groups = vm_host.shell("readlink /sys/bus/pci/devices/0000:0[12]:00.0/iommu_group").split()
    assert len(groups) == len(set(groups)) == 2
    assert vm_host.shell("cat /sys/kernel/iommu_groups/*/type | sort -u") == "identity"


def test_runs_that_are_killed_are_completed_by_the_next(vm_host: VmHost, tmp_path: Path) -> None:
    """A run is killed before the kernel arguments are set, another before the reboot, and another after it."""
    plays = Plays(vm_host, tmp_path, timeout=1800)
    # The disk is too small for a driver container, hence preflight_tolerate.
    wanted = {
        "host_prep_iommu": "passthrough",
        "host_change_allowed": True,
        "host_change_timeout": 900,
        "preflight_tolerate": ["host_disk"],
    }
    plays.cut("host_prep", vm_host, "Set the kernel modules", **wanted)
    prepared = plays.run("host_prep", **wanted)
    assert (prepared.status, prepared.changed) == (0, 1), prepared.output

    plays.cut("host_change", vm_host, "Write the record", **wanted)
    assert vm_host.boots == 1
    plays.cut("host_change", vm_host, "Reboot", **wanted)
    assert vm_host.boots == 2

    completed = plays.site(**wanted)
    assert completed.status == 0, completed.output
    assert vm_host.boots == 2
    facts = plays.facts(vm_host)
    assert not facts["nouveau"]["loaded"] and not facts["reboot"]["required"]
    assert facts["iommu"]["mode"] == "passthrough"
    again = plays.site(**wanted)
    assert (again.status, again.changed) == (0, 0), again.output
