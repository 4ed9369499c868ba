# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Handling of signals that would end a module before it has cleaned up."""

from __future__ import annotations

import contextlib
import signal
import typing as t

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def as_exceptions() -> t.Iterator[None]:
    """Let SIGTERM and SIGHUP end a block as Ctrl-C does, so that it cleans up. Ignore signals during the cleanup."""

    def interrupt(number: int, dummy: t.Any) -> t.NoReturn:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = {number: signal.signal(number, interrupt) for number in ENDING}
    try:
        yield
    finally:
        _restore(before)


class Noted:
    """The first signal that asked for an end, if there was one."""

    def __init__(self) -> None:
        self._first: signal.Signals | None = None
        self._is_raised = True

    def note(self, number: int, dummy: t.Any) -> None:
        """Handle a signal."""
        self._first = self._first or signal.Signals(number)

    def check(self) -> None:
        """Raise a KeyboardInterrupt if there was a signal, unless the clean-up has begun."""
        if self._first and self._is_raised:
            raise KeyboardInterrupt(self._first.name)

    def disregard(self) -> None:
        """From now on, do not raise: the clean-up must not be interrupted."""
        self._is_raised = False


@contextlib.contextmanager
def noted() -> t.Iterator[Noted]:
    """Note SIGINT, SIGTERM and SIGHUP during a block, whose code asks for them where it can stop.

    An exception that a handler raises between any two instructions can leave the locks of a thread pool taken forever,
    and the pool then never ends. So a block that uses a pool must not use `as_exceptions`.
    """
    noted = Noted()
    before = {number: signal.signal(number, noted.note) for number in ENDING}
    try:
        yield noted
    finally:
        _restore(before)


def _restore(handlers: t.Mapping[signal.Signals, t.Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
