# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a snapshot contains, and what differs from it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release.record import Content
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade import snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

Json = dict[str, t.Any]
STATE = "nvidia.com/gpu-driver-upgrade-state"


def policy(**spec: t.Any) -> Json:
    return {
        "kind": "ClusterPolicy",
        "apiVersion": "nvidia.com/v1",
        "metadata": {"name": "cluster-policy"},
        "spec": spec,
    }


def test_an_object_without_what_the_api_server_adds() -> None:
    item = {**policy(), "status": {"state": "ready"}}
    item["metadata"] |= {"uid": "1", "resourceVersion": "2", "managedFields": [], "labels": {"a": "b"}}
    kept = snapshot.bare(item)
    assert kept == {**policy(), "metadata": {"name": "cluster-policy", "labels": {"a": "b"}}}


def test_of_a_node_only_what_belongs_to_the_stack_is_kept() -> None:
    labels = {"nvidia.com/mig.config": "all-1g.10gb", "rack": "r1"}
    item = {"metadata": {"name": "n", "labels": labels, "annotations": {"nvidia.com/x": "1", "y": "2"}}, "spec": {}}
    assert snapshot.node_entry(item) == {
        "labels": {"nvidia.com/mig.config": "all-1g.10gb"},
        "annotations": {"nvidia.com/x": "1"},
        "unschedulable": False,
    }


def owned() -> Json:
    entry = {"manager": "us", "operation": "Apply", "fieldsV1": {"f:spec": {"f:driver": {}}}}
    return {**policy(driver={}), "metadata": {"name": "cluster-policy", "managedFields": [entry]}}


def test_the_values_install_the_same_again() -> None:
    """Helm's record says that the chart has no ClusterPolicy if this collection owns it."""
    values: Json = {"driver": {"version": "580"}, "clusterPolicy": {"deployCR": False}}
    content = Content("v26.7.0", [], chart_version="v26.7.0", values=values)
    ours = snapshot.release_entry(content, 3, [owned()], "us")
    assert ours["values"] == {"driver": {"version": "580"}} and ours["revision"] == 3
    assert values["clusterPolicy"] == {"deployCR": False}, "The record itself should stay."
    assert snapshot.release_entry(content, 3, [policy()], "us")["values"] == values
    more = Content("v26.7.0", [], values={"clusterPolicy": {"deployCR": False, "x": 1}})
    assert snapshot.release_entry(more, 3, [owned()], "us")["values"] == {"clusterPolicy": {"x": 1}}


@pytest.mark.parametrize("content", [None, [], {}, {"format": 99}])
def test_a_file_that_is_no_snapshot(content: t.Any) -> None:
    with pytest.raises(GpuOpsError, match="is no snapshot"):
        snapshot.check(content, "uid", "file")


def test_a_snapshot_of_another_cluster() -> None:
    content: dict[str, t.Any] = {"format": 2, "cluster": {"uid": "other", "server": "https://there"}}
    content["digest"] = snapshot.digest(content)
    with pytest.raises(GpuOpsError, match=r"another cluster .https://there"):
        snapshot.check(content, "uid", "file")
    assert snapshot.check(content, "other", "file") is content


@pytest.mark.parametrize(
    "edit", [{"release": None}, {"objects": []}, {"crds": [{"kind": "x"}]}, {"digest": "sha256:0"}, {"digest": None}]
)
def test_a_file_that_somebody_has_edited_is_sent_to_no_cluster(edit: dict[str, t.Any]) -> None:
    content: dict[str, t.Any] = {"format": 2, "cluster": {"uid": "uid"}, "release": {"revision": 1}, "crds": []}
    content["digest"] = snapshot.digest(content)
    assert snapshot.check(content, "uid", "file") is content
    with pytest.raises(GpuOpsError, match="cut off") as e:
        snapshot.check({key: value for key, value in {**content, **edit}.items() if value is not None}, "uid", "file")
    assert e.value.reason == "Invalid"


@pytest.mark.parametrize(
    ("closed", "target", "revision", "goes_on"),
    [
        ("", "v2", 1, True),
        ("", "v3", 1, False),
        ("", "v3", 2, True),
        ("upgraded", "v2", 1, False),
        ("restored", "v2", 2, False),
    ],
)
def test_a_snapshot_of_an_upgrade_that_has_not_ended_is_kept(
    closed: str, target: str, revision: int, goes_on: bool
) -> None:
    found = {"closed": closed, "target": "v2", "release": {"revision": 1}}
    assert snapshot.goes_on(found, target, revision) is goes_on


def test_without_a_snapshot_none_is_kept() -> None:
    assert not snapshot.goes_on(None, "v2", 1)


# ---- differences --------------------------------------------------------------------------------------------------


def test_only_the_fields_that_differ_are_set_back() -> None:
    kept = policy(driver={"version": "580", "env": [1]}, mig={"strategy": "single"})
    live = policy(driver={"version": "595", "env": [1], "new": True}, mig={"strategy": "single"}, dcgm={})
    found = snapshot.of_object(kept, live, "/p/cluster-policy")
    assert found and found.body["spec"] == {"driver": {"version": "580", "new": None}, "dcgm": None}
    assert found.text == "set back spec.dcgm, spec.driver.new, spec.driver.version" and found.verb == "merge"
    assert snapshot.of_object(kept, kept, "/p/cluster-policy") is None


