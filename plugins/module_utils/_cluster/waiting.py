# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The one loop of everything that waits for the cluster, also while the API server is away.

It imports nothing of Kubernetes: Ansible loads action plugins in every run, and the client would make each start half a second longer.
"""

from __future__ import annotations

import math
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import AWAY, GpuOpsError

POLL_S = 2.0
"""How long to wait between two looks at the cluster."""

OUTAGE_S = 60.0
"""How long the API server may be away during a wait: the upgrade of a control plane restarts it for some seconds."""

T = t.TypeVar("T")


class Patience:
    """How long an API server may be away, counted from its last answer.

    ``reached`` says whether it has answered before. If it has not, its address may be wrong, and no failure is tolerated.
    """

    def __init__(self, outage_s: float = OUTAGE_S, reached: bool = True) -> None:
        self._outage_s = outage_s
        self._last_answer = time.monotonic() if reached else -math.inf

    def answered(self) -> None:
        """Note that the API server has answered."""
        self._last_answer = time.monotonic()

    def tolerate(self, error: GpuOpsError, until: float = math.inf) -> None:
        """Return if the API server may come back, and raise otherwise. ``until`` (monotonic seconds) ends the patience earlier."""
        if error.reason not in AWAY or math.isinf(self._last_answer):
            raise error
        now = time.monotonic()
        away_s = now - self._last_answer
        if away_s > self._outage_s or now >= until:
            raise GpuOpsError(f"{error.msg} Its last answer was {int(away_s)} s ago.", **error.details) from error


def until(
    look: t.Callable[[], T | None],
    timeout_s: float = math.inf,
    *,
    poll_s: float | t.Callable[[], float] = POLL_S,
    patience: Patience | None = None,
    patience_ends: t.Callable[[], float] = lambda: math.inf,
    on_outage: t.Callable[[GpuOpsError], None] = lambda error: None,
) -> T | None:
    """Look again and again, and return the first answer that is not None, or None when ``timeout_s`` has passed.

    A look may fail while the API server is away: the wait goes on for as long as ``patience`` allows, at most until ``patience_ends()``
    (monotonic seconds) and ``timeout_s``, and calls ``on_outage``. The error that ends it says for how long there was no answer.
    """
    patience = patience or Patience()
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            found = look()
        except GpuOpsError as e:
            patience.tolerate(e, min(deadline, patience_ends()))
            on_outage(e)
            pause_s = POLL_S
        else:
            patience.answered()
            if found is not None:
                return found
            if time.monotonic() >= deadline:
                return None
            pause_s = poll_s() if callable(poll_s) else poll_s
        time.sleep(max(0.0, min(pause_s, deadline - time.monotonic())))


def timeout_message(message: str, seconds: float) -> str:
    """Say that time is up, and what was missing."""
    return f"The GPU stack is not ready after {int(seconds)} s: {message}"
