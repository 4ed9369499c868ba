# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kill ansible-playbook between two tasks of a role, as a power cut would.

``plays.py`` sets in environment variables: the role, the file that lists the finished tasks, and after what the run is
killed: after this many tasks, or after the first task of this name.
"""

from __future__ import annotations

import os
import signal
import typing as t

from ansible.plugins.callback import CallbackBase

NOT_ON_THE_HOST = (
    "ansible.builtin.include_role",
    "ansible.builtin.include_tasks",
    "ansible.builtin.validate_argument_spec",
)


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """List the tasks that finish on the host, without skipped ones, and kill the process group after one of them."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "power_cut"

    def __init__(self) -> None:
        super().__init__()
        self._role, self._log = os.environ["POWER_CUT_ROLE"], os.environ["POWER_CUT_LOG"]
        self._after = os.environ["POWER_CUT_AFTER"]
        self._finished = 0

    def v2_runner_on_ok(self, result: t.Any) -> None:
        """Record a task that has finished."""
        if not self._counts(result.task):
            return
        with open(self._log, "a", encoding="utf-8") as log:
            log.write(f"{result.task.name}\n")
        self._finished += 1
        if self._after in (result.task.name, str(self._finished)):
            os.killpg(os.getpgid(0), signal.SIGKILL)

    def _counts(self, task: t.Any) -> bool:
        if task._role is None or task.action in NOT_ON_THE_HOST:
            return False
        return bool(task._role.get_name(include_role_fqcn=False) == self._role)
