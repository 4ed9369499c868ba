# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import crds
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.crds import (
    Applied,
    apply_crds,
    established,
    summarize,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.manifests import Rendered
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.served import Served
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.support.clock import Clock


def crd(name: str = "things.nvidia.com", **fields: t.Any) -> dict:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    return {
        "metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {
            "scope": "Cluster",
            "versions": [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}}],
        },
        "status": {
            "conditions": [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]
        },
    }


STRING = {"type": "string"}


class FakeCluster:
    """CRDs in memory. ``applied`` maps a name to the object that the API server stores for it."""

    def __init__(
        self,
        existing: dict[str, dict],
        applied: dict[str, dict],
        daemonsets: list[dict] | None = None,
        check_mode: bool = False,
    ) -> None:
        self.check_mode = check_mode
        self._existing = existing
        self._applied = applied
        self._daemonsets = daemonsets or []
        self.writes: list[tuple[str, str, bool]] = []

    def get(self, path: str) -> dict | None:
        return self._existing.get(path.rsplit("/", 1)[-1])

    def list(self, path: str) -> list[dict]:
        assert path == "/apis/apps/v1/daemonsets"
        return self._daemonsets

    def apply(self, path: str, body: str, force: bool) -> dict:
        name = path.rsplit("/", 1)[-1]
        self.writes.append((name, body, force))
        return self._applied[name]


def test_crds_are_created_updated_or_left_unchanged() -> None:
    before = {"b.nvidia.com": crd("b.nvidia.com", old=STRING), "c.nvidia.com": crd("c.nvidia.com", same=STRING)}
    after = {
        "a.nvidia.com": crd("a.nvidia.com"),
        "b.nvidia.com": crd("b.nvidia.com", new=STRING),
        "c.nvidia.com": crd("c.nvidia.com", same=STRING),
    }
    after["c.nvidia.com"]["metadata"]["resourceVersion"] = "2"
    cluster = FakeCluster(before, after)
    outcome = apply_crds(cluster, {name: f"text of {name}" for name in after}, "gpu-operator", "gpu-operator", 1)
    assert outcome == [
        Applied("a.nvidia.com", "created"),
        Applied("b.nvidia.com", "updated", changes=("+ v1 spec.new", "- v1 spec.old")),
        Applied("c.nvidia.com", "unchanged"),
    ]
    assert [item.changed for item in outcome] == [True, True, False]
    assert cluster.writes[0] == ("a.nvidia.com", "text of a.nvidia.com", True)


def nfd(namespace: str, release: str) -> dict:
    containers = [{"name": "worker", "image": "registry.k8s.io/nfd/node-feature-discovery:v0.19.0"}]
    metadata = {"name": "worker", "namespace": namespace, "annotations": {"meta.helm.sh/release-name": release}}
    return {"metadata": metadata, "spec": {"template": {"spec": {"containers": containers}}}}


