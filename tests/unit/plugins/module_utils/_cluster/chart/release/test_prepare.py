# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._check_refusal import WOULD_STOP
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Listed
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import crds, manifests
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release import (
    guards,
    prepare,
    record,
    restore_objects,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules.operator_release import SPEC
from inline_snapshot import snapshot as wording

from tests.unit.fakes.upgrades.chart import write_chart

POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
QUOTA = "/api/v1/namespaces/gpu-operator/resourcequotas/gpuops-critical-pods"
NVIDIADRIVERS = "/apis/nvidia.com/v1alpha1/nvidiadrivers"
HELMS = {"meta.helm.sh/release-name": "gpu-operator"}
DEPLOYED = record.Content("v26.7.0", [{"kind": "ServiceAccount", "metadata": {"name": "gpu-operator"}}])
PENDING = record.Revision("s1", 1, "pending-install", 0.0)


def options(**changes: t.Any) -> dict[str, t.Any]:
    return {name: option.get("default") for name, option in SPEC.options.items()} | changes


def policy(**annotations: str) -> dict:
    metadata = {"name": "cluster-policy", "resourceVersion": "1", "annotations": annotations}
    return {"metadata": metadata, "spec": {"driver": {"version": "1", "upgradePolicy": {"autoUpgrade": True}}}}


class FakeCluster:
    """A cluster with one ClusterPolicy. It notes what is written."""

    def __init__(self, live: dict | None = None, check_mode: bool = False) -> None:
        self.live, self.check_mode = live, check_mode
        self.has_quota = False
        self.nvidiadrivers: list[dict] = []
        self.mig_nodes: list[dict] = []
        """The nodes with a MIG layout whose last run was not successful."""
        self.reads: list[str] = []
        self.writes: list[str] = []

    def now(self) -> float:
        return 5000.0

    def get(self, path: str) -> dict | None:
        if path == QUOTA:
            return {"metadata": {"name": "gpuops-critical-pods"}} if self.has_quota else None
        if path.startswith("/api/v1/namespaces/gpu-operator/configmaps/"):
            return None
        assert path == POLICY
        return self.live

    def list(self, path: str, **selectors: str) -> list[dict] | None:
        if path != "/apis/apps/v1/namespaces/gpu-operator/deployments":
            return []
        containers = [{"name": "gpu-operator", "image": "gpu-operator:v26.3.3"}]
        template = {"metadata": {"labels": {"app": "gpu-operator"}}, "spec": {"containers": containers}}
        return [{"metadata": {"name": "gpu-operator"}, "spec": {"template": template}}]

    def ask(
        self, method: str, path: str, query: dict, body: str = "", content_type: str = "", accept: str = ""
    ) -> dict:
        if method == "PATCH":
            assert content_type == "application/json-patch+json"
            self.writes.append(f"patch {path} {json.dumps(query)} {json.loads(body)[1]['value']}")
            return {}
        assert (method, path) == ("GET", "/api/v1/nodes")
        labels = {"nvidia.com/gpu.deploy.driver": "true", "nvidia.com/gpu.deploy.mig-manager": "true"}
        return {"items": [{"metadata": {"name": "gpu-0001", "labels": labels}}]}

    def large_list(self, path: str, keep: t.Callable[[dict], dict], **selectors: str) -> tuple[list[dict], str]:
        assert path == "/api/v1/nodes"
        return list(map(keep, self.mig_nodes)), "1"

    def list_readable(self, path: str) -> Listed:
        if path == NVIDIADRIVERS:
            self.reads.append(path)
            return Listed(self.nvidiadrivers)
        return Listed([])

    def merge(self, path: str, body: dict) -> None:
        self.writes.append(f"merge {path} {json.dumps(body)}")

    def delete(self, path: str) -> bool:
        self.writes.append(f"delete {path}")
        return True


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> dict[str, t.Any]:
    """What Helm's records say; the test changes it."""
    state: dict[str, t.Any] = {"revisions": [], "deployed": None, "left": None}
    monkeypatch.setattr(record, "revisions", lambda *dummy: state["revisions"])
    monkeypatch.setattr(record, "deployed", lambda *dummy: state["deployed"])

    def restore(cluster: object, wanted: list[dict], release: str, namespace: str, leave: tuple) -> list:
        state["left"] = leave
        return [restore_objects.Restored("ServiceAccount gpu-operator", "deleted")]

    monkeypatch.setattr(restore_objects, "restore", restore)
    return state


@pytest.mark.usefixtures("release")
def test_a_bare_cluster_needs_no_preparation() -> None:
    cluster = FakeCluster()
    assert prepare.ensure(cluster, options()) == {
        "changed": False,
        "adopts": False,
        "downgrade": False,
        "crds": [],
        "crds_first": True,
        "is_deployed": False,
        "has_quota": False,
        "restored": [],
        "disruption": HARMLESS,
        "warnings": [],
        "diff": {"before": "", "after": ""},
    }
    assert cluster.writes == []


def test_records_that_cannot_be_read_are_refused_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM_DRIVER", "configmap")
    with pytest.raises(GpuOpsError, match="HELM_DRIVER is configmap"):
        prepare.ensure(None, options())


@pytest.mark.usefixtures("release")
def test_a_policy_of_helm_is_kept_before_helm_lets_go_of_it() -> None:
    cluster = FakeCluster(policy(**HELMS))
    result = prepare.ensure(cluster, options())
    assert (result["changed"], result["adopts"], result["downgrade"]) == (True, True, False)
    assert result["diff"]["after"] == wording("keep the ClusterPolicy when Helm gives it up\n")
    kept = '{"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}}'
    assert cluster.writes == [f"merge {POLICY} {kept}"]
    again = FakeCluster(policy(**HELMS, **{"helm.sh/resource-policy": "keep"}))
    result = prepare.ensure(again, options())
    assert (result["changed"], result["adopts"], again.writes) == (False, True, [])


def test_a_policy_of_helm_with_another_name_is_not_left_for_helm_to_delete(release: dict[str, t.Any]) -> None:
    released = {"kind": "ClusterPolicy", "metadata": {"name": "gpu-policy"}}
    release["deployed"] = record.Content("v26.3.3", [{"kind": "ServiceAccount"}, released])
    cluster = FakeCluster()
    with pytest.raises(GpuOpsError) as e:
        prepare.ensure(cluster, options(allow_disruption=True))
    assert e.value.msg == (
        wording(
            "The Helm release gpu-operator contains the ClusterPolicy gpu-policy, and cluster-policy is to be applied. "
            "Helm would delete gpu-policy, and the operator the drivers of all nodes with it. Set policy_name: gpu-policy "
            "(operator_policy_name in the role operator)."
        )
    )
    assert e.value.reason == "SecondClusterPolicy" and cluster.writes == []
    released["metadata"] = {"name": "cluster-policy"}
    assert prepare.ensure(cluster, options())["changed"]
    released["metadata"] = {"name": "gpu-policy"}
    assert prepare.ensure(cluster, options(supports_deploy_cr=False))["changed"], "An old chart brings its own."


@pytest.mark.usefixtures("release")
def test_our_own_policy_is_not_adopted() -> None:
    cluster = FakeCluster(policy())
    result = prepare.ensure(cluster, options())
    assert (result["changed"], result["adopts"], cluster.writes) == (False, False, [])


@pytest.mark.usefixtures("release")
@pytest.mark.parametrize(("check_mode", "query"), [(False, ""), (True, ', "dryRun": "All"')])
def test_a_chart_that_insists_on_its_own_policy_gets_ours(check_mode: bool, query: str) -> None:
    cluster = FakeCluster(policy(), check_mode=check_mode)
    rendered = {"metadata": {"name": "cluster-policy"}, "spec": {}}
    result = prepare.ensure(cluster, options(supports_deploy_cr=False, clusterpolicy=rendered))
    assert (result["changed"], result["adopts"], result["downgrade"]) == (True, False, True)
    assert result["diff"]["after"] == wording("hand the ClusterPolicy over to Helm\n")
    owners = {"meta.helm.sh/release-name": "gpu-operator", "meta.helm.sh/release-namespace": "gpu-operator"}
    assert cluster.writes == [f'patch {POLICY} {{"fieldManager": "helm"{query}}} {owners}']


@pytest.mark.usefixtures("release")
def test_a_status_that_is_written_meanwhile_does_not_stop_a_hand_over() -> None:
    cluster, refusals = FakeCluster(policy()), [GpuOpsError("Modified.", reason="Conflict")]

    def ask(*dummy: object) -> dict:
        cluster.writes.append("patch")
        if refusals:
            raise refusals.pop()
        return {}

    cluster.ask = ask  # type: ignore[method-assign,assignment]
    assert prepare.ensure(cluster, options(supports_deploy_cr=False, clusterpolicy={"spec": {}}))["downgrade"]
    assert cluster.writes == ["patch", "patch"]


@pytest.mark.usefixtures("release")
@pytest.mark.parametrize(
    ("live", "rendered"), [(policy(**HELMS), {"spec": {}}), (policy(), None), (None, {"spec": {}})]
)
def test_an_old_chart_needs_no_hand_over(live: dict | None, rendered: dict | None) -> None:
    cluster = FakeCluster(live)
    result = prepare.ensure(cluster, options(supports_deploy_cr=False, clusterpolicy=rendered))
    assert (result["changed"], result["downgrade"], cluster.writes) == (False, False, [])


def test_a_policy_that_cannot_be_read_ends_the_run_before_any_change(release: dict[str, t.Any]) -> None:
    cluster = FakeCluster()

    def forbidden(path: str) -> dict | None:
        raise GpuOpsError("No permission: get clusterpolicies.", reason="Forbidden")

    cluster.get = forbidden  # type: ignore[method-assign]
    release["revisions"] = [PENDING]
    with pytest.raises(GpuOpsError, match=r"^No permission"):
        prepare.ensure(cluster, options(break_lock=True))
    assert cluster.writes == []


@pytest.mark.parametrize(
    ("version", "expected"),
    [("v26.3.3", True), ("v26.7.0", False), ("v26.7.1", False), ("main-latest", False), (None, False)],
)
def test_an_older_chart_is_a_downgrade(release: dict[str, t.Any], version: str | None, expected: bool) -> None:
    release["deployed"] = DEPLOYED
    assert prepare.ensure(FakeCluster(), options(app_version=version))["downgrade"] is expected


@pytest.mark.parametrize(
    ("name", "first"), [({"type": "string"}, True), ({"type": "string", "default": "default-mig-parted-config"}, False)]
)
def test_an_older_crd_comes_first_if_the_newer_one_refuses_the_older_policy(
    release: dict[str, t.Any], name: dict[str, str], first: bool
) -> None:
    """NVIDIA's chart v25.10.1 renders this field as null, and its default has left the CRD with v26.3."""
    release["deployed"] = DEPLOYED
    config = {"type": "object", "properties": {"name": name, "default": {"type": "string"}}}
    manager = {"type": "object", "properties": {"config": config}}
    spec = {"type": "object", "properties": {"migManager": manager}}
    versions = [{"schema": {"openAPIV3Schema": {"properties": {"spec": spec}}}}]
    cluster = FakeCluster()
    cluster.get = lambda path: {"spec": {"versions": versions}} if "customresource" in path else None  # type: ignore[method-assign]
    rendered = {"spec": {"migManager": {"config": {"name": None, "default": "all-disabled"}}}}
    result = prepare.ensure(cluster, options(app_version="v25.10.1", clusterpolicy=rendered))
    assert (result["downgrade"], result["crds_first"]) == (True, first)
    named = {"spec": {"migManager": {"config": {"name": "x", "default": "all-disabled"}}}}
    assert not prepare.ensure(cluster, options(app_version="v25.10.1", clusterpolicy=named))["crds_first"]


@pytest.mark.parametrize(("supports", "left"), [(True, ["GPUCluster", "ClusterPolicy"]), (False, ["GPUCluster"])])
def test_a_deployed_release_is_restored(release: dict[str, t.Any], supports: bool, left: list[str]) -> None:
    """A GPUCluster that the chart no longer brings would come back for a moment, beside the ClusterPolicy."""
    release["deployed"] = DEPLOYED
    result = prepare.ensure(FakeCluster(), options(supports_deploy_cr=supports))
    assert result["restored"] == [{"object": "ServiceAccount gpu-operator", "was": "deleted"}] and result["changed"]
    assert result["diff"]["after"] == "restore ServiceAccount gpu-operator (deleted)\n"
    assert release["left"] == left


@pytest.mark.parametrize(("check_mode", "deleted"), [(False, 1), (True, 0)])
def test_a_stale_lock_is_removed(release: dict[str, t.Any], check_mode: bool, deleted: int) -> None:
    release["revisions"] = [PENDING]
    cluster = FakeCluster(check_mode=check_mode)
    result = prepare.ensure(cluster, options(break_lock=True))
    assert result["diff"]["after"] == wording("remove the lock of revision 1 (pending-install)\n") and result["changed"]
    assert cluster.writes == ["delete /api/v1/namespaces/gpu-operator/secrets/s1"] * deleted


def test_a_lock_in_use_ends_the_run(release: dict[str, t.Any]) -> None:
    release["revisions"] = [PENDING]
    with pytest.raises(GpuOpsError) as e:
        prepare.ensure(FakeCluster(), options(break_lock=True, helm_timeout="2h"))
    assert e.value.reason == "ReleaseLocked"


@pytest.mark.usefixtures("release")
@pytest.mark.parametrize("has_quota", [True, False])
def test_the_quota_of_a_former_run_is_found(has_quota: bool) -> None:
    cluster = FakeCluster()
    cluster.has_quota = has_quota
    assert prepare.ensure(cluster, options())["has_quota"] is has_quota


VALUES = {"operator": {"upgradeCRD": False}}
CHART = record.Content("v26.7.0", [], "gpu-operator", "v26.7.0", VALUES)
NEWEST = record.Revision("s2", 2, "deployed", 0.0)
OLDER = record.Revision("s1", 1, "superseded", 0.0)


@pytest.fixture
def crds_applied(monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """The options with which the CRDs of a chart are applied."""
    given: list[dict] = []

    def apply_rendered(rendered: manifests.Rendered, cluster: FakeCluster, options: dict) -> dict:
        given.append(options)
        return {"changed": True, "crds": [{"name": "a"}], "diff": {"before": "", "after": "a (created)\n"}}

    monkeypatch.setattr(crds, "render", lambda *dummy: manifests.Rendered({"a": ""}, []))
    monkeypatch.setattr(crds, "apply_rendered", apply_rendered)
    return given


@pytest.mark.parametrize(
    ("revisions", "deployed", "expected"),
    [
        ([NEWEST, OLDER], CHART, True),
        ([dataclasses.replace(NEWEST, status="failed"), dataclasses.replace(OLDER, status="deployed")], CHART, False),
        ([PENDING, dataclasses.replace(NEWEST, number=0)], CHART, True),
        ([NEWEST], dataclasses.replace(CHART, chart_name="other"), False),
        ([NEWEST], dataclasses.replace(CHART, chart_version="v26.7.1"), False),
        ([NEWEST], dataclasses.replace(CHART, app_version="v26.7.1"), False),
        ([NEWEST], dataclasses.replace(CHART, values={}), False),
        ([], None, False),
    ],
    ids=["same", "failed", "lock", "name", "version", "app", "values", "absent"],
)
def test_helm_has_nothing_to_do_for_the_same_chart_with_the_same_values(
    release: dict[str, t.Any],
    crds_applied: list[dict],
    tmp_path: Path,
    revisions: list[record.Revision],
    deployed: record.Content | None,
    expected: bool,
) -> None:
    release.update(revisions=revisions, deployed=deployed)
    asked = options(chart_path=str(write_chart(tmp_path)), values=VALUES, break_lock=True)
    result = prepare.ensure(FakeCluster(), asked, t.cast("t.Any", "helm"))
    assert result["is_deployed"] is expected
    assert [given["values"] for given in crds_applied] == [VALUES]
    assert prepare.ensure(FakeCluster(), {**asked, "chart_path": None})["is_deployed"] is False
    assert len(crds_applied) == 1, "Without a chart, there are no CRDs to apply."


def test_the_crds_of_a_newer_chart_are_a_step(release: dict[str, t.Any], crds_applied: list[dict]) -> None:
    release["deployed"] = DEPLOYED
    asked = options(app_version="v26.7.1")
    result = prepare.ensure(FakeCluster(), asked, t.cast("t.Any", "helm"))
    assert (result["changed"], result["crds"]) == (True, [{"name": "a"}])
    assert result["diff"]["after"] == "restore ServiceAccount gpu-operator (deleted)\na (created)\n"
    assert (crds_applied[0]["kube_version"], crds_applied[0]["wait_timeout"]) == (None, 60)


def test_the_crds_of_an_older_chart_wait_for_helm(release: dict[str, t.Any], crds_applied: list[dict]) -> None:
    release["deployed"] = DEPLOYED
    result = prepare.ensure(FakeCluster(), options(app_version="v26.3.3"), t.cast("t.Any", "helm"))
    assert (result["crds_first"], result["crds"], crds_applied) == (False, [], [])


@pytest.mark.usefixtures("release", "gpu_pod")
def test_a_refused_run_applies_no_crds(crds_applied: list[dict]) -> None:
    with pytest.raises(GpuOpsError, match="interrupts 1 GPU pod"):
        prepare.ensure(FakeCluster(policy(**HELMS)), options(clusterpolicy=NEWER), t.cast("t.Any", "helm"))
    assert crds_applied == []


@pytest.fixture
def gpu_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [pods.GpuPod("team", "job", "gpu-0001", {"nvidia.com/gpu": 1})]
    monkeypatch.setattr(pods, "gpu_pods", lambda cluster, namespace: found)


HARMLESS = {"changes": [], "pods": [], "pods_total": 0, "nodes": [], "nodes_total": 0}
NEWER = {"spec": {"driver": {"version": "2"}}}


@pytest.mark.usefixtures("release", "gpu_pod")
def test_a_chart_that_interrupts_gpu_pods_needs_permission() -> None:
    cluster = FakeCluster(policy(**HELMS))
    with pytest.raises(GpuOpsError) as e:
        prepare.ensure(cluster, options(clusterpolicy=NEWER))
    assert e.value.msg == (
        wording(
            "Changing driver.version interrupts 1 GPU pod (team/job) on 1 node (gpu-0001): the operator evicts GPU pods "
            "and replaces the driver, node by node. "
            "Drain the nodes first, or set allow_disruption: true (operator_allow_disruption in the role operator)."
        )
    )
    assert e.value.reason == "Disruption" and e.value.details["disruption"]["nodes"] == ["gpu-0001"]
    assert cluster.writes == []
    result = prepare.ensure(cluster, options(clusterpolicy=NEWER, allow_disruption=True))
    assert result["warnings"] == [] and result["disruption"]["pods"] == ["team/job"] and len(cluster.writes) == 1
    cluster.check_mode = True
    with pytest.raises(GpuOpsError):
        prepare.ensure(cluster, options(clusterpolicy=NEWER))
    warned = prepare.ensure(cluster, options(clusterpolicy=NEWER, check_refusal="warn"))
    assert warned["warnings"] == [WOULD_STOP + e.value.msg]


@pytest.mark.usefixtures("release", "gpu_pod")
def test_a_new_operator_interrupts_gpu_pods() -> None:
    cluster = FakeCluster(policy())
    result = prepare.ensure(cluster, options(operator_image="gpu-operator:v26.7.0", allow_disruption=True))
    assert [(one["field"], one["before"]) for one in result["disruption"]["changes"]] == [("operator", "v26.3")]
    result = prepare.ensure(cluster, options(operator_image="gpu-operator:v26.3.3"))
    assert result["disruption"] == HARMLESS


@pytest.mark.usefixtures("release", "gpu_pod")
def test_a_chart_that_starts_the_mig_managers_interrupts_gpu_pods_where_a_layout_has_failed() -> None:
    labels = {"nvidia.com/mig.config": "mine", "nvidia.com/mig.config.state": "failed"}
    node = {"metadata": {"name": "gpu-0001", "labels": {**labels, "nvidia.com/gpu.deploy.mig-manager": "true"}}}
    cluster, rendered = FakeCluster(policy()), {"spec": {"migManager": {"version": "v0.15.0"}}}
    asked = options(clusterpolicy=rendered, operator_image="gpu-operator:v26.3.3")
    assert prepare.ensure(cluster, asked)["disruption"] == HARMLESS
    cluster.mig_nodes = [node]
    with pytest.raises(GpuOpsError) as error:
        prepare.ensure(cluster, asked)
    assert error.value.reason == "Disruption" and "gpu-0001 (mine, state failed)" in error.value.msg
    found = prepare.ensure(cluster, {**asked, "allow_disruption": True})["disruption"]
    assert [change["field"] for change in found["changes"]] == ["migManager.version"] and found["nodes"] == ["gpu-0001"]


@pytest.mark.usefixtures("gpu_pod")
@pytest.mark.parametrize("with_policy", [True, False])
def test_an_nvidiadriver_of_the_chart_interrupts_gpu_pods(release: dict[str, t.Any], with_policy: bool) -> None:
    """Helm changes it, or deletes it if the new chart has none. A GPUCluster's drivers have no ClusterPolicy."""
    old, new = ({**NVIDIADRIVER, "spec": {**NVIDIADRIVER["spec"], "version": version}} for version in ("580", "595"))
    delegating = {"metadata": {"name": "cluster-policy"}, "spec": {"driver": {"useNvidiaDriverCRD": True}}}
    asked = options(allow_disruption=True, clusterpolicy=delegating if with_policy else None)
    cluster = FakeCluster(delegating if with_policy else None)
    cluster.nvidiadrivers = [old]
    release["deployed"] = record.Content("v26.3.3", [{"kind": "ServiceAccount"}, old])
    found = prepare.ensure(cluster, {**asked, "nvidiadrivers": [new]})["disruption"]
    fields = [change["field"] for change in found["changes"]]
    assert (fields, found["pods"]) == (["NVIDIADriver default version"], ["team/job"])
    with pytest.raises(GpuOpsError) as error:
        prepare.ensure(cluster, {**asked, "allow_disruption": False})
    assert error.value.reason == "Disruption"
    assert error.value.msg == wording(
        "Changing NVIDIADriver default interrupts 1 GPU pod (team/job) on 1 node (gpu-0001): the operator removes the driver from under GPU pods. Drain the nodes first, or set allow_disruption: true (operator_allow_disruption in the role operator)."
    )
    release["deployed"] = DEPLOYED
    assert prepare.ensure(cluster, asked)["disruption"] == HARMLESS and cluster.reads == [NVIDIADRIVERS] * 2


NVIDIADRIVER = {"kind": "NVIDIADriver", "metadata": {"name": "default"}, "spec": {"default": True}}


@pytest.mark.usefixtures("release", "gpu_pod")
@pytest.mark.parametrize("rendered", [None, {}, {"spec": {}}, {"spec": {"mig": {"strategy": "mixed"}}}])
def test_what_the_chart_leaves_alone_interrupts_nothing(rendered: dict | None) -> None:
    assert prepare.ensure(FakeCluster(policy()), options(clusterpolicy=rendered))["disruption"] == HARMLESS


def test_an_operator_of_somebody_else_is_refused_before_the_crds(
    release: dict[str, t.Any], crds_applied: list[dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = {
        "metadata": {"name": "gpu-operator", "namespace": "gpu-operator"},
        "spec": {"template": {"metadata": {"labels": {"app": "gpu-operator"}}}},
    }
    monkeypatch.setattr(guards, "operators", lambda cluster: [foreign])
    cluster = FakeCluster()
    with pytest.raises(GpuOpsError) as e:
        prepare.ensure(cluster, options(), t.cast("t.Any", "helm"))
    assert e.value.reason == "OperatorOfOthers" and crds_applied == cluster.writes == []


def test_foreign_objects_of_the_chart_are_refused_before_the_crds(
    release: dict[str, t.Any], crds_applied: list[dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple] = []

    def refuse(cluster: FakeCluster, rendered: list[dict], known: list[dict], scope: object) -> None:
        asked.append((rendered, known, str(scope)))
        raise GpuOpsError("They are not ours.", reason="OperatorOfOthers")

    monkeypatch.setattr(guards, "refuse_foreign_objects", refuse)
    release["deployed"] = DEPLOYED
    cluster = FakeCluster()
    with pytest.raises(GpuOpsError):
        prepare.ensure(cluster, options(), t.cast("t.Any", "helm"))
    assert asked == [([], DEPLOYED.objects, "gpu-operator/gpu-operator")] and crds_applied == cluster.writes == []
