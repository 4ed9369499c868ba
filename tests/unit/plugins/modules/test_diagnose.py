# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

import pytest
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import NODES, FakeApi, refusal

Run = t.Callable[..., t.Any]


@pytest.fixture
def module(api: FakeApi, run_module: Run) -> Run:
    for item in api.lists["/apis/apps/v1/namespaces/gpu-operator/deployments"]:
        item["metadata"]["namespace"] = "gpu-operator"
        item["spec"]["template"]["spec"] = {"containers": []}
    return lambda **options: run_module("diagnose", **{**api.connection, **options})


def test_the_result_names_causes_gaps_and_totals(api: FakeApi, module: Run) -> None:
    result = module(hosts={"gpu-0000": {"facts": {"nouveau": {"loaded": True}}}}).result
    assert result["changed"] is False
    assert "NouveauHoldsGPU" in [each["code"] for each in result["findings"]]
    assert result["gaps"][-1]["what"] == "the hosts of gpu-0001"
    assert (result["summary"]["nodes"], result["summary"]["verdict"]) == (2, "ready")
    assert result["text"].splitlines()[0].startswith("1. FAILURE")
    assert result["changes"] is None


def test_a_kind_that_is_forbidden_does_not_fail_the_module(api: FakeApi, module: Run) -> None:
    api.answer = lambda method, path: refusal(403, "nodes is forbidden") if path == NODES else None
    run = module()
    assert run.rc == 0
    assert run.result["summary"]["verdict"] == "unknown"
    assert "nodes is forbidden" in run.result["text"]


def test_no_control_character_of_a_cluster_reaches_the_terminal(api: FakeApi, module: Run) -> None:
    api.lists[NODES][0]["spec"] = {"unschedulable": True, "taints": [{"key": "a\x1b[31m", "effect": "NoExecute"}]}
    assert "\x1b" not in module().result["text"]


def test_check_mode_writes_no_bundle(module: Run, tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    module(bundle_path=str(path), _ansible_check_mode=True)
    assert not path.exists()
    assert module(bundle_path=str(path)).result["bundle"] == str(path)
    assert path.exists()


def test_a_bundle_is_examined_in_place_of_the_cluster(module: Run, run_module: Run, tmp_path: Path) -> None:
    """The API at this address does not answer, and nobody asks it."""
    path, hosts = tmp_path / "bundle.tar.gz", {"gpu-0000": {"facts": {"nouveau": {"loaded": True}}}}
    live = module(bundle_path=str(path), hosts=hosts).result
    again = run_module(
        "diagnose", host="http://127.0.0.1:1", api_key="x", evidence_path=str(path), last=live["findings"]
    ).result
    assert live["findings"] and again["findings"] == live["findings"]
    assert (again["taken"], again["changes"]["known"], again["changes"]["new"]) == (
        live["taken"],
        len(live["findings"]),
        [],
    )
    subprocess.run(["tar", "-xzf", path.name], cwd=tmp_path, check=True)
    assert module(evidence_path=str(tmp_path / "gpuops-bundle")).result["findings"] == live["findings"]


def test_what_is_no_bundle_is_refused(module: Run, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("the fan is loud")
    run = module(evidence_path=str(path))
    assert run.rc == 1
    assert run.result["msg"].replace(str(tmp_path), "TMP") == wording(
        "TMP/notes.txt is no bundle of evidence. Give the archive that diagnose has written (bundle_path), or read other texts with playbooks/explain.yml."
    )


def test_a_cluster_that_does_not_answer_fails(run_module: Run) -> None:
    run = run_module("diagnose", host="http://127.0.0.1:1", api_key="x")
    assert run.rc == 1
    assert run.result["msg"] == wording(
        "Cannot reach the Kubernetes API: HTTPConnection(host='127.0.0.1', port=1): Failed to establish a new connection: [Errno 111] Connection refused. Check that the API server runs and that the kubeconfig's server address and certificate authority are right."
    )


def test_an_option_out_of_range_fails(module: Run) -> None:
    run = module(max_pods=0)
    assert run.rc == 1
    assert "max_pods" in run.result["msg"]
