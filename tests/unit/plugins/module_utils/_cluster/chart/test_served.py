# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.served import Served, ServedKind

AGGREGATED = {
    "/api": [{"metadata": {}, "versions": [("v1", [("pods", "Pod", "Namespaced"), ("nodes", "Node", "Cluster")])]}],
    "/apis": [
        {"metadata": {"name": "apps"}, "versions": [("v1", [("deployments", "Deployment", "Namespaced")])]},
        {"metadata": {"name": "idle.example.com"}, "versions": [("v1", [])]},
    ],
}
OLD = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "groups": [{"name": "apps", "versions": [{"groupVersion": "apps/v1"}]}]},
    "/api/v1": {
        "resources": [
            {"name": "pods", "kind": "Pod", "namespaced": True},
            {"name": "pods/log", "kind": "Pod", "namespaced": True},
            {"name": "nodes", "kind": "Node", "namespaced": False},
        ]
    },
    "/apis/apps/v1": {"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]},
}


def aggregated(path: str) -> dict:
    items = [
        {
            "metadata": group["metadata"],
            "versions": [
                {
                    "version": version,
                    "resources": [
                        {"resource": plural, "responseKind": {"kind": kind}, "scope": scope}
                        for plural, kind, scope in resources
                    ],
                }
                for version, resources in group["versions"]
            ],
        }
        for group in AGGREGATED[path]
    ]
    return {"kind": "APIGroupDiscoveryList", "items": items}


class FakeCluster:
    """An API server of today, or one from before aggregated discovery."""

    def __init__(self, is_old: bool = False) -> None:
        self.is_old = is_old
        self.asked: list[str] = []

    def ask(self, method: str, path: str, accept: str = "application/json") -> dict:
        self.asked.append(path)
        if path == "/version":
            return {"gitVersion": "v1.36.3"}
        assert "as=APIGroupDiscoveryList" in accept and accept.endswith(",application/json")
        return OLD[path] if self.is_old else aggregated(path)

    def get(self, path: str) -> dict[str, t.Any] | None:
        self.asked.append(path)
        return OLD[path]


KINDS = ["apps/v1", "apps/v1/Deployment", "v1", "v1/Node", "v1/Pod"]


def test_all_kinds_come_in_two_answers() -> None:
    cluster = FakeCluster()
    served = Served(cluster)
    assert served.api_versions == KINDS
    assert served.kind_of({"apiVersion": "apps/v1", "kind": "Deployment"}) == ServedKind("apps/v1", "deployments", True)
    assert served.kind_of({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor"}) is None
    assert cluster.asked == ["/api", "/apis"]


def test_an_old_api_server_is_asked_for_each_group() -> None:
    cluster = FakeCluster(is_old=True)
    served = Served(cluster)
    assert served.api_versions == KINDS
    assert served.kind_of({"apiVersion": "v1", "kind": "Node"}) == ServedKind("v1", "nodes", False)
    assert cluster.asked == ["/api", "/api/v1", "/apis", "/apis/apps/v1"]


def test_the_version_is_the_api_servers() -> None:
    assert Served(FakeCluster()).version == "v1.36.3"


def test_the_path_of_an_object_has_its_own_namespace_or_the_given_one() -> None:
    namespaced, cluster_wide = ServedKind("v1", "pods", True), ServedKind("v1", "nodes", False)
    assert namespaced.path({"metadata": {"name": "a"}}, "ns") == "/api/v1/namespaces/ns/pods/a"
    assert namespaced.path({"metadata": {"name": "a", "namespace": "b"}}, "ns") == "/api/v1/namespaces/b/pods/a"
    assert cluster_wide.path({"metadata": {"name": "a"}}, "ns") == "/api/v1/nodes/a"
