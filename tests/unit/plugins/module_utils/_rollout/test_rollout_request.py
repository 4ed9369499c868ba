# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.rollout_request import RolloutRequest
from inline_snapshot import snapshot as wording

NAMES = {"sizes": "gpuops_serial", "canary": "gpuops_canary", "max_out": "gpuops_max_failed", "members": "hosts"}


def test_the_last_size_in_a_list_holds_for_all_further_batches() -> None:
    wishes = RolloutRequest([1, "50%", 3])
    assert [wishes.size(position, 10) for position in range(5)] == [1, 5, 3, 3, 3]
    assert [RolloutRequest("20%").size(position, 10) for position in range(2)] == [2, 2]
    assert RolloutRequest("1%").size(0, 10) == 1


def test_a_percentage_of_canaries_is_at_least_one() -> None:
    assert [RolloutRequest(canary=canary).number_of_canaries(10) for canary in (0, 2, "20%", "1%")] == [0, 2, 2, 1]


def test_everybody_is_in_one_group_unless_the_user_groups_them() -> None:
    assert RolloutRequest().groups_of(["a", "b"]) == {"a": None, "b": None}
    assert RolloutRequest(groups={"a": 1, "b": "x", "c": ""}).groups_of(["a", "b"]) == {"a": "1", "b": "x"}


def test_members_without_a_group_are_named() -> None:
    wishes = RolloutRequest(groups={"a": "", "b": None, "c": 0}, names={"groups": "gpuops_batch_by"})
    with pytest.raises(GpuOpsError) as error:
        wishes.groups_of(["a", "b", "c", "d"])
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording(
        "The variable that gpuops_batch_by names has no value for a, b, d. Set it for each of them, or for their group."
    )


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"sizes": 0}, "gpuops_serial is 0. "),
        ({"sizes": [1, "x"]}, "gpuops_serial is 'x'. "),
        ({"sizes": []}, "gpuops_serial is ''. "),
        ({"max_out": "x"}, "gpuops_max_failed is 'x'. "),
        ({"canary": -1}, "gpuops_canary is -1. "),
        (
            {"canary": ["a", "z", "y"]},
            "gpuops_canary names y, z, and this run is not about them. Name hosts of this run.",
        ),
    ],
)
def test_a_wish_that_cannot_be_fulfilled_is_refused_by_the_name_of_its_variable(
    wishes: dict[str, t.Any], message: str
) -> None:
    with pytest.raises(GpuOpsError) as error:
        RolloutRequest(**wishes, names=NAMES).check(["a", "b"])
    assert error.value.msg.startswith(message)


@pytest.mark.parametrize("wishes", [{}, {"canary": ["b"]}, {"sizes": [1, "5%"], "canary": "1%", "max_out": "5%"}])
def test_other_wishes_pass(wishes: dict[str, t.Any]) -> None:
    RolloutRequest(**wishes, names=NAMES).check(["a", "b"])


def test_each_size_of_a_list_is_checked() -> None:
    with pytest.raises(GpuOpsError, match="gpuops_serial is 'x'"):
        RolloutRequest([1, 2, "x"], names=NAMES).check(["a"])
    RolloutRequest([1, "50%"], canary="10%", max_out="5%", names=NAMES).check(["a"])
