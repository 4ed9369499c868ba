# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import port_forward
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import exporters
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect.reader import GapReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import FakeApi
from tests.unit.fakes.stack import NAMESPACE

NODES = [{"metadata": {"name": f"gpu-{number}", "labels": {"nvidia.com/gpu.count": "1"}}} for number in range(4)]
METRICS = b'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-aaa"} 31\n'


def asked(api: FakeApi, monkeypatch: pytest.MonkeyPatch, *answers: bytes | GpuOpsError) -> tuple[list[Json], list[str]]:
    """Return what the exporters of as many nodes serve, and the gaps. One more exporter is not ready."""
    api.table = [
        [f"exporter-{number}", "1/1", "Running", "0", "1d", "", f"gpu-{number}"] for number in range(len(answers))
    ]
    api.table.append(["exporter-9", "0/1", "CrashLoopBackOff", "9", "1d", "", "gpu-9"])

    def get(cluster: t.Any, namespace: str, pod: str, *dummy: t.Any) -> tuple[int, bytes]:
        answer = answers[int(pod.rpartition("-")[2])]
        if isinstance(answer, GpuOpsError):
            raise answer
        return 200, answer

    monkeypatch.setattr(port_forward, "get", get)
    reader = GapReader(api.connection)
    return exporters.ask(reader, NAMESPACE, NODES), [gap.why for gap in reader.gaps]


def test_only_exporters_that_are_ready_are_asked(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = GpuOpsError("Port 9400 of pod exporter-2 does not answer.", reason="PortForwardFailed")
    found, gaps = asked(api, monkeypatch, METRICS, b"go_goroutines 1\n", silent)
    assert gaps == []
    assert [(row["node"], row["ok"], row["gpus"], row["metrics"]) for row in found] == [
        ("gpu-0", True, 1, 1),
        ("gpu-1", False, 0, 0),
        ("gpu-2", False, 0, 0),
    ]
    assert found[2]["reason"] == silent.msg and found[2]["expected_gpus"] == 1


def test_a_user_who_may_not_ask_has_one_gap_and_no_silent_exporter(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = GpuOpsError("No permission to forward ports of pods in gpu-operator.", reason="Forbidden")
    found, gaps = asked(api, monkeypatch, refused, refused)
    assert (
        found == [] and len(gaps) == 1 and gaps[0] == wording("No permission to forward ports of pods in gpu-operator.")
    )
