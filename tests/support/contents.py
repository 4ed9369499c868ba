# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What playbooks and task files contain."""

from __future__ import annotations

import typing as t
from pathlib import Path

import yaml


def load(path: Path) -> t.Any:
    """Return the content of a YAML file."""
    return yaml.safe_load(path.read_text())


def plays_of(playbook: Path) -> list[dict[str, t.Any]]:
    """Return the plays of a playbook, those of the playbooks that it imports among them, with imported tasks."""
    found: list[dict[str, t.Any]] = []
    for play in load(playbook):
        imported = play.get("ansible.builtin.import_playbook")
        if imported:
            found += plays_of(playbook.parent / imported)
        else:
            found.append({**play, "tasks": _imported(play.get("tasks", []), playbook.parent)})
    return found


def _imported(tasks: list[dict[str, t.Any]], folder: Path) -> list[dict[str, t.Any]]:
    """Return tasks with those of the files of this folder that they import, in their places."""
    found = []
    for task in tasks:
        name = task.get("ansible.builtin.import_tasks")
        found += load(folder / name) if name else [task]
    return found


def tasks_of(value: t.Any) -> t.Iterator[dict[str, t.Any]]:
    """Yield every task of a task file, including tasks in blocks."""
    for task in value:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks_of(task.get(part, []))
