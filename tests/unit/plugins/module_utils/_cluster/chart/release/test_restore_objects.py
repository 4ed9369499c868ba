# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release import restore_objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.served import ServedKind

KINDS = {
    "ServiceAccount": ServedKind("v1", "serviceaccounts", True),
    "Deployment": ServedKind("apps/v1", "deployments", True),
    "ClusterRole": ServedKind("rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterPolicy": ServedKind("nvidia.com/v1", "clusterpolicies", False),
    "NodeFeatureRule": ServedKind("nfd.k8s-sigs.io/v1alpha1", "nodefeaturerules", False),
}


class FakeServed:
    """A cluster that serves some kinds."""

    def __init__(self, dummy: object) -> None:
        pass

    def kind_of(self, item: dict) -> ServedKind | None:
        return KINDS.get(item["kind"])


def item(kind: str, **fields: t.Any) -> dict:
    group = KINDS[kind].group_version if kind in KINDS else "monitoring.coreos.com/v1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "x"}, **fields}


class FakeCluster:
    """An API server that merges what is applied, and counts generations."""

    def __init__(self, *live: dict, check_mode: bool = False) -> None:
        self.check_mode = check_mode
        self.stored = {self.path(each): copy.deepcopy(each) for each in live}
        self.queries: list[dict] = []

    @staticmethod
    def path(each: dict) -> str:
        return KINDS[each["kind"]].path(each, "ns")

    def get(self, path: str) -> dict | None:
        return copy.deepcopy(self.stored.get(path))

    def ask(self, method: str, path: str, query: dict, body: dict, content_type: str) -> dict:
        assert (method, content_type) == ("PATCH", "application/apply-patch+yaml")
        self.queries.append(query)
        before = copy.deepcopy(self.stored.get(path) or {"metadata": {}})
        changing = {"managedFields": [len(self.queries)], "resourceVersion": "8", "generation": 2}
        metadata = {**before["metadata"], **body["metadata"], **changing}
        after = {**before, **body, "metadata": metadata}
        if "dryRun" not in query:
            self.stored[path] = after
        return copy.deepcopy(after)


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore_objects, "Served", FakeServed)


def restore(cluster: FakeCluster, *wanted: dict, leave: tuple[str, ...] = ()) -> list[str]:
    return [str(found) for found in restore_objects.restore(cluster, wanted, "r", "ns", leave)]


def installed(kind: str, **fields: t.Any) -> dict:
    """Return an object as Helm has installed it."""
    annotations = {"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "ns"}
    metadata = {"name": "x", "annotations": annotations, "labels": {"app.kubernetes.io/managed-by": "Helm"}}
    return {**item(kind, **fields), "metadata": metadata}


def test_what_is_as_installed_stays_so() -> None:
    live = {**installed("Deployment", spec={"replicas": 1}), "status": {"replicas": 1}}
    cluster = FakeCluster(live)
    assert restore(cluster, item("Deployment", spec={"replicas": 1})) == []
    assert cluster.queries == [{"fieldManager": "helm", "force": "true", "dryRun": "All"}]


def test_a_deleted_object_comes_back_with_the_marks_of_helm() -> None:
    cluster = FakeCluster()
    assert restore(cluster, item("ServiceAccount")) == ["ServiceAccount x (deleted)"]
    metadata = cluster.stored["/api/v1/namespaces/ns/serviceaccounts/x"]["metadata"]
    assert metadata["annotations"] == {"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "ns"}
    assert metadata["labels"] == {"app.kubernetes.io/managed-by": "Helm"}
    assert cluster.queries == [{"fieldManager": "helm", "force": "true"}]


def test_an_edited_object_gets_the_values_of_the_release() -> None:
    cluster = FakeCluster(installed("ClusterRole", rules=[]))
    wanted = item("ClusterRole", rules=[{"verbs": ["get"]}])
    assert restore(cluster, wanted) == ["ClusterRole x (edited)"]
    assert cluster.stored[cluster.path(wanted)]["rules"] == [{"verbs": ["get"]}]
    assert restore(cluster, wanted) == []


@pytest.mark.parametrize("kind", ["ClusterPolicy", "NodeFeatureRule"])
def test_edited_custom_resources_stay_but_deleted_ones_come_back(kind: str) -> None:
    assert restore(FakeCluster(installed(kind, spec={"a": 2})), item(kind, spec={"a": 1})) == []
    assert restore(FakeCluster(), item(kind, spec={"a": 1})) == [f"{kind} x (deleted)"]


def test_kinds_to_leave_and_kinds_that_are_not_served_are_not_looked_at() -> None:
    cluster = FakeCluster()
    assert restore(cluster, item("ClusterPolicy"), item("ServiceMonitor"), leave=("ClusterPolicy",)) == []
    assert cluster.queries == []


def test_check_mode_reports_and_writes_nothing() -> None:
    cluster = FakeCluster(installed("Deployment", spec={"replicas": 0}), check_mode=True)
    found = restore(cluster, item("Deployment", spec={"replicas": 1}), item("ServiceAccount"))
    assert found == ["Deployment x (edited)", "ServiceAccount x (deleted)"]
    assert all("dryRun" in query for query in cluster.queries)
