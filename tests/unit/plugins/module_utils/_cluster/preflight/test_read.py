# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.read import (
    NEEDED,
    missing_permissions,
    read,
    ungranted,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError


class FakeCluster:
    """An API server that knows what its user may do: ``rules`` are (verb, resource with group, namespace or None)."""

    def __init__(
        self,
        *rules: tuple[str, str, str | None],
        forbidden: tuple[str, ...] = (),
        broken: bool = False,
        held: dict[str, list[dict]] | None = None,
    ) -> None:
        self.rules = set(rules)
        self.held = held or {}
        self.roles: dict[str, dict] = {}
        self.forbidden = forbidden
        self.broken = broken
        self.reviews = 0

    def request(self, method: str, path: str, body: dict | None = None) -> bytes:
        if path == "/version":
            return b'{"gitVersion": "v1.36.3"}'
        if path == "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews":
            if "rules" in self.forbidden:
                raise GpuOpsError("No permission", reason="Forbidden")
            namespace = body["spec"]["namespace"]
            return json.dumps(
                {
                    "status": {
                        "resourceRules": self.held.get("", []) + self.held.get(namespace, []),
                        "nonResourceRules": None,
                    }
                }
            ).encode()
        assert (method, path) == ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        self.reviews += 1
        asked = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource")))) + (
            f".{asked['group']}" if asked["group"] else ""
        )
        allowed = (asked["verb"], resource, asked.get("namespace")) in self.rules
        return json.dumps({"status": {"allowed": allowed}}).encode()

    def list(self, path: str, **query: str) -> list[dict] | None:
        plural = path.rsplit("/", 1)[-1]
        if plural in self.forbidden:
            raise GpuOpsError("No permission", reason="Forbidden")
        if self.broken:
            raise GpuOpsError("Cannot reach the API.", reason="Unreachable")
        if plural == "deployments":
            assert query == {"labelSelector": "app.kubernetes.io/component=gpu-operator"}
        return None if plural == "gpuclusters" else [{"kind": plural}]

    def get(self, path: str) -> dict | None:
        if path.startswith("/apis/rbac.authorization.k8s.io/v1/"):
            if "roles" in self.forbidden:
                raise GpuOpsError("No permission", reason="Forbidden")
            return self.roles.get(path.removeprefix("/apis/rbac.authorization.k8s.io/v1/"))
        if "namespaces" in self.forbidden:
            raise GpuOpsError("No permission", reason="Forbidden")
        return {"metadata": {"name": path.rsplit("/", 1)[-1]}}


ADMIN = ("*", "*.*", None)


def test_an_administrator_costs_one_review() -> None:
    cluster = FakeCluster(ADMIN)
    assert missing_permissions(cluster, "ns") == []
    assert cluster.reviews == 1


def test_what_is_missing_is_named() -> None:
    missing = missing_permissions(FakeCluster(("list", "nodes", None), ("get", "pods/log", "ns")), "ns")
    assert "list nodes" not in missing and "get nodes" in missing
    assert "get pods/log in ns" not in missing and "create pods/portforward in ns" in missing
    assert "create clusterpolicies.nvidia.com" in missing and "create deployments.apps in ns" in missing
    assert len(missing) == sum(len(permission.verbs.split()) for permission in NEEDED) - 2


def test_read_takes_one_pass() -> None:
    cluster = FakeCluster(ADMIN)
    found = read(cluster, "ns", review=True)
    assert (found.version, found.nodes, found.operators) == ("v1.36.3", [{"kind": "nodes"}], [{"kind": "deployments"}])
    assert found.gpuclusters == [] and found.namespace == {"metadata": {"name": "ns"}} and not found.unreadable


def test_without_review_permissions_are_not_asked_for() -> None:
    cluster = FakeCluster()
    assert read(cluster, "ns", review=False).missing_permissions == []
    assert cluster.reviews == 0


def test_what_may_not_be_read_is_remembered() -> None:
    found = read(FakeCluster(ADMIN, forbidden=("nodes", "namespaces")), "ns", review=True)
    assert found.unreadable == {"nodes", "namespaces"} and found.nodes == [] and found.namespace is None


def test_another_error_ends_it() -> None:
    with pytest.raises(GpuOpsError, match="Cannot reach the API"):
        read(FakeCluster(ADMIN, broken=True), "ns", review=True)


# ---- what the chart's roles give away -------------------------------------------------------------------------------------------

READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
ROLES = [
    {"kind": "ClusterRole", "name": "wide", "namespace": None, "rules": [READ_PODS]},
    {"kind": "Role", "name": "narrow", "namespace": "ns", "rules": [READ_PODS]},
    {"kind": "Role", "name": "nfd", "namespace": None, "rules": [READ_PODS]},
]
GROUP = "rbac.authorization.k8s.io"


def test_who_may_escalate_and_bind_costs_two_reviews_for_each_kind() -> None:
    rules = [(verb, f"clusterroles.{GROUP}", None) for verb in ("escalate", "bind")] + [
        (verb, f"roles.{GROUP}", "ns") for verb in ("escalate", "bind")
    ]
    cluster = FakeCluster(*rules)
    assert ungranted(cluster, "ns", ROLES) == {}
    assert cluster.reviews == 4


def test_without_bind_roles_can_be_made_and_not_handed_out() -> None:
    assert "ClusterRole wide" in ungranted(FakeCluster(("escalate", f"clusterroles.{GROUP}", None)), "ns", ROLES)


def test_what_a_user_has_in_the_namespace_does_not_cover_a_role_for_the_whole_cluster() -> None:
    assert ungranted(FakeCluster(held={"ns": [READ_PODS]}), "ns", ROLES) == {
        "ClusterRole wide": ["get pods", "list pods"]
    }
    assert ungranted(FakeCluster(held={"": [READ_PODS]}), "ns", ROLES) == {}
    assert list(ungranted(FakeCluster(), "ns", ROLES)) == ["ClusterRole wide", "Role narrow", "Role nfd"]


def test_a_role_that_is_there_as_it_is_to_be_is_left_alone() -> None:
    cluster = FakeCluster()
    cluster.roles = {"clusterroles/wide": {"rules": [READ_PODS]}, "namespaces/ns/roles/nfd": {"rules": []}}
    assert list(ungranted(cluster, "ns", ROLES)) == ["Role narrow", "Role nfd"]
    assert len(ungranted(FakeCluster(forbidden=("roles",)), "ns", ROLES)) == 3


def test_rules_that_may_not_be_read_are_never_called_fine() -> None:
    found = read(FakeCluster(forbidden=("rules",)), "ns", review=False, roles=ROLES)
    assert found.ungranted == {} and found.unreadable == {"selfsubjectrulesreviews"}
    assert read(FakeCluster(), "ns", review=False, roles=ROLES[:1]).ungranted == {
        "ClusterRole wide": ["get pods", "list pods"]
    }


def test_without_roles_nothing_is_asked() -> None:
    cluster = FakeCluster()
    assert read(cluster, "ns", review=False).ungranted == {} and cluster.reviews == 0
