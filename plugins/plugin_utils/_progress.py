# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Progress of long tasks, which the controller prints while a module runs.

A module cannot print while it runs, and users do not want to wait for half an hour without any output. Plain lines
(no cursor movement) are readable both in a terminal and in AWX's job output. A module that only waits runs in slices,
and the controller prints a line between them. A module that must undo its changes if it is interrupted runs in one
piece and writes its progress to a file, which the controller reads.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
import typing as t

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import AWAY, GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC

INFO = "gpuops.nvidia.clusterpolicy_info"
"""The module that later slices run: it reads the stack and waits."""

SLICE_S = 8
"""How long the module waits at a time, and how often the controller reads the module's progress file."""

HEARTBEAT_S = 30
"""How often a line is printed even if nothing has changed."""


class Lines:
    """Prints a line when it differs from the previous one, and every `HEARTBEAT_S` seconds in any case."""

    def __init__(self, display: t.Callable[[str], None], now: t.Callable[[], float] = time.monotonic) -> None:
        self._display, self._now = display, now
        self._start = self._displayed_at = now()
        self._line = ""

    @property
    def waited(self) -> float:
        """Seconds since the start."""
        return self._now() - self._start

    def show_line(self, line: str, more: str = "") -> None:
        """Print a line if it is new; ``more`` is printed with it but does not make it new."""
        if line != self._line or self._now() - self._displayed_at >= HEARTBEAT_S:
            self._display(f"  [{_clock(self.waited)}] {line}{more}")
            self._line, self._displayed_at = line, self._now()


class Progress(Lines):
    """Prints verdicts as lines that also say for how long the same reason has held up the stack."""

    def __init__(self, display: t.Callable[[str], None], now: t.Callable[[], float] = time.monotonic) -> None:
        super().__init__(display, now)
        self._blocker: tuple[str, ...] = ()
        self._since = self._start

    def show(self, result: Json) -> None:
        """Print a line for a module result if it is new."""
        reason = _blocking_reason(result)
        blocker = (reason["code"], reason["operand"]) if reason else ("Unreachable",)
        if blocker != self._blocker:
            self._blocker, self._since = blocker, self._now()
        message = reason["message"] if reason else result.get("msg", "")
        self.show_line(_operands_ready(result) + message, f" (for {_clock(self._now() - self._since)})")


def _blocking_reason(result: Json) -> Json | None:
    """Return the first reason why the stack is not ready."""
    reasons = (_current(result, "verdict") or {}).get("reasons") or []
    return next((reason for reason in reasons if reason["level"] != "note"), None)


def _operands_ready(result: Json) -> str:
    wanted = [row for row in _current(result, "operands") or [] if row["state"] != "disabled"]
    ready = sum(row["state"] == "ready" for row in wanted)
    return f"{ready}/{len(wanted)} operands ready; " if wanted else ""


def _current(result: Json, key: str) -> t.Any:
    """Return one value of a result, or None while the API server is away: the value is then out of date."""
    return None if result.get("reason") in AWAY else result.get(key)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02}:{int(seconds) % 60:02}"


class ProgressAction(ActionBase):
    """Base of the action plugins. If there is no progress to show, the module runs as it would without a plugin."""

    MODULE = ""
    _requires_connection = False
    _supports_async = True

    def _module(self, name: str, args: Json, task_vars: Json | None) -> Json:
        wrap_async = bool(self._task.async_val and not self._connection.has_native_async)
        result = self._execute_module(module_name=name, module_args=args, task_vars=task_vars, wrap_async=wrap_async)
        if not isinstance(result, dict):
            raise AnsibleActionFail(f"{name} returned no result")
        return result


class WaitingAction(ProgressAction):
    """Runs a module that waits, in slices."""

    WAITS_BY_DEFAULT = True
    TIMEOUT_S = 1800

    def run(self, tmp: str | None = None, task_vars: Json | None = None) -> Json:
        """Run the module. If it waits, run it in slices, and print the progress between them."""
        super().run(tmp, task_vars)
        args = dict(self._task.args)
        timeout_s = self._sliceable_timeout(args)
        if timeout_s is None:
            return self._module(self.MODULE, args, task_vars)
        return _Slices(lambda name, args: self._module(name, args, task_vars), self.MODULE, args, timeout_s).run()

    def _sliceable_timeout(self, args: Json) -> float | None:
        """Return the seconds to wait, or None if the module does not wait or should refuse its options itself."""
        try:
            waits = boolean(args.get("wait", self.WAITS_BY_DEFAULT))
            timeout_s = int(args.get("wait_timeout", self.TIMEOUT_S))
        except (TypeError, ValueError):
            return None
        in_one_piece = self._task.check_mode or self._task.async_val or args.get("state") == "absent"
        return None if in_one_piece or not waits or timeout_s <= SLICE_S else timeout_s


