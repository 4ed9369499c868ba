# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the fleet's page gets of the use of the GPUs. Tests of gpu_metrics_info read it from exporters and a Prometheus."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import GpuPod
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import usage
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

Json = dict[str, t.Any]
OPTIONS = {"usage": True, "prometheus": None, "idle_below": 2.0, "price_per_gpu_hour": 3.0, "allocated": False}
POD = {"namespace": "team", "name": "train-0", "node": "gpu-0000", "gpus": {"nvidia.com/gpu": 1}}


def gpu(node: str, now: float | None, mean: float | None = None) -> Json:
    return {"node": node, "utilisation": now, "mean_utilisation": mean}


def answer(**changes: t.Any) -> Json:
    lists = ("gpus", "nodes", "unnamed_pods", "warnings", "namespaces", "idle_holders")
    empty: Json = {name: [] for name in lists}
    return {**empty, "source": "exporters", "time_range": None, "summary": {}, "unknown": [], **changes}


class Asked(list[tuple[Json, list[GpuPod]]]):
    """What the core of gpu_metrics_info was asked for."""


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., Asked]:
    def prepare(result: Json | GpuOpsError) -> Asked:
        asked = Asked()

        def info(cluster: t.Any, options: Json, holders: list[GpuPod]) -> Json:
            asked.append((options, holders))
            if isinstance(result, GpuOpsError):
                raise result
            return result

        monkeypatch.setattr(usage, "Cluster", lambda options: None)
        monkeypatch.setattr(usage, "metrics_info", info)
        return asked

    return prepare


@pytest.mark.parametrize(
    ("given", "wanted"), [({}, False), ({"usage": True}, True), ({"prometheus": {"url": "https://p"}}, True)]
)
def test_a_prometheus_is_a_wish_to_use_it(given: Json, wanted: bool) -> None:
    assert usage.is_wanted({"usage": False, "prometheus": None, **given}) is wanted


def test_the_core_gets_the_options_and_the_pods_that_were_listed(core: t.Callable[..., Asked]) -> None:
    asked = core(answer())
    usage.usage(OPTIONS, "gpus", [POD])
    ((options, holders),) = asked
    assert (options["namespace"], options["allocated"], options["port"]) == ("gpus", False, 9400)
    assert (options["idle_below"], options["price_per_gpu_hour"]) == (2.0, 3.0)
    assert holders == [GpuPod("team", "train-0", "gpu-0000", {"nvidia.com/gpu": 1})]


def test_each_node_has_the_mean_of_its_gpus(core: t.Callable[..., Asked]) -> None:
    core(answer(gpus=[gpu("b", 10.0), gpu("b", 21.0), gpu("a", 5.0, 80.0), gpu("a", None), gpu("c", None)]))
    found, gaps = usage.usage(OPTIONS, "gpu-operator", [])
    assert found and found["nodes"] == {"a": 80.0, "b": 15.5} and gaps == []


def test_what_cannot_be_read_is_a_gap(core: t.Callable[..., Asked]) -> None:
    core(GpuOpsError("Prometheus does not answer.", reason="Prometheus"))
    found, (gap,) = usage.usage(OPTIONS, "gpu-operator", [])
    assert found is None and (gap.what, gap.why) == (usage.WHAT, "Prometheus does not answer.")


def test_what_is_missing_is_a_gap(core: t.Callable[..., Asked]) -> None:
    away = [{"node": f"gpu-000{number}", "ok": number > 2, "reason": "It does not answer."} for number in range(5)]
    core(answer(nodes=away, unnamed_pods=[POD], warnings=["Prometheus warns: partial."]))
    dummy, gaps = usage.usage(OPTIONS, "gpu-operator", [])
    assert [gap.what for gap in gaps] == wording(
        [
            "how much the GPUs are used on gpu-0000 to gpu-0002",
            "how much the GPUs are used by 1 pod",
            "how much the GPUs are used",
        ]
    )
    assert [gap.why for gap in gaps][::2] == ["It does not answer.", "Prometheus warns: partial."]
