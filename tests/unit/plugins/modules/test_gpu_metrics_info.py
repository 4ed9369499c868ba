# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import port_forward
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import ALL_PODS, NODES, FakeApi, refusal
from tests.unit.fakes.prometheus import NOW, FakePrometheus, failed, serving
from tests.unit.fakes.stack import workload

Run = t.Callable[..., t.Any]
MODEL = "NVIDIA H100 80GB HBM3"
VALUES = {
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.005,
    "DCGM_FI_DEV_GPU_UTIL": 100,
    "DCGM_FI_DEV_FB_USED": 512,
    "DCGM_FI_DEV_FB_FREE": 80000,
    "DCGM_FI_DEV_FB_RESERVED": 1047,
    "DCGM_FI_DEV_POWER_USAGE": 72.5,
    "DCGM_FI_DEV_GPU_TEMP": 34,
    "DCGM_FI_DEV_XID_ERRORS": 0,
}


def metrics(pods: t.Mapping[int, str]) -> str:
    """Return the answer of an exporter with eight GPUs, of which some have a pod of the namespace default."""
    lines = []
    for name, value in VALUES.items():
        lines += [f"# HELP {name} A text.", f"# TYPE {name} gauge"]
        for gpu in range(8):
            pod = f',container="main",namespace="default",pod="{pods[gpu]}"' if gpu in pods else ""
            labels = f'gpu="{gpu}",UUID="GPU-{gpu}",device="nvidia{gpu}",modelName="{MODEL}",hostname="x"{pod}'
            lines.append(f"{name}{{{labels}}} {value}")
    return "\n".join([*lines, ""])


