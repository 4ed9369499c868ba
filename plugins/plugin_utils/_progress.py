# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Waiting with progress: while a module is at work, the controller prints how far it is.

A module cannot print while it runs, and half an hour of silence is what users complain of most in long tasks. Plain lines
(no cursor movement) read well in a terminal and in AWX's job output alike. A module that only waits runs in slices, with the lines
between them. One that must put back what it took when it is interrupted runs in one piece, and the controller reads what it writes.
"""

from __future__ import annotations

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
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.waiting import OUTAGE_S, POLL_S, timeout_message
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import AWAY
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC

INFO = "gpuops.nvidia.clusterpolicy_info"
SLICE_S = 8
HEARTBEAT_S = 30
class Lines:
    """Prints a line when it is another one than before, and every `HEARTBEAT_S` seconds all the same."""

    def __init__(self, say: t.Callable[[str], None], now: t.Callable[[], float] = time.monotonic) -> None:
        self._say, self._now = say, now
        self._start = self._said = now()
        self._line = ""

    @property
    def waited(self) -> float:
        """Seconds since the start."""
        return self._now() - self._start

    def tell(self, line: str, more: str = "") -> None:
        """Print a line if there is something new to say; ``more`` does not make it new."""
        if line != self._line or self._now() - self._said >= HEARTBEAT_S:
            self._say(f"  [{_clock(self.waited)}] {line}{more}")
            self._line, self._said = line, self._now()


class Progress(Lines):
    """Turns verdicts into lines, with how long the same thing has held things up."""

    def __init__(self, say: t.Callable[[str], None], now: t.Callable[[], float] = time.monotonic) -> None:
        super().__init__(say, now)
        self._blocker: tuple[t.Any, ...] = ()
        self._since = self._start

    def show(self, result: Json) -> None:
        """Print a line for a module result if there is something new to say."""
        verdict, operands = _known(result, "verdict") or {}, _known(result, "operands") or []
        first = next((reason for reason in verdict.get("reasons") or [] if reason["level"] != "note"), None)
        blocker = (first["code"], first["operand"]) if first else ("Unreachable",)
        if blocker != self._blocker:
            self._blocker, self._since = blocker, self._now()
        wanted = [row for row in operands if row["state"] != "disabled"]
        done = f"{sum(row['state'] == 'ready' for row in wanted)}/{len(wanted)} operands ready; " if wanted else ""
        self.tell(
            done + (first["message"] if first else result.get("msg", "")), f" (for {_clock(self._now() - self._since)})"
        )


def _known(result: Json, key: str) -> t.Any:
    """What a result says of the stack; while the API server is away that is of a time before."""
    return None if result.get("reason") in AWAY else result.get(key)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02}:{int(seconds) % 60:02}"


class ProgressAction(ActionBase):
    """Base of the action plugins: the module of the same name, which runs as without them where there is no progress to show."""

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
    """For a module that waits: it runs in slices."""

    WAITS_BY_DEFAULT = True
    TIMEOUT_S = 1800

    def run(self, tmp: str | None = None, task_vars: Json | None = None) -> Json:
        """Run the module; where it waits, in slices with progress in between."""
        super().run(tmp, task_vars)
        args = dict(self._task.args)
        timeout = self._sliceable_timeout(args)
        if timeout is None:
            return self._module(self.MODULE, args, task_vars)
        return self._wait(args, timeout, task_vars)

    def _sliceable_timeout(self, args: Json) -> float | None:
        """Return the seconds to wait, or None when the module does not wait or its options are for it to refuse."""
        try:
            waits = boolean(args.get("wait", self.WAITS_BY_DEFAULT))
            timeout = int(args.get("wait_timeout", self.TIMEOUT_S))
        except (TypeError, ValueError):
            return None
        unsuitable = (
            self._task.check_mode or self._task.async_val or args.get("state") == "absent" or timeout <= SLICE_S
        )
        return None if unsuitable or not waits else timeout

    def _wait(self, args: Json, timeout: float, task_vars: Json | None) -> Json:
        progress = Progress(Display().display)
        first = last = self._module(self.MODULE, {**args, "wait_timeout": SLICE_S}, task_vars)
        reading = {key: args[key] for key in _reading_options() if key in args}
        answered = progress.waited
        while last.get("failed"):
            left = timeout - progress.waited
            if last.get("reason") == "TimedOut":
                answered = progress.waited
            # With a verdict in the result the outage began in the middle of the wait, also in the first slice.
            elif (
                last.get("reason") not in AWAY
                or (last is first and "verdict" not in last)
                or progress.waited - answered > OUTAGE_S
            ):
                break
            if left <= 0:
                last["msg"] = timeout_message((_known(last, "verdict") or {}).get("message") or last["msg"], timeout)
                break
            progress.show(last)
            if last.get("reason") in AWAY:
                time.sleep(POLL_S)
            last = self._module(
                INFO, {**reading, "wait": True, "wait_timeout": max(1, min(SLICE_S, int(left)))}, task_vars
            )
        return last if first is last or self.MODULE == INFO else _merged(first, last)


class WatchingAction(ProgressAction):
    """For a module that appends lines about its progress to the file of its option progress_path."""

    def run(self, tmp: str | None = None, task_vars: Json | None = None) -> Json:
        """Run the module in one piece, and print what it writes meanwhile."""
        super().run(tmp, task_vars)
        args = dict(self._task.args)
        # Elsewhere than on the controller nobody here could read the file.
        if (
            self._task.check_mode
            or self._task.async_val
            or "progress_path" in args
            or self._connection.transport != "local"
        ):
            return self._module(self.MODULE, args, task_vars)
        with tempfile.TemporaryDirectory(
            dir=t.cast(t.Any, constants).DEFAULT_LOCAL_TMP, ignore_cleanup_errors=True
        ) as folder:
            path = os.path.join(folder, "progress")
            over = threading.Event()
            watcher = threading.Thread(target=_watch, name="progress", args=(path, over), daemon=True)
            watcher.start()
            try:
                return self._module(self.MODULE, {**args, "progress_path": path}, task_vars)
            finally:
                over.set()
                watcher.join()


def _watch(path: str, over: threading.Event) -> None:
    """Print the newest line of a file from time to time, until it is over."""
    lines = Lines(Display().display)
    while not over.wait(SLICE_S):
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                lines.tell(file.read().rstrip("\n").rpartition("\n")[2])


def _reading_options() -> set[str]:
    """The options that a read of the same ClusterPolicy takes over: its name, and the connection with all its spellings."""
    aliases = {alias for spec in AUTH_ARG_SPEC.values() for alias in spec.get("aliases", [])}
    return {"name", "namespace", *AUTH_ARG_SPEC, *aliases}


def _merged(first: Json, last: Json) -> Json:
    """Combine what the first slice changed with how the wait ended."""
    ending = ("failed", "msg", "reason", "exception")
    result = {key: value for key, value in first.items() if key not in ending}
    result.update({key: value for key, value in last.items() if key in (*ending, "verdict", "operands")})
    return result
