# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Listed
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import doctor
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

PLUGIN = "nvidia-device-plugin-daemonset-abcde"
CRASH = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
GONE = "E1122 10:00:00.000000       1 main.go:178] specified config t4-00000000 does not exist\n"
LINK = (
    "I1122 10:00:00.000000       1 main.go:2] Updating\n"
    "E1122 10:00:01.000000       1 main.go:178] error creating symlink: symlink /a /b: file exists\n"
)
BAD = "E1122 10:00:00.000000       1 main.go:173] error starting plugins: unable to load config: bad\n"


class FakeCluster:
    """Pods of the operator's namespace, their logs, and what was deleted."""

    def __init__(self, rows: list[dict], pods: dict[str, dict], logs: dict[str, str]) -> None:
        self.rows, self.pods, self.logs = rows, pods, logs
        self.deleted: list[str] = []
        self.events: list[dict] = []
        self.refuses = False

    def table(self, path: str) -> list[dict]:
        return self.rows

    def get(self, path: str) -> dict | None:
        return self.pods.get(path.rpartition("/")[2])

    def text(self, path: str, query: dict) -> str:
        if query["previous"] == "true":
            raise GpuOpsError("no previous container", reason="NotFound")
        return self.logs.get(query["container"], "")

    def list_readable(self, path: str, **selectors: str) -> Listed:
        return Listed(self.events)

    def delete(self, path: str) -> bool:
        if self.refuses:
            raise GpuOpsError("forbidden", reason="Forbidden")
        self.deleted.append(path.rpartition("/")[2])
        return True


def row(name: str = PLUGIN, status: str = "CrashLoopBackOff", node: str = "n") -> dict:
    return {"name": name, "ready": "1/2", "status": status, "node": node}


def pod(container: str = "config-manager", state: dict | None = None, name: str = PLUGIN, init: bool = False) -> dict:
    statuses = [{"name": container, **(CRASH if state is None else state)}]
    running = [{"name": "nvidia-device-plugin", "state": {"running": {}}}]
    kind = {"initContainerStatuses": statuses} if init else {"containerStatuses": [*running, *statuses]}
    return {"metadata": {"name": name, "uid": "1"}, "status": kind}


def looked(found: FakeCluster, times: int = 1) -> tuple[dict[str, str], doctor.Doctor]:
    made = doctor.Doctor(t.cast(t.Any, found), "gpu-operator")
    for dummy in range(times - 1):
        made.look(["n"])
    return made.look(["n"]), made


@pytest.mark.parametrize("log", [GONE, LINK])
@pytest.mark.parametrize(("container", "init"), [("config-manager", False), ("config-manager-init", True)])
def test_a_config_manager_that_a_new_pod_cures_gets_one_once(log: str, container: str, init: bool) -> None:
    status = "Init:CrashLoopBackOff" if init else "CrashLoopBackOff"
    found = FakeCluster([row(status=status)], {PLUGIN: pod(container, init=init)}, {container: log})
    said, made = looked(found, 3)
    assert found.deleted == [PLUGIN] and made.repaired == {"n": [PLUGIN]}
    assert said["n"].startswith(f"pod {PLUGIN} is {status} (container {container}: ")


def test_a_device_plugin_that_cannot_read_its_configuration_is_only_named() -> None:
    found = FakeCluster([row()], {PLUGIN: pod("nvidia-device-plugin")}, {"nvidia-device-plugin": BAD})
    said, made = looked(found)
    assert found.deleted == [] and made.repaired == {}
    assert said["n"].endswith("(container nvidia-device-plugin: error starting plugins: unable to load config: bad)")


def test_a_pod_that_cannot_be_deleted_is_left_to_itself() -> None:
    found = FakeCluster([row()], {PLUGIN: pod()}, {"config-manager": GONE})
    found.refuses = True
    said, made = looked(found)
    assert made.repaired == {} and "does not exist" in said["n"]


def test_a_missing_config_map_is_named_by_its_event() -> None:
    waits = {"state": {"waiting": {"reason": "ContainerCreating"}}}
    found = FakeCluster([row(status="ContainerCreating")], {PLUGIN: pod(state=waits, init=True)}, {})
    found.events = [
        {"message": 'MountVolume.SetUp failed: configmap "x" not found', "lastTimestamp": "2026-01-01T00:00:00Z"}
    ]
    assert looked(found)[0]["n"].endswith('(MountVolume.SetUp failed: configmap "x" not found)')


def test_other_nodes_and_pods_are_not_read() -> None:
    rows = [row(node="other"), row("nvidia-dcgm-abcde"), {**row(), "ready": "2/2", "status": "Running"}]
    assert looked(FakeCluster(rows, {PLUGIN: pod()}, {}))[0] == {}


def test_a_pod_that_is_gone_is_no_trouble() -> None:
    assert looked(FakeCluster([row()], {}, {}))[0] == {}


def test_a_container_that_has_just_ended_has_crashed() -> None:
    ended = {"state": {"terminated": {"exitCode": 1}}}
    assert doctor.crashed_container(pod(state=ended)) == "config-manager"
    assert (
        doctor.crashed_container(pod(state={"state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1}}}))
        == ""
    )


@pytest.mark.parametrize(("is_moving", "is_named"), [(True, True), (False, False)])
def test_a_pod_that_cannot_end_on_another_node_is_named(is_moving: bool, is_named: bool) -> None:
    row = {"name": PLUGIN, "node": "gpu-0009", "status": "Terminating", "ready": "1/1"}
    cluster = FakeCluster([row], {}, {})
    status = {"observedGeneration": 1, "desiredNumberScheduled": 2, "numberAvailable": 2}
    daemonset = {
        "metadata": {"name": "nvidia-device-plugin-daemonset", "generation": 1},
        "status": {**status, "updatedNumberScheduled": 1 if is_moving else 2},
    }
    cluster.list = lambda path: [daemonset]  # type: ignore[attr-defined]
    said = doctor.Doctor(t.cast(t.Any, cluster), "gpu-operator").look(["gpu-0000"])
    expected = {"gpu-0000": f"pod {PLUGIN} on gpu-0009 cannot end, which holds up the others"}
    assert said == (expected if is_named else {})
