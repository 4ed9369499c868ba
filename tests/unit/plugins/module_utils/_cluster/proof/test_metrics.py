# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils import _exposition
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import exporter_answers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.exporter_answers import ExporterAnswer
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.metrics import (
    NodeMetrics,
    ask_all,
    judge,
    uuids,
)
from inline_snapshot import snapshot as wording

ANY: dict[str, t.Any] = {"expected": None, "wanted": []}

# As dcgm-exporter 4.6 writes it.
SAMPLE = """# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-aaa",pci_bus_id="00000000:1B:00.0",device="nvidia0",\
modelName="NVIDIA H100 80GB HBM3",Hostname="gpu-0000"} 1980
DCGM_FI_DEV_SM_CLOCK{gpu="1",UUID="GPU-bbb",pci_bus_id="00000000:43:00.0",device="nvidia1",\
modelName="NVIDIA H100 80GB HBM3",Hostname="gpu-0000"} 1980
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-aaa",device="nvidia0"} 31
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-aaa",device="nvidia0",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"} 31
DCGM_FI_DRIVER_VERSION{Hostname="gpu-0000"} 1
go_goroutines 12
"""


def test_jobs_are_listed_and_lines_that_prometheus_cannot_tell_apart_are_named() -> None:
    def of(*jobs: str) -> NodeMetrics:
        return judge("n", "p", 200, "".join(f'DCGM_X{{gpu="3",UUID="G",hpc_job="{job}"}} 1\n' for job in jobs), **ANY)

    assert (of("2", "1").jobs, of("2", "1").job_problem) == (["1", "2"], "")
    assert of("1", "").jobs == ["1"] and "empty line for GPU 3" in of("1", "").job_problem
    assert "twice for GPU 3" in of("1", "1").job_problem
    assert of("1", "").ok and of("1", "1").ok
    assert judge("n", "p", 200, SAMPLE, **ANY).jobs == []


def test_gpus_are_counted_and_not_samples() -> None:
    assert uuids(_exposition.read(SAMPLE).samples) == {"GPU-aaa", "GPU-bbb"}
    assert uuids(_exposition.read('X{uuid="GPU-old",gpu="0"} 1\nX{UUID="",gpu="1"} 1\n').samples) == {"GPU-old"}


@pytest.mark.parametrize(
    ("status", "text", "expected", "wanted", "reason"),
    [
        (200, SAMPLE, 2, ["DCGM_FI_DEV_GPU_TEMP"], ""),
        (200, SAMPLE, None, [], ""),
        (
            500,
            "",
            2,
            [],
            wording(
                "The exporter answered with HTTP status 500. If it reads files of jobs (dcgmExporter.hpcJobMapping), one has vanished in a scrape: write each beside its place and rename it, and empty it instead of deleting it. Otherwise look at its log."
            ),
        ),
        (503, SAMPLE, 2, [], wording("The exporter answered with HTTP status 503.")),
        (
            200,
            "go_goroutines 1",
            2,
            [],
            wording("The exporter reports no GPU. Look at its log; DCGM may not reach the driver."),
        ),
        (200, SAMPLE, 8, [], wording("The exporter reports 2 GPUs, but the node has 8.")),
        (
            200,
            SAMPLE,
            2,
            ["DCGM_X", "DCGM_Y"],
            wording("The exporter does not report DCGM_X, DCGM_Y. Check dcgmExporter.config."),
        ),
    ],
)
def test_judge(status: int, text: str, expected: int | None, wanted: list[str], reason: str) -> None:
    row = judge("a", "p", status, text, expected=expected, wanted=wanted)
    assert (row.ok, row.reason, row.pod) == (not reason, reason, "p")
    assert row.metrics == judge("a", "p", 200, text, expected=None, wanted=()).metrics


def test_metrics_of_others_and_odd_lines_are_passed_over() -> None:
    row = judge("a", "p", 200, f"{SAMPLE}DCGM_FI_DEV_GPU_TEMP{{ 1\n", expected=2, wanted=())
    assert row.metrics == ["DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DRIVER_VERSION"]


def test_every_answer_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        ExporterAnswer("good", 2, "p", 200, SAMPLE),
        ExporterAnswer("away", 8, "q", reason="No answer."),
        ExporterAnswer("gone", reason="Gone."),
    ]
    monkeypatch.setattr(exporter_answers, "read_fleet", lambda cluster, options: None)
    monkeypatch.setattr(
        exporter_answers, "ask_each", lambda cluster, options, fleet, read: [read(each) for each in answers]
    )
    rows = ask_all(None, {"metrics": ["DCGM_FI_DEV_GPU_TEMP"]})  # type: ignore[arg-type]
    assert rows[0].ok and rows[0].gpus == 2
    assert rows[1:] == [
        NodeMetrics("away", reason="No answer.", pod="q", expected_gpus=8),
        NodeMetrics("gone", reason="Gone."),
    ]
