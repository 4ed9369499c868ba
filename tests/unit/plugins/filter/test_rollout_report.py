# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.filter.rollout_plan import rollout_plan
from ansible_collections.gpuops.nvidia.plugins.filter.rollout_report import FilterModule
from inline_snapshot import snapshot as wording

rollout_report = FilterModule().filters()["rollout_report"]


def test_the_report_is_plain_data() -> None:
    hosts = {"a": {"passed": "change"}, "b": {"left_out_at": "change", "reason": "No."}, "c": {"postponed": "Later."}}
    batches = rollout_plan(["a", "b"])["batches"]
    report = rollout_report(hosts, over="plan", alive=["a", "b", "c"], batches=batches, begun=2, ended=2, max_failed=1)
    assert report == {
        "stop": "",
        "lines": [
            "NAME  STATE      BATCH  REASON",
            "b     failed     2      No",
            "c     postponed  -      Later",
            "3 hosts: 1 changed, 1 postponed, 1 failed",
        ],
        "content": {
            "format": 1,
            "canary": [],
            "counts": {"done": 1, "postponed": 1, "failed": 1},
            "hosts": {
                "a": {"state": "done", "batch": 1},
                "b": {"state": "failed", "batch": 2, "reason": "No"},
                "c": {"state": "postponed", "reason": "Later"},
            },
        },
    }
    assert rollout_report(hosts, over="plan", alive=["a", "b", "c"], batches=batches, begun=2, ended=2)["stop"]


def test_a_check_says_that_hosts_are_to_be_changed() -> None:
    assert rollout_report(
        {"a": {"passed": "change"}}, over="plan", batches=rollout_plan(["a"])["batches"], predicted=True
    )["lines"] == ["1 host: 1 to be changed"]


def test_the_file_of_a_run_is_the_former_of_the_next() -> None:
    written = rollout_report({"a": {}}, over="plan", batches=rollout_plan(["a"])["batches"], begun=1)["content"]
    assert written["hosts"] == {"a": {"state": "changing", "batch": 1}}
    assert rollout_plan(["b", "a"], former=written)["order"] == ["a", "b"]
    assert rollout_report({"a": {}}, over="check", alive=["a"], former=written)["content"]["hosts"] == written["hosts"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"max_failed": "some"},
            wording("gpuops_max_failed is 'some'. Give a number or a percentage, such as 3 or 5%."),
        ),
        ({"sizes": [1, 0]}, wording("gpuops_serial is 0. Give a number or a percentage, such as 1 or 10%.")),
        ({"canary": ["x"]}, wording("gpuops_canary names x, and this run is not about them. Name hosts of this run.")),
        (
            {"former": {"format": 9}},
            wording(
                "The rollout file does not come from this version of the collection (format 1). Name another file, or remove it to start over."
            ),
        ),
    ],
)
def test_a_wrong_variable_is_an_error_of_the_filter(arguments: dict[str, t.Any], message: str) -> None:
    with pytest.raises(AnsibleFilterError) as error:
        rollout_report({"a": {}}, **arguments)
    assert str(error.value) == message