@pytest.fixture
def answers(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> dict[str, str | GpuOpsError]:
    """What the exporter of each node answers, or how it fails."""
    api.table = [[f"exporter-{n}", "1/1", "Running", "0", "1d", "10.0.0.1", f"gpu-000{n}"] for n in range(2)]
    found: dict[str, str | GpuOpsError] = {"exporter-0": metrics({0: "train"}), "exporter-1": metrics({})}

    def get(cluster: object, namespace: str, pod: str, port: int, path: str, timeout_s: float) -> tuple[int, bytes]:
        assert (namespace, port, path, timeout_s) == ("gpu-operator", 9400, "/metrics", 15)
        answer = found[pod]
        if isinstance(answer, GpuOpsError):
            raise answer
        return 200, answer.encode()

    monkeypatch.setattr(port_forward, "get", get)
    return found


@pytest.fixture
def module(api: FakeApi, run_module: Run) -> Run:
    return lambda **options: run_module("gpu_metrics_info", **{**api.connection, **options})


@pytest.fixture
def prometheus() -> t.Iterator[FakePrometheus]:
    with serving() as server:
        yield server


def test_the_exporters_tell_what_the_gpus_do(api: FakeApi, answers: dict[str, str | GpuOpsError], module: Run) -> None:
    api.lists[ALL_PODS] = [workload("train"), workload("hidden", 1)]
    run = module(_ansible_check_mode=True, price_per_gpu_hour=3)
    assert run.rc == 0 and run.warnings == [] and run.result["changed"] is False
    result = run.result
    assert result["gpus"][0] == {
        "node": "gpu-0000",
        "gpu": 0,
        "uuid": "GPU-0",
        "mig_profile": None,
        "mig_instance": None,
        "model": MODEL,
        "pods": [{"namespace": "default", "pod": "train", "container": "main"}],
        "jobs": [],
        "utilisation": 0.5,
        "utilisation_from": "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "memory_used_mib": 512,
        "memory_total_mib": 81559,
        "power_w": 72.5,
        "temperature_c": 34.0,
        "last_xid": 0,
        "throttling": None,
        "throttling_from": None,
        "mean_utilisation": None,
        "highest_utilisation": None,
        "held_hours": None,
        "idle": True,
    }
    assert {(row["node"], str(row["pods"])) for row in result["gpus"][1:]} == {("gpu-0000", "[]"), ("gpu-0001", "None")}
    assert [row["name"] for row in result["unnamed_pods"]] == ["hidden"]
    assert result["namespaces"] == [
        {
            "namespace": "default",
            "gpus": 1,
            "mig_instances": 0,
            "idle": 1,
            "mean_utilisation": 0.5,
            "idle_cost": None,
            "unnamed_pods": 1,
        }
    ]
    assert [row["cost_per_hour"] for row in result["idle_holders"]] == [3.0]
    assert [(row["field"], row["gpus"]) for row in result["unknown"]] == [("throttling", 16), ("pods", 8)]
    assert [row["ok"] for row in result["nodes"]] == [True, True]
    assert result["summary"] == {
        "nodes": 2,
        "nodes_without_metrics": 0,
        "gpus": 16,
        "mig_instances": 0,
        "held": 1,
        "free": 7,
        "idle": 1,
        "mean_utilisation": 0.5,
        "power_w": 1160.0,
        "memory_used_mib": 8192,
        "memory_total_mib": 1304944,
        "throttled": None,
        "with_xid": 0,
        "idle_cost": None,
    }


def test_a_silent_exporter_is_a_row(answers: dict[str, str | GpuOpsError], module: Run) -> None:
    answers["exporter-1"] = GpuOpsError("Port 9400 of pod exporter-1 does not answer.", reason="PortForwardFailed")
    result = module(allocated=False).result
    assert [(row["node"], row["ok"]) for row in result["nodes"]] == [("gpu-0000", True), ("gpu-0001", False)]
    assert result["nodes"][1]["reason"].startswith("Port 9400") and len(result["gpus"]) == 8
    assert result["summary"]["nodes_without_metrics"] == 1


def test_the_pods_need_no_permission_if_they_are_not_asked_for(
    api: FakeApi, answers: dict[str, str | GpuOpsError], module: Run
) -> None:
    api.answer = lambda method, path: refusal(403, "no") if path == ALL_PODS else None
    run = module()
    assert run.rc == 1 and run.result["reason"] == "Forbidden"
    assert module(allocated=False).rc == 0


def test_a_prometheus_is_asked_in_place_of_the_exporters(api: FakeApi, module: Run, prometheus: FakePrometheus) -> None:
    api.lists[NODES] = api.lists[NODES][:1]
    labels = {"gpu": "0", "UUID": "GPU-0", "Hostname": "gpu-0000", "namespace": "ml", "pod": "train-0"}
    prometheus.now = [({"__name__": "DCGM_FI_DEV_GPU_UTIL", **labels}, 0.0)]
    prometheus.highest = [(labels, dict.fromkeys(range(NOW - 86_400 + 1440, NOW + 1, 1440), 0.0))]
    prometheus.warnings = ["partial"]
    run = module(
        price_per_gpu_hour=2.5,
        prometheus={"url": prometheus.url, "token": "token-of-a-test", "match": {"cluster": "a"}},
    )
    assert [(row["hours"], row["cost"]) for row in run.result["idle_holders"]] == [(24.0, 60.0)]
    assert run.result["time_range"]["step_s"] == 1440 and len(run.warnings) == 1
    assert {headers["authorization"] for dummy, asked, headers in prometheus.log} == {"Bearer token-of-a-test"}
    assert "token-of-a-test" not in str(run)


def test_a_secret_of_a_prometheus_is_nowhere(module: Run, prometheus: FakePrometheus) -> None:
    prometheus.answer = lambda kind, asked: failed(403, "no access for hunter2-and-more")
    login = {"username": "me", "password": "hunter2-and-more", "secret_headers": {"X-Key": "secret-of-a-header"}}
    run = module(prometheus={"url": prometheus.url, **login})
    assert (run.rc, run.result["reason"], run.result["status"]) == (1, "Forbidden", 403)
    assert "hunter2" not in str(run) and "secret-of-a-header" not in str(run)
    # Options that give a secret away in the wrong place do not show it either.
    for wrong in (
        {"url": "http://me:hunter2-and-more@host"},
        {"headers": {"Authorization": "Bearer hunter2-and-more"}},
    ):
        run = module(prometheus={"url": prometheus.url, **wrong})
        assert run.rc == 1 and run.result["reason"] == "Invalid" and "hunter2" not in str(run)


def test_a_login_is_a_token_or_a_name_with_a_password(module: Run) -> None:
    address = {"url": "http://localhost"}
    assert module(prometheus={**address, "token": "a", "username": "b", "password": "c"}).rc == 1
    assert module(prometheus={**address, "username": "b"}).rc == 1
    assert module(prometheus={}).rc == 1


def test_bad_options_are_refused_before_anything_is_asked(api: FakeApi, module: Run) -> None:
    assert module(prometheus={"url": "prometheus"}).result["msg"] == wording(
        "prometheus.url is no address: give one such as https://prometheus.example.com:9090."
    )
    assert module(idle_below=101).result["msg"] == wording("idle_below is 101.0: give a percentage from 0 to 100.")
    assert module(price_per_gpu_hour="nan").result["msg"] == wording(
        "price_per_gpu_hour is nan: give a number that is not negative."
    )
    assert module(parallel=0).result["reason"] == "Invalid"
    assert api.log == []
