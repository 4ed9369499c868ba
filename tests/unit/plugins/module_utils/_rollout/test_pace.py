# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._rollout import pace


class Clocks:
    """The time, and what this process has taken of it."""

    def __init__(self) -> None:
        self.now = self.spent = 100.0

    def monotonic(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.spent


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    made = Clocks()
    monkeypatch.setattr(pace, "time", made)
    return made


def look(paced: pace.Pace, clocks: Clocks, cost_s: float, has_news: bool = True) -> float:
    paced.begin()
    clocks.spent += cost_s
    paced.end(has_news)
    return paced.pause_s()


def test_news_are_followed_by_the_next_look_at_once_until_the_credit_is_spent(clocks: Clocks) -> None:
    paced = pace.Pace()
    assert look(paced, clocks, 2.9) == 0.0
    assert look(paced, clocks, 0.1) == pytest.approx(10.0)
    clocks.now += 10
    assert look(paced, clocks, 0.04) == 0.0, "a pause has earned it"
    assert look(paced, clocks, 0.03) == pytest.approx(6.0)


def test_pauses_grow_while_there_are_no_news(clocks: Clocks) -> None:
    paced, pauses = pace.Pace(), []
    for dummy in range(5):
        clocks.now += 4
        pauses.append(look(paced, clocks, 0.02, has_news=False))
        clocks.now += pauses[-1]
    assert pauses == pytest.approx([1.0, 2.25, 3.8125, 4.0, 4.0])
    assert look(paced, clocks, 0.02) == 0.0


def test_a_costly_look_is_not_followed_by_an_endless_pause(clocks: Clocks) -> None:
    assert look(pace.Pace(), clocks, 60) == 10.0


def test_what_is_done_between_two_looks_does_not_count(clocks: Clocks) -> None:
    paced = pace.Pace()
    clocks.spent += 60
    assert look(paced, clocks, 1) == 0.0


@pytest.mark.parametrize("has_news", [True, False])
def test_in_the_long_run_watching_takes_its_share_only(clocks: Clocks, has_news: bool) -> None:
    paced, spent = pace.Pace(), clocks.spent
    for dummy in range(2000):
        clocks.now += 1 + look(paced, clocks, 0.06, has_news)
    assert clocks.spent - spent < pace.CREDIT_S + 1.1 * pace.SHARE * (clocks.now - 100)
