# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._check_refusal import WOULD_STOP
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Listed
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules import operator_release
from inline_snapshot import snapshot as wording

from tests.unit.fakes.claimed import separate_driver

POLICY = {
    "metadata": {"name": "cluster-policy", "annotations": {"meta.helm.sh/release-name": "gpu-operator"}},
    "spec": {"driver": {"version": "1", "upgradePolicy": {"autoUpgrade": True}}},
}


class FakeCluster:
    """A cluster in which Helm owns the ClusterPolicy, and one pod uses a GPU."""

    writes: t.ClassVar[list[dict]] = []
    error: GpuOpsError | None = None

    def __init__(self, options: t.Mapping[str, t.Any], check_mode: bool) -> None:
        self.check_mode = check_mode
        if self.error:
            raise self.error

    def now(self) -> float:
        return 0.0

    def get(self, path: str) -> dict | None:
        return POLICY if path.endswith("/clusterpolicies/cluster-policy") else None

    def list(self, path: str, **selectors: str) -> list[dict]:
        return []

    def list_readable(self, path: str) -> Listed:
        return Listed([])

    def pages(self, path: str, **selectors: str) -> t.Iterator[dict]:
        if path != "/api/v1/pods":
            return
        limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
        yield {
            "metadata": {"name": "job", "namespace": "team"},
            "spec": {"nodeName": "gpu-0000", "containers": [limits]},
        }

    def ask(self, method: str, path: str, *dummy: object, **dummies: object) -> dict:
        if (method, path) == ("GET", "/api/v1/namespaces/gpu-operator/secrets"):
            return {"items": []}
        assert (method, path) == ("GET", "/api/v1/nodes")
        labels = {"nvidia.com/gpu.deploy.driver": "true"}
        return {"items": [{"metadata": {"name": "gpu-0000", "labels": labels}}]}

    def merge(self, path: str, body: dict) -> None:
        self.writes.append(body)


@pytest.fixture
def prepare(run_module: t.Callable, monkeypatch: pytest.MonkeyPatch) -> t.Callable:
    monkeypatch.setattr(operator_release, "Cluster", FakeCluster)
    monkeypatch.setattr(FakeCluster, "writes", [])
    return lambda **options: run_module("operator_release", **options)


RENDERED = {"spec": {"driver": {"version": "2", "env": [{"name": "RHSM_PASSWORD", "value": "s3cret-value"}]}}}


def test_a_policy_of_helm_is_kept_and_adopted(prepare: t.Callable) -> None:
    run = prepare()
    assert run.rc == 0 and run.warnings == []
    assert (run.result["changed"], run.result["adopts"], run.result["downgrade"]) == (True, True, False)
    assert FakeCluster.writes == [{"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}}]


def test_a_disruption_fails_also_in_check_mode_unless_that_is_to_warn(prepare: t.Callable) -> None:
    run = prepare(clusterpolicy=RENDERED)
    assert (run.rc, run.result["reason"], run.result["disruption"]["pods"]) == (1, "Disruption", ["team/job"])
    assert run.result["msg"].startswith("Changing driver.env, driver.version interrupts 1 GPU pod (team/job)")
    assert prepare(clusterpolicy=RENDERED, _ansible_check_mode=True).result["msg"] == run.result["msg"]
    predicted = prepare(clusterpolicy=RENDERED, check_refusal="warn", _ansible_check_mode=True)
    assert predicted.rc == 0 and predicted.warnings == [WOULD_STOP + run.result["msg"]]
    assert prepare(clusterpolicy=RENDERED, allow_disruption=True).warnings == []


def test_a_driver_that_another_playbook_has_declared_is_no_disruption(
    prepare: t.Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"f:spec": {"f:driver": {"f:version": {}}}}
    entry = {"manager": "gpuops.nvidia-driver", "operation": "Apply", "fieldsV1": fields}
    monkeypatch.setitem(POLICY, "metadata", {**POLICY["metadata"], "managedFields": [entry]})
    rendered = {"spec": {"driver": {"version": "2"}}}
    assert prepare(clusterpolicy=rendered).rc == 0
    older = prepare(clusterpolicy=rendered, supports_deploy_cr=False)
    assert older.rc == 1 and older.result["reason"] == "Disruption", "Helm writes an older chart's ClusterPolicy."


def test_secrets_of_the_values_stay_hidden(prepare: t.Callable) -> None:
    run = prepare(clusterpolicy=RENDERED, allow_disruption=True)
    assert [change["field"] for change in run.result["disruption"]["changes"]] == ["driver.env", "driver.version"]
    assert "s3cret-value" not in json.dumps(run.result)


def test_errors_are_sentences(prepare: t.Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prepare(helm_timeout="300").result["msg"].startswith("'300' is not a duration.")
    monkeypatch.setattr(FakeCluster, "error", GpuOpsError("Cannot reach the Kubernetes API.", reason="Unreachable"))
    run = prepare()
    assert (run.rc, run.result["msg"], run.result["reason"]) == (
        1,
        wording("Cannot reach the Kubernetes API."),
        "Unreachable",
    )


GPUCLUSTER = {"spec": {"draDriver": {"featureGates": {"DynamicMIG": True}}}}


def test_a_gpucluster_of_the_chart_is_checked_before_helm(prepare: t.Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the driver would end at, and what interrupts pods, is the same as for the module gpucluster."""
    served = {"resources": [{"name": "deviceclasses"}, {"name": "resourceslices"}]}
    monkeypatch.setattr(
        FakeCluster, "get", lambda cluster, path: served if path.endswith("resource.k8s.io/v1") else None
    )
    run = prepare(gpucluster=GPUCLUSTER)
    assert (run.rc, run.result["reason"]) == (1, "Disruption") and "DynamicMIG" in run.result["msg"]
    wrong = {"spec": {"draDriver": {"featureGates": {"DynamicMIG": True, "MPSSupport": True}}}}
    run = prepare(gpucluster=wrong, allow_disruption=True)
    assert (run.rc, run.result["reason"]) == (1, "Invalid") and "MPSSupport" in run.result["msg"]

    others = Listed([separate_driver()])
    with monkeypatch.context() as beside:
        beside.setattr(
            FakeCluster, "list_readable", lambda cluster, path: others if "daemonsets" in path else Listed([])
        )
        run = prepare(gpucluster=GPUCLUSTER, allow_disruption=True)
        assert (run.rc, run.result["reason"]) == (1, "OwnedByOthers") and "helm uninstall dra" in run.result["msg"]

    def forbidden(cluster: FakeCluster, method: str, path: str, *dummy: object, **dummies: object) -> dict:
        if method == "POST":
            raise GpuOpsError("no", reason="Forbidden")
        return {"items": []}

    monkeypatch.setattr(FakeCluster, "ask", forbidden)
    run = prepare(gpucluster=GPUCLUSTER, allow_disruption=True)
    assert run.rc == 0 and "DRAPartitionableDevices" in run.warnings[0]
