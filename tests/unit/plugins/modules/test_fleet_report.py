# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the module fleet_report passes to the controller."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import usage
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import FakeApi

Run = t.Callable[..., t.Any]


@pytest.fixture
def module(api: FakeApi, run_module: Run) -> Run:
    for item in api.lists["/apis/apps/v1/namespaces/gpu-operator/deployments"]:
        item["metadata"]["namespace"] = "gpu-operator"
        item["spec"]["template"]["spec"] = {"containers": []}
    return lambda **options: run_module("fleet_report", **{"path": "fleet.html", **api.connection, **options})


def test_the_picture_has_the_stack_its_findings_and_the_firmware_of_hosts(module: Run) -> None:
    gpu = {"vbios": "96.00.74.00.01", "inforom": None, "gsp": None, "mig": None, "serial": "1650124014249"}
    picture = module(hosts={"gpu-0000": {"facts": {"gpus": [gpu], "nouveau": {"loaded": True}}}}).result["picture"]
    assert [row["name"] for row in picture["stack"]["nodes"]] == ["gpu-0000", "gpu-0001"]
    assert picture["hosts"]["gpu-0000"] == {"gpus": [{k: gpu[k] for k in ("vbios", "inforom", "gsp", "mig")}]}
    assert "NouveauHoldsGPU" in [each["code"] for each in picture["findings"]]
    assert picture["gaps"]
    assert picture["took_s"] >= 0


def test_pods_that_hold_gpus_are_named(api: FakeApi, module: Run) -> None:
    api.lists["/api/v1/pods"] = [
        {
            "metadata": {"namespace": "team", "name": "train-0"},
            "spec": {"nodeName": "gpu-0000", "containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
            "status": {"phase": "Running"},
        }
    ]
    (pod,) = module().result["picture"]["pods"]
    assert {key: pod[key] for key in ("namespace", "name", "node")} == {
        "namespace": "team", "name": "train-0", "node": "gpu-0000"
    }  # fmt: skip
    assert pod["gpus"] == {"nvidia.com/gpu": 2}
    uncounted = module(allocated=False).result["picture"]
    assert uncounted["pods"] == []
    assert uncounted["stack"]["nodes"][0]["slices"][0]["allocated"] is None


def test_a_cluster_that_does_not_answer_fails(run_module: Run) -> None:
    run = run_module("fleet_report", path="fleet.html", host="http://127.0.0.1:1", api_key="x")
    assert run.rc == 1
    assert run.result["msg"] == wording(
        "Cannot reach the Kubernetes API: HTTPConnection(host='127.0.0.1', port=1): Failed to establish a new connection: [Errno 111] Connection refused. Check that the API server runs and that the kubeconfig's server address and certificate authority are right."
    )


def test_without_exporters_the_use_of_the_gpus_is_a_gap(module: Run) -> None:
    assert module().result["picture"]["usage"] is None
    picture = module(usage=True).result["picture"]
    assert picture["usage"]["summary"]["gpus"] == 0 and picture["usage"]["nodes"] == {}
    assert f"{usage.WHAT} on gpu-0000, gpu-0001" in [gap["what"] for gap in picture["gaps"]]


def test_a_prometheus_that_does_not_answer_is_a_gap_without_its_secrets(module: Run) -> None:
    server = {"url": "http://127.0.0.1:1", "token": "hunter22"}
    run = module(prometheus=server)
    assert run.rc == 0 and run.result["picture"]["usage"] is None
    (gap,) = (gap for gap in run.result["picture"]["gaps"] if gap["what"] == usage.WHAT)
    assert "Prometheus" in gap["why"] and "hunter22" not in str(run.result)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"prometheus": {"url": "prometheus"}}, "prometheus.url is no address"),
        ({"price_per_gpu_hour": -1}, "price_per_gpu_hour is -1"),
        ({"idle_below": 101}, "idle_below is 101"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_read(module: Run, option: dict[str, t.Any], said: str) -> None:
    run = module(host="http://127.0.0.1:1", **option)
    assert run.rc == 1 and said in run.result["msg"]
