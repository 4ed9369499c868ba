# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils import _exposition
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics import gpu_readings
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_readings import (
    CLOCK_EVENTS,
    CLOCK_REASONS,
    ENGINE_ACTIVE,
    FREE,
    GPU_UTIL,
    POWER,
    RESERVED,
    TEMPERATURE,
    TOTAL,
    UNKNOWN_FIELDS,
    USED,
    XID,
    GpuReading,
    readings,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_series import (
    GpuHolder,
    GpuKey,
    GpuSeries,
    of_exporter,
)

KEY = GpuKey("n", "0", "GPU-a")
INSTANCE = KEY._replace(instance="7")
TRAIN, SERVE = GpuHolder("ml", "train-0", "main"), GpuHolder("web", "serve-0", "main")
BLANKS = [2147483632, 140737488355328, 9223372036854775794]


def series(metric: str, value: float, key: GpuKey = KEY, **more: t.Any) -> GpuSeries:
    return GpuSeries(key, metric, value, **more)


def one(*found: GpuSeries) -> GpuReading:
    (reading,) = readings(found)
    return reading


def test_nothing_is_known_of_a_gpu_without_values() -> None:
    reading = one(series(POWER, math.nan))
    assert reading.pods == () and reading.unknown == list(UNKNOWN_FIELDS)
    assert (reading.utilisation_from, reading.throttling_from, reading.model, reading.profile) == (None,) * 4


def test_a_gpu_with_several_jobs_is_one_gpu() -> None:
    line = f'{POWER}{{gpu="0",UUID="GPU-a",hpc_job="%s"}} 70\n'
    found = [of_exporter("n", each) for each in _exposition.read(line % 4712 + line % 4711).samples]
    reading = one(*(each for each in found if each))
    assert reading.jobs == ("4711", "4712") and reading.power_w == 70
    assert one(series(POWER, 70)).jobs == ()


def test_everything_is_known_of_a_gpu_that_serves_all() -> None:
    values = {ENGINE_ACTIVE: 0.38106, GPU_UTIL: 100, USED: 512, FREE: 80000, RESERVED: 1047, POWER: 72.5}
    values |= {TEMPERATURE: 34, XID: 79, CLOCK_REASONS[0]: 1 | 4 | 32}
    found = [series(metric, value, model="H100", holder=TRAIN) for metric, value in values.items()]
    reading = one(*found)
    assert reading.unknown == []
    assert (reading.utilisation, reading.utilisation_from) == (38.11, ENGINE_ACTIVE)
    assert (reading.memory_used_mib, reading.memory_total_mib) == (512, 81559)
    assert (reading.power_w, reading.temperature_c, reading.last_xid) == (72.5, 34, 79)
    assert (reading.throttling, reading.throttling_from) == (("power_cap", "sw_thermal"), CLOCK_REASONS[0])
    assert (reading.model, reading.pods) == ("H100", (TRAIN,))


def test_zero_is_a_value() -> None:
    reading = one(*(series(metric, 0) for metric in (GPU_UTIL, USED, FREE, POWER, TEMPERATURE, XID, CLOCK_REASONS[0])))
    assert reading.unknown == [] and reading.last_xid == 0 and reading.throttling == ()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1, *BLANKS])
def test_what_means_that_there_is_no_value_is_unknown(value: float) -> None:
    metrics = (ENGINE_ACTIVE, GPU_UTIL, USED, FREE, TOTAL, POWER, TEMPERATURE, XID, *CLOCK_REASONS, CLOCK_EVENTS)
    assert one(*(series(metric, value) for metric in metrics)).unknown == list(UNKNOWN_FIELDS)


@pytest.mark.parametrize(
    ("values", "utilisation", "source"),
    [
        ({GPU_UTIL: 44}, 44, GPU_UTIL),
        ({ENGINE_ACTIVE: 0.44, GPU_UTIL: 100}, 44, ENGINE_ACTIVE),
        ({ENGINE_ACTIVE: math.nan, GPU_UTIL: 100}, 100, GPU_UTIL),
        ({ENGINE_ACTIVE: 1.0000001}, 100, ENGINE_ACTIVE),
        ({ENGINE_ACTIVE: 1}, 100, ENGINE_ACTIVE),
        ({ENGINE_ACTIVE: 0.00004}, 0, ENGINE_ACTIVE),
        ({GPU_UTIL: 1}, 1, GPU_UTIL),
    ],
)
def test_the_profiling_metric_is_the_better_utilisation(
    values: dict[str, float], utilisation: float, source: str
) -> None:
    reading = one(*(series(metric, value) for metric, value in values.items()))
    assert (reading.utilisation, reading.utilisation_from) == (utilisation, source)


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ({TOTAL: 81559, USED: 1, FREE: 1}, 81559),
        ({USED: 512, FREE: 80000, RESERVED: 1047}, 81559),
        ({USED: 512, FREE: 80000}, 80512),
        ({USED: 512}, None),
        ({FREE: 512}, None),
        ({RESERVED: 512}, None),
    ],
)
def test_all_memory_is_the_sum_of_its_parts(values: dict[str, float], total: int | None) -> None:
    assert one(*(series(metric, value) for metric, value in values.items())).memory_total_mib == total


