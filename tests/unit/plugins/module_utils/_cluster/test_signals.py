# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Handling of signals that would end a module before it has cleaned up."""

from __future__ import annotations

import os
import signal

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import signals


@pytest.mark.parametrize("number", signals.ENDING)
def test_a_signal_ends_the_block_as_ctrl_c_does(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt, match=number.name), signals.as_exceptions():
        os.kill(os.getpid(), number)


def test_a_second_signal_does_not_disturb_the_clean_up() -> None:
    cleaned_up = False
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"), signals.as_exceptions():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGHUP)
            cleaned_up = True
    assert cleaned_up


def test_a_noted_signal_is_raised_only_where_the_block_asks_for_it() -> None:
    """An exception between any two instructions can leave the lock of a thread pool taken forever."""
    with signals.noted() as interruption:
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
    before = [signal.getsignal(number) for number in signals.ENDING]
    for block in (signals.as_exceptions, signals.noted):
        with block():
            assert not {signal.getsignal(number) for number in signals.ENDING} & set(before)
        assert [signal.getsignal(number) for number in signals.ENDING] == before
