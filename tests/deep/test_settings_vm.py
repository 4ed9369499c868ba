# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role host_prep on a virtual machine: what a real boot, a real udev and real PCIe bridges make of its settings."""

from __future__ import annotations

import typing as t
from pathlib import Path

from lab.hosts import VmHost
from tests.support.plays import Plays

WANTED: dict[str, t.Any] = {
    "host_prep_iommu": "passthrough",
    "host_prep_acs": False,
    "host_prep_nouveau_kernel_args": True,
    "host_prep_modules_load": ["ib_umad"],
    "host_prep_sysctls": {"vm.max_map_count": 1048576},
}
# The ports that have ACS at all.
BRIDGES = (
    "lspci -D -d ::0604 | cut -d' ' -f1 | while read port; do"
    " if setpci -s $port ECAP_ACS+0x6.w > /dev/null 2>&1; then echo $port; fi; done"
)
CONTROLS = f"for bridge in $({BRIDGES}); do setpci -s $bridge ECAP_ACS+0x6.w; done"


def test_the_settings_take_effect_at_a_boot(vm_host: VmHost, tmp_path: Path) -> None:
    plays = Plays(vm_host, tmp_path, timeout=1800)
    assert "nouveau" in vm_host.shell("lsmod")
    vm_host.shell("setpci -s $(" + BRIDGES + " | head -1) ECAP_ACS+0x6.w=001d")

    predicted = plays.run("host_prep", arguments=["--check", "--verbose"], **WANTED)
    assert predicted.status == 0, predicted.output
    assert "nouveau is loaded" in predicted.output
    prepared = plays.run("host_prep", **WANTED)
    assert prepared.status == 0, prepared.output
    assert set(vm_host.shell(CONTROLS).split()) == {"0000"}

    vm_host.reboot()
    # With an IOMMU, the kernel turns the access control services on. The rule turns them off again.
    assert set(vm_host.shell(f"udevadm settle; {CONTROLS}").split()) == {"0000"}
    vm_host.shell(f"for bridge in $({BRIDGES}); do setpci -s $bridge ECAP_ACS+0x6.w=001d; done")
    assert set(vm_host.shell(CONTROLS).split()) == {"001d"}
    vm_host.shell("udevadm trigger --action=add --subsystem-match=pci --settle")
    assert set(vm_host.shell(CONTROLS).split()) == {"0000"}

    loaded = {line.split()[0] for line in vm_host.shell("cat /proc/modules").splitlines()}
    assert "ib_umad" in loaded and not loaded & {"nouveau", "nova_core", "nova_drm"}
    assert vm_host.shell("sysctl --values vm.max_map_count").strip() == "1048576"
    rerun = plays.run("host_prep", arguments=["--verbose"], **WANTED)
    assert (rerun.status, rerun.changed) == (0, 0), rerun.output
    assert '"host_prep_reboot_reasons": []' in rerun.output
    assert not plays.facts(vm_host)["reboot"]["required"]

    undone = plays.run("host_prep", host_prep_state="absent")
    assert undone.status == 0, undone.output
    assert vm_host.shell(CONTROLS).split()[0] == "001d"
