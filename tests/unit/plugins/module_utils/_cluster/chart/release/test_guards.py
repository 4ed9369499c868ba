# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Listed
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.installed_by import ReleaseScope
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release import guards
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release.record import Revision
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording


def operator(**labels: str) -> dict:
    return {
        "metadata": {"name": "gpu-operator", "namespace": "ns", "labels": labels},
        "spec": {"template": {"metadata": {"labels": {"app": "gpu-operator"}}}},
    }


class FakeCluster:
    """A cluster with Subscriptions of OLM, or without OLM."""

    def __init__(self, subscriptions: list[dict] | None = None) -> None:
        self.subscriptions = subscriptions

    def list(self, path: str, **selectors: str) -> list[dict] | None:
        assert path == "/apis/apps/v1/deployments"
        assert selectors == {"fieldSelector": "metadata.name=gpu-operator"}
        other = operator()
        other["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
        return [operator(), other]

    def list_readable(self, path: str) -> Listed:
        """Answer like an API server; without Subscriptions, OLM's kinds do not exist, or the user may not read them."""
        assert path == "/apis/operators.coreos.com/v1alpha1/subscriptions"
        return Listed(self.subscriptions or [], refusal="" if self.subscriptions else "may not")


def subscription(package: str) -> dict:
    return {"metadata": {"name": "sub", "namespace": "nvidia-gpu-operator"}, "spec": {"name": package}}


def test_operators_are_found_by_the_label_of_their_pods() -> None:
    assert guards.operators(FakeCluster()) == [operator()]


SCOPE = ReleaseScope("gpu-operator", "ns")


@pytest.mark.parametrize("subscriptions", [None, [], [subscription("prometheus")]])
def test_helm_may_run_beside_its_own_operator(subscriptions: list[dict] | None) -> None:
    ours = operator()
    ours["metadata"]["annotations"] = {
        "meta.helm.sh/release-name": "gpu-operator",
        "meta.helm.sh/release-namespace": "ns",
    }
    guards.refuse_others(FakeCluster(subscriptions), [ours], SCOPE)
    guards.refuse_others(FakeCluster(subscriptions), [], SCOPE)


@pytest.mark.parametrize(
    ("cluster", "deployments", "words"),
    [
        (
            FakeCluster(),
            [operator(**{"olm.owner": "gpu-operator-certified.v26.3.3"})],
            "Deployment ns/gpu-operator has the label",
        ),
        (
            FakeCluster([subscription("gpu-operator-certified")]),
            [],
            "Subscription nvidia-gpu-operator/sub has the package",
        ),
    ],
)
def test_an_operator_of_olm_is_left_to_it(cluster: FakeCluster, deployments: list[dict], words: str) -> None:
    with pytest.raises(GpuOpsError) as e:
        guards.refuse_others(cluster, deployments, SCOPE)
    assert words in e.value.msg and e.value.reason == "OperatorOfOLM"


class Objects:
    """A cluster with some objects of a chart."""

    def __init__(self, *found: dict) -> None:
        self.found = {f"{item['kind']} {item['metadata']['name']}": item for item in found}
        self.reads: list[str] = []

    def get(self, path: str) -> dict | None:
        self.reads.append(path)
        plural, name = path.rsplit("/", 2)[-2:]
        kind = {"serviceaccounts": "ServiceAccount", "clusterroles": "ClusterRole"}[plural]
        return self.found.get(f"{kind} {name}")

    def ask(self, method: str, path: str, accept: str = "") -> dict:
        served = {
            "/api": [({}, "v1", "serviceaccounts", "Namespaced", "ServiceAccount")],
            "/apis": [({"name": "rbac.authorization.k8s.io"}, "v1", "clusterroles", "Cluster", "ClusterRole")],
        }
        items = [
            {"metadata": group, "versions": [{"version": version, "resources": [
                {"resource": plural, "scope": scope, "responseKind": {"kind": kind}}]}]}
            for group, version, plural, scope, kind in served[path]
        ]  # fmt: skip
        return {"kind": "APIGroupDiscoveryList", "items": items}


ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "gpu-operator"}}
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "gpu-operator", "managedFields": [{"manager": "kubectl-client-side-apply"}]},
}
POLICY = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}}


def test_objects_of_the_chart_that_somebody_else_has_made_are_refused() -> None:
    cluster = Objects(ROLE)
    with pytest.raises(GpuOpsError) as e:
        guards.refuse_foreign_objects(cluster, [ACCOUNT, ROLE, POLICY], [], SCOPE)
    assert e.value.reason == "OperatorOfOthers" and "ClusterRole gpu-operator" in e.value.msg
    assert e.value.details["owner"]["tool"] == "kubectl"
    assert "/api/v1/namespaces/ns/serviceaccounts/gpu-operator" in cluster.reads


