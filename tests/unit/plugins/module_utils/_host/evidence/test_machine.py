# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.evidence import machine
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output

from tests.unit.fakes.host import FakeHost


@pytest.mark.parametrize(
    ("text", "row"),
    [
        # https://github.com/NVIDIA/open-gpu-kernel-modules/issues/526
        ("nvidia/390.157: added", ("nvidia", "390.157", None, "added")),
        (
            "vboxhost/7.0.8_OSE, 6.4.1-zen1-1-zen, x86_64: installed",
            ("vboxhost", "7.0.8_OSE", "6.4.1-zen1-1-zen", "installed"),
        ),
        # dkms 2
        (
            "nvidia, 535.129.03, 5.15.0-97-generic, x86_64: installed",
            ("nvidia", "535.129.03", "5.15.0-97-generic", "installed"),
        ),
    ],
)
def test_what_dkms_says(text: str, row: tuple[str, ...]) -> None:
    assert machine.dkms(Output(f"{text}\n")) == [dict(zip(("module", "version", "kernel", "state"), row, strict=True))]
    assert machine.dkms(Output(error="dkms is not installed")) is None


def test_keys_that_wait_for_the_next_boot() -> None:
    assert machine.mok_pending(Output("[key 1]\nSHA1 Fingerprint: 12:34\n")) is True
    assert machine.mok_pending(Output("")) is False
    assert machine.mok_pending(Output(error="mokutil is not installed")) is None


def test_device_files_and_their_links(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    assert (machine.devices(host), machine.links_missing(host), machine.driver_gpus(host)) == ([], [], None)
    for name in ("nvidia0", "nvidiactl", "nvidia-caps/nvidia-cap1", "null"):
        host.put(f"/dev/{name}", "")
    (tmp_path / "dev/char").mkdir()
    (tmp_path / "dev/char/195:0").symlink_to("../nvidia0")
    host.put("/proc/driver/nvidia/gpus/0000:18:00.0/information", "")
    assert machine.devices(host) == ["nvidia-caps", "nvidia0", "nvidiactl"]
    assert machine.links_missing(host) == ["nvidiactl"]
    assert machine.driver_gpus(host) == ["0000:18:00.0"]


@pytest.mark.parametrize(
    ("path", "text", "kubelet"),
    [
        ("/var/lib/kubelet/config.yaml", "apiVersion: x\ncgroupDriver: systemd\n", "systemd"),
        ("/var/lib/kubelet/kubeadm-flags.env", 'KUBELET_KUBEADM_ARGS="--cgroup-driver=cgroupfs --x"', "cgroupfs"),
        ("/var/lib/kubelet/config.yaml", "# cgroupDriver: systemd\n", None),
    ],
)
def test_how_the_kubelet_manages_cgroups(tmp_path: Path, path: str, text: str, kubelet: str | None) -> None:
    host = FakeHost(tmp_path)
    host.put(path, text)
    assert machine.cgroups(host) == {"version": 1, "kubelet": kubelet}
    host.put("/sys/fs/cgroup/cgroup.controllers", "cpu")
    assert machine.cgroups(host)["version"] == 2


def test_denials_of_this_boot_that_name_nvidia(tmp_path: Path) -> None:
    # https://github.com/NVIDIA/gpu-operator/issues/553
    denial = (
        'type=AVC msg=audit({time}.587:9501): avc:  denied  {{ module_load }} for  pid=2431660 comm="modprobe" '
        'path="/usr/lib/modules/4.18.0-477.15.1.el8_8.x86_64/kernel/drivers/video/{name}" permissive=0'
    )
    old, new = denial.format(time=1691186980, name="nvidia.ko"), denial.format(time=1691187405, name="nvidia.ko")
    other = denial.format(time=1691187406, name="other.ko")
    host = FakeHost(tmp_path)
    assert machine.denials(host, 5) == []
    host.put("/var/log/audit/audit.log", "\n".join([old, new, other, "type=SYSCALL msg=audit(1691187407.1:1): nvidia"]))
    assert machine.denials(host, 5) == [old, new]
    host.put("/proc/stat", "cpu 1 2\nbtime 1691187000\nprocesses 5\n")
    assert machine.denials(host, 5) == [new]
    host.put("/proc/stat", "btime 1\n")
    assert machine.denials(host, 1) == [new]


def test_the_mode_of_selinux(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    assert machine.selinux(host) == "disabled"
    host.put("/sys/fs/selinux/enforce", "1")
    assert machine.selinux(host) == "enforcing"
