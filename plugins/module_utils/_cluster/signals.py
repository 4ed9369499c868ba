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


@contextlib.contextmanager
def ignored() -> t.Iterator[None]:
    """Ignore SIGINT, SIGTERM and SIGHUP during a block."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
    try:
        yield
    finally:
        _restore(before)


def _restore(handlers: t.Mapping[signal.Signals, t.Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
