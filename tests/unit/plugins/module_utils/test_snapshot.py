# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._snapshot import NEEDED, missing_permissions, read


class FakeCluster:
    """An API server that knows what its user may do: ``rules`` are (verb, resource with group, namespace or None)."""

    def __init__(self, *rules: tuple[str, str, str | None], forbidden: tuple[str, ...] = (), broken: bool = False) -> None:
        self.rules = set(rules)
        self.forbidden = forbidden
        self.broken = broken
        self.reviews = 0

    def request(self, method: str, path: str, body: dict | None = None) -> bytes:
        if path == "/version":
            return b'{"gitVersion": "v1.36.3"}'
        assert (method, path) == ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        self.reviews += 1
        asked = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource")))) + (f".{asked['group']}" if asked["group"] else "")
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
