# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig import mig_request, plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.mig.driver.instances import Gpu, Process

from tests.unit.fakes.mig_host import H100, entry, gpu, instance


def planned(existing: Gpu, **options: t.Any) -> tuple[list[str], list[str]]:
    """Return the steps, and the layout after them."""
    wish = mig_request.read([entry(**options)], [existing])[existing.index]
    targets = plan.targets(existing, wish)
    steps = plan.steps(existing, wish, targets)
    return [step.text.removeprefix("GPU 0: ") for step in steps], plan.lines(
        plan.after(existing, wish, targets, pending=False)
    )[1:]


SEVEN = [instance(H100, 7 + place, "1g.10gb", place) for place in range(7)]


def test_an_empty_gpu_gets_its_mode_first() -> None:
    steps, layout = planned(gpu(H100, mode=False), instances={"3g.40gb": 1, "1c.3g.40gb": 2})
    assert steps == [
        "turn MIG on",
        "create 3g.40gb at 0",
        "create the compute instance 3c in 3g.40gb at 0",
        "create 3g.40gb at 4",
        "create the compute instance 1c in 3g.40gb at 4",
        "create the compute instance 1c in 3g.40gb at 4",
    ]
    assert layout == ["  0-3: 3g.40gb", "  4-7: 3g.40gb (1c.3g.40gb, 1c.3g.40gb)"]


def test_what_fits_stays_and_what_is_busy_goes_last() -> None:
    assert planned(gpu(H100, *SEVEN), instances={"1g.10gb": 7})[0] == []
    busy = gpu(H100, *SEVEN, processes=(Process(1, 11, 0), Process(2, 13, 0)))
    steps, layout = planned(busy, instances={"1g.10gb": 2})
    assert layout == ["  4: 1g.10gb", "  6: 1g.10gb"] and len(steps) == 10
    steps, layout = planned(gpu(H100, *SEVEN), instances={"1g.10gb": 3, "3g.40gb": 1})
    assert [step for step in steps if step.startswith("create")] == [
        "create 3g.40gb at 4",
        "create the compute instance 3c in 3g.40gb at 4",
    ]
    assert steps[:2] == ["destroy the compute instance 1c in 1g.10gb at 3", "destroy 1g.10gb at 3"]


def test_a_gpu_instance_that_stays_can_be_divided_anew() -> None:
    existing = gpu(H100, instance(H100, 1, "3g.40gb", 0), instance(H100, 2, "3g.40gb", 4, 1, 1, 1))
    steps, layout = planned(existing, instances={"1c.3g.40gb": 4, "2c.3g.40gb": 1})
    assert steps == [
        "destroy the compute instance 3c in 3g.40gb at 0",
        "create the compute instance 2c in 3g.40gb at 0",
        "create the compute instance 1c in 3g.40gb at 0",
    ]
    assert layout == ["  0-3: 3g.40gb (2c.3g.40gb, 1c.3g.40gb)", "  4-7: 3g.40gb (1c.3g.40gb, 1c.3g.40gb, 1c.3g.40gb)"]
    same = gpu(H100, instance(H100, 1, "3g.40gb", 0), instance(H100, 2, "3g.40gb", 4, 1, 1, 1))
    assert planned(same, instances={"1c.3g.40gb": 3, "3g.40gb": 1})[0] == []


def test_compute_instances_have_places_where_all_of_them_fit() -> None:
    existing = gpu(H100)
    wish = mig_request.read([entry(instances={"3c.7g.80gb": 1, "2c.7g.80gb": 2})], [existing])[0]
    targets = plan.targets(existing, wish)
    steps = [step for step in plan.steps(existing, wish, targets) if step.action == "create_compute"]
    assert [(step.slices, step.place) for step in steps] == [(2, 0), (2, 2), (3, 4)]
    (made,) = plan.after(existing, wish, targets, pending=False).instances
    assert [(each.id, each.slices, each.start) for each in made.compute] == [(0, 2, 0), (1, 2, 2), (2, 3, 4)]


def test_places_that_are_given_are_kept_exactly() -> None:
    existing = gpu(H100, instance(H100, 1, "3g.40gb", 0), instance(H100, 13, "1g.10gb", 4))
    places = [
        {"profile": "3g.40gb", "start": 0, "compute_instances": None},
        {"profile": "1g.10gb", "start": 5, "compute_instances": None},
    ]
    steps, layout = planned(existing, placements=places)
    assert [step for step in steps if "compute" not in step] == ["destroy 1g.10gb at 4", "create 1g.10gb at 5"]
    assert layout == ["  0-3: 3g.40gb", "  5: 1g.10gb"]


def test_without_instances_only_the_mode_changes() -> None:
    assert planned(gpu(H100, *SEVEN))[0] == []
    assert planned(gpu(H100, *SEVEN, pending=False))[0] == ["turn MIG on"]
    assert planned(gpu(H100, mode=False))[0] == ["turn MIG on"]


def test_the_mode_goes_off_when_nothing_is_left() -> None:
    steps, layout = planned(gpu(H100, SEVEN[0]), mode="disabled")
    assert steps == ["destroy the compute instance 1c in 1g.10gb at 0", "destroy 1g.10gb at 0", "turn MIG off"]
    assert layout == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"instances": {"1g.10gb": 8}}, "at most 7 x 1g.10gb"),
        ({"instances": {"4g.40gb": 1, "3g.40gb": 1, "1g.10gb": 1}}, "memory slices"),
        ({"instances": {"2g.20gb": 3, "1g.20gb": 2}}, "memory slices"),
        (
            {
                "placements": [
                    {"profile": "1g.10gb+me", "start": 0, "compute_instances": None},
                    {"profile": "1g.10gb+me", "start": 1, "compute_instances": None},
                ]
            },
            "does not fit on GPU 0",
        ),
    ],
)
def test_a_layout_that_does_not_fit_says_why(options: dict[str, t.Any], reason: str) -> None:
    with pytest.raises(GpuOpsError, match="does not fit on GPU 0") as raised:
        planned(gpu(H100, mode=False), **options)
    assert reason in raised.value.msg


def test_steps_turn_round() -> None:
    step = plan.Step(0, "GPU-0", "create", start=4, profile="3g.40gb")
    assert step.inverse().text == "GPU 0: destroy 3g.40gb at 4"
    assert plan.Step(0, "GPU-0", "mode", on=True).inverse().text == "GPU 0: turn MIG off"
    assert step.inverse().inverse() == step


def test_the_text_says_what_a_reset_will_change() -> None:
    waiting = gpu(H100, mode=False, pending=True)
    assert plan.lines(waiting) == ["GPU 0 (NVIDIA H100, 0000:18:00.0): MIG off, on after a reset"]
    assert plan.lines(gpu(H100, instance(H100, 1, "1g.10gb", 3)))[1] == "  3: 1g.10gb"
    wish = mig_request.GpuRequest(True, ())
    assert plan.after(gpu(H100, mode=False), wish, (), pending=True) == waiting
    assert plan.diff([waiting], [waiting])["before"] == plan.lines(waiting)[0] + "\n"
