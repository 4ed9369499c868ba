# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Why an action plugin: the page of a large fleet takes megabytes, which must not pass through the events of a run, and
# Jinja2 and the template are on the controller.

from __future__ import annotations

import os
import sys
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.parameters import remove_values
from ansible.plugins.action import ActionBase
from ansible_collections.gpuops.nvidia.plugins.module_utils import _gate
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import CONNECTION
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import picture
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._secrets import secrets_in
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report import store
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report.page import Page, page_of
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report.render import html


class ActionModule(ActionBase):
    """Runs the module of the same name, and writes the page.

    If the module would run on this machine, in this Python and as this user, its function is called instead: packing
    and starting a module of this size takes as long as the rest of the report of 1,000 nodes.
    """

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: Json | None = None) -> Json:
        """Read the cluster with the module, and write the page here."""
        super().run(tmp, task_vars)
        args = self._task.args
        result = self._here() if self._is_here(task_vars or {}) else self._there(task_vars or {})
        shown = result.pop("picture", None)
        if not isinstance(shown, dict):
            return result
        result.pop("invocation", None)  # the facts of all hosts
        path = os.path.abspath(os.path.expanduser(str(args["path"])))
        page = page_of(shown, str(args.get("title") or "GPU fleet"), store.former_state(path))
        text = html(page)
        try:
            mode = store.mode_of(str(args.get("mode") or "0600"))
            has_changed = store.write(path, text, mode, page.changes.is_new, bool(self._task.check_mode))
        except (OSError, ValueError) as e:
            raise AnsibleActionFail(f"The report cannot be written to {path}: {e}") from e
        return {**result, "changed": has_changed, "path": path, "size": len(text.encode()), **_words(page)}

    def _is_here(self, task_vars: Json) -> bool:
        """Return whether the module would run on this machine, in this Python, with this environment, as this user."""
        task, connection = self._task, self._connection
        if connection.transport != "local" or connection.become or any(task.environment or ()) or task.async_val:
            return False
        return bool(self._templar.template(task_vars.get("ansible_python_interpreter", "")) == sys.executable)

    def _here(self) -> Json:
        """Return the picture, or the failure that the module would report."""
        valid, options = t.cast(t.Any, self).validate_argument_spec(**CONNECTION.including(picture.SPEC).arguments)
        secrets = valid._no_log_values.union(secrets_in({"prometheus": options["prometheus"]}))
        try:
            result = {"changed": False, "picture": _gate.shown(picture.picture(options))}
            return t.cast(Json, remove_values(result, secrets)) if secrets else result
        except GpuOpsError as e:
            failure = {"failed": True, "msg": _gate.sentence(e.msg), **_gate.shown(e.details)}
            return t.cast(Json, remove_values(failure, secrets))

    def _there(self, task_vars: Json) -> Json:
        result = self._execute_module(
            module_name="gpuops.nvidia.fleet_report", module_args=self._task.args, task_vars=task_vars
        )
        return t.cast(Json, result)


def _words(page: Page) -> Json:
    return {
        "summary": {
            "headline": page.headline,
            "nodes": page.totals.nodes,
            "nodes_in_service": page.totals.serving,
            "failures": page.levels["failure"],
            "warnings": page.levels["warning"],
            "notes": page.levels["ok"],
            "gaps": len(page.gaps),
        },
        "changes": list(page.changes.lines),
        "since": page.changes.since,
    }
