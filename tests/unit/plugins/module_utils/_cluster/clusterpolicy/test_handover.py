# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ClusterPolicy changes hands between Helm and this collection."""

from __future__ import annotations

import copy
import json

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import conflicts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import handover
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.managed import STATUS, entry, item

HELM_METADATA = {
    "f:annotations": {".": {}, "f:meta.helm.sh/release-name": {}, "f:meta.helm.sh/release-namespace": {}},
    "f:labels": {"f:app.kubernetes.io/managed-by": {}, "f:helm.sh/chart": {}},
}
MARKS = {
    "annotations": {"meta.helm.sh/release-name": "gpu-operator", "meta.helm.sh/release-namespace": "gpu-operator"},
    "labels": {"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "gpu-operator-v26.7.0"},
    "resourceVersion": "41",
}


@pytest.mark.parametrize(
    ("manager", "is_helm"),
    [
        ("helm", True),
        ("Helm", True),
        ("terraform-provider-helm_v2.17.0_x5", True),
        ("helm-controller", False),
        ("kubectl-edit", False),
        ("gpuops.nvidia", False),
    ],
)
def test_managers_that_are_helm(manager: str, is_helm: bool) -> None:
    assert handover.is_helm(manager) is is_helm


def test_fields_and_marks_are_traces_of_helm() -> None:
    assert handover.has_traces_of_helm(item({}, entry("helm", {"f:a": {}}, "Update")))
    assert handover.has_traces_of_helm(item({}, annotations={"meta.helm.sh/release-name": "x"}))
    assert handover.has_traces_of_helm(item({}, labels={"app.kubernetes.io/managed-by": "Helm"}))
    assert not handover.has_traces_of_helm(item({}, entry("us", {"f:a": {}})))
    others = {"labels": {"app.kubernetes.io/managed-by": "argocd"}, "annotations": {"helm.sh/resource-policy": "keep"}}
    assert not handover.has_traces_of_helm(item({}, **others))
    assert not handover.has_traces_of_helm(None)


@pytest.mark.parametrize("operation", ["Update", "Apply"])
def test_an_adoption_makes_the_fields_of_helm_our_own(operation: str) -> None:
    metadata = copy.deepcopy(HELM_METADATA)
    metadata["f:annotations"]["f:helm.sh/resource-policy"] = {}
    helm = entry("helm", {"f:driver": {"f:version": {}}, "f:toolkit": {"f:env": {}}}, operation, metadata)
    ours = entry("us", {"f:driver": {"f:image": {}}})
    person = entry("kubectl-edit", {"f:mig": {"f:strategy": {}}}, "Update")
    marks = copy.deepcopy(MARKS)
    marks["annotations"]["helm.sh/resource-policy"] = "keep"
    before = item({"toolkit": {}}, helm, person, ours, **marks)
    original = copy.deepcopy(before)
    after = handover.adopted(before, "us")
    own = entry("us", {"f:driver": {"f:version": {}, "f:image": {}}, "f:toolkit": {"f:env": {}}})
    own["fieldsV1"]["f:metadata"] = {"f:labels": {"f:helm.sh/chart": {}}}
    assert after["metadata"]["managedFields"] == [own, person, STATUS]
    assert after["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert after["metadata"]["labels"] == {"helm.sh/chart": "gpu-operator-v26.7.0"}
    assert not handover.has_traces_of_helm(after)
    assert before == original


def test_an_adoption_copes_with_entries_that_say_nothing() -> None:
    bare = {"metadata": {"name": "x", "annotations": {"meta.helm.sh/release-name": "y"}}}
    assert handover.adopted(bare, "us") == {"metadata": {"name": "x", "annotations": {}, "managedFields": []}}
    silent = item({}, {"manager": "helm", "operation": "Apply"})
    own = {"manager": "us", "operation": "Apply", "fieldsV1": {}}
    assert handover.adopted(silent, "us")["metadata"]["managedFields"] == [own, STATUS]


def test_a_status_that_we_or_helm_applied_is_not_adopted() -> None:
    ours = {**STATUS, "manager": "us", "operation": "Apply"}
    helms = {**STATUS, "manager": "helm", "operation": "Apply"}
    spec = entry("helm", {"f:a": {}})
    after = handover.adopted(item({}, ours, helms, spec), "us")["metadata"]["managedFields"]
    assert after == [entry("us", {"f:a": {}}), ours, helms, STATUS]


def test_marks_without_fields_of_helm_only_leave() -> None:
    marked = item({}, entry("kubectl-edit", {"f:a": {}}, "Update"), **copy.deepcopy(MARKS))
    after = handover.adopted(marked, "us")
    assert after["metadata"]["managedFields"] == marked["metadata"]["managedFields"]
    assert not handover.has_traces_of_helm(after)


def test_the_patch_of_an_adoption_is_refused_if_the_object_has_changed() -> None:
    helm = entry("helm", {"f:driver": {"f:version": {}}}, metadata=HELM_METADATA)
    own = entry("us", {"f:driver": {"f:version": {}}})
    own["fieldsV1"]["f:metadata"] = {"f:labels": {"f:helm.sh/chart": {}}}
    assert handover.adoption_patch(item({}, helm, **copy.deepcopy(MARKS)), "us") == [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "41"},
        {"op": "replace", "path": "/metadata/managedFields", "value": [own, STATUS]},
        {"op": "remove", "path": "/metadata/annotations/meta.helm.sh~1release-name"},
        {"op": "remove", "path": "/metadata/annotations/meta.helm.sh~1release-namespace"},
        {"op": "remove", "path": "/metadata/labels/app.kubernetes.io~1managed-by"},
    ]


def test_a_prediction_without_helm() -> None:
    before = item({}, entry("helm", {"f:a": {}}), entry("us", {"f:a": {}}), **copy.deepcopy(MARKS))
    after = handover.without_helm(before)
    assert [one["manager"] for one in after["metadata"]["managedFields"]] == ["us", "operator"]
    assert after["metadata"]["annotations"] == {} and after["metadata"]["labels"] == {
        "helm.sh/chart": "gpu-operator-v26.7.0"
    }
    assert handover.has_traces_of_helm(before)


OF_HELM = {"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "ns"}


def test_an_annotation_says_that_helm_owns_an_object() -> None:
    assert handover.is_in_release(item({}, annotations=OF_HELM))
    assert not handover.is_in_release(item({}, annotations={"helm.sh/resource-policy": "keep"}))
    assert not handover.is_in_release(item({}, entry("helm", {"f:a": {}}, "Update")))


def test_an_annotation_says_that_helm_keeps_an_object() -> None:
    assert handover.is_kept(item({}, annotations={"helm.sh/resource-policy": "keep"}))
    assert not handover.is_kept(item({}, annotations={"helm.sh/resource-policy": "delete"}))
    assert not handover.is_kept(item({}, annotations=OF_HELM))


def test_helm_can_import_what_was_handed_over() -> None:
    annotations = {"note": "x", "helm.sh/resource-policy": "keep"}
    ours, kept = entry("us", {"f:driver": {}}), entry("us", {"f:mig": {}}, "Update")
    person = entry("kubectl-edit", {"f:gfd": {}}, "Update")
    live = item({}, ours, person, kept, labels={"team": "ml"}, annotations=annotations, resourceVersion="7")
    own = entry("helm", {"f:driver": {}, "f:mig": {}})
    assert handover.hand_over_patch(live, "us", "r", "ns") == [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/metadata/annotations", "value": {"note": "x", **OF_HELM}},
        {"op": "add", "path": "/metadata/labels", "value": {"team": "ml", "app.kubernetes.io/managed-by": "Helm"}},
        {"op": "add", "path": "/metadata/managedFields", "value": [own, person, STATUS]},
    ]


def test_an_object_that_was_handed_over_can_be_adopted_again() -> None:
    live = item({}, entry("us", {"f:driver": {}}), resourceVersion="7")
    added = {one["path"].rpartition("/")[2]: one["value"] for one in handover.hand_over_patch(live, "us", "r", "ns")}
    helms = {**live, "metadata": {**live["metadata"], **added}}
    assert handover.is_in_release(helms)
    assert handover.adopted(helms, "us")["metadata"]["managedFields"] == live["metadata"]["managedFields"]


# Writing it


class FakeCluster:
    """An API server that refuses the first patches, because somebody else has just written the object."""

    def __init__(self, *refusals: str, check_mode: bool = False, now: dict | None = None) -> None:
        self.refusals, self.check_mode, self.now = list(refusals), check_mode, now
        self.writes: list[tuple[dict[str, str], str]] = []

    def get(self, path: str) -> dict | None:
        assert path == "/policy"
        return self.now

    def ask(self, method: str, path: str, query: dict[str, str], body: str, content_type: str) -> dict:
        assert (method, path, content_type) == ("PATCH", "/policy", "application/json-patch+json")
        self.writes.append((query, json.loads(body)[0]))
        if self.refusals:
            raise GpuOpsError("no", reason=self.refusals.pop(0))
        return {}


def at(version: str, generation: int = 1) -> dict:
    return {"metadata": {"name": "cluster-policy", "resourceVersion": version, "generation": generation}}


def hand_over(cluster: FakeCluster) -> None:
    handover.write(cluster, "/policy", at("1"), lambda item: [item["metadata"]["resourceVersion"]], "us")


@pytest.mark.parametrize(("check_mode", "query"), [(False, {}), (True, {"dryRun": "All"})])
def test_a_hand_over_is_one_patch_of_the_object_that_was_seen(check_mode: bool, query: dict[str, str]) -> None:
    cluster = FakeCluster(check_mode=check_mode)
    hand_over(cluster)
    assert cluster.writes == [({"fieldManager": "us", **query}, "1")]


def test_a_status_that_was_written_meanwhile_does_not_stop_a_hand_over() -> None:
    cluster = FakeCluster("Conflict", "Conflict", now=at("2"))
    hand_over(cluster)
    assert [body for dummy, body in cluster.writes] == ["1", "2", "2"]


def test_a_hand_over_ends_after_some_conflicts() -> None:
    cluster = FakeCluster(*["Conflict"] * 19, now=at("2"))
    with pytest.raises(GpuOpsError) as e:
        hand_over(cluster)
    assert e.value.reason == "Conflict"
    assert e.value.msg == wording("ClusterPolicy cluster-policy changes faster than it can be patched. Run it again.")
    assert len(cluster.writes) == conflicts.ATTEMPTS


@pytest.mark.parametrize("now", [at("2", generation=2), None])
def test_an_object_whose_spec_was_changed_or_that_is_gone_does_not_change_hands(now: dict | None) -> None:
    cluster = FakeCluster("Conflict", now=now)
    with pytest.raises(GpuOpsError) as error:
        hand_over(cluster)
    assert error.value.reason == "Conflict"
    assert error.value.msg == wording(
        "ClusterPolicy cluster-policy was changed by somebody else while it changed hands with Helm. Run it again."
    )
    assert len(cluster.writes) == 1


def test_another_refusal_ends_a_hand_over_at_once() -> None:
    cluster = FakeCluster("Forbidden", now=at("2"))
    with pytest.raises(GpuOpsError, match=r"^no$") as e:
        hand_over(cluster)
    assert e.value.reason == "Forbidden" and len(cluster.writes) == 1
