# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Listed
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.permission_checks import (
    by_resource,
    lacking,
    missing_permissions,
    ungranted,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.plugins.module_utils._cluster.preflight.clusters import (
    ADMIN,
    RBAC_ROLES,
    READ_PODS,
    FakeCluster,
    intent,
    only,
    snapshot,
)

# ---- the checks ---------------------------------------------------------------------------------------------------


def test_roles_that_grant_too_much() -> None:
    found = only(
        "role_grants",
        snapshot(
            ungranted={"ClusterRole gpu-operator": [f"get r{number}" for number in range(9)], "Role nfd": ["list pods"]}
        ),
    )
    assert found.level == "failure" and "escalate and bind" in found.remedy
    assert found.message.endswith(
        ": ClusterRole gpu-operator (get r0, get r1, get r2, get r3, and 5 more); Role nfd (list pods)."
    )


def test_permissions() -> None:
    assert only("permissions", snapshot()).level == "ok"
    found = only("permissions", snapshot(missing_permissions=["get nodes", "list pods in ns", "patch nodes"]))
    assert (found.level, found.message) == ("failure", "This user may not: get, patch nodes; list pods in ns.")


@pytest.mark.parametrize(
    ("labels", "values", "level"),
    [
        (None, {}, "ok"),
        ({}, {}, "ok"),
        ({"pod-security.kubernetes.io/enforce": "privileged"}, {}, "ok"),
        ({"pod-security.kubernetes.io/enforce": "restricted"}, {}, "warning"),
        ({"pod-security.kubernetes.io/enforce": "restricted"}, {"psa": {"enabled": True}}, "ok"),
    ],
)
def test_pod_security(labels: dict | None, values: dict, level: str) -> None:
    namespace = None if labels is None else {"metadata": {"name": "gpu-operator", "labels": labels}}
    assert only("pod_security", snapshot(namespace=namespace), intent(**values)).level == level


# ---- permissions --------------------------------------------------------------------------------------------------


def test_an_administrator_needs_one_review() -> None:
    cluster = FakeCluster(ADMIN)
    assert missing_permissions(cluster, "ns", ["deploy"]) == []
    assert cluster.reviews == 1


def test_missing_permissions_are_named() -> None:
    allowed = (("list", "pods", None), ("patch", "nodes", None))
    assert missing_permissions(FakeCluster(*allowed), "ns", ["drain"]) == [
        "get nodes",
        "list nodes",
        "create pods/eviction",
        "list daemonsets.apps",
    ]
    cluster = FakeCluster(("get", "resourcequotas", "ns"))
    assert missing_permissions(cluster, "ns", ["quota"]) == [
        "create resourcequotas in ns",
        "patch resourcequotas in ns",
    ]
    assert "create clusterpolicies.nvidia.com" in missing_permissions(cluster, "ns", ["deploy"])
    assert "create deployments.apps in ns" in missing_permissions(cluster, "ns", ["deploy"])


def test_a_run_that_does_nothing_needs_no_review() -> None:
    cluster = FakeCluster()
    assert missing_permissions(cluster, "ns", []) == [] and cluster.reviews == 0


def test_a_message_names_everything_that_is_missing_once() -> None:
    assert by_resource(["get a", "list b in ns", "patch a", "get b in ns"]) == "get, patch a; list, get b in ns"
    assert len(by_resource(f"get resource-{number}" for number in range(100)).split("; ")) == 100
    assert by_resource([]) == ""


class OneCluster(FakeCluster):
    """A cluster whose ClusterPolicies name these namespaces."""

    namespaces: t.ClassVar[dict[str, str]] = {"first": "gpus", "second": "others"}

    def list_readable(self, path: str) -> Listed:
        assert path == "/apis/nvidia.com/v1/clusterpolicies"
        return Listed(
            [
                {
                    "metadata": {"name": name, "creationTimestamp": f"2026-01-0{day}T00:00:00Z"},
                    "status": {"namespace": ns},
                }
                for day, (name, ns) in enumerate(self.namespaces.items(), 1)
            ]
        )


@pytest.mark.parametrize(
    ("namespace", "policy", "asked"), [("", "", "gpus"), ("", "second", "others"), ("mine", "second", "mine")]
)
def test_what_a_run_lacks_is_asked_for_in_the_operators_namespace(namespace: str, policy: str, asked: str) -> None:
    options = {"operations": ["quota"], "namespace": namespace, "policy_name": policy}
    found = lacking(options, OneCluster)
    assert found["namespace"] == asked
    assert found["missing_permissions"] == [f"{verb} resourcequotas in {asked}" for verb in ("get", "create", "patch")]
    assert found["message"].startswith(f"This user may not: get, create, patch resourcequotas in {asked}. Grant ")


def test_nothing_is_said_to_a_user_who_may_do_everything() -> None:
    options = {"operations": ["deploy"], "namespace": "ns", "policy_name": ""}
    assert lacking(options, lambda: OneCluster(ADMIN)) == {"namespace": "ns", "missing_permissions": [], "message": ""}


def test_without_a_cluster_nothing_is_missing_unless_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("K8S_AUTH_KUBECONFIG", "K8S_AUTH_CONTEXT", "K8S_AUTH_HOST", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)

    def connect() -> OneCluster:
        raise GpuOpsError("Invalid kube-config file. No configuration found.", reason="BadConnectionSettings")

    options = {"operations": ["drain"], "namespace": "", "policy_name": ""}
    assert lacking(options, connect) == {"namespace": "", "missing_permissions": [], "message": ""}
    with pytest.raises(GpuOpsError, match="No configuration found"):
        lacking({**options, "kubeconfig": "missing"}, connect)


# ---- the chart's RBAC roles ---------------------------------------------------------------------------------------

GROUP = "rbac.authorization.k8s.io"


def test_a_user_who_may_escalate_and_bind_needs_two_reviews_for_each_kind() -> None:
    rules = [(verb, f"clusterroles.{GROUP}", None) for verb in ("escalate", "bind")] + [
        (verb, f"roles.{GROUP}", "ns") for verb in ("escalate", "bind")
    ]
    cluster = FakeCluster(*rules)
    assert ungranted(cluster, "ns", RBAC_ROLES) == {}
    assert cluster.reviews == 4


def test_without_bind_a_user_can_create_roles_but_not_grant_them() -> None:
    assert "ClusterRole wide" in ungranted(FakeCluster(("escalate", f"clusterroles.{GROUP}", None)), "ns", RBAC_ROLES)


def test_rights_in_the_namespace_do_not_cover_a_clusterrole() -> None:
    assert ungranted(FakeCluster(held={"ns": [READ_PODS]}), "ns", RBAC_ROLES) == {
        "ClusterRole wide": ["get pods", "list pods"]
    }
    assert ungranted(FakeCluster(held={"": [READ_PODS]}), "ns", RBAC_ROLES) == {}
    assert list(ungranted(FakeCluster(), "ns", RBAC_ROLES)) == ["ClusterRole wide", "Role narrow", "Role nfd"]


def test_a_role_that_already_exists_with_the_same_rules_is_left_alone() -> None:
    cluster = FakeCluster()
    cluster.roles = {"clusterroles/wide": {"rules": [READ_PODS]}, "namespaces/ns/roles/nfd": {"rules": []}}
    assert list(ungranted(cluster, "ns", RBAC_ROLES)) == ["Role narrow", "Role nfd"]
    assert len(ungranted(FakeCluster(forbidden=("roles",)), "ns", RBAC_ROLES)) == 3


def test_a_role_of_another_namespace_is_compared_with_the_rights_there() -> None:
    rbac_roles = [{"kind": "Role", "name": "nfd", "namespace": "other", "rules": [READ_PODS]}]
    assert list(ungranted(FakeCluster(held={"ns": [READ_PODS]}), "ns", rbac_roles)) == ["Role nfd"]
    assert ungranted(FakeCluster(held={"other": [READ_PODS]}), "ns", rbac_roles) == {}


def test_a_role_on_urls_is_compared_with_the_rights_on_urls() -> None:
    metrics = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    rbac_roles = [{"kind": "ClusterRole", "name": "scrape", "namespace": None, "rules": [metrics]}]
    cluster = FakeCluster()
    assert ungranted(cluster, "ns", rbac_roles) == {"ClusterRole scrape": ["get /metrics"]}
    cluster.held_urls = [metrics]
    assert ungranted(cluster, "ns", rbac_roles) == {}


def test_an_api_server_that_is_away_is_no_missing_right() -> None:
    with pytest.raises(GpuOpsError, match="Cannot reach the API"):
        ungranted(FakeCluster(forbidden=("away",)), "ns", RBAC_ROLES)