def test_objects_that_helm_has_in_its_record_or_marked_are_its_own() -> None:
    marks = {"meta.helm.sh/release-name": "gpu-operator", "meta.helm.sh/release-namespace": "ns"}
    marked = {**ACCOUNT, "metadata": {"name": "gpu-operator", "annotations": marks}}
    guards.refuse_foreign_objects(Objects(marked, ROLE), [ACCOUNT, ROLE], [ROLE], SCOPE)


class Stacks:
    """A cluster with the custom resources of a stack."""

    def __init__(self, **found: list[str]) -> None:
        self.found = found

    def list_readable(self, path: str) -> Listed:
        names = self.found.get(path.rpartition("/")[2], [])
        return Listed([{"metadata": {"name": name}} for name in names])


BOTH = Stacks(clusterpolicies=["cluster-policy"], gpuclusters=["gpu-cluster"])


@pytest.mark.parametrize(
    ("cluster", "policy", "gpucluster"),
    [
        (Stacks(), {"spec": {}}, None),
        (Stacks(), None, {"spec": {}}),
        (Stacks(clusterpolicies=["cluster-policy"]), {"spec": {}}, None),
        (Stacks(gpuclusters=["gpu-cluster"]), None, {"spec": {}}),
        (BOTH, None, None),
    ],
)
def test_a_stack_of_the_same_kind_may_come(cluster: Stacks, policy: dict | None, gpucluster: dict | None) -> None:
    guards.refuse_other_stack(cluster, policy, gpucluster)


@pytest.mark.parametrize(
    ("policy", "gpucluster", "reason", "there", "wanted", "value"),
    [
        ({}, {"spec": {}}, "ClusterPolicyPresent", "ClusterPolicy cluster-policy", "GPUCluster", "gpuCluster"),
        ({"spec": {}}, {}, "GPUClusterPresent", "GPUCluster gpu-cluster", "ClusterPolicy", "clusterPolicy"),
    ],
)
def test_a_stack_of_the_other_kind_goes_first(
    policy: dict, gpucluster: dict, reason: str, there: str, wanted: str, value: str
) -> None:
    with pytest.raises(GpuOpsError) as e:
        guards.refuse_other_stack(BOTH, policy, gpucluster)
    assert e.value.reason == reason
    for words in (there, wanted, f"{value}.deployCR to false", "operator_state: absent"):
        assert words in e.value.msg


PENDING = [Revision("s2", 2, "pending-upgrade", 1000.0), Revision("s1", 1, "deployed", 0.0)]


@pytest.mark.parametrize("found", [[], [Revision("s1", 1, "deployed", 0.0)], list(reversed(PENDING))])
def test_only_the_newest_revision_locks(found: list[Revision]) -> None:
    assert guards.stale_lock(found, 9999.0, 300.0, may_break=True) is None


def test_a_lock_is_stale_half_a_minute_after_helms_timeout() -> None:
    assert guards.stale_lock(PENDING, 1330.0, 300.0, may_break=True) == PENDING[0]
    with pytest.raises(GpuOpsError) as e:
        guards.stale_lock(PENDING, 1329.0, 300.0, may_break=True)
    assert e.value.msg == (
        wording(
            "Helm's operation pending-upgrade of revision 2 began 329 s ago and has not ended. "
            "Wait until it ends; its lock counts as left behind when it is older than 330 s."
        )
    )
    assert e.value.reason == "ReleaseLocked"


def test_a_stale_lock_is_not_broken_without_permission() -> None:
    with pytest.raises(GpuOpsError) as e:
        guards.stale_lock(PENDING, 1400.0, 300.0, may_break=False)
    assert e.value.msg == (
        wording(
            "Helm's operation pending-upgrade of revision 2 began 400 s ago and has not ended, so that Helm was killed. "
            "Set break_lock: true (operator_break_lock in the role operator) to remove its lock."
        )
    )


@pytest.mark.parametrize("store", ["configmap", "configmaps", "sql", "memory"])
def test_records_outside_of_secrets_are_refused(store: str) -> None:
    with pytest.raises(GpuOpsError, match=f"^HELM_DRIVER is {store},") as e:
        guards.refuse_other_store({"HELM_DRIVER": store})
    assert e.value.reason == "Invalid"


@pytest.mark.parametrize(
    "environment", [{}, {"HELM_DRIVER": ""}, {"HELM_DRIVER": "secret"}, {"HELM_DRIVER": "secrets"}]
)
def test_records_in_secrets_are_what_helm_has_by_default(environment: dict[str, str]) -> None:
    guards.refuse_other_store(environment)
