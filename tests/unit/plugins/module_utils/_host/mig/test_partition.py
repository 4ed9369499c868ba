# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""tests/unit/plugins/modules/test_mig_partition.py runs the whole of it. Here is what only a part can show."""

from __future__ import annotations

import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig import partition
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from inline_snapshot import snapshot as wording

from lab.nvml import H100, machine
from tests.unit.fakes.mig_host import MigHost, entry

SetNvml = t.Callable[..., None]
OPTIONS: dict[str, t.Any] = {
    "persistent": True,
    "allow_kubernetes_node": False,
    "driver_root": "/run/nvidia/driver",
    "timeout": 10,
}


@pytest.fixture
def host(tmp_path: Path, nvml: SetNvml) -> MigHost:
    nvml(machine(H100, 2))
    return MigHost(tmp_path / "host", H100, 2)


def test_gpus_that_are_gone_leave_the_unit_with_a_layout_for_all(host: MigHost) -> None:
    host.put("/etc/gpuops/mig_partition/restore.sh", "restore GPU-gone 1g.10gb:0\n")
    one = {**OPTIONS, "layout": [entry(gpus=["0"], instances={})]}
    partition.partition(host, one, check_mode=False)
    assert "restore GPU-gone 1g.10gb:0" in (host.read("/etc/gpuops/mig_partition/restore.sh") or "")
    every = {**OPTIONS, "layout": [entry(instances={})]}
    partition.partition(host, every, check_mode=False)
    assert "GPU-gone" not in (host.read("/etc/gpuops/mig_partition/restore.sh") or "")


def test_a_change_that_hangs_names_its_step(host: MigHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def hanging(*dummy: t.Any) -> t.Iterator[Json]:
        yield {"doing": 0}
        time.sleep(60)

    monkeypatch.setattr(partition.apply.Work, "run", hanging)
    with pytest.raises(GpuOpsError) as raised:
        partition.partition(host, {**OPTIONS, "timeout": 1, "layout": [entry(instances={})]}, check_mode=False)
    assert raised.value.reason == "TimedOut"
    assert raised.value.msg == wording(
        'The driver did not answer within 1 s at the step "GPU 0: turn MIG on". Look for Xid errors in the kernel log, and reboot the host.'
    )


def test_a_library_that_crashes_is_an_error(host: MigHost, nvml: SetNvml) -> None:
    nvml(machine(H100, 1, crash=1))
    with pytest.raises(GpuOpsError) as error:
        partition.gpus(10)
    assert error.value.reason == "DriverRefused"
    assert error.value.msg == wording(
        "The driver ended the process while it was asked for its GPUs. Look for Xid errors in the kernel log, and reboot the host."
    )


def test_without_a_place_for_the_unit_nothing_changes(host: MigHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "writable", lambda path: False)
    with pytest.raises(GpuOpsError) as raised:
        partition.partition(host, {**OPTIONS, "layout": [entry(instances={})]}, check_mode=False)
    assert raised.value.reason == "NotWritable"
    assert raised.value.msg == wording(
        "/etc/systemd/system/gpuops-mig-partition.service is not writable, so the GPUs and the unit that restores their layout are left as they are. Remount it writable (mount -o remount,rw), or become root."
    )
    assert [gpu.mode for gpu in partition.gpus(10)] == [False, False]
