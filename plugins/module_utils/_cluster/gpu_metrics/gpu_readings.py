# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the series of the fleet say about each GPU now. What no series says is unknown, and never zero. Pure."""

from __future__ import annotations

import collections
import dataclasses
import math
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_series import (
    GpuHolder,
    GpuKey,
    GpuSeries,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number

ENGINE_ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
"""A share of time between 0 and 1, also of an instance of MIG."""
GPU_UTIL = "DCGM_FI_DEV_GPU_UTIL"
"""Percent. With ``KUBERNETES_VIRTUAL_GPUS`` also of each pod, beside the GPU's. Instances of MIG have none."""
USED, FREE, RESERVED, TOTAL = (f"DCGM_FI_DEV_FB_{part}" for part in ("USED", "FREE", "RESERVED", "TOTAL"))
POWER = "DCGM_FI_DEV_POWER_USAGE"
TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP"
XID = "DCGM_FI_DEV_XID_ERRORS"
"""The last Xid since the exporter began to watch, and 0 before the first."""
CLOCK_REASONS = ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")
"""The second one is the name in earlier exporters."""
CLOCK_EVENTS = "DCGM_EXP_CLOCK_EVENTS_COUNT"
"""How often each reason was seen in the last minutes, with a zero without a reason if there was none."""

READ_METRICS = (
    ENGINE_ACTIVE, GPU_UTIL, USED, FREE, RESERVED, TOTAL, POWER, TEMPERATURE, XID, *CLOCK_REASONS, CLOCK_EVENTS,
)  # fmt: skip

THROTTLING = {4: "power_cap", 8: "hw_slowdown", 32: "sw_thermal", 64: "hw_thermal", 128: "hw_power_brake"}
"""The bits of reasons that slow a GPU down, with the exporter's words for them (``clock_events_collector.go``).

The other bits are no trouble: an idle GPU, clocks that somebody has set, and GPUs whose clocks move together.
"""

_BLANK = 0x7FFFFFF0
"""The smallest of the values by which DCGM says that it has none (``dcgm_structs.h``). Early exporters pass them on."""

UNKNOWN_FIELDS = {
    "utilisation": (
        f"The exporters serve neither {ENGINE_ACTIVE} nor {GPU_UTIL} for these GPUs. The latter is not measured on MIG "
        "instances, and the former needs the profiling module of DCGM, and no other profiler on the GPU."
    ),
    "memory_used_mib": f"The exporters do not serve {USED} for these GPUs.",
    "memory_total_mib": f"The exporters serve neither {TOTAL} nor {USED} with {FREE} for these GPUs.",
    "power_w": f"The exporters do not serve {POWER} for these GPUs.",
    "temperature_c": f"The exporters do not serve {TEMPERATURE} for these GPUs.",
    # https://github.com/NVIDIA/dcgm-exporter/issues/646
    "last_xid": f"The exporters do not serve {XID} for these GPUs. Some versions begin with the first Xid.",
    "throttling": (
        f"The exporters serve neither {CLOCK_REASONS[0]} nor {CLOCK_EVENTS} for these GPUs. Add one to the metrics of "
        "dcgmExporter.config."
    ),
}
"""The fields that may be unknown, each with the reason."""


@dataclasses.dataclass(frozen=True)
class GpuReading:
    """What is known of a GPU, or of an instance of MIG, now."""

    key: GpuKey
    model: str | None
    profile: str | None
    pods: tuple[GpuHolder, ...] | None
    jobs: tuple[str, ...]
    utilisation: float | None
    utilisation_from: str | None
    memory_used_mib: int | None
    memory_total_mib: int | None
    power_w: float | None
    temperature_c: float | None
    last_xid: int | None
    throttling: tuple[str, ...] | None
    throttling_from: str | None

    @property
    def unknown(self) -> list[str]:
        """The names of the fields that are unknown."""
        return [name for name in UNKNOWN_FIELDS if getattr(self, name) is None]


class _Gathered:
    """All series of one GPU or instance: the largest value of each metric, whoever it is counted for."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.events: dict[str, float] = {}
        self.holders: set[GpuHolder] = set()
        self.jobs: set[str] = set()
        self.is_named = True
        self.model = self.profile = ""

    def add(self, series: GpuSeries) -> None:
        self.model, self.profile = self.model or series.model, self.profile or series.profile
        self.is_named = self.is_named and series.is_named
        if series.job:
            self.jobs.add(series.job)
        if series.holder:
            self.holders.add(series.holder)
        if is_value(series.value):
            known, name = (self.events, series.event) if series.metric == CLOCK_EVENTS else (self.values, series.metric)
            known[name] = max(series.value, known.get(name, 0))


def is_value(value: float) -> bool:
    """Return whether a value is one: neither NaN nor infinite, nor what DCGM says for none."""
    return math.isfinite(value) and 0 <= value < _BLANK


def percent(metric: str, value: float) -> float:
    """Return a utilisation in percent. Shares of time may be a little above 1."""
    return round(min(100.0, value * 100 if metric == ENGINE_ACTIVE else value), 2)


def readings(series: t.Iterable[GpuSeries]) -> list[GpuReading]:
    """Return what is known of each GPU. One that MIG divides stands there as its instances."""
    found: dict[GpuKey, _Gathered] = collections.defaultdict(_Gathered)
    for each in series:
        found[each.key].add(each)
    divided = {key.whole for key in found if key.instance}
    return [_reading(key, found) for key in sorted(found, key=_order) if key not in divided]


def _order(key: GpuKey) -> tuple[str, int, GpuKey]:
    number = whole_number(key.gpu)
    return key.node, -1 if number is None else number, key


def _reading(key: GpuKey, found: t.Mapping[GpuKey, _Gathered]) -> GpuReading:
    own = found[key]
    # An instance has power, temperature, clocks and errors of its GPU, and memory of its own.
    parts = [own, *(found[each] for each in {key.whole} - {key} if each in found)]
    values = own.values
    utilised = next((metric for metric in (ENGINE_ACTIVE, GPU_UTIL) if metric in values), None)
    throttling, source = _throttling(parts)
    return GpuReading(
        key,
        own.model or None,
        own.profile or None,
        tuple(sorted(own.holders)) if own.is_named else None,
        tuple(sorted(own.jobs)),
        percent(utilised, values[utilised]) if utilised else None,
        utilised,
        _whole(values.get(USED)),
        _whole(_total(values)),
        _first(parts, POWER),
        _first(parts, TEMPERATURE),
        _whole(_first(parts, XID)),
        throttling,
        source,
    )


def _total(values: t.Mapping[str, float]) -> float | None:
    """Return how much memory there is, without the reserved memory if nobody says how much that is."""
    if TOTAL in values or USED not in values or FREE not in values:
        return values.get(TOTAL)
    return values[USED] + values[FREE] + values.get(RESERVED, 0)


def _first(parts: t.Iterable[_Gathered], metric: str) -> float | None:
    return next((part.values[metric] for part in parts if metric in part.values), None)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _throttling(parts: t.Sequence[_Gathered]) -> tuple[tuple[str, ...] | None, str | None]:
    """Return what slows a GPU down, and the metric that says so."""
    for metric in CLOCK_REASONS:
        bits = _first(parts, metric)
        if bits is not None:
            return tuple(name for bit, name in THROTTLING.items() if int(bits) & bit), metric
    counted = next((part.events for part in parts if part.events), None)
    if counted is None:
        return None, None
    return tuple(name for name in THROTTLING.values() if counted.get(name, 0) > 0), CLOCK_EVENTS