@pytest.mark.parametrize(
    ("bits", "reasons"),
    [
        (0, ()),
        (1 | 2 | 16 | 256, ()),
        (4, ("power_cap",)),
        (8 | 64, ("hw_slowdown", "hw_thermal")),
        (32, ("sw_thermal",)),
        (8 | 128, ("hw_slowdown", "hw_power_brake")),
    ],
)
def test_the_bits_of_the_clocks_tell_what_slows_a_gpu_down(bits: int, reasons: tuple[str, ...]) -> None:
    for metric in CLOCK_REASONS:
        reading = one(series(metric, bits), series(CLOCK_EVENTS, 9, event="hw_slowdown"))
        assert (reading.throttling, reading.throttling_from) == (reasons, metric)


def test_counted_events_tell_it_too() -> None:
    reading = one(
        series(CLOCK_EVENTS, 3, event="sw_thermal"),
        series(CLOCK_EVENTS, 0, event="hw_slowdown"),
        series(CLOCK_EVENTS, 9, event="gpu_idle"),
    )
    assert (reading.throttling, reading.throttling_from) == (("sw_thermal",), CLOCK_EVENTS)
    # Without an event, the exporter writes a zero without a reason.
    assert one(series(CLOCK_EVENTS, 0)).throttling == ()


def test_several_series_of_one_gpu_are_one_gpu() -> None:
    """A pair of servers, two scrapes, and several pods say the same thing several times."""
    reading = one(
        series(POWER, 300, holder=TRAIN),
        series(POWER, 301, holder=SERVE),
        series(POWER, 299, holder=TRAIN),
        series(GPU_UTIL, 12, holder=TRAIN),
        series(GPU_UTIL, 40, holder=SERVE),
        # With KUBERNETES_VIRTUAL_GPUS, the two above are the pods' shares, and this is the GPU's.
        series(GPU_UTIL, 52),
    )
    assert (reading.pods, reading.power_w, reading.utilisation) == ((TRAIN, SERVE), 301, 52)


def test_a_holder_whose_labels_are_doubtful_is_unknown() -> None:
    assert one(series(POWER, 1, holder=TRAIN), series(XID, 0, holder=SERVE, is_named=False)).pods is None


def test_a_gpu_that_mig_divides_stands_there_as_its_instances() -> None:
    whole = [series(POWER, 300), series(TEMPERATURE, 50), series(XID, 31), series(CLOCK_REASONS[0], 4)]
    whole += [series(GPU_UTIL, 90), series(USED, 9), series(TOTAL, 80)]
    own = [series(ENGINE_ACTIVE, 0.5, INSTANCE, profile="1g.10gb", holder=TRAIN), series(XID, 0, INSTANCE)]
    reading = one(*whole, *own)
    assert (reading.key, reading.profile, reading.pods, reading.utilisation) == (INSTANCE, "1g.10gb", (TRAIN,), 50)
    assert (reading.power_w, reading.temperature_c, reading.throttling) == (300, 50, ("power_cap",))
    assert reading.last_xid == 0
    # The memory and the utilisation of the GPU are not those of its instance.
    assert one(*whole, series(XID, 0, INSTANCE)).unknown == ["utilisation", "memory_used_mib", "memory_total_mib"]


def test_an_instance_counts_the_events_of_its_gpu() -> None:
    assert one(series(CLOCK_EVENTS, 1, event="hw_thermal"), series(XID, 0, INSTANCE)).throttling == ("hw_thermal",)


def test_gpus_are_sorted_by_node_and_number() -> None:
    keys = [GpuKey(node, gpu, "") for node in ("b", "a") for gpu in ("10", "2", "x", "0")]
    found = [reading.key for reading in readings(series(POWER, 1, key) for key in keys)]
    assert [key.node + key.gpu for key in found] == ["ax", "a0", "a2", "a10", "bx", "b0", "b2", "b10"]


def test_gpus_with_one_uuid_on_two_nodes_are_two() -> None:
    """Simulated GPUs have such UUIDs."""
    assert len(readings([series(POWER, 1), series(POWER, 1, KEY._replace(node="m"))])) == 2


def test_an_early_exporter_passes_on_what_means_that_there_is_no_value() -> None:
    text = 'DCGM_FI_DEV_GPU_TEMP{gpu="0", UUID="GPU-604ac76c",container="",namespace="",pod=""} 9223372036854775794\n'
    found = [of_exporter("n", sample) for sample in _exposition.read(text).samples]
    assert one(*filter(None, found)).temperature_c is None


def test_each_reason_names_a_field_and_a_metric() -> None:
    fields = set(GpuReading.__dataclass_fields__)
    assert set(UNKNOWN_FIELDS) < fields and all("DCGM_" in reason for reason in UNKNOWN_FIELDS.values())
    assert (
        all(name.startswith("DCGM_") for name in gpu_readings.READ_METRICS)
        and len(set(gpu_readings.READ_METRICS)) == 12
    )
