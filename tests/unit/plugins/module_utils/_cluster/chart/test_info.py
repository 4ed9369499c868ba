# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.helm import ChartSource
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.info import chart_info
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.served import Served
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules.operator_chart_info import SPEC
from inline_snapshot import snapshot as wording

MANIFESTS = """---
kind: Role
metadata: {name: x, namespace: ns}
rules: [{verbs: [get]}]
---
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec: {driver: {repository: r, image: driver, version: "1"}}
"""


class FakeHelm:
    """A fake helm that finds one chart, and renders the same manifests for all values."""

    def __init__(self, path: Path, stays: bool = True) -> None:
        self.path = path
        self.stays = stays
        self.sources: list[ChartSource] = []

    def fetch(self, source: ChartSource, dest: str | None) -> tuple[str, bool]:
        self.sources.append(source)
        return str(self.path), self.stays

    def render(self, path: str, options: t.Mapping[str, t.Any]) -> str:
        assert path == str(self.path)
        return MANIFESTS


def options(**changes: t.Any) -> dict[str, t.Any]:
    return {name: option.get("default") for name, option in SPEC.options.items()} | {"chart_ref": "x"} | changes


def test_the_result_has_what_the_other_steps_need(folder: Path) -> None:
    result, warnings = chart_info(FakeHelm(folder), options(), None)
    assert result["chart"] == {
        "name": "gpu-operator",
        "version": "v26.7.0",
        "app_version": "v26.7.0",
        "kube_version": None,
    }
    assert result["chart_path"] == str(folder) and result["supports_deploy_cr"] is True
    assert result["roles"] == [{"kind": "Role", "name": "x", "namespace": "ns", "rules": [{"verbs": ["get"]}]}]
    assert result["clusterpolicy"]["metadata"]["name"] == "cluster-policy" and result["images"] == ["r/driver:1"]
    assert result["operator_image"] is None
    assert result["gpucluster"] is None and result["nvidiadrivers"] == result["crds"] == result["unknown_values"] == []
    assert warnings == []


def test_the_source_is_built_from_the_options(folder: Path) -> None:
    helm = FakeHelm(folder, stays=False)
    login = {"registry_username": "user", "registry_password": "x", "registry_ca_file": "/ca"}
    chosen = options(chart_repo_url="https://r", chart_version="1", registry_plain_http=True, **login)
    assert chart_info(helm, chosen, None)[0]["chart_path"] is None
    assert helm.sources == [ChartSource("x", "https://r", "1", "user", "x", "/ca", plain_http=True)]


def test_unknown_values_are_returned_with_a_warning(folder: Path) -> None:
    result, warnings = chart_info(FakeHelm(folder), options(values={"drivers": {}}), None)
    assert result["unknown_values"] == ["drivers"]
    assert warnings == [wording("The chart does not know the Helm value drivers. Did you mean driver?")]


class UsingHelm(FakeHelm):
    """A chart that uses driver.hpcJobMapping if it is on, through a helper that its templates do not show."""

    def render(self, path: str, options: t.Mapping[str, t.Any]) -> str:
        mapping = options["values"].get("driver", {}).get("hpcJobMapping") or {}
        if mapping.get("enabled") and "directory" not in mapping:
            raise GpuOpsError("It needs a directory.", reason="HelmFailed")
        return MANIFESTS + (f"\n---\n# {mapping}\n" if mapping.get("enabled") else "")


@pytest.mark.parametrize(
    ("mapping", "is_known"),
    [
        ({"enabled": True, "directory": "/run"}, True),
        ({"enabled": False, "directory": "/run"}, True),
        ({"enabled": False}, True),
        ({"size": 1}, False),
    ],
)
def test_a_value_that_changes_what_is_rendered_is_known(folder: Path, mapping: dict, is_known: bool) -> None:
    given = {"driver": {"hpcJobMapping": mapping}}
    result, warnings = chart_info(UsingHelm(folder), options(values=given), None)
    assert (result["unknown_values"], len(warnings)) == (([], 0) if is_known else (["driver.hpcJobMapping"], 1))


def test_a_value_that_cannot_work_is_named_although_it_is_rendered(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helm = FakeHelm(folder)
    monkeypatch.setattr(helm, "render", lambda path, options: f"{MANIFESTS}\n---\n# {options['values']}")
    given = {"driver": {"useOpenKernelModules": True}}
    assert chart_info(helm, options(values=given), None)[0]["unknown_values"] == ["driver.useOpenKernelModules"]


class FakeServed(Served):
    """A cluster that serves one kind."""

    version, api_versions = "v1.34.1", ["v1", "v1/Pod"]

    def __init__(self) -> None:
        pass


def test_the_chart_is_rendered_for_what_the_cluster_serves(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helm, seen = FakeHelm(folder), []
    monkeypatch.setattr(helm, "render", lambda path, options: seen.append(options) or MANIFESTS)
    chart_info(helm, options(api_versions=["x/v1"]), FakeServed())
    chart_info(helm, options(kube_version="1.30.0"), FakeServed())
    chart_info(helm, options(), None)
    assert [(each["kube_version"], each["api_versions"]) for each in seen] == [
        ("v1.34.1", ["v1", "v1/Pod", "x/v1"]),
        ("1.30.0", ["v1", "v1/Pod"]),
        (None, []),
    ]


def test_another_chart_is_refused(folder: Path) -> None:
    (folder / "Chart.yaml").write_text("name: other")
    with pytest.raises(GpuOpsError) as e:
        chart_info(FakeHelm(folder), options(), None)
    assert e.value.reason == "ChartNotFound"
    assert e.value.msg == wording("x is not a GPU Operator chart: it contains no ClusterPolicy CRD. Check chart_ref.")
