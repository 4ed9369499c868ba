# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import metrics
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.metrics import NodeMetrics
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules import dcgm_exporter_info
from inline_snapshot import snapshot as wording

GOOD = NodeMetrics("gpu-0", True, "", "p", 8, 8, ["DCGM_FI_DEV_GPU_TEMP"])


@pytest.fixture
def info(run_module: t.Callable, monkeypatch: pytest.MonkeyPatch) -> t.Callable:
    def run(answer: list[NodeMetrics] | GpuOpsError, **options: t.Any) -> t.Any:
        def ask_all(cluster: object, chosen: t.Mapping[str, t.Any]) -> list[NodeMetrics]:
            assert chosen["namespace"] == "gpu-operator" and chosen["port"] == 9400
            if isinstance(answer, GpuOpsError):
                raise answer
            return answer

        monkeypatch.setattr(dcgm_exporter_info, "Cluster", lambda options: None)
        monkeypatch.setattr(metrics, "ask_all", ask_all)
        return run_module("dcgm_exporter_info", **options)

    return run


def test_all_exporters_are_ok(info: t.Callable) -> None:
    run = info([GOOD], _ansible_check_mode=True)
    assert run.rc == 0 and run.result["ok"] is True and run.result["reason"] == "" and run.result["changed"] is False
    assert run.result["summary"] == {"nodes": 1, "ok": 1, "failed": 0, "gpus": 8}
    assert run.result["results"][0]["metrics"] == ["DCGM_FI_DEV_GPU_TEMP"]


def test_not_all_exporters_are_ok(info: t.Callable) -> None:
    run = info([GOOD, *(NodeMetrics(f"n{number}", reason="broken.") for number in range(6))])
    assert run.rc == 0 and run.result["ok"] is False
    assert run.result["reason"] == "n0: broken; n1: broken; n2: broken; n3: broken; n4: broken; and 1 more."


def test_no_exporter_at_all_is_not_ok(info: t.Callable) -> None:
    run = info([])
    assert run.result["ok"] is False and run.result["reason"] == wording(
        "No node runs a DCGM exporter, and no node is labelled to run one. Check dcgmExporter.enabled, namespace and label_selector."
    )


def test_errors_are_sentences(info: t.Callable) -> None:
    assert info(GpuOpsError("No permission: nodes.", reason="Forbidden")).result["msg"] == "No permission: nodes."


@pytest.mark.parametrize("option", ["parallel", "timeout", "port"])
def test_impossible_numbers_are_refused(info: t.Callable, option: str) -> None:
    assert info([], **{option: 0}).result["msg"] == f"{option} is 0: give 1 or more."