class _Slices:
    """A wait in slices. The first slice runs the module itself with a short timeout; later slices only read."""

    def __init__(self, execute: t.Callable[[str, Json], Json], module: str, args: Json, timeout_s: float) -> None:
        self._execute, self._module, self._args, self._timeout_s = execute, module, args, timeout_s
        self._progress = Progress(Display().display)
        self._patience = waiting.Patience(reached=False)
        self._first: Json = {}
        self._last: Json = {}

    def run(self) -> Json:
        """Return what the module would have returned if it had run in one piece."""
        try:
            # Each slice waits, so there is no pause between two slices.
            ending = waiting.until(self._next, self._timeout_s, poll_s=0, patience=self._patience)
        except GpuOpsError as e:
            ending = {**self._last, "msg": e.msg}
        if ending is None:
            missing = (self._last.get("verdict") or {}).get("message") or self._last["msg"]
            ending = {**self._last, "msg": waiting.timeout_message(missing, self._timeout_s)}
        is_one_module = self._last is self._first or self._module == INFO
        return ending if is_one_module else _merged(self._first, ending)

    def _next(self) -> Json | None:
        """Run one slice. Return its result if the wait is over, or None."""
        if not self._first:
            self._first = self._last = self._execute(self._module, {**self._args, "wait_timeout": SLICE_S})
        else:
            self._progress.show(self._last)
            left_s = int(self._timeout_s - self._progress.waited)
            reading = {key: self._args[key] for key in _reading_options() if key in self._args}
            slice_s = max(1, min(SLICE_S, left_s))
            self._last = self._execute(INFO, {**reading, "wait": True, "wait_timeout": slice_s})
        return self._ending()

    def _ending(self) -> Json | None:
        """Return the last result if it ends the wait. Raises `GpuOpsError` if the API server is away."""
        reason = self._last.get("reason") if self._last.get("failed") else None
        if reason not in AWAY:
            return None if reason == "TimedOut" else self._last
        if "verdict" in self._last:  # the outage began in the middle of the slice
            self._patience.answered()
        raise GpuOpsError(self._last["msg"], reason=reason)


def _reading_options() -> set[str]:
    """Return the options for reading the same ClusterPolicy: its name, and the connection options with aliases."""
    aliases = {alias for spec in AUTH_ARG_SPEC.values() for alias in spec.get("aliases", [])}
    return {"name", "namespace", *AUTH_ARG_SPEC, *aliases}


def _merged(first: Json, last: Json) -> Json:
    """Combine the changes of the first slice with the outcome of the wait."""
    ending = ("failed", "msg", "reason", "exception")
    result = {key: value for key, value in first.items() if key not in ending}
    result.update({key: value for key, value in last.items() if key in (*ending, "verdict", "operands")})
    return result


class WatchingAction(ProgressAction):
    """Runs a module that appends lines about its progress to the file in its option progress_path."""

    def run(self, tmp: str | None = None, task_vars: Json | None = None) -> Json:
        """Run the module in one piece, and print its progress lines meanwhile."""
        super().run(tmp, task_vars)
        args = dict(self._task.args)
        # The controller can read the file only if the module runs on the controller.
        is_local = self._connection.transport == "local"
        if self._task.check_mode or self._task.async_val or "progress_path" in args or not is_local:
            return self._module(self.MODULE, args, task_vars)
        local_tmp = t.cast(t.Any, constants).DEFAULT_LOCAL_TMP
        with tempfile.TemporaryDirectory(dir=local_tmp, ignore_cleanup_errors=True) as folder:
            path = os.path.join(folder, "progress")
            with _watched(path):
                return self._module(self.MODULE, {**args, "progress_path": path}, task_vars)


@contextlib.contextmanager
def _watched(path: str) -> t.Iterator[None]:
    """Print the newest line of a file from time to time, for the duration of a ``with`` block."""
    finished = threading.Event()
    watcher = threading.Thread(target=_watch, name="progress", args=(path, finished), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()


def _watch(path: str, finished: threading.Event) -> None:
    lines = Lines(Display().display)
    while not finished.wait(SLICE_S):
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                lines.show_line(file.read().rstrip("\n").rpartition("\n")[2])
