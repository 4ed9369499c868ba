# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import smoke_test
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules import gpu_smoke_test
from inline_snapshot import snapshot as wording


class FakeCluster:
    """Two GPU nodes; the pod on ``gpu-1`` ends with the given exit code."""

    exit_code = 0
    interrupted = False

    def __init__(self, options: t.Mapping[str, t.Any], check_mode: bool) -> None:
        self.check_mode = check_mode
        self.pods: dict[str, dict] = {}

    def now(self) -> float:
        return 1_800_000_000.0

    def list(self, path: str, **query: str) -> list[dict]:
        return list(self.pods.values()) if path.endswith("/pods") else []

    def large_list(self, path: str, keep: t.Callable[[dict], dict]) -> tuple[list[dict], str]:
        status = {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}
        labels = {"nvidia.com/gpu.present": "true"}
        nodes = [
            {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status} for name in ("gpu-1", "gpu-0")
        ]
        return list(map(keep, nodes)), "7"

    def get(self, path: str, query: dict | None = None) -> dict | None:
        if path.startswith("/apis/resource.k8s.io/"):
            return None
        return {"items": list(self.pods.values())}

    def create(self, path: str, body: dict) -> dict:
        if self.interrupted:
            raise KeyboardInterrupt
        if path.endswith("/priorityclasses"):
            return body
        node = body["metadata"]["annotations"]["gpuops.nvidia/node"]
        code = self.exit_code if node == "gpu-1" else 0
        state = {"terminated": {"exitCode": code, "reason": "Error"}}
        status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [{"state": state}]}
        self.pods[node] = {**body, "metadata": {**body["metadata"], "name": node}, "status": status}
        return self.pods[node]

    def text(self, path: str, query: dict) -> str:
        assert query == {"tailLines": 20, "limitBytes": 65536}
        return f"log of {path.split('/')[-2]}\n"

    def delete(self, path: str) -> bool:
        return self.pods.pop(path.rsplit("/", 1)[-1], None) is not None


@pytest.fixture
def test(run_module: t.Callable, monkeypatch: pytest.MonkeyPatch) -> t.Callable:
    monkeypatch.setattr(gpu_smoke_test, "Cluster", FakeCluster)
    monkeypatch.setattr(smoke_test, "WORKLOAD_POLL_S", 0.001)
    return functools.partial(run_module, "gpu_smoke_test")


def test_a_pass(test: t.Callable) -> None:
    run = test()
    assert run.rc == 0 and run.result["changed"] is False and run.result["passed"] is True and run.warnings == []
    assert run.result["summary"] == {"nodes": 2, "passed": 2, "failed": 0, "skipped": 0}
    first = run.result["results"][0]
    assert (first["node"], first["passed"], first["log"], first["exit_code"]) == ("gpu-0", True, "log of gpu-0\n", 0)


def test_a_failure_fails_the_task_and_returns_everything(test: t.Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeCluster, "exit_code", 7)
    run = test()
    assert run.rc == 1 and run.result["passed"] is False
    assert run.result["msg"] == wording(
        "1 of 2 nodes passed the GPU smoke test. gpu-1: The workload ended with status 7: log of gpu-1."
    )
    assert [row["passed"] for row in run.result["results"]] == [True, False]


def test_a_failure_may_be_left_to_the_caller(test: t.Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeCluster, "exit_code", 7)
    run = test(require_pass=False)
    assert run.rc == 0 and run.result["passed"] is False and run.result["changed"] is False


def test_check_mode_names_the_nodes_and_creates_nothing(test: t.Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeCluster, "interrupted", True)
    run = test(_ansible_check_mode=True)
    assert (
        run.rc == 0
        and run.result["nodes"] == ["gpu-0", "gpu-1"]
        and run.result["results"] == []
        and "passed" not in run.result
    )


def test_an_interruption_is_one_sentence(test: t.Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeCluster, "interrupted", True)
    run = test()
    assert run.rc == 1 and run.result["reason"] == "Interrupted" and "interrupted" in run.result["msg"]


@pytest.mark.parametrize("option", ["count", "parallel", "timeout", "log_lines"])
def test_numbers_must_be_at_least_one(test: t.Callable, option: str) -> None:
    run = test(**{option: 0})
    assert run.rc == 1 and run.result["msg"] == f"{option} is 0: give 1 or more."


def test_a_minimum_that_makes_no_sense_is_refused_before_anything_runs(
    test: t.Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeCluster, "interrupted", True)
    run = test(min_tested="most")
    assert run.rc == 1 and run.result["msg"].startswith("min_tested is 'most'.")


def test_nodes_and_selector_exclude_each_other(test: t.Callable) -> None:
    run = test(nodes=["a"], node_selector="b=c")
    assert run.rc == 1 and "mutually exclusive" in run.result["msg"]


def test_an_error_is_one_sentence(test: t.Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> t.NoReturn:
        raise GpuOpsError("The Kubernetes API refused the credentials.", reason="Unauthorized")

    monkeypatch.setattr(FakeCluster, "__init__", fail)
    run = test()
    assert (run.rc, run.result["reason"], run.result["msg"]) == (
        1,
        "Unauthorized",
        "The Kubernetes API refused the credentials.",
    )
