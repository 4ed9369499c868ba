# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import config, plan, rollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout.wishes import Wishes

from tests.unit.fakes.stack import node

OPTIONS = {"max_unavailable": "2", "max_failed": "0", "canary": 0, "group_by": None}


def changes(*interrupted: bool) -> list[plan.Change]:
    fleet = {f"gpu-{number:04}": node(number) for number in range(len(interrupted))}
    found = plan.changes_of(dict.fromkeys(fleet, ("k", config.PLAIN)), fleet)
    for change, is_interrupted in zip(found, interrupted):
        change.interrupts = "why" if is_interrupted else ""
    return found


@pytest.fixture(autouse=True)
def rolled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], Wishes]]:
    """The members and the wishes of each wave, none of which really runs. A node whose name ends with 9 fails."""
    seen: list[tuple[list[str], Wishes]] = []

    class Rollout:
        def __init__(self, work: t.Any, members: list[plan.Change], wishes: Wishes) -> None:
            self.members = members
            seen.append(([change.name[-1] for change in members], wishes))

        def run(self) -> str:
            for change in self.members:
                change.state = "failed" if change.reason else "done"
            return "stopped" if any(change.reason == "stop" for change in self.members) else ""

    monkeypatch.setattr(rollout, "Rollout", Rollout)
    return seen


def roll(found: list[plan.Change], **options: t.Any) -> str:
    nothing = t.cast(t.Any, None)
    groups = {change.name: change.name[-1] for change in found}
    return rollout.roll_out(rollout.Work(nothing, nothing, {**OPTIONS, **options}, nothing, {}, groups), found)


def test_nodes_that_are_drained_come_last_and_in_their_own_number(rolled: list) -> None:
    assert roll(changes(True, False, True, False)) == ""
    assert [(members, wishes.sizes) for members, wishes in rolled] == [(["1", "3"], "100%"), (["0", "2"], "2")]


@pytest.mark.parametrize("canary", [1, ["gpu-0000"], "25%"])
def test_canaries_come_before_all_others(rolled: list, canary: t.Any) -> None:
    roll(changes(True, False, False, False), canary=canary)
    assert [(members, wishes.canary) for members, wishes in rolled] == [(["0"], "100%"), (["1", "2", "3"], 0)]


def test_a_stop_ends_everything(rolled: list) -> None:
    found = changes(False, False)
    found[0].reason = "stop"
    assert roll(found, canary=1) == "stopped" and len(rolled) == 1


def test_failures_of_earlier_waves_count(rolled: list) -> None:
    found = changes(False, True)
    found[0].reason = "bad"
    roll(found, max_failed="1")
    assert [wishes.max_out for dummy, wishes in rolled] == [1, 0]


def test_nodes_are_grouped_by_their_label_only_if_asked(rolled: list) -> None:
    roll(changes(False))
    roll(changes(False), group_by="zone")
    assert [wishes.groups for dummy, wishes in rolled] == [None, {"gpu-0000": "0"}]
