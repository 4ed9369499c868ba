# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig import mig_request, obstacles, plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver.instances import Process
from inline_snapshot import snapshot as wording

from lab.nvml import H100 as MODEL
from tests.unit.fakes.host import FakeHost
from tests.unit.fakes.mig_host import H100, MigHost, entry, gpu, instance


@pytest.fixture
def host(tmp_path: Path) -> MigHost:
    return MigHost(tmp_path, MODEL, 1)


def in_the_way(processes: tuple[Process, ...], **options: t.Any) -> list[int]:
    existing = gpu(H100, instance(H100, 1, "3g.40gb", 0), instance(H100, 2, "3g.40gb", 4), processes=processes)
    wish = mig_request.read([entry(**options)], [existing])[0]
    steps = plan.steps(existing, wish, plan.targets(existing, wish))
    return [process.pid for process in obstacles.processes(existing, steps)]


def test_only_processes_in_what_goes_are_in_the_way() -> None:
    both = (Process(10, 1, 0), Process(11, 2, 0), Process(12))
    assert in_the_way(both, instances={"3g.40gb": 2}) == []
    assert in_the_way(both[:1], instances={"3g.40gb": 1}) == []
    assert in_the_way(both[:2], instances={"3g.40gb": 1}) == [11]
    assert in_the_way(both[1:], instances={"1g.10gb": 1}) == [11, 12]
    assert in_the_way(both, mode="disabled") == [10, 11, 12]


def test_a_process_has_its_name_and_user_as_far_as_they_are_known(host: MigHost) -> None:
    host.process(10, "python3")
    host.process(11, "train", 4711)
    assert obstacles.describe(host, 10) == {"pid": 10, "name": "python3", "user": "alice"}
    assert obstacles.describe(host, 11) == {"pid": 11, "name": "train", "user": "4711"}
    assert obstacles.describe(host, 12) == {"pid": 12, "name": None, "user": None}
    obstacles.assert_idle(host, [])
    with pytest.raises(GpuOpsError) as error:
        obstacles.assert_idle(host, [(gpu(H100), Process(10))])
    assert error.value.reason == "InUse"
    assert error.value.msg == wording(
        "Processes use what the new layout removes, so the host was not changed: 10 (python3, alice) on GPU 0. End them and run this again."
    )


def test_the_persistence_daemon_lets_go_of_a_gpu(host: MigHost) -> None:
    host.put("/proc/driver/nvidia/gpus/0000:18:00.0/information", "Model: H100\nDevice Minor: \t 3\n")
    host.process(20, "nvidia-persiste", 0, "/dev/nvidia3")
    host.process(21, "nv-hostengine", 0, "/dev/nvidiactl", "/dev/nvidia3")
    host.process(22, "other", 0, "/dev/nvidia0")
    assert [each["pid"] for each in obstacles.holders(host, gpu(H100))] == [21]
    assert [each["pid"] for each in obstacles.holders(host, gpu(H100, address="0000:99:00.0"))] == [22]


def test_who_else_manages_instances_is_named(host: MigHost) -> None:
    obstacles.assert_ours(host, allow_kubernetes_node=False)
    host.process(30, "k3s-agent")
    with pytest.raises(GpuOpsError, match="the process k3s-agent"):
        obstacles.assert_ours(host, allow_kubernetes_node=False)
    obstacles.assert_ours(host, allow_kubernetes_node=True)
    host.put("/etc/systemd/system/multi-user.target.wants/nvidia-mig-manager.service", "")
    with pytest.raises(GpuOpsError, match="disable --now nvidia-mig-manager"):
        obstacles.assert_ours(host, allow_kubernetes_node=True)


def test_the_driver_must_be_the_hosts_own(host: MigHost) -> None:
    obstacles.assert_driver(host, "/run/nvidia/driver")
    host.put("/run/nvidia/driver/usr/bin/nvidia-smi", "")
    with pytest.raises(GpuOpsError) as error:
        obstacles.assert_driver(host, "/run/nvidia/driver")
    assert error.value.reason == "Unsupported"
    assert error.value.msg == wording(
        "The driver of this host is in a driver container, which belongs to the GPU Operator. Use gpuops.nvidia.mig_config instead."
    )
    with pytest.raises(GpuOpsError) as error:
        obstacles.assert_driver(FakeHost(Path(host.path("/bare"))), "/run/nvidia/driver")
    assert error.value.reason == "ModuleNotLoaded"
    assert error.value.msg == wording(
        "NVIDIA's driver is not loaded on this host. Install it, for example with the role host_driver, and reboot if it asks for a reboot."
    )
