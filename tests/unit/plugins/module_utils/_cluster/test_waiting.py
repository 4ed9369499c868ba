# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The loop with which all code waits for the cluster. Its clock advances only during sleep."""

from __future__ import annotations

import os
import signal
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import AWAY, GpuOpsError, Reason
from inline_snapshot import snapshot as wording

from tests.support.clock import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    return clock


def looks(*answers: t.Any) -> t.Callable[[], t.Any]:
    """Return a function that gives these answers in order and then repeats the last one."""
    left = list(answers)

    def look() -> t.Any:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, GpuOpsError):
            raise answer
        return answer

    return look


def away(reason: Reason = "Unreachable") -> GpuOpsError:
    return GpuOpsError("Cannot reach the Kubernetes API.", reason=reason, status=503)


def test_the_first_answer_ends_the_wait(clock: Clock) -> None:
    assert waiting.until(looks("found"), 10) == "found"
    assert clock.slept == []


@pytest.mark.parametrize("answer", [False, 0, "", []])
def test_only_none_means_not_yet(clock: Clock, answer: t.Any) -> None:
    assert waiting.until(looks(answer), 10) == answer


def test_the_wait_ends_at_its_timeout(clock: Clock) -> None:
    assert waiting.until(looks(None), 5) is None
    assert clock.slept == [2, 2, 1]


def test_without_a_timeout_the_wait_lasts_until_the_answer(clock: Clock) -> None:
    assert waiting.until(looks(*[None] * 1000, "found")) == "found"


def test_the_pause_may_differ_from_poll_to_poll(clock: Clock) -> None:
    pauses = iter([0, 0.5])
    assert waiting.until(looks(None, None, "found"), 10, poll_s=lambda: next(pauses)) == "found"
    assert clock.slept == [0, 0.5]


def test_looks_may_begin_at_regular_times_however_long_they_take(clock: Clock) -> None:
    takes = iter([0.2, 1.0, 3.0])

    def look() -> str | None:
        length = next(takes, None)
        clock.now_s += length or 0
        return None if length else "found"

    assert waiting.until(look, 10, period_s=1.0) == "found"
    assert clock.slept == [pytest.approx(0.8), 0, 0]


@pytest.mark.parametrize("reason", AWAY)
def test_the_wait_survives_a_short_outage(clock: Clock, reason: Reason) -> None:
    told: list[str] = []
    look = looks(None, away(reason), away(reason), "found")
    assert waiting.until(look, 100, on_outage=lambda error: told.append(error.msg)) == "found"
    assert told == [wording("Cannot reach the Kubernetes API.")] * 2


def test_a_long_outage_ends_the_wait_and_its_length_is_stated(clock: Clock) -> None:
    with pytest.raises(GpuOpsError) as error:
        waiting.until(looks(None, away()), 1000)
    assert error.value.msg == wording("Cannot reach the Kubernetes API. Its last answer was 62 s ago.")
    assert error.value.details == {"reason": "Unreachable", "status": 503}


def test_each_answer_resets_the_patience(clock: Clock) -> None:
    outage = [away()] * 20
    assert waiting.until(looks(*outage, None, *outage, None, *outage, "found")) == "found"


def test_the_wait_ends_at_its_timeout_even_during_an_outage(clock: Clock) -> None:
    with pytest.raises(GpuOpsError) as error:
        waiting.until(looks(None, away()), 10.5)
    assert error.value.reason == "Unreachable"
    assert error.value.msg == wording("Cannot reach the Kubernetes API. Its last answer was 10 s ago.")


def test_the_caller_may_limit_the_patience(clock: Clock) -> None:
    ends_s = clock.now_s + 4
    with pytest.raises(GpuOpsError) as error:
        waiting.until(looks(None, away()), patience_ends=lambda: ends_s)
    assert error.value.reason == "Unreachable"
    assert error.value.msg == wording("Cannot reach the Kubernetes API. Its last answer was 4 s ago.")


def test_another_failure_is_raised_at_once(clock: Clock) -> None:
    with pytest.raises(GpuOpsError, match=r"^No permission$"):
        waiting.until(looks(None, GpuOpsError("No permission", reason="Forbidden")), 100)
    assert clock.slept == [2]


def test_an_api_server_that_never_answered_is_not_waited_for(clock: Clock) -> None:
    patience = waiting.Patience(reached=False)
    with pytest.raises(GpuOpsError) as error:
        waiting.until(looks(away()), 100, patience=patience)
    assert error.value.reason == "Unreachable"
    assert error.value.msg == wording("Cannot reach the Kubernetes API.")
    assert waiting.until(looks(None, away(), "found"), 100, patience=patience) == "found"


def test_the_age_of_the_last_answer_is_stated_once(clock: Clock) -> None:
    """The polled function may itself wait, and its error then already states the age."""
    inner = GpuOpsError("Cannot reach the Kubernetes API. Its last answer was 3 s ago.", reason="Unreachable")
    with pytest.raises(GpuOpsError) as error:
        waiting.until(looks(None, inner), 1000)
    assert error.value.reason == "Unreachable"
    assert error.value.msg == wording("Cannot reach the Kubernetes API. Its last answer was 62 s ago.")


@pytest.mark.parametrize(("look_s", "pause_s"), [(0.0, 2.0), (0.1, 2.0), (0.5, 5.0), (3.0, 30.0), (9.0, 60.0)])
def test_the_pause_grows_with_what_a_look_costs(clock: Clock, look_s: float, pause_s: float) -> None:
    answers = iter([None, "found"])

    def look() -> str | None:
        clock.now_s += look_s
        return next(answers)

    assert waiting.until(look) == "found"
    assert clock.slept == [pytest.approx(pause_s)]


def test_the_last_look_is_at_the_end_of_the_time(clock: Clock) -> None:
    def look() -> None:
        clock.now_s += 3

    assert waiting.until(look, 20) is None
    assert clock.slept == [pytest.approx(17)]


def test_a_progress_file_gets_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    waiting.append_line(str(path), "one")
    waiting.append_line(str(path), "two")
    assert path.read_text(encoding="utf-8") == "one\ntwo\n"


def test_work_goes_on_without_a_progress_file(tmp_path: Path) -> None:
    waiting.append_line(None, "one")
    waiting.append_line(str(tmp_path / "gone" / "progress"), "one")
    assert list(tmp_path.iterdir()) == []


# Signals


@pytest.mark.parametrize("number", waiting.ENDING)
def test_a_signal_ends_the_block_as_ctrl_c_does(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt, match=number.name), waiting.signals_as_exceptions():
        os.kill(os.getpid(), number)


def test_a_second_signal_does_not_disturb_the_clean_up() -> None:
    cleaned_up = False
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"), waiting.signals_as_exceptions():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGHUP)
            cleaned_up = True
    assert cleaned_up


def test_a_noted_signal_is_raised_only_where_the_block_asks_for_it() -> None:
    """An exception between any two instructions can leave the lock of a thread pool taken forever."""
    with waiting.signals_noted() as interruption:
        interruption.check()
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
        with pytest.raises(KeyboardInterrupt, match=r"^SIGTERM$"):
            interruption.check()
        with pytest.raises(KeyboardInterrupt, match=r"^SIGTERM$"):
            interruption.check()
        interruption.disregard()
        interruption.check()


def test_the_previous_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in waiting.ENDING]
    for block in (waiting.signals_as_exceptions, waiting.signals_noted):
        with block():
            assert not {signal.getsignal(number) for number in waiting.ENDING} & set(before)
        assert [signal.getsignal(number) for number in waiting.ENDING] == before
