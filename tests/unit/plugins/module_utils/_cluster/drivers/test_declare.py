# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._check_refusal import CHECK_REFUSAL, WOULD_STOP
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers import declare
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.declared_options import (
    DECLARATION,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_reader import WantedDrivers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_result import (
    DriverRow,
    RolloutResult,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.foresight import Foresight
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.rollout_options import (
    SPEC as ROLLOUT,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from tests.unit.fakes.api import ALL_PODS, POLICIES, FakeApi
from tests.unit.fakes.stack import workload

SPEC = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "595.91.07"}
BLOCKS: dict[str, t.Any] = {"waitForCompletion": {}, "podDeletion": {}, "drain": {}}
DRIVERS = "/apis/nvidia.com/v1alpha1/nvidiadrivers"
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"


class FakeRollout:
    """Notes what it is asked for."""

    log: t.ClassVar[list[t.Any]] = []
    shut: t.ClassVar[str] = ""
    error: t.ClassVar[GpuOpsError | None] = None
    foreseen: t.ClassVar[list[t.Any]] = []
    rows: t.ClassVar[list[DriverRow]] = []
    resumed: t.ClassVar[tuple[str, ...]] = ()
    waiting: t.ClassVar[str] = ""
    degraded: t.ClassVar[tuple[str, ...]] = ()

    def __init__(self, cluster: Cluster, options: Json, wanted: WantedDrivers) -> None:
        self.log.append(wanted)

    def closed(self) -> str:
        return self.shut

    def hold(self, chosen: t.Sequence[str], nodes: t.Sequence[Json] = ()) -> bool:
        self.log.append(list(chosen))
        return True

    def foresee(self, replaced: t.Collection[str], removed: t.Collection[str]) -> Foresight:
        self.foreseen.append((sorted(replaced), sorted(removed)))
        return Foresight(RolloutResult(self.rows), self.resumed)

    def why_left(self, made: t.Any) -> str:
        return self.waiting

    def roll(self) -> t.Any:
        self.log.append("roll")
        if self.error:
            raise self.error
        return self

    def as_result(self) -> Json:
        return {"nodes": ["rows"], "summary": {}, "finished": True, "changed": False}


@pytest.fixture
def rollout(monkeypatch: pytest.MonkeyPatch) -> type[FakeRollout]:
    for name, value in (
        ("log", []), ("shut", ""), ("error", None), ("foreseen", []), ("rows", []), ("resumed", ()),
    ):  # fmt: skip
        monkeypatch.setattr(FakeRollout, name, value)
    monkeypatch.setattr(declare, "DriverRollout", FakeRollout)
    return FakeRollout


@pytest.fixture
def declared(api: FakeApi, rollout: type[FakeRollout]) -> t.Callable[..., Json]:
    api.lists[DRIVERS] = []
    api.lists[BUDGETS] = []
    api.lists[POLICIES][0]["spec"]["driver"] = {**SPEC, "upgradePolicy": {"autoUpgrade": True, **BLOCKS}}
    api.table = [[f"v-{number}", "1/1", "Running", 0, "1d", "", f"gpu-{number:04}"] for number in range(2)]
    specs = DECLARATION.including(ROLLOUT, CHECK_REFUSAL).options
    plain = {name: spec.get("default") for name, spec in specs.items()}
    registry = {
        "mode": "offline", "mirrors": {}, "insecure": [],
        "username": None, "password": None, "ca_path": None, "timeout": 1,
    }  # fmt: skip

    said: list[str] = []

    def run(check: bool = False, **chosen: t.Any) -> Json:
        options = {**plain, "state": "present", "registry": registry, **chosen}
        return declare.declare(Cluster(api.connection, check), options, said.append)

    run.said = said  # type: ignore[attr-defined]
    return run


def writes(api: FakeApi) -> list[str]:
    return [path for method, path, query in api.log if method != "GET" and "dryRun" not in query]


def test_nodes_are_kept_back_before_the_write_and_rolled_after_it(
    declared: t.Callable, api: FakeApi, rollout: type[FakeRollout]
) -> None:
    result = declared(version="610.57.04")
    wanted, held, last = rollout.log
    assert held == ["gpu-0000", "gpu-0001"] and last == "roll" and len(writes(api)) == 1
    assert wanted.automatic is True and wanted.policy_name == "cluster-policy" and wanted.namespace == "gpu-operator"
    assert wanted.images["gpu-0000"] == "nvcr.io/nvidia/driver:610.57.04-ubuntu24.04"
    assert result["changed"] is True and result["nodes"] == ["rows"] and result["finished"] is True


def test_an_unchanged_declaration_goes_on_with_its_rollout(declared: t.Callable, rollout: type[FakeRollout]) -> None:
    assert declared()["changed"] is False and rollout.log[1:] == ["roll"]


def test_nodes_that_wait_for_the_next_window_are_a_warning(
    declared: t.Callable, rollout: type[FakeRollout], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout, "waiting", "gpu-0001 waits")
    declared()
    assert declared.said[-1] == "gpu-0001 waits"  # type: ignore[attr-defined]


def test_nothing_is_written_while_the_window_is_closed(
    declared: t.Callable, api: FakeApi, rollout: type[FakeRollout], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout, "shut", "No maintenance window is open now.")
    result = declared(version="610.57.04")
    assert result["changed"] is False and result["finished"] is False and writes(api) == [] and len(rollout.log) == 1
    assert declared()["finished"] is True, "the rollout itself minds the window"


def test_in_check_mode_and_without_waiting_nobody_is_kept_back(
    declared: t.Callable, api: FakeApi, rollout: type[FakeRollout]
) -> None:
    predicted = declared(check=True, version="610.57.04")
    assert predicted["changed"] is True and writes(api) == [] and len(rollout.log) == 1
    assert rollout.foreseen == [(["gpu-0000", "gpu-0001"], [])] and predicted["finished"] is True
    assert "nodes" not in declared(check=True, version="610.57.04", wait=False) and writes(api) == []
    assert "nodes" not in declared(version="610.57.04", wait=False) and len(writes(api)) == 1 and len(rollout.log) == 1


def test_a_check_shows_what_an_earlier_call_has_left(
    declared: t.Callable, rollout: type[FakeRollout], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout, "rows", [DriverRow("gpu-0000", changed=True), DriverRow("gpu-0001", "done")])
    monkeypatch.setattr(rollout, "resumed", ("gpu-0000",))
    predicted = declared(check=True)
    assert predicted["changed"] is True and predicted["finished"] is False and predicted["findings"] == []
    assert [(row["node"], row["action"]) for row in predicted["plan"]] == [
        ("gpu-0000", "replace"), ("gpu-0001", "nothing"),
    ]  # fmt: skip
    assert [row["node"] for row in predicted["nodes"]] == ["gpu-0000", "gpu-0001"]


@pytest.mark.parametrize("check", [False, True])
def test_nodes_that_an_earlier_call_has_left_need_the_permission_too(
    declared: t.Callable, api: FakeApi, rollout: type[FakeRollout], monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    api.lists[ALL_PODS] = [workload("train")]
    assert declared(check=check)["changed"] is False
    monkeypatch.setattr(rollout, "resumed", ("gpu-0000",))
    with pytest.raises(GpuOpsError, match="default/train") as caught:
        declared(check=check)
    assert caught.value.reason == "Disruption" and caught.value.details["plan"][0]["pods"] == ["default/train"]
    assert declared(check=check, allow_disruption=True)["disruption"]["pods_total"] == 1


def test_a_check_fails_where_the_run_stops_unless_it_is_to_warn(declared: t.Callable, api: FakeApi) -> None:
    api.lists[ALL_PODS] = [workload("alone", controller="")]
    for check in (False, True):
        with pytest.raises(GpuOpsError) as caught:
            declared(check=check, version="610.57.04")
        assert caught.value.reason == "ChecksFailed" and caught.value.details["plan"][0]["action"] == "replace"
    assert declared(check=True, check_refusal="warn", version="610.57.04")["changed"] is True
    assert [text for text in declared.said if text.startswith(WOULD_STOP)] != []
    with pytest.raises(GpuOpsError):
        declared(check_refusal="warn", version="610.57.04")


def test_a_failed_rollout_tells_what_was_written_and_no_forecast(
    declared: t.Callable, rollout: type[FakeRollout], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout, "error", GpuOpsError("No.", reason="NodesFailed", nodes=["a"], changed=False))
    with pytest.raises(GpuOpsError) as caught:
        declared(version="610.57.04")
    details = caught.value.details
    assert details["reason"] == "NodesFailed" and details["nodes"] == ["a"] and details["changed"] is True
    assert details["objects"][0]["action"] == "change" and not {"plan", "pools"} & details.keys()
    assert {finding["level"] for finding in details["findings"]} == {"warning"}, "What is ok is left out."


def test_on_the_way_back_the_operator_replaces_nothing(
    declared: t.Callable, api: FakeApi, rollout: type[FakeRollout]
) -> None:
    api.lists[POLICIES][0]["spec"]["driver"]["useNvidiaDriverCRD"] = True
    spec = {**SPEC, "driverType": "gpu", "default": True}
    api.lists[DRIVERS] = [{"apiVersion": "a", "kind": "NVIDIADriver", "metadata": {"name": "default"}, "spec": spec}]
    declared(resource="ClusterPolicy")
    wanted, held, dummy = rollout.log
    assert wanted.automatic is False and held == []


def test_other_states_are_those_of_the_rollout(declared: t.Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("recover", "pause"):
        monkeypatch.setattr(declare.recover, name, lambda *given, name=name: {"was": name})
    assert declared(state="recovered") == {"was": "recover"} and declared(state="paused") == {"was": "pause"}


def test_options_are_refused_before_anything_is_read(declared: t.Callable, api: FakeApi) -> None:
    for wrong in ({"purge": True}, {"soak": -1}):
        with pytest.raises(GpuOpsError):
            declared(**wrong)
    assert api.log == []


def test_a_message_names_three_failures_and_how_to_go_on(declared: t.Callable, api: FakeApi) -> None:
    api.table = []
    with pytest.raises(GpuOpsError) as caught:
        declared(version="570", kernel_module_type="x", repository="")
    assert "(skip: " in caught.value.msg and caught.value.reason == "ChecksFailed"
    assert writes(api) == [] and caught.value.details["changed"] is False


@pytest.mark.parametrize("state", ["present", "paused", "recovered"])
@pytest.mark.parametrize(
    "wrong", [{"soak": -1}, {"timeout": 0}, {"waves": ["0"]}, {"windows": ["at night"]}, {"time_zone": "Mars"}]
)
def test_options_that_cannot_be_meant_are_refused_before_anything_is_read(
    declared: t.Callable[..., Json], api: FakeApi, state: str, wrong: Json
) -> None:
    with pytest.raises(GpuOpsError) as e:
        declared(state=state, **wrong)
    assert e.value.reason == "Invalid" and api.log == []
