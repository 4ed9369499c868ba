# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another kernel of the distribution on a virtual machine: chosen, booted and proved, and the former one again."""

from __future__ import annotations

import typing as t
from pathlib import Path

from lab.hosts import VmHost
from tests.support.changes import record_of
from tests.support.plays import Plays


def test_a_machine_gets_another_kernel_and_the_former_one_again(vm_host: VmHost, tmp_path: Path) -> None:
    plays = Plays(vm_host, tmp_path, timeout=3000)
    former = vm_host.shell("uname -r").strip()
    other = vm_host.shell("dpkg-deb --field /srv/kernels/*.deb Package").strip().removeprefix("linux-image-")
    assert other.endswith("-cloud-amd64") and former != other

    def wanted(release: str) -> dict[str, t.Any]:
        return {"host_kernel_release": release, "host_kernel_headers": "ignored", "host_change_allowed": True}

    boot = vm_host.boot_id
    predicted = plays.run("host_change", arguments=["--check"], **wanted(other))
    assert predicted.status == 0 and predicted.changed > 0, predicted.output
    assert (vm_host.boot_id, other in vm_host.shell("ls /boot"), record_of(vm_host)) == (boot, False, {})

    for release in (other, former):
        run = plays.run("host_change", **wanted(release))
        assert run.status == 0, run.output
        assert vm_host.shell("uname -r").strip() == release and vm_host.boot_id != boot
        assert record_of(vm_host) == {} and not plays.facts(vm_host)["reboot"]["required"]
        boot = vm_host.boot_id
        again = plays.run("host_change", **wanted(release))
        assert (again.status, again.changed, vm_host.boot_id) == (0, 0, boot), again.output
    assert f"vmlinuz-{other}" in vm_host.shell("ls /boot")
