# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules import operator_crds
from inline_snapshot import snapshot as wording

from tests.unit.fakes.upgrades.chart import write_chart


class FakeCluster:
    """An API server that keeps the CRDs it is given."""

    stored: t.ClassVar[dict[str, dict]] = {}
    errors: t.ClassVar[list[GpuOpsError]] = []

    def __init__(self, options: t.Mapping[str, t.Any], check_mode: bool) -> None:
        self.check_mode = check_mode
        for error in self.errors:
            raise error

    def get(self, path: str) -> dict | None:
        return self.stored.get(path.rsplit("/", 1)[-1])

    def ask(self, method: str, path: str, **how: str) -> dict:
        return {"/version": {"gitVersion": "v1.36.3"}}.get(path, {"kind": "APIGroupDiscoveryList", "items": []})

    def list(self, path: str) -> list[dict]:
        return []

    def apply(self, path: str, body: str, force: bool) -> dict:
        item = {**yaml_load(body), "status": {"conditions": [{"type": "Established", "status": "True"}]}}
        if not self.check_mode:
            self.stored[path.rsplit("/", 1)[-1]] = item
        return item


@pytest.fixture
def apply(run_module: t.Callable, helm_binary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable:
    monkeypatch.setattr(operator_crds, "Cluster", FakeCluster)
    monkeypatch.setattr(FakeCluster, "stored", {})
    return functools.partial(
        run_module, "operator_crds", binary_path=helm_binary, chart_path=str(write_chart(tmp_path))
    )


def test_check_mode_predicts_the_run_and_the_second_run_changes_nothing(apply: t.Callable) -> None:
    predicted = apply(_ansible_check_mode=True)
    done = apply()
    assert predicted.result["changed"] is done.result["changed"] is True
    assert predicted.result["crds"] == done.result["crds"] and predicted.result["diff"] == done.result["diff"]
    assert [(crd["name"], crd["result"]) for crd in done.result["crds"]] == [
        ("clusterpolicies.nvidia.com", "created"),
        ("nodefeatures.nfd.k8s-sigs.io", "created"),
    ]
    assert (
        done.result["diff"]["after"] == "clusterpolicies.nvidia.com (created)\nnodefeatures.nfd.k8s-sigs.io (created)\n"
    )
    for run in (apply(_ansible_check_mode=True), apply()):
        assert run.result["changed"] is False and run.result["diff"] == {"before": "", "after": ""}


def test_the_diff_names_what_changes(apply: t.Callable) -> None:
    apply()
    FakeCluster.stored["clusterpolicies.nvidia.com"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"][
        "properties"
    ] = {"old": {"type": "string"}}
    assert apply().result["diff"]["after"] == "clusterpolicies.nvidia.com (updated)\n  - v1 old\n"


def test_values_decide_which_crds_there_are(apply: t.Callable) -> None:
    assert [crd["name"] for crd in apply(values={"nfd": {"enabled": False}}).result["crds"]] == [
        "clusterpolicies.nvidia.com"
    ]


def test_errors_are_sentences(apply: t.Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = apply(chart_path="/nowhere/chart")
    assert gone.rc == 1 and gone.result["msg"] == wording(
        "There is no chart at /nowhere/chart. Give the path of a chart's folder or .tgz archive."
    )
    monkeypatch.setattr(FakeCluster, "errors", [GpuOpsError("Cannot reach the Kubernetes API.", reason="Unreachable")])
    unreachable = apply()
    assert (unreachable.rc, unreachable.result["msg"], unreachable.result["reason"]) == (
        1,
        wording("Cannot reach the Kubernetes API."),
        "Unreachable",
    )
