# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics import gpu_past
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_past import (
    NO_PAST,
    GpuPast,
    Steps,
    StepSeries,
    TimeRange,
    past_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_readings import (
    GpuReading,
    readings,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_series import (
    GpuHolder,
    GpuKey,
    GpuSeries,
)

KEY = GpuKey("n", "0", "GPU-a")
TRAIN, SERVE = GpuHolder("ml", "train-0", "main"), GpuHolder("web", "serve-0", "main")
HOUR = TimeRange(end=36_000, length_s=3600)
"""Twelve steps of five minutes, which end at 32,700 to 36,000."""
ENDS = range(32_700, 36_001, 300)


def held_by(*holders: GpuHolder) -> GpuReading:
    (reading,) = readings([GpuSeries(KEY, "X", 1, None), *(GpuSeries(KEY, "X", 1, holder) for holder in holders)])
    return reading


def steps(values: t.Mapping[GpuHolder | None, t.Mapping[int, float]], key: GpuKey = KEY) -> Steps:
    return {key: [StepSeries(holder and holder[:2], points) for holder, points in values.items()]}


@pytest.mark.parametrize(
    ("length_s", "step_s", "count"),
    [(300, 300, 1), (301, 300, 2), (3600, 300, 12), (18_000, 300, 60), (86_400, 1440, 60), (86_401, 1441, 60)],
)
def test_a_range_has_at_most_sixty_steps_of_at_least_five_minutes(length_s: int, step_s: int, count: int) -> None:
    time = TimeRange(1_000_000, length_s)
    assert time.step_s == step_s and (time.end - time.first) // step_s + 1 == count
    assert (time.end - time.first) % step_s == 0


def test_the_steps_of_the_examples() -> None:
    assert (HOUR.first, HOUR.step_s) == (ENDS[0], 300)


def test_a_pod_that_holds_a_gpu_all_the_time() -> None:
    found = steps({TRAIN: dict.fromkeys(ENDS, 0.5)})
    means = steps({TRAIN: dict.fromkeys(ENDS, 0.25)})
    assert past_of(held_by(TRAIN), found, means, HOUR) == GpuPast(0.25, 0.5, 1.0)


def test_what_others_did_before_does_not_count() -> None:
    found = steps({SERVE: dict.fromkeys(ENDS[:6], 99.0), TRAIN: dict.fromkeys(ENDS[6:], 0.5)})
    past = past_of(held_by(TRAIN), found, found, HOUR)
    # Nobody knows when in its first step the pod came, so that this step does not count.
    assert past == GpuPast(0.5, 0.5, 0.42)


def test_a_pod_that_has_just_come_holds_it_for_no_time() -> None:
    found = steps({TRAIN: {ENDS[-1]: 3.0}})
    assert past_of(held_by(TRAIN), found, found, HOUR) == GpuPast(3.0, 3.0, 0.0)


def test_steps_without_samples_do_not_count() -> None:
    found = steps({TRAIN: dict.fromkeys([*ENDS[:3], *ENDS[9:]], 0.0)})
    assert past_of(held_by(TRAIN), found, {}, HOUR) == GpuPast(None, 0.0, 0.5)


def test_the_largest_value_of_those_who_share_a_gpu_counts() -> None:
    moments = ENDS[:2]
    found = steps({TRAIN: dict.fromkeys(moments, 2.0), SERVE: {ENDS[1]: 40.0}, None: {ENDS[0]: 1.0}})
    past = past_of(held_by(TRAIN, SERVE), found, found, HOUR)
    assert past == GpuPast(21.0, 40.0, 0.17)


def test_all_of_the_range_counts_for_a_gpu_that_nobody_holds() -> None:
    found = steps({SERVE: {ENDS[0]: 80.0}, None: {ENDS[1]: 0.0}})
    for reading in (held_by(), dataclasses.replace(held_by(), pods=None)):
        assert past_of(reading, found, found, HOUR) == GpuPast(40.0, 80.0, None)


@pytest.mark.parametrize("found", [{}, steps({SERVE: {ENDS[0]: 80.0}}), steps({TRAIN: {ENDS[0]: 1.0}}, KEY.whole)])
def test_nothing_is_known_without_a_step(found: Steps) -> None:
    reading = dataclasses.replace(held_by(TRAIN), key=KEY._replace(instance="1"))
    assert past_of(reading, found, found, HOUR) == NO_PAST
    assert past_of(held_by(TRAIN), steps({SERVE: {ENDS[0]: 80.0}}), found, HOUR) == NO_PAST


def test_a_node_was_seen_when_any_of_its_gpus_was() -> None:
    one, other = steps({None: {300: 1.0, 600: 1.0}}), steps({None: {900: 1.0}}, GpuKey("n", "1", "GPU-b"))
    third = steps({None: {5: 1.0}}, GpuKey("m", "0", "GPU-c"))
    assert gpu_past.last_seen({**one, **other, **third}) == {"n": 900, "m": 5}
