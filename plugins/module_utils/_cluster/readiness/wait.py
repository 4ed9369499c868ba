# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Waiting for the judge's verdict, in one process that remembers what it has seen."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import edits, judge, observe, tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.history import History
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.tolerance import Tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import (
    Marks,
    Observation,
    Verdict,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def read_marks(cluster: Cluster, namespace: str, subject: Json | None) -> Marks:
    """Return what shows later whether the operator has acted on an edit. Call this before the edit."""
    path = namespaced("apps/v1", namespace, "daemonsets")
    return edits.marks(subject, cluster.list(path, resourceVersion="") or [])


def until_ready(
    cluster: Cluster,
    namespace: str,
    name: str,
    timeout_s: float,
    progress_path: str | None = None,
    limits: Tolerance = tolerance.NOTHING,
    before: Marks | None = None,
) -> tuple[Observation, Verdict]:
    """Return what was observed when the verdict became ready. Each look appends a line to the progress file.

    ``before`` is the answer of `read_marks` from before an edit that the operator has yet to act on.

    Raises `GpuOpsError` with the last verdict as soon as it is failed (reason NotReady), when time is up (TimedOut),
    when a signal ends the wait (Interrupted), or when the API server stays away (Unreachable, ServerError or
    TooManyRequests). If the first look fails, so does the wait, without a verdict.
    """
    observer = observe.Observer(cluster, namespace, name, limits)
    look = _Look(
        lambda: dataclasses.replace(observer.look(), before=before),
        lambda observation: judge.judge(observation, limits),
        _ProgressFile(progress_path),
    )
    try:
        with waiting.signals_as_exceptions():
            found = waiting.until(
                look, timeout_s, patience=waiting.Patience(reached=False), on_outage=look.progress.show_outage
            )
    except GpuOpsError as e:
        raise GpuOpsError(e.msg, **{**look.result, **e.details}) from e
    except KeyboardInterrupt as e:
        message = "The wait was interrupted, and the cluster is unchanged. Run it again to continue waiting."
        raise GpuOpsError(message, **{**look.result, "reason": "Interrupted"}) from e
    if found is None:
        raise GpuOpsError(waiting.timeout_message(look.message, timeout_s), reason="TimedOut", **look.result)
    if found[1].state == "failed":
        raise GpuOpsError(f"The GPU stack cannot become ready: {look.message}", reason="NotReady", **look.result)
    return found


class _ProgressFile:
    """Writes what holds up the stack, and for how long it has, to the progress file."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._blocker: tuple[str | None, ...] = ()
        self._since = time.monotonic()

    def show(self, verdict: Verdict) -> None:
        """Write a line about a verdict that is not ready."""
        wanted = [rollout for rollout in verdict.operands if rollout.state != "disabled"]
        ready = sum(rollout.state == "ready" for rollout in wanted)
        first = verdict.reasons[0]
        operands = f"{ready}/{len(wanted)} operands ready; " if wanted else ""
        self._write((first.code, first.operand), operands + first.message)

    def show_outage(self, error: GpuOpsError) -> None:
        """Write a line about an API server that does not answer."""
        self._write(("Unreachable",), error.msg)

    def _write(self, blocker: tuple[str | None, ...], line: str) -> None:
        now = time.monotonic()
        if blocker != self._blocker:
            self._blocker, self._since = blocker, now
        minutes, seconds = divmod(int(now - self._since), 60)
        waiting.append_line(self._path, f"{line} (for {minutes:02}:{seconds:02})")


class _Look:
    """Looks at the stack, and keeps the last verdict: the message, and the keys of the result."""

    def __init__(
        self,
        observe_now: t.Callable[[], Observation],
        judge_now: t.Callable[[Observation], Verdict],
        progress: _ProgressFile,
    ) -> None:
        self._observe, self._judge, self.progress = observe_now, judge_now, progress
        self._history = History(time.monotonic())
        self.message = ""
        self.result: Json = {}

    def __call__(self) -> tuple[Observation, Verdict] | None:
        """Return what was observed and a verdict that ends the wait, or None."""
        observation = self._history.add_ages(self._observe(), time.monotonic())
        verdict = self._judge(observation)
        self.message, self.result = verdict.message, verdict.as_result()
        if verdict.state == "progressing":
            self.progress.show(verdict)
            return None
        return observation, verdict
