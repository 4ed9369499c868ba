# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import typing as t

import pytest

from tests.unit.fakes.api import FAULTS, FakeApi, fault, refusal
from tests.unit.fakes.claims import DraApi, device, resource_slice

CLASS = {"name": "large", "memory_min": "79Gi"}
TEMPLATE = {"name": "four", "namespaces": ["research", "notebooks"], "device_class": "large", "count": 4}
SHARED = {"name": "shared", "namespaces": ["notebooks"], "device_class": "large"}
QUOTA = {"namespace": "research", "devices": {"large": 8}, "claims": 4}
ALL = {"classes": [CLASS], "templates": [TEMPLATE], "claims": [SHARED], "quotas": [QUOTA]}
NONE: dict[str, t.Any] = {name: [] for name in ALL}
KEPT = ("deviceclasses", "resourceclaimtemplates", "resourceclaims", "resourcequotas")


@pytest.fixture
def dra(api: FakeApi) -> DraApi:
    """A cluster with one node of eight GPUs."""
    found = DraApi(api)
    found.refuses_changes = True
    api.lists[found.path("resourceslices")] = [resource_slice("gpu-0001", *map(device, range(8)))]
    return found


@pytest.fixture
def keep(run_module: t.Callable, dra: DraApi) -> t.Callable:
    return functools.partial(run_module, "gpu_claims", **dra.api.connection)


def writes(dra: DraApi) -> list[tuple[str, str]]:
    return [(method, query.get("dryRun", "real")) for method, dummy, query in dra.api.log if method != "GET"]


def kept(dra: DraApi) -> list[str]:
    """Return what there is in the cluster."""
    classes = dra.api.lists[dra.path("deviceclasses")]
    return [item["metadata"]["name"] for item in [*classes, *(each for kind in KEPT[1:] for each in dra.all(kind))]]


EVERYTHING = ["large", "four", "four", "shared", "gpu-claims"]


def test_objects_come_stay_and_go(dra: DraApi, keep: t.Callable) -> None:
    dry = keep(**ALL, _ansible_check_mode=True).result
    assert dry["changed"] and kept(dra) == [] and set(writes(dra)) == {("PATCH", "All")}
    done = keep(**ALL).result
    assert kept(dra) == EVERYTHING and done["diff"] == dry["diff"] and done["diff"]["before"] == {}
    assert [row["object"] for row in done["objects"]] == [
        "DeviceClass large",
        "ResourceClaimTemplate research/four",
        "ResourceClaimTemplate notebooks/four",
        "ResourceClaim notebooks/shared",
        "ResourceQuota research/gpu-claims",
    ]
    assert done["classes"] == [{"name": "large", "devices": 8, "free": 8, "offered": 8, "exact": True}]
    dra.refuses_changes = False  # the fake refuses every write, and the real API server only changes
    dra.api.log.clear()
    assert not keep(**ALL).result["changed"] and set(writes(dra)) == {("PATCH", "All")}
    assert not keep().result["changed"] and kept(dra) == EVERYTHING
    gone = keep(**NONE, _ansible_check_mode=True).result
    assert len(gone["removed"]) == 5 and kept(dra) == EVERYTHING
    assert keep(**NONE).result["removed"] == gone["removed"] and kept(dra) == []
    assert not keep(**NONE).result["changed"]


def test_a_change_is_foreseen_as_it_is_done(dra: DraApi, keep: t.Callable) -> None:
    keep(**ALL)
    other = {**ALL, "templates": [{**TEMPLATE, "count": 2}], "claims": [], "quotas": [{**QUOTA, "claims": 5}]}
    dry = keep(**other, _ansible_check_mode=True).result
    done = keep(**other).result
    assert (done["diff"], done["removed"]) == (dry["diff"], dry["removed"])
    assert done["removed"] == ["ResourceClaim notebooks/shared"]
    before = done["diff"]["before"]["ResourceClaimTemplate research/four"]["spec"]["spec"]["devices"]["requests"][0]
    assert before["exactly"]["count"] == 4


def test_objects_of_others_are_respected(dra: DraApi, keep: t.Callable) -> None:
    theirs = {"metadata": {"name": "four", "namespace": "research"}, "spec": {}}
    dra.api.lists[dra.path("resourceclaimtemplates", "research")] = [theirs]
    failed = keep(**ALL)
    assert failed.result["reason"] == "Conflict" and writes(dra) == []
    assert keep(**NONE).result["removed"] == [] and kept(dra) == ["four"]


def test_wrong_input_is_refused_before_anything_is_written(dra: DraApi, keep: t.Callable) -> None:
    for wrong in (
        {"classes": [{**CLASS, "memory_min": "80GB"}]},
        {"classes": [{**CLASS, "memory_min": "80Gi"}]},
        {"classes": [CLASS], "templates": [{**TEMPLATE, "config": {"sharing": {"strategy": "mps"}}}]},
        {"templates": [TEMPLATE]},
        {"quotas": [{"namespace": "research"}]},
    ):
        assert keep(**wrong).result["failed"], wrong
    assert {how for dummy, how in writes(dra)} <= {"All"} and kept(dra) == []


def test_a_refusal_of_the_api_is_passed_on(dra: DraApi, keep: t.Callable) -> None:
    real = dra.api.answer
    dra.api.answer = lambda method, path: (
        refusal(403, "deviceclasses is forbidden", "Forbidden") if method == "PATCH" else real(method, path)
    )
    assert keep(**ALL).result["reason"] == "Forbidden"


@pytest.mark.parametrize("kind", [kind for kind in FAULTS if kind != "signal"])
@pytest.mark.parametrize("number", range(6, 11))
def test_a_run_that_breaks_off_is_completed_by_the_next(dra: DraApi, keep: t.Callable, kind: str, number: int) -> None:
    with fault(dra.api, kind, number) as hit:
        keep(**ALL)
    assert hit
    dra.refuses_changes = False
    assert "failed" not in keep(**ALL).result and kept(dra) == EVERYTHING
    assert not keep(**ALL).result["changed"]
