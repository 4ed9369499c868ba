# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout import stages

ORDER = tuple("abcdefgh")


def test_canaries_are_the_first_stage_and_all_others_the_second() -> None:
    assert stages.stages(ORDER, ["c"], []) == [["c"], list("abdefgh")]
    assert stages.stages(ORDER, [], []) == [list(ORDER)]
    assert stages.stages([], [], ["1"]) == []


def test_the_last_wave_holds_for_all_further_ones() -> None:
    assert stages.stages(ORDER, ["a"], ["1", "3"]) == [["a"], ["b"], ["c", "d", "e"], ["f", "g", "h"]]
    assert stages.stages(ORDER, [], ["50%", 2]) == [list("abcd"), ["e", "f"], ["g", "h"]]


def test_a_wave_of_nobody_is_refused() -> None:
    for waves in (["0"], ["x"], [True]):
        with pytest.raises(GpuOpsError, match="waves is"):
            stages.check(waves)
    stages.check(["1", "10%", 3])
    assert stages.stages(ORDER[:3], [], ["1%"]) == [["a"], ["b"], ["c"]], "a wave has at least one member"


STAGES = [["a"], ["b", "c"], ["d"]]


@pytest.mark.parametrize(
    ("done", "failed", "soak", "closed", "said"),
    [
        ({}, (), 0, "bcd", "the end of stage 1 of 3"),
        ({"a": 100.0}, (), 0, "d", "the end of stage 2 of 3"),
        ({"a": 100.0}, (), 60, "bcd", "stage 1 of 3 to be well for 60 s"),
        ({"a": 40.0}, (), 60, "d", "the end of stage 2 of 3"),
        ({"a": 0.0, "b": 0.0}, ("c",), 60, "", ""),
        ({"a": 0.0, "b": 0.0, "c": 90.0}, (), 60, "d", "stage 2 of 3 to be well for 60 s"),
        ({}, ("a", "b", "c"), 60, "", ""),
    ],
)
def test_a_stage_waits_for_the_end_of_the_one_before_and_for_its_soak_time(
    done: dict[str, float], failed: t.Collection[str], soak: float, closed: str, said: str
) -> None:
    gate = stages.gate(STAGES, done, failed, soak, 100.0)
    assert (gate.closed, gate.waits_for) == (frozenset(closed), said)


def test_the_gate_says_how_long_a_stage_must_still_be_well() -> None:
    assert stages.gate(STAGES, {"a": 70.0}, (), 60, 100.0).soaks_for_s == 30.0
    assert stages.gate([["a"]], {}, (), 60, 100.0) == stages.Gate()
