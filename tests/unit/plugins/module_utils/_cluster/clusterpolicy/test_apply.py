# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Applying the ClusterPolicy. The module's tests cover most of it; the lab tests it against a real API server."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import conflicts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import apply
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.modules import clusterpolicy
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import POLICIES, FakeApi, Reply, refusal
from tests.unit.fakes.stack import policy

PATH = f"{POLICIES}/cluster-policy"
DEFAULTS = {name: option.get("default") for name, option in clusterpolicy.SPEC.options.items()}
OPTIONS: Json = {**DEFAULTS, "purge": True, "adopt": True, "wait": False}


@pytest.fixture
def helms(api: FakeApi) -> FakeApi:
    """An API server whose ClusterPolicy belongs to Helm."""
    existing = policy(mig={"strategy": "mixed"})
    entry = {"manager": "helm", "operation": "Apply", "fieldsV1": {"f:spec": {"f:mig": {"f:strategy": {}}}}}
    existing["metadata"].update(
        managedFields=[entry],
        annotations={"meta.helm.sh/release-name": "x", "meta.helm.sh/release-namespace": "y"},
        resourceVersion="7",
        generation=1,
    )
    api.lists[POLICIES] = [existing]
    return api


def ensure(api: FakeApi, **given: t.Any) -> Json:
    return apply.ensure(Cluster(api.connection), {**OPTIONS, **given}, pytest.fail)


def writes(api: FakeApi) -> list[tuple[str, str]]:
    """Every real write, and what kind of patch it is."""
    return [
        (method, "apply" if "force" in query else "json patch")
        for method, dummy, query in api.log
        if method != "GET" and query.get("dryRun") != "All"
    ]


def test_an_adoption_moves_the_fields_of_helm_before_the_apply(helms: FakeApi) -> None:
    result = ensure(helms, mig={"strategy": "mixed"})
    assert result["changed"] and writes(helms) == [("PATCH", "json patch"), ("PATCH", "apply")]
    metadata = helms.lists[POLICIES][0]["metadata"]
    assert [entry["manager"] for entry in metadata["managedFields"]] == ["gpuops.nvidia"]
    assert metadata["annotations"] == {}
    assert ensure(helms, mig={"strategy": "mixed"})["changed"] is False and len(writes(helms)) == 2


def test_without_the_option_nothing_is_adopted(helms: FakeApi) -> None:
    assert ensure(helms, mig={"strategy": "mixed"}, adopt=False)["changed"]
    assert writes(helms) == [("PATCH", "apply")]
    assert helms.lists[POLICIES][0]["metadata"]["managedFields"][0]["manager"] == "helm"


def test_an_adoption_without_purge_keeps_the_values_of_helm(helms: FakeApi) -> None:
    ensure(helms, gfd={"enabled": True}, purge=False)
    fields = helms.lists[POLICIES][0]["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert fields["f:mig"] == {"f:strategy": {}} and fields["f:gfd"] == {"f:enabled": {}}


def in_between(api: FakeApi, change: t.Callable[[Json], None], times: int) -> None:
    """Let somebody write to the object just before each of the first adoptions."""
    left = [None] * times

    def answer(method: str, path: str) -> Reply | None:
        if method == "PATCH" and left and "force" not in api.log[-1][2]:
            left.pop()
            held = api.lists[POLICIES][0] = copy.deepcopy(api.lists[POLICIES][0])
            held["metadata"]["resourceVersion"] = str(int(held["metadata"]["resourceVersion"]) + 1)
            change(held)
        return None

    api.answer = answer


def test_a_status_that_is_written_meanwhile_does_not_stop_an_adoption(helms: FakeApi) -> None:
    in_between(helms, lambda item: item["status"].update(state="notReady"), 2)
    assert ensure(helms, mig={"strategy": "mixed"})["changed"]
    assert writes(helms) == [("PATCH", "json patch")] * 3 + [("PATCH", "apply")]


def test_a_spec_that_is_edited_meanwhile_stops_an_adoption(helms: FakeApi) -> None:
    in_between(helms, lambda item: item["metadata"].update(generation=2), 1)
    with pytest.raises(GpuOpsError) as e:
        ensure(helms, mig={"strategy": "mixed"})
    assert e.value.reason == "Conflict"
    assert e.value.msg == wording(
        "ClusterPolicy cluster-policy was changed by somebody else while it changed hands with Helm. Run it again."
    )
    assert ("PATCH", "apply") not in writes(helms)
    assert helms.lists[POLICIES][0]["metadata"]["managedFields"][0]["manager"] == "helm"


def test_an_object_that_changes_all_the_time_is_given_up(helms: FakeApi) -> None:
    in_between(helms, lambda item: None, 99)
    with pytest.raises(GpuOpsError, match="changes faster"):
        ensure(helms, mig={"strategy": "mixed"})
    assert writes(helms) == [("PATCH", "json patch")] * conflicts.ATTEMPTS


def test_an_adoption_that_is_refused_says_why(helms: FakeApi) -> None:
    helms.answer = lambda method, path: (
        refusal(403, "patch is forbidden") if method == "PATCH" and "force" not in helms.log[-1][2] else None
    )
    with pytest.raises(GpuOpsError, match="No permission: patch is forbidden"):
        ensure(helms, mig={"strategy": "mixed"})


def test_an_interrupted_adoption_is_completed_by_the_next_run(helms: FakeApi) -> None:
    def cut(method: str, path: str) -> Reply | None:
        query = helms.log[-1][2]
        is_apply = method == "PATCH" and "force" in query and query.get("dryRun") != "All"
        return refusal(500, "etcdserver: no leader") if is_apply else None

    helms.answer = cut
    with pytest.raises(GpuOpsError, match="no leader"):
        ensure(helms, mig={"strategy": "single"})
    helms.answer = lambda method, path: None
    assert ensure(helms, mig={"strategy": "single"})["changed"]
    assert helms.lists[POLICIES][0]["spec"]["mig"] == {"strategy": "single"}
    assert ensure(helms, mig={"strategy": "single"})["changed"] is False


def marks_of(api: FakeApi, monkeypatch: pytest.MonkeyPatch, **options: t.Any) -> t.Any:
    """Return with which marks from before its edit an apply waits."""
    given: list[t.Any] = []

    def until_ready(*arguments: t.Any) -> t.NoReturn:
        given.append(arguments[-1])
        raise GpuOpsError("enough", reason="TimedOut")

    monkeypatch.setattr(apply.wait, "until_ready", until_ready)
    with pytest.raises(GpuOpsError, match="enough"):
        apply.ensure(Cluster(api.connection), {**OPTIONS, "wait": True, **options}, lambda warning: None)
    return given[0]


def test_the_wait_knows_what_was_before_the_edit(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    api.lists[POLICIES][0]["metadata"]["generation"] = 3
    found = marks_of(api, monkeypatch, adopt=False, spec={"mig": {"strategy": "mixed"}})
    assert found.generation == 3 and "nvidia-driver-daemonset" in found.hashes
    # A second run changes nothing. An edit a moment ago may still have to be acted on.
    assert marks_of(api, monkeypatch, adopt=False, spec={"mig": {"strategy": "mixed"}}) is None
