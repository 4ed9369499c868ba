# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Why an action plugin: the page of a large fleet takes megabytes, which must not pass through the events of a run, and
# Jinja2 and the template are on the controller.

from __future__ import annotations

import os
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report import store
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report.page import Page, page_of
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report.render import html


class ActionModule(ActionBase):
    """Runs the module of the same name, and writes the page."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: Json | None = None) -> Json:
        """Read the cluster with the module, and write the page here."""
        super().run(tmp, task_vars)
        args = self._task.args
        result = self._execute_module(
            module_name="gpuops.nvidia.fleet_report", module_args=args, task_vars=task_vars or {}
        )
        picture = result.pop("picture", None)
        if not isinstance(picture, dict):
            return t.cast(Json, result)
        result.pop("invocation", None)  # the facts of all hosts
        path = os.path.abspath(os.path.expanduser(str(args["path"])))
        page = page_of(picture, str(args.get("title") or "GPU fleet"), store.former_state(path))
        text = html(page)
        try:
            mode = store.mode_of(str(args.get("mode") or "0600"))
            has_changed = store.write(path, text, mode, page.changes.is_new, bool(self._task.check_mode))
        except (OSError, ValueError) as e:
            raise AnsibleActionFail(f"The report cannot be written to {path}: {e}") from e
        return {**result, "changed": has_changed, "path": path, "size": len(text.encode()), **_words(page)}


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
