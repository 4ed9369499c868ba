# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.cluster_reader import snapshot_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.plugins.module_utils._cluster.preflight.clusters import ADMIN, RBAC_ROLES, FakeCluster, operator


def test_everything_is_read_in_one_pass() -> None:
    cluster = FakeCluster(ADMIN)
    found = snapshot_of(cluster, "ns", ["deploy"])
    assert (found.version, found.nodes, found.operators) == ("v1.36.3", [{"kind": "nodes"}], [operator()])
    assert found.gpuclusters == [] and found.namespace == {"metadata": {"name": "ns"}} and not found.unreadable


def test_without_review_no_permission_is_checked() -> None:
    cluster = FakeCluster()
    assert snapshot_of(cluster, "ns", []).missing_permissions == []
    assert cluster.reviews == 0


def test_unreadable_collections_are_noted() -> None:
    found = snapshot_of(FakeCluster(ADMIN, forbidden=("nodes", "namespaces")), "ns", ["deploy"])
    assert found.unreadable == {"nodes", "namespaces"} and found.nodes == [] and found.namespace is None


def test_the_groups_of_the_api_are_read_and_nobody_needs_them() -> None:
    cluster = FakeCluster(ADMIN)
    cluster.groups = ["apps", "config.openshift.io"]
    assert snapshot_of(cluster, "ns", []).api_groups == {"apps", "config.openshift.io"}
    found = snapshot_of(FakeCluster(ADMIN, forbidden=("apis",)), "ns", [])
    assert found.api_groups == frozenset() and found.unreadable == {"apis"}


def test_another_error_ends_the_read() -> None:
    with pytest.raises(GpuOpsError, match="Cannot reach the API"):
        snapshot_of(FakeCluster(ADMIN, broken=True), "ns", ["deploy"])


def test_unreadable_rules_are_never_ok() -> None:
    found = snapshot_of(FakeCluster(forbidden=("rules",)), "ns", [], rbac_roles=RBAC_ROLES)
    assert found.ungranted == {} and found.unreadable == {"selfsubjectrulesreviews"}
    assert snapshot_of(FakeCluster(), "ns", [], rbac_roles=RBAC_ROLES[:1]).ungranted == {
        "ClusterRole wide": ["get pods", "list pods"]
    }


def test_without_roles_no_review_is_requested() -> None:
    cluster = FakeCluster()
    assert snapshot_of(cluster, "ns", []).ungranted == {} and cluster.reviews == 0


def test_only_the_operators_own_deployment_counts_as_an_operator() -> None:
    """OLM sets no labels on the Deployment, and other Deployments may have its name."""
    cluster = FakeCluster(ADMIN)
    cluster.deployments = [operator("olm"), operator("shop", app="web")]
    assert [item["metadata"]["namespace"] for item in snapshot_of(cluster, "ns", []).operators] == ["olm"]
