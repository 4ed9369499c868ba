# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers import call
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.options import DECLARATION
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.options import OPTIONS
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.read import Wanted
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from tests.unit.fakes.api import POLICIES, FakeApi

SPEC = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "595.91.07"}
BLOCKS: dict[str, t.Any] = {"waitForCompletion": {}, "podDeletion": {}, "drain": {}}
DRIVERS = "/apis/nvidia.com/v1alpha1/nvidiadrivers"


class FakeRollout:
    """Notes what it is asked for."""

    log: t.ClassVar[list[t.Any]] = []
    shut: t.ClassVar[str] = ""
    error: t.ClassVar[GpuOpsError | None] = None

    def __init__(self, cluster: Cluster, options: Json, wanted: Wanted) -> None:
        self.log.append(wanted)

    def closed(self) -> str:
        return self.shut

    def hold(self, chosen: t.Sequence[str], nodes: t.Sequence[Json] = ()) -> bool:
        self.log.append(list(chosen))
        return True

    def roll(self) -> t.Any:
        self.log.append("roll")
        if self.error:
            raise self.error
        return self

    def as_result(self) -> Json:
        return {"nodes": ["rows"], "summary": {}, "finished": True, "changed": False}


@pytest.fixture
def rollout(monkeypatch: pytest.MonkeyPatch) -> type[FakeRollout]:
    for name, value in (("log", []), ("shut", ""), ("error", None)):
        monkeypatch.setattr(FakeRollout, name, value)
    monkeypatch.setattr(call, "Rollout", FakeRollout)
    return FakeRollout


@pytest.fixture
def declare(api: FakeApi, rollout: type[FakeRollout]) -> t.Callable[..., Json]:
    api.lists[DRIVERS] = []
    api.lists[POLICIES][0]["spec"]["driver"] = {**SPEC, "upgradePolicy": {"autoUpgrade": True, **BLOCKS}}
    api.table = [[f"v-{number}", "1/1", "Running", 0, "1d", "", f"gpu-{number:04}"] for number in range(2)]
    specs = {**DECLARATION, **OPTIONS}
    plain = {name: spec.get("default") for name, spec in specs.items()}
    registry = {
        "mode": "offline", "mirrors": {}, "insecure": [],
        "username": None, "password": None, "ca_path": None, "timeout": 1,
    }  # fmt: skip

    def run(check: bool = False, **chosen: t.Any) -> Json:
        options = {**plain, "state": "present", "registry": registry, **chosen}
        return call.declare(Cluster(api.connection, check), options, lambda text: None)

    return run


def writes(api: FakeApi) -> list[str]:
    return [path for method, path, query in api.log if method != "GET" and "dryRun" not in query]


def test_nodes_are_kept_back_before_the_write_and_rolled_after_it(
    declare: t.Callable, api: FakeApi, rollout: type[FakeRollout]
) -> None:
    result = declare(version="610.57.04")
    wanted, held, last = rollout.log
    assert held == ["gpu-0000", "gpu-0001"] and last == "roll" and len(writes(api)) == 1
    assert wanted.automatic is True and wanted.policy_name == "cluster-policy" and wanted.namespace == "gpu-operator"
    assert wanted.images["gpu-0000"] == "nvcr.io/nvidia/driver:610.57.04-ubuntu24.04"
    assert result["changed"] is True and result["nodes"] == ["rows"] and result["finished"] is True


def test_an_unchanged_declaration_goes_on_with_its_rollout(declare: t.Callable, rollout: type[FakeRollout]) -> None:
    assert declare()["changed"] is False and rollout.log[1:] == ["roll"]


def test_nothing_is_written_while_the_window_is_closed(
    declare: t.Callable, api: FakeApi, rollout: type[FakeRollout], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout, "shut", "No maintenance window is open now.")
    result = declare(version="610.57.04")
    assert result["changed"] is False and result["finished"] is False and writes(api) == [] and len(rollout.log) == 1
    assert declare()["finished"] is True, "the rollout itself minds the window"


def test_in_check_mode_and_without_waiting_nobody_is_kept_back(
    declare: t.Callable, api: FakeApi, rollout: type[FakeRollout]
) -> None:
    assert declare(check=True, version="610.57.04")["changed"] is True and writes(api) == [] and rollout.log == []
    assert "nodes" not in declare(version="610.57.04", wait=False) and len(writes(api)) == 1 and rollout.log == []


def test_a_failed_rollout_tells_the_plan_too(
    declare: t.Callable, rollout: type[FakeRollout], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout, "error", GpuOpsError("No.", reason="NodesFailed", nodes=["a"], changed=False))
    with pytest.raises(GpuOpsError) as caught:
        declare(version="610.57.04")
    details = caught.value.details
    assert details["reason"] == "NodesFailed" and details["nodes"] == ["a"] and details["changed"] is True
    assert details["objects"][0]["action"] == "change"


def test_on_the_way_back_the_operator_replaces_nothing(
    declare: t.Callable, api: FakeApi, rollout: type[FakeRollout]
) -> None:
    api.lists[POLICIES][0]["spec"]["driver"]["useNvidiaDriverCRD"] = True
    spec = {**SPEC, "driverType": "gpu", "default": True}
    api.lists[DRIVERS] = [{"apiVersion": "a", "kind": "NVIDIADriver", "metadata": {"name": "default"}, "spec": spec}]
    declare(resource="ClusterPolicy")
    wanted, held, dummy = rollout.log
    assert wanted.automatic is False and held == []


def test_other_states_are_those_of_the_rollout(declare: t.Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("recover", "pause"):
        monkeypatch.setattr(call.recover, name, lambda cluster, options, warn, name=name: {"was": name})
    assert declare(state="recovered") == {"was": "recover"} and declare(state="paused") == {"was": "pause"}


def test_options_are_refused_before_anything_is_read(declare: t.Callable, api: FakeApi) -> None:
    for wrong in ({"purge": True}, {"soak": -1}):
        with pytest.raises(GpuOpsError):
            declare(**wrong)
    assert api.log == []


def test_a_message_names_three_failures_and_how_to_go_on(declare: t.Callable, api: FakeApi) -> None:
    api.table = []
    with pytest.raises(GpuOpsError) as caught:
        declare(version="570", kernel_module_type="x", repository="")
    assert "(skip: " in caught.value.msg and caught.value.reason == "ChecksFailed"
    assert writes(api) == [] and caught.value.details["changed"] is False