def test_a_field_whose_kind_changed_is_set_back_whole() -> None:
    found = snapshot.of_object(policy(driver={"a": {"b": 1}}), policy(driver={"a": 2}), "/p/x")
    assert found and found.body["spec"] == {"driver": {"a": {"b": 1}}}


def test_an_object_that_is_gone_is_created_again() -> None:
    found = snapshot.of_object(policy(), None, "/collection/cluster-policy")
    assert found and (found.verb, found.path, found.text) == ("create", "/collection", "created again")


def crd(*fields: str) -> Json:
    return {"metadata": {"name": "x.nvidia.com", "uid": "1"}, "spec": {"versions": list(fields)}, "status": {}}


def test_the_schema_of_a_crd_is_set_back() -> None:
    kept = snapshot.bare(crd("a"))
    assert snapshot.of_crd(kept, crd("a"), "/x") is None
    found = snapshot.of_crd(kept, crd("a", "b"), "/x")
    assert found and found.body == kept and found.verb == "apply" and "schema" in found.text
    gone = snapshot.of_crd(kept, None, "/x")
    assert gone and gone.text == "created again"


def a_node(labels: dict[str, str], unschedulable: bool = False) -> Json:
    return {"metadata": {"name": "n", "labels": labels}, "spec": {"unschedulable": unschedulable}}


def entry(**labels: str) -> Json:
    return {
        "labels": {f"nvidia.com/{key.replace('_', '-')}": value for key, value in labels.items()},
        "annotations": {},
        "unschedulable": False,
    }


def test_what_people_choose_for_a_node_is_set_back() -> None:
    kept = {
        "labels": {"nvidia.com/mig.config": "a", "nvidia.com/gpu.deploy.dcgm": "false", "nvidia.com/gpu.count": "8"}
    }
    kept |= {"annotations": {}, "unschedulable": False}
    live = a_node({"nvidia.com/mig.config": "b", "nvidia.com/gpu.deploy.dcgm": "true", "nvidia.com/gpu.count": "7"})
    found, left = snapshot.of_node(kept, live, "/nodes/n")
    assert found and found.body["metadata"]["labels"] == {
        "nvidia.com/mig.config": "a",
        "nvidia.com/gpu.deploy.dcgm": "false",
    }
    assert found.text == "set back nvidia.com/gpu.deploy.dcgm=false, nvidia.com/mig.config=a" and left == []


def test_a_label_of_ours_comes_back_with_its_mark_and_that_of_others_without_one() -> None:
    layout, sharing = "nvidia.com/mig.config", "nvidia.com/device-plugin.config"
    item = a_node({layout: "all-1g.10gb", sharing: "four"})
    item["metadata"]["annotations"] = {"gpuops.nvidia/mig": "all-1g.10gb", "gpuops.nvidia/gpus": "8"}
    kept = snapshot.node_entry(item)
    assert kept["annotations"] == {"gpuops.nvidia/mig": "all-1g.10gb"}
    found, dummy = snapshot.of_node(kept, a_node({layout: "all-disabled", sharing: "two"}), "/nodes/n")
    assert found and found.body["metadata"] == {
        "labels": {layout: "all-1g.10gb", sharing: "four"},
        "annotations": {"gpuops.nvidia/mig": "all-1g.10gb"},
    }


def test_a_node_as_it_was_needs_nothing() -> None:
    assert snapshot.of_node(entry(), a_node({}), "/nodes/n") == (None, [])


def test_a_pause_in_a_snapshot_is_not_put_back() -> None:
    kept = {"labels": {"nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"}, "unschedulable": False}
    assert snapshot.of_node(kept, a_node({"nvidia.com/gpu.deploy.dcgm": "true"}), "/nodes/n") == (None, [])


def test_what_is_left_of_a_node_is_told() -> None:
    live = a_node({"nvidia.com/mig.config": "b", STATE: "drain-required"}, unschedulable=True)
    found, left = snapshot.of_node(entry(), live, "/nodes/n")
    assert found is None and [item.reason for item in left] == [
        "label nvidia.com/mig.config is new",
        wording("it is cordoned, and was not"),
        wording("its driver's upgrade is at drain-required"),
    ]


@pytest.mark.parametrize(
    ("kind", "marks", "by_chart"),
    [
        ("ClusterPolicy", {}, True),
        ("NVIDIADriver", {"meta.helm.sh/release-name": "gpu-operator"}, True),
        ("NVIDIADriver", {}, False),
        ("GPUCluster", {}, False),
    ],
)
def test_the_chart_puts_back_the_clusterpolicy_and_what_has_helms_marks(
    kind: str, marks: dict[str, str], by_chart: bool
) -> None:
    kept = {"kind": kind, "metadata": {"name": "x", "annotations": marks}, "spec": {"a": 1}}
    for live in ({**kept, "spec": {}}, None):
        found = snapshot.of_object(kept, live, "/p/x")
        assert found is not None and found.by_chart is by_chart


def test_the_chart_puts_back_its_crds() -> None:
    gone = snapshot.of_crd(snapshot.bare(crd("a")), None, "/p/a")
    assert gone is not None and gone.by_chart and str(gone) == "CRD x.nvidia.com: created again"