def test_the_result_has_the_schema_of_a_clusterpolicy_in_check_mode_only(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "clusterpolicies.nvidia.com"
    monkeypatch.setattr(crds, "local_chart", lambda path: path)
    monkeypatch.setattr(crds.manifests, "parse_manifests", lambda text: Rendered({name: "text"}, []))
    monkeypatch.setattr(crds, "Served", FakeServed)

    def result(check_mode: bool, applied: dict) -> dict:
        return crds.apply_chart(FakeHelm(), FakeCluster({}, {name: applied}, check_mode=check_mode), CHOSEN)

    fields = {"type": "object", "properties": {"new": {"type": "string"}}}
    predicted = result(True, crd(name, new=STRING))
    assert predicted["clusterpolicy_schema"] == {"type": "object", "properties": {"spec": fields}}
    assert predicted["crds"] == [{"name": name, "result": "created", "reason": "", "changes": ()}]
    assert "clusterpolicy_schema" not in result(False, crd(name, new=STRING))


class FakeHelm:
    """A helm that renders nothing."""

    def __init__(self) -> None:
        self.options: dict = {}

    def render(self, path: str, options: dict) -> str:
        self.options = options
        return ""


class FakeServed(Served):
    version, api_versions = "v1.36.3", ["apps/v1", "apps/v1/Deployment"]


@pytest.mark.parametrize(("given", "version"), [(None, "v1.36.3"), ("v1.34.0", "v1.34.0")])
def test_the_chart_is_rendered_for_the_cluster(
    monkeypatch: pytest.MonkeyPatch, given: str | None, version: str
) -> None:
    """A chart with a GPUCluster refuses a cluster without Dynamic Resource Allocation."""
    monkeypatch.setattr(crds, "local_chart", lambda path: path)
    monkeypatch.setattr(crds, "Served", FakeServed)
    helm, values = FakeHelm(), {"gpuCluster": {"deployCR": True}}
    chosen = {**CHOSEN, "kube_version": given, "api_versions": ["x/v1"], "values": values}
    crds.apply_chart(helm, FakeCluster({}, {}), chosen)
    assert (helm.options["kube_version"], helm.options["values"]) == (version, values)
    assert helm.options["api_versions"] == ["apps/v1", "apps/v1/Deployment", "x/v1"]


CHOSEN = {
    "chart_path": "/c",
    "release_name": "r",
    "release_namespace": "n",
    "wait_timeout": 1,
    "kube_version": None,
    "api_versions": [],
}


NFD_CRD = "nodefeatures.nfd.k8s-sigs.io"


def test_crds_of_another_nfd_are_left_alone() -> None:
    cluster = FakeCluster({NFD_CRD: crd(NFD_CRD)}, {}, [nfd("elsewhere", "nfd"), nfd("gpu-operator", "gpu-operator")])
    outcome = apply_crds(cluster, {NFD_CRD: ""}, "gpu-operator", "gpu-operator", 1)
    assert outcome == [
        Applied(NFD_CRD, "skipped", wording("It belongs to the Node Feature Discovery of elsewhere/worker."))
    ]
    assert cluster.writes == []


@pytest.mark.parametrize("existing", [{}, {NFD_CRD: crd(NFD_CRD)}])
def test_our_own_nfd_gets_its_crds(existing: dict) -> None:
    workers = [nfd("gpu-operator", "gpu-operator")] if existing else [nfd("elsewhere", "nfd")]
    outcome = apply_crds(
        FakeCluster(existing, {NFD_CRD: crd(NFD_CRD)}, workers), {NFD_CRD: ""}, "gpu-operator", "gpu-operator", 1
    )
    assert outcome[0].result in ("created", "unchanged")


def pending(name: str) -> dict:
    item = crd(name)
    item["status"] = {}
    return item


def test_the_wait_lasts_until_the_api_server_serves_the_crds(monkeypatch: pytest.MonkeyPatch) -> None:
    existing: dict[str, dict] = {}
    cluster = FakeCluster(existing, {"a.nvidia.com": pending("a.nvidia.com")})
    monkeypatch.setattr(waiting.time, "sleep", lambda seconds: existing.update({"a.nvidia.com": crd("a.nvidia.com")}))
    assert apply_crds(cluster, {"a.nvidia.com": ""}, "r", "n", 5)[0].result == "created"
    assert "a.nvidia.com" in existing


class AwayCluster(FakeCluster):
    """An API server that is unreachable for the first reads after it has applied the CRDs."""

    def __init__(self, away: int) -> None:
        super().__init__({"a.nvidia.com": crd("a.nvidia.com")}, {"a.nvidia.com": pending("a.nvidia.com")})
        self.away = away

    def get(self, path: str) -> dict | None:
        if self.writes and self.away > 0:
            self.away -= 1
            raise GpuOpsError("Cannot reach the Kubernetes API.", reason="Unreachable")
        return super().get(path)


def test_the_wait_survives_a_restart_of_the_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "time", Clock())
    assert apply_crds(AwayCluster(away=2), {"a.nvidia.com": ""}, "r", "n", 60)[0].name == "a.nvidia.com"


def test_an_api_server_that_stays_unreachable_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "time", Clock())
    with pytest.raises(GpuOpsError) as error:
        apply_crds(AwayCluster(away=100), {"a.nvidia.com": ""}, "r", "n", 600)
    assert error.value.reason == "Unreachable"
    assert error.value.msg == wording("Cannot reach the Kubernetes API. Its last answer was 62 s ago.")


def test_a_crd_that_is_never_served_is_named() -> None:
    cluster = FakeCluster({}, {"a.nvidia.com": pending("a.nvidia.com")})
    with pytest.raises(GpuOpsError) as e:
        apply_crds(cluster, {"a.nvidia.com": ""}, "r", "n", 0)
    assert e.value.reason == "TimedOut"
    assert e.value.msg == wording(
        "The API server does not serve these CRDs after 0 s: a.nvidia.com. Look at their conditions with kubectl describe crd. The usual cause is a name that another CRD uses."
    )


def test_check_mode_does_not_wait_for_crds_that_it_did_not_create() -> None:
    cluster = FakeCluster({}, {"a.nvidia.com": pending("a.nvidia.com")}, check_mode=True)
    assert apply_crds(cluster, {"a.nvidia.com": ""}, "r", "n", 0)[0].result == "created"


def test_summarize_names_only_the_topmost_new_fields() -> None:
    inner = {
        "type": "object",
        "properties": {"a": STRING, "b": {"type": "array", "items": {"type": "object", "properties": {"c": STRING}}}},
    }
    assert summarize(crd(), crd(block=inner, blocks=STRING)) == ["+ v1 spec.block", "+ v1 spec.blocks"]


def test_summarize_sees_changed_fields_versions_settings_and_labels() -> None:
    before = crd(mode={"type": "string", "enum": ["a"]}, map={"type": "object", "additionalProperties": STRING})
    after = copy.deepcopy(before)
    spec = after["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    spec["mode"]["enum"].append("b")
    spec["map"]["additionalProperties"] = {"type": "integer"}
    after["spec"]["scope"] = "Namespaced"
    after["spec"]["versions"][0]["served"] = False
    after["metadata"]["labels"] = {"app": "y"}
    assert summarize(before, after) == ["~ labels app", "~ v1", "~ v1 spec.mode", "~ v1 spec.map{}", "~ spec"]


def test_summarize_stops_after_twenty_lines() -> None:
    lines = summarize(crd(), crd(**{f"f{number:02}": STRING for number in range(30)}))
    assert len(lines) == 20 and lines[-1] == "and 11 more"


def test_only_the_condition_established_counts() -> None:
    assert established(crd())
    assert not established({})
    assert not established({"status": {"conditions": [{"type": "Established", "status": "False"}]}})
