# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a Prometheus remembers of each GPU over a time range, since the pods that hold it now have it. Pure.

The range is cut into steps. Of each step, a Prometheus gives the largest and the mean utilisation of each series.
"""

from __future__ import annotations

import dataclasses
import math
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_readings import GpuReading
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_series import GpuKey

_STEPS = 60
_SHORTEST_STEP_S = 300
"""As long as Prometheus itself looks back for a value, so that slow scrapes leave no gap."""


@dataclasses.dataclass(frozen=True)
class TimeRange:
    """A time range, in seconds since the epoch, and the length of its steps. A step is called by its end."""

    end: int
    length_s: int

    @property
    def step_s(self) -> int:
        """How long a step is."""
        return max(_SHORTEST_STEP_S, math.ceil(self.length_s / _STEPS))

    @property
    def first(self) -> int:
        """The end of the first step."""
        return self.end - (math.ceil(self.length_s / self.step_s) - 1) * self.step_s


class StepSeries(t.NamedTuple):
    """The values of one series by step, and the namespace and name of the pod that they are counted for, if any."""

    pod: tuple[str, str] | None
    values: t.Mapping[int, float]


Steps = t.Mapping[GpuKey, t.Sequence[StepSeries]]


@dataclasses.dataclass(frozen=True)
class GpuPast:
    """The utilisation of a GPU in percent since its pods hold it, and for how many hours they do, at least.

    Of a GPU that nobody holds, it is that of the whole range.
    """

    mean: float | None = None
    highest: float | None = None
    held_hours: float | None = None


NO_PAST = GpuPast()


def past_of(reading: GpuReading, highest: Steps, means: Steps, time: TimeRange) -> GpuPast:
    """Return what is known of a GPU over a time range."""
    pods = {(holder.namespace, holder.pod) for holder in reading.pods or ()}
    seen = highest.get(reading.key, ())
    held = {moment for series in seen if not pods or series.pod in pods for moment in series.values}
    if not held:
        return NO_PAST
    tops, steady = _by_step(seen), _by_step(means.get(reading.key, ()))
    values = [steady[moment] for moment in held if moment in steady]
    # Nobody knows when in the first of its steps a pod has begun.
    steps = len(held) - (min(held) != time.first)
    return GpuPast(
        round(sum(values) / len(values), 2) if values else None,
        round(max(tops[moment] for moment in held), 2),
        round(steps * time.step_s / 3600, 2) if pods else None,
    )


def _by_step(found: t.Iterable[StepSeries]) -> dict[int, float]:
    """Return the largest value of each step."""
    largest: dict[int, float] = {}
    for series in found:
        for moment, value in series.values.items():
            largest[moment] = max(value, largest.get(moment, 0.0))
    return largest


def last_seen(steps: Steps) -> dict[str, int]:
    """Return for each node when a Prometheus has last had a metric of one of its GPUs."""
    seen: dict[str, int] = {}
    for key, found in steps.items():
        seen[key.node] = max(seen.get(key.node, 0), *(max(series.values) for series in found))
    return seen
