# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Progress of long tasks: the controller prints the lines that a module appends to a file."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
import types
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.gpuops.nvidia.plugins.plugin_utils import _progress
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._progress import Lines, WatchingAction

from tests.support.clock import Clock

Json = dict[str, t.Any]


def test_a_line_for_each_change_and_a_heartbeat() -> None:
    clock, printed = Clock(), list[str]()
    lines = Lines(printed.append, clock.monotonic)
    for seconds, text in (
        (8, "1/2 operands ready; driver: 1 of 4 nodes ready. (for 00:00)"),
        (8, "1/2 operands ready; driver: 1 of 4 nodes ready. (for 00:08)"),
        (30, "1/2 operands ready; driver: 1 of 4 nodes ready. (for 00:38)"),
        (60, "1/2 operands ready; dcgm: 3 of 4 nodes ready. (for 00:00)"),
    ):
        clock.sleep(seconds)
        lines.show(text)
    assert printed == [
        "  [00:08] 1/2 operands ready; driver: 1 of 4 nodes ready. (for 00:00)",
        "  [00:46] 1/2 operands ready; driver: 1 of 4 nodes ready. (for 00:38)",
        "  [01:46] 1/2 operands ready; dcgm: 3 of 4 nodes ready. (for 00:00)",
    ]
    assert all(line.isprintable() for line in printed), "control characters would spoil AWX's job output"


class Play(t.NamedTuple):
    """What a task returned, which modules it ran, and what it printed."""

    result: Json
    calls: list[tuple[str, Json]]
    lines: list[str]


DRAIN = "gpuops.nvidia.node_maintenance"


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch, tmp_path: t.Any) -> t.Callable[..., Play]:
    """Run a drain whose module writes the texts ``written`` one by one, more slowly than the controller polls."""

    def run(
        written: list[str], transport: str = "local", check: bool = False, async_val: int = 0, **args: t.Any
    ) -> Play:
        calls: list[tuple[str, Json]] = []
        lines: list[str] = []
        monkeypatch.setattr(_progress, "Display", lambda: types.SimpleNamespace(display=lines.append))
        monkeypatch.setattr(_progress, "LOOK_S", 0.02)
        monkeypatch.setattr(_progress.constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
        monkeypatch.setattr(_progress.ActionBase, "run", lambda self, tmp=None, task_vars=None: {})

        class Action(WatchingAction):
            MODULE = DRAIN

            def _execute_module(self, module_name: str, module_args: Json, task_vars: t.Any, wrap_async: bool) -> Json:
                calls.append((module_name, module_args))
                assert wrap_async is bool(async_val)
                for text in written:
                    with open(module_args["progress_path"], "a", encoding="utf-8") as file:
                        file.write(text)
                    time.sleep(0.3)
                if "raise" in args:
                    raise AnsibleActionFail("broken")
                return {"changed": True}

        action = Action.__new__(Action)
        action._task = types.SimpleNamespace(args=args, check_mode=check, async_val=async_val)
        action._connection = types.SimpleNamespace(transport=transport, has_native_async=False)
        try:
            return Play(action.run(), calls, lines)
        finally:
            assert os.listdir(tmp_path) == [], "The file is removed with the task."
            assert not any(thread.name.startswith("progress") for thread in threading.enumerate())

    return run


def test_what_a_module_writes_is_printed_once(watch: t.Callable[..., Play]) -> None:
    done = watch(["0/2 nodes drained\n", "1/2 nodes drained; b: 1 pod left\n2/2 nodes drained\n", ""], state="drained")
    assert done.result == {"changed": True} and len(done.calls) == 1
    assert [line.partition("] ")[2] for line in done.lines] == ["0/2 nodes drained", "2/2 nodes drained"]


def test_half_a_line_is_not_printed(watch: t.Callable[..., Play]) -> None:
    done = watch(["0/2 nodes dra", "ined\n1/2 nod"], state="drained")
    assert [line.partition("] ")[2] for line in done.lines] == ["0/2 nodes drained"]


def test_nothing_is_printed_for_a_module_that_writes_nothing(watch: t.Callable[..., Play]) -> None:
    assert watch([], state="restored").lines == []


def test_a_failure_ends_the_watch(watch: t.Callable[..., Play]) -> None:
    with pytest.raises(AnsibleActionFail, match="broken"):
        watch(["0/2 nodes drained\n"], **{"raise": True})


@pytest.mark.parametrize("how", [{"check": True}, {"async_val": 60}, {"transport": "ssh"}, {"progress_path": "/tmp/x"}])
def test_a_call_whose_lines_cannot_be_read_is_passed_on_as_given(watch: t.Callable[..., Play], how: Json) -> None:
    done = watch([], state="drained", **how)
    given = {"state": "drained", **{key: value for key, value in how.items() if key == "progress_path"}}
    assert done.calls == [(DRAIN, given)] and done.lines == []


def test_ctrl_c_interrupts_the_wait_for_the_module(tmp_path: Path) -> None:
    """Of two signals in a row, a thread that may take them takes both, about every third time."""
    with _progress._watched(str(tmp_path / "progress")):
        (watcher,) = (thread for thread in threading.enumerate() if thread.name == "progress")
        status = Path(f"/proc/self/task/{watcher.native_id}/status")
        for dummy in range(100):
            blocked = int(re.findall(r"^SigBlk:\s*(\w+)$", status.read_text(), re.MULTILINE)[0], 16)
            if blocked:
                break
            time.sleep(0.05)
    assert all(blocked & 1 << number - 1 for number in (signal.SIGINT, signal.SIGTERM))


@pytest.mark.parametrize("name", ["plugin_utils._progress", "action.fleet_report"])
def test_the_controller_does_not_import_the_kubernetes_client(name: str) -> None:
    """Otherwise every run would start half a second later."""
    module = f"ansible_collections.gpuops.nvidia.plugins.{name}"
    imports = f"import sys, {module}; sys.exit('kubernetes' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", imports], env=environment, check=False).returncode == 0
