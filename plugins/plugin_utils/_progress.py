# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Progress of long tasks, which the controller prints while a module runs.

A module cannot print while it runs, and users do not want to wait for half an hour without any output. The module
appends lines about its progress to a file, which the controller reads. Plain lines (no cursor movement) are readable
both in a terminal and in AWX's job output.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
import time
import typing as t

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

LOOK_S = 8
"""How often the controller reads the module's progress file."""

HEARTBEAT_S = 30
"""How often a line is printed without a change."""


class Lines:
    """Prints a line when it differs from the previous one, and every `HEARTBEAT_S` seconds in any case."""

    def __init__(self, display: t.Callable[[str], None], now: t.Callable[[], float] = time.monotonic) -> None:
        self._display, self._now = display, now
        self._start = self._displayed_at = now()
        self._line = ""

    def show(self, text: str) -> None:
        """Print a line if it is new. How long something has lasted, " (for 00:38)", does not make it new."""
        line = text.partition(" (for ")[0]
        if line != self._line or self._now() - self._displayed_at >= HEARTBEAT_S:
            seconds = int(self._now() - self._start)
            self._display(f"  [{seconds // 60:02}:{seconds % 60:02}] {text}")
            self._line, self._displayed_at = line, self._now()


class WatchingAction(ActionBase):
    """Runs a module that appends lines about its progress to the file in its option progress_path.

    The controller can read the file only if the module runs on the controller. A module that runs elsewhere (connection
    ssh, an execution node) does the same work, and its lines are not printed.
    """

    MODULE = ""
    _requires_connection = False
    _supports_async = True

    def run(self, tmp: str | None = None, task_vars: Json | None = None) -> Json:
        """Run the module, and print its progress lines meanwhile."""
        super().run(tmp, task_vars)
        args = dict(self._task.args)
        is_local = self._connection.transport == "local"
        if self._task.check_mode or self._task.async_val or "progress_path" in args or not is_local:
            return self._module(args, task_vars)
        local_tmp = t.cast(t.Any, constants).DEFAULT_LOCAL_TMP
        with tempfile.TemporaryDirectory(dir=local_tmp, ignore_cleanup_errors=True) as folder:
            path = os.path.join(folder, "progress")
            with _watched(path):
                return self._module({**args, "progress_path": path}, task_vars)

    def _module(self, args: Json, task_vars: Json | None) -> Json:
        wrap_async = bool(self._task.async_val and not self._connection.has_native_async)
        result = self._execute_module(
            module_name=self.MODULE, module_args=args, task_vars=task_vars, wrap_async=wrap_async
        )
        if not isinstance(result, dict):
            raise AnsibleActionFail(f"{self.MODULE} returned no result")
        return result


@contextlib.contextmanager
def _watched(path: str) -> t.Iterator[None]:
    """Print the newest line of a file from time to time, for the duration of a ``with`` block.

    A worker of Ansible and its modules have a session of their own. They would go on after the death of
    ansible-playbook, for example when a job is cancelled. So the end of the parent process ends them, too.
    """
    finished = threading.Event()
    watcher = threading.Thread(target=_watch, name="progress", args=(path, finished, os.getppid()), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()


def _watch(path: str, finished: threading.Event, parent: int) -> None:
    # At Ctrl-C, ansible-playbook sends its workers SIGINT and SIGTERM, one right after the other. A thread that takes
    # both leaves the main thread waiting for its module.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    lines = Lines(Display().display)
    while not finished.wait(LOOK_S):
        if os.getppid() != parent and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGTERM)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                complete = file.read().rpartition("\n")[0]
            if complete:
                lines.show(complete.rpartition("\n")[2])
