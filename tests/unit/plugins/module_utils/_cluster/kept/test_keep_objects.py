# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.kept import keep_objects, kept_objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.kept.kept_objects import KeptKind
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import FakeApi, refusal

KIND = KeptKind("Thing", "example.com/v1", "things", "gpu-tests", ("spec",), is_immutable=True)
THINGS, HERE = "/apis/example.com/v1/things", "/apis/example.com/v1/namespaces/research/things"


@pytest.fixture
def cluster(api: FakeApi) -> Cluster:
    """A cluster that refuses to change a thing, and has a namespace research."""
    api.lists[HERE] = []

    def answer(method: str, path: str) -> t.Any:
        if path == THINGS:
            return 200, {"items": api.lists[HERE], "metadata": {}}
        if method == "PATCH" and any(f"{HERE}/{item['metadata']['name']}" == path for item in api.lists[HERE]):
            return refusal(422, "spec: Invalid value: field is immutable", "Invalid")
        return None

    api.answer = answer
    return Cluster(api.connection)


def only(cluster: Cluster, *wanted: dict[str, t.Any]) -> keep_objects.KeptResult:
    step = kept_objects.steps(KIND, list(wanted), keep_objects.existing(cluster, KIND, list(wanted)))[0]
    return keep_objects.foreseen(cluster, step)


def test_an_object_comes_and_is_made_again_and_goes(api: FakeApi, cluster: Cluster) -> None:
    first = KIND.manifest("one", "research", spec={"count": 1})
    done = keep_objects.done(cluster, only(cluster, first))
    assert (done.before, done.after) == (None, {"spec": {"count": 1}})
    api.log.clear()
    other = only(cluster, KIND.manifest("one", "research", spec={"count": 2}))
    assert other.step.is_replaced and other.after == {"spec": {"count": 2}}
    assert [
        (method, path.rpartition("/")[2], query["dryRun"]) for method, path, query in api.log if method != "GET"
    ] == [
        ("PATCH", "one", "All"),
        ("PATCH", "one.trial", "All"),
    ]
    assert api.lists[HERE][0]["spec"] == {"count": 1}
    keep_objects.done(cluster, other)
    assert api.lists[HERE][0]["spec"] == {"count": 2}
    gone = only(cluster)
    assert keep_objects.done(cluster, gone).after is None and api.lists[HERE] == []


def test_a_newer_object_of_the_same_name_is_not_removed(api: FakeApi, cluster: Cluster) -> None:
    keep_objects.done(cluster, only(cluster, KIND.manifest("one", "research", spec={})))
    gone = only(cluster)
    api.lists[HERE][0]["metadata"]["uid"] = "another"
    with pytest.raises(GpuOpsError) as error:
        keep_objects.done(cluster, gone)
    assert error.value.reason == "Conflict" and len(api.lists[HERE]) == 1


def test_an_object_that_somebody_has_begun_to_use_is_not_removed(api: FakeApi, cluster: Cluster) -> None:
    keep_objects.done(cluster, only(cluster, KIND.manifest("one", "research", spec={})))
    gone = only(cluster)
    api.lists[HERE][0]["metadata"]["resourceVersion"] = "9"
    with pytest.raises(GpuOpsError) as error:
        keep_objects.done(cluster, gone)
    assert error.value.reason == "Conflict" and len(api.lists[HERE]) == 1


def test_what_is_as_wanted_is_not_written(api: FakeApi, cluster: Cluster) -> None:
    step = kept_objects.KeptStep(KIND, None, KIND.manifest("one", "research"))
    same = keep_objects.KeptResult(step, {"spec": {}}, {"spec": {}})
    assert keep_objects.done(cluster, same) == same and api.log == []


def test_another_refusal_is_passed_on(api: FakeApi, cluster: Cluster) -> None:
    api.answer = lambda method, path: (
        refusal(422, "spec.count: Required value", "Invalid") if method == "PATCH" else None
    )
    step = kept_objects.KeptStep(KIND, None, KIND.manifest("one", "research"))
    with pytest.raises(GpuOpsError, match="Required value"):
        keep_objects.foreseen(cluster, step)


def test_a_missing_namespace_is_named_with_the_remedy(api: FakeApi, cluster: Cluster) -> None:
    found = only(cluster, KIND.manifest("one", "nowhere", spec={}))
    assert (found.missing_namespace, keep_objects.missing_namespaces([found])) == ("nowhere", ["nowhere"])
    with pytest.raises(GpuOpsError) as error:
        keep_objects.refuse_missing_namespaces("things", [found], "make it first")
    assert error.value.details["namespaces"] == ["nowhere"]
    assert error.value.msg == wording("There is no namespace nowhere. Correct things, or make it first.")
    keep_objects.refuse_missing_namespaces("things", [], "make it first")


def test_the_outcome_has_every_object_and_the_difference(cluster: Cluster) -> None:
    def result(name: str, before: t.Any, after: t.Any) -> keep_objects.KeptResult:
        return keep_objects.KeptResult(kept_objects.KeptStep(KIND, None, KIND.manifest(name)), before, after)

    assert keep_objects.outcome([result("a", None, {"spec": 1}), result("b", {"spec": 2}, {"spec": 2})]) == {
        "changed": True,
        "objects": [
            {"object": "Thing a", "changed": True, "spec": 1},
            {"object": "Thing b", "changed": False, "spec": 2},
        ],
        "removed": [],
        "diff": {"before": {}, "after": {"Thing a": {"spec": 1}}},
    }
    gone = keep_objects.outcome([result("c", {"spec": 3}, None)])
    assert (gone["removed"], gone["diff"]) == (["Thing c"], {"before": {"Thing c": {"spec": 3}}, "after": {}})
    assert keep_objects.outcome([])["changed"] is False
