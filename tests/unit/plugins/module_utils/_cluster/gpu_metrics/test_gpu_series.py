# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils import _exposition
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_series import (
    GpuHolder,
    GpuKey,
    GpuSeries,
    of_exporter,
    of_prometheus,
)

PUBLISHED = Path(__file__).parents[4] / "fixtures" / "exporters"
TRAIN = GpuHolder("ml", "train-0", "main")


def is_exporters(holder: GpuHolder) -> bool:
    return holder.namespace == "gpu-operator"


def exporter(labels: str, metric: str = "X") -> GpuSeries | None:
    return of_exporter("n", _exposition.read(f"{metric}{{{labels}}} 5\n").samples[0])


def prometheus(labels: str) -> GpuSeries | None:
    return of_prometheus("n", _exposition.read(f"X{{{labels}}} 5\n").samples[0], is_exporters)


def published(name: str) -> list[GpuSeries]:
    read = _exposition.read((PUBLISHED / f"{name}.prom").read_text())
    assert read.unread == 0
    return [series for sample in read.samples if (series := of_exporter("n", sample))]


@pytest.mark.parametrize(
    ("labels", "key", "model", "profile"),
    [
        ('gpu="0",UUID="GPU-a",modelName="H100",hostname="x"', GpuKey("n", "0", "GPU-a"), "H100", ""),
        ('gpu="1",uuid="GPU-b"', GpuKey("n", "1", "GPU-b"), "", ""),
        ('gpu="0",UUID="GPU-a",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"', GpuKey("n", "0", "GPU-a", "7"), "", "1g.10gb"),
        ('gpu="2"', GpuKey("n", "2", ""), "", ""),
        ('UUID="GPU-c"', GpuKey("n", "", "GPU-c"), "", ""),
    ],
)
def test_a_series_is_about_a_gpu_or_an_instance(labels: str, key: GpuKey, model: str, profile: str) -> None:
    series = exporter(labels)
    assert series == GpuSeries(key, "X", 5.0, None, True, model, profile)
    assert series.key.whole == key._replace(instance="")


@pytest.mark.parametrize("labels", ['nvswitch="0",hostname="x"', 'cpu="0"', "", 'gpu="",UUID=""'])
def test_a_series_about_something_else_is_left_out(labels: str) -> None:
    assert exporter(labels) is None and prometheus(labels) is None


def test_a_clock_event_is_a_part_of_its_series() -> None:
    series = exporter('gpu="0",UUID="a",clock_event="sw_thermal"')
    assert series is not None and series.event == "sw_thermal"


@pytest.mark.parametrize(
    ("labels", "holder"),
    [
        ('namespace="ml",pod="train-0",container="main"', TRAIN),
        ('pod_namespace="ml",pod_name="train-0",container_name="main"', TRAIN),
        ('namespace="ml",pod="train-0"', GpuHolder("ml", "train-0", "")),
        ('namespace="",pod="",container=""', None),
        ('namespace="ml",pod=""', None),
        ("", None),
        # Labels of a pod, which may have these names, tell nothing.
        ('namespace="ml",pod="train-0",container="main",exported_namespace="x",exported_pod="y"', TRAIN),
        ('namespace="ml",pod="train-0",container="main",pod_namespace="x",pod_name="y"', TRAIN),
    ],
)
def test_an_exporter_names_the_holder(labels: str, holder: GpuHolder | None) -> None:
    series = exporter(f'gpu="0",UUID="a",{labels}')
    assert series is not None and series.holder == holder and series.is_named


@pytest.mark.parametrize("label", ["namespace", "pod", "container"])
def test_a_label_of_a_pod_that_is_called_like_a_holder_makes_the_holder_unknown(label: str) -> None:
    series = exporter(f'gpu="0",UUID="a",{label}="injected",namespace="ml",pod="train-0",container="main"')
    assert series is not None and not series.is_named
    other = exporter('gpu="0",UUID="a",gpu="7",namespace="ml",pod="train-0",container="main"')
    assert other is not None and other.is_named and other.key.gpu == "0" and other.holder == TRAIN


@pytest.mark.parametrize(
    ("labels", "holder"),
    [
        # honorLabels: false
        (
            'namespace="gpu-operator",pod="e-1",container="e",exported_namespace="ml",exported_pod="train-0",'
            'exported_container="main"',
            TRAIN,
        ),
        ('namespace="gpu-operator",pod="e-1",container="e"', None),
        # honorLabels: true, and relabelings that drop the target's labels
        ('namespace="ml",pod="train-0",container="main"', TRAIN),
        ("", None),
        # the old names of labels
        ('namespace="gpu-operator",pod="e-1",pod_namespace="ml",pod_name="train-0",container_name="main"', TRAIN),
        # half a name is none
        ('namespace="gpu-operator",pod="e-1",exported_pod="train-0"', None),
    ],
)
def test_a_prometheus_names_the_holder_in_several_ways(labels: str, holder: GpuHolder | None) -> None:
    series = prometheus(f'gpu="0",UUID="a",{labels}')
    assert series is not None and series.holder == holder


def test_published_instances_of_mig() -> None:
    found = published("h100_mig")
    assert [(each.key.instance, each.profile) for each in found] == [(n, "1g.10gb") for n in "789"]
    assert [each.holder and each.holder.pod.partition("-")[0] for each in found] == ["text", None, "tts"]
    assert len({each.key for each in published("a30_mig")}) == 6


def test_published_gpus_without_a_pod() -> None:
    assert {each.holder for each in published("v100") + published("gpu_0")} == {None}


def test_published_series_of_a_prometheus() -> None:
    """The exporter's pod is in the label ``pod``, and two pods share the GPU."""
    samples = _exposition.read((PUBLISHED / "exported_pod.prom").read_text()).samples
    found = [of_prometheus("n", sample, lambda holder: holder.namespace == "monitoring") for sample in samples]
    assert {each and each.key for each in found} == {GpuKey("n", "0", "GPU-longgui")}
    assert [each and each.holder and each.holder.pod for each in found] == ["pod1", "pod2"]
