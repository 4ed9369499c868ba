# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The loop that every wait for the cluster uses, and the signals that end it. It tolerates short outages.

This file does not import the Kubernetes client: Ansible loads action plugins in every run, and loading the client takes
half a second.
"""

from __future__ import annotations

import contextlib
import math
import re
import signal
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import AWAY, GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import printable

POLL_S = 2.0
"""How long to wait at least before looking at the cluster again."""

POLL_MAX_S = 60.0
"""How long to wait at most, however long a look takes."""

POLL_FACTOR = 10
"""How many times as long as a look the pause after it is: a large fleet is read less often than a small one."""

ROLLOUT_PERIOD_S = 1.0
"""How often a rollout looks at the nodes, at most. A look that listens for changes takes that long."""

OUTAGE_S = 60.0
"""How long the API server may be away during a wait: the upgrade of a control plane restarts it for some seconds."""

PROGRESS = ArgumentSpec({"progress_path": {"type": "path"}})
"""The option of modules that tell their progress with `append_line`. The documentation fragment is ``progress``."""

T = t.TypeVar("T")


class Patience:
    """How long an API server may be away, counted from its last answer.

    ``outage_s`` is `OUTAGE_S` unless it is given. ``reached`` says whether the API server has answered before: if it
    has not, its address may be wrong, and no failure is tolerated.
    """

    def __init__(self, outage_s: float | None = None, reached: bool = True) -> None:
        self._outage_s = OUTAGE_S if outage_s is None else outage_s
        self._last_answer = time.monotonic() if reached else -math.inf

    def answered(self) -> None:
        """Note that the API server has answered."""
        self._last_answer = time.monotonic()

    def tolerate(self, error: GpuOpsError, until: float = math.inf) -> None:
        """Return if the API server may come back, and raise otherwise.

        ``until`` (monotonic seconds) ends the patience earlier. The raised error says how old the last answer is.
        """
        if error.reason not in AWAY or math.isinf(self._last_answer):
            raise error
        now = time.monotonic()
        away_s = now - self._last_answer
        if away_s > self._outage_s or now >= until:
            cause = _LAST_ANSWER.sub("", error.msg)
            raise GpuOpsError(f"{cause} Its last answer was {int(away_s)} s ago.", **error.details) from error


_LAST_ANSWER = re.compile(r" Its last answer was \d+ s ago\.$")
"""The sentence that a shorter wait inside this one has already added."""


def until(
    look: t.Callable[[], T | None],
    timeout_s: float = math.inf,
    *,
    poll_s: float | t.Callable[[], float] | None = None,
    period_s: float | None = None,
    patience: Patience | None = None,
    patience_ends: t.Callable[[], float] = lambda: math.inf,
    on_outage: t.Callable[[GpuOpsError], None] = lambda error: None,
) -> T | None:
    """Call ``look`` until it returns something other than None, and return that, or None when ``timeout_s`` has passed.

    The pause between two looks is ``poll_s``, or what a look leaves of ``period_s``, or else depends on how long the
    look took (see `POLL_FACTOR`). A look may fail while the API server is away: the wait then calls ``on_outage`` and
    goes on for as long as ``patience`` allows, at most until ``patience_ends()`` (monotonic seconds) and ``timeout_s``.
    The error that ends it says how old the last answer is.
    """
    patience = patience or Patience()
    deadline = time.monotonic() + timeout_s
    while True:
        pause_s, began = POLL_S, time.monotonic()
        try:
            found = look()
        except GpuOpsError as e:
            patience.tolerate(e, min(deadline, patience_ends()))
            on_outage(e)
        else:
            patience.answered()
            if found is not None:
                return found
            if time.monotonic() >= deadline:
                return None
            look_s = time.monotonic() - began
            pause_s = _pause(look_s, poll_s) if period_s is None else period_s - look_s
        time.sleep(max(0.0, min(pause_s, deadline - time.monotonic())))


def _pause(look_s: float, poll_s: float | t.Callable[[], float] | None) -> float:
    """Return the pause after a look that took ``look_s``."""
    if poll_s is None:
        return max(POLL_S, min(POLL_FACTOR * look_s, POLL_MAX_S))
    return poll_s() if callable(poll_s) else poll_s


def append_line(path: str | None, line: str) -> None:
    """Append a line to a progress file, if there is one. A file that cannot be written does not end the work."""
    if path:
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
            file.write(f"{printable(line)}\n")


def timeout_message(missing: str, seconds: float) -> str:
    """Return the message of a wait that has timed out: how long it was, and what was missing."""
    return f"The GPU stack is not ready after {int(seconds)} s: {missing}"


# Signals that end a wait before it has cleaned up


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def signals_as_exceptions() -> t.Iterator[None]:
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
def signals_noted() -> t.Iterator[Noted]:
    """Note SIGINT, SIGTERM and SIGHUP during a block, whose code asks for them where it can stop.

    An exception that a handler raises between any two instructions can leave the locks of a thread pool taken forever,
    and the pool then hangs. So a block that uses a pool must not use `signals_as_exceptions`.
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
