# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kills ansible-playbook between two tasks of a role: `plays.py` says of which, after how many, and where to write down what was done."""

from __future__ import annotations

import os
import signal
import typing as t

from ansible.plugins.callback import CallbackBase

NOT_ON_THE_HOST = ("ansible.builtin.include_tasks", "ansible.builtin.validate_argument_spec")


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Counts the tasks that have come to an end on the host, and leaves nobody to go on after the last one. Skipped tasks do nothing."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "power_cut"

    def __init__(self) -> None:
        super().__init__()
        self._role, self._log = os.environ["POWER_CUT_ROLE"], os.environ["POWER_CUT_LOG"]
        self._left = int(os.environ["POWER_CUT_AFTER"])

    def v2_runner_on_ok(self, result: t.Any) -> None:
        """One task has ended."""
        role = result.task._role
        if (
            role is None
            or role.get_name(include_role_fqcn=False) != self._role
            or result.task.action in NOT_ON_THE_HOST
        ):
            return
        with open(self._log, "a", encoding="utf-8") as log:
            log.write(f"{result.task.name}\n")
        self._left -= 1
        if self._left == 0:
            os.killpg(os.getpgid(0), signal.SIGKILL)
