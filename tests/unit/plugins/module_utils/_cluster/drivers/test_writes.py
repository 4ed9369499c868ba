# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers import writes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import drivers_view
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.driver_request import (
    DriverRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import DAEMONSETS, POLICIES, FakeApi, refusal

DRIVERS = "/apis/nvidia.com/v1alpha1/nvidiadrivers"


def driver(name: str, **spec: t.Any) -> dict:
    return {"apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def plan(api: FakeApi) -> t.Callable[..., writes.WritePlan]:
    api.lists.setdefault(DRIVERS, [])

    def made(force: bool = False, **fields: t.Any) -> writes.WritePlan:
        wished = DriverRequest(**{"kind": "x", "policy": {}, "drivers": {}, **fields})
        cluster = Cluster(api.connection)
        return writes.plan(cluster, wished, drivers_view.look(cluster, "", ""), force)

    return made


def done(api: FakeApi) -> list[str]:
    return [
        f"{method} {path.rpartition('/')[2]}"
        for method, path, query in api.log
        if method != "GET" and "dryRun" not in query
    ]


def carry_out(api: FakeApi, planned: writes.WritePlan) -> list[str]:
    writes.carry_out(Cluster(api.connection), "gpu-operator", planned)
    return done(api)


def test_a_plan_writes_nothing_and_shows_what_becomes_of_each_object(plan: t.Callable, api: FakeApi) -> None:
    made = plan(policy={"driver": {"version": "2"}}, drivers={"a": {"version": "1"}})
    assert done(api) == [] and made.changed
    assert [(item.kind, item.name, item.existing is None) for item in made.applies] == [
        ("NVIDIADriver", "a", True), ("ClusterPolicy", "cluster-policy", False),
    ]  # fmt: skip
    assert made.applies[1].predicted["spec"]["driver"]["version"] == "2"
    assert carry_out(api, made) == ["PATCH a", "PATCH cluster-policy"]


def test_fields_that_were_declared_before_stay_declared(plan: t.Callable, api: FakeApi) -> None:
    carry_out(api, plan(policy={"driver": {"version": "2"}}))
    made = plan(policy={"driver": {"image": "driver"}})
    assert made.applies[0].manifest["spec"] == {"driver": {"version": "2", "image": "driver"}}
    carry_out(api, made)
    again = plan(policy={"driver": {"image": "driver"}})
    assert again.changed is False
    api.log.clear()
    assert carry_out(api, again) == []


def test_nothing_is_applied_to_objects_about_which_nothing_is_said(plan: t.Callable, api: FakeApi) -> None:
    api.lists[DRIVERS] = [driver("a", version="1")]
    assert plan(drivers={"a": {}}).applies == () and plan().changed is False


def test_objects_leave_in_the_order_that_keeps_pods(plan: t.Callable, api: FakeApi) -> None:
    api.lists[DRIVERS] = [driver("a"), driver("b")]
    api.lists[DAEMONSETS][0]["metadata"]["name"] = "nvidia-gpu-driver-x"
    made = plan(
        policy={"driver": {"version": "2"}}, delete=("a",), orphan=("b",), orphan_daemonsets=("nvidia-gpu-driver-x",)
    )
    sent: list[t.Any] = []
    real = Cluster.delete

    def delete(self: t.Any, path: str, propagation: str = "Background", grace_period_s: int | None = None) -> bool:
        sent.append((path.rpartition("/")[2], propagation))
        return real(self, path, propagation, grace_period_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cluster, "delete", delete)
        assert carry_out(api, made)[0] == "PATCH cluster-policy"
    assert sent == [("a", "Background"), ("b", "Orphan"), ("nvidia-gpu-driver-x", "Orphan")]


def test_a_plan_knows_objects_after_it(plan: t.Callable, api: FakeApi) -> None:
    a, b = driver("a"), driver("b")
    api.lists[DRIVERS] = [a, b]
    made = plan(policy={"driver": {"version": "2"}}, orphan=("b",))
    assert made.after("NVIDIADriver", a) == a and made.after("NVIDIADriver", b) is None
    assert made.after("ClusterPolicy", api.lists[POLICIES][0])["spec"]["driver"]["version"] == "2"


def conflicting(api: FakeApi, *managers: str) -> None:
    causes = [
        {"field": f".spec.driver.field{number}", "message": f'conflict with "{manager}"'}
        for number, manager in enumerate(managers)
    ]
    api.answer = lambda method, path: (
        refusal(409, "conflict", "Conflict", causes) if api.log[-1][2].get("force") == "false" else None
    )


def test_fields_of_this_collection_are_taken_over_and_those_of_others_on_request(
    plan: t.Callable, api: FakeApi
) -> None:
    wanted = {"policy": {"driver": {"version": "2"}}}
    conflicting(api, "gpuops.nvidia")
    made = plan(**wanted)
    assert made.applies[0].taken_from == ("spec.driver.field0 (gpuops.nvidia)",)
    conflicting(api, "gpuops.nvidia-kept-driver", "gpuops.nvidia")
    made = plan(**wanted)
    assert len(made.applies[0].taken_from) == 2 and list(writes.notes(made)) == []
    conflicting(api, "gpuops.nvidia", "helm")
    with pytest.raises(GpuOpsError, match="force_conflicts") as caught:
        plan(**wanted)
    assert caught.value.reason == "Conflict" and len(caught.value.details["conflicts"]) == 2
    forced = plan(force=True, **wanted)
    assert len(forced.applies[0].taken_from) == 2
    assert list(writes.notes(forced)) == wording(
        [
            "ClusterPolicy cluster-policy: spec.driver.field1 (helm) is now declared here. Declare the same value there too (Helm: in the values of the release), or the next change there takes it back."
        ]
    )


def test_a_refusal_is_told_in_the_users_terms(plan: t.Callable, api: FakeApi) -> None:
    api.answer = lambda method, path: (
        refusal(400, 'strict decoding error: unknown field "spec.vershun"', "BadRequest") if method == "PATCH" else None
    )
    with pytest.raises(GpuOpsError) as error:
        plan(drivers={"a": {"vershun": "1"}})
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording("The NVIDIADriver CRD has no field spec.vershun.")
