# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Progress of long tasks: in slices, with a list as the module's results, and in one call, with lines in a file."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import types
import typing as t

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.plugin_utils import _progress
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._progress import (
    INFO,
    SLICE_S,
    Progress,
    WaitingAction,
    WatchingAction,
)

from tests.support.clock import Clock

Json = dict[str, t.Any]
MODULE = "gpuops.nvidia.clusterpolicy"


def reason(operand: str, message: str, level: str = "progressing") -> Json:
    return {"level": level, "code": "PodsNotReady", "operand": operand, "message": message}


def timed_out(*reasons: Json, **more: t.Any) -> Json:
    operands = [
        {"operand": "driver", "state": "ready"},
        {"operand": "dcgm", "state": "progressing"},
        {"operand": "x", "state": "disabled"},
    ]
    return {
        "failed": True,
        "reason": "TimedOut",
        "msg": "",
        "verdict": {"message": "m", "reasons": list(reasons)},
        "operands": operands,
        **more,
    }


READY = {"changed": False, "verdict": {"state": "ready", "reasons": []}, "operands": []}
AWAY = {"failed": True, "reason": "Unreachable", "msg": "Cannot reach the Kubernetes API."}


def test_a_line_for_each_change_and_a_heartbeat() -> None:
    clock, lines = Clock(), list[str]()
    progress = Progress(lines.append, clock.monotonic)
    slow = timed_out(reason("driver", "a note", "note"), reason("driver", "driver: 1 of 4 nodes ready."))
    for seconds in (8, 8, 30):
        clock.sleep(seconds)
        progress.show(slow)
    clock.sleep(60)
    progress.show(timed_out(reason("dcgm", "dcgm: 3 of 4 nodes ready.")))
    assert lines == [
        "  [00:08] 1/2 operands ready; driver: 1 of 4 nodes ready. (for 00:00)",
        "  [00:46] 1/2 operands ready; driver: 1 of 4 nodes ready. (for 00:38)",
        "  [01:46] 1/2 operands ready; dcgm: 3 of 4 nodes ready. (for 00:00)",
    ]
    assert all(line.isprintable() for line in lines), "control characters would spoil AWX's job output"


class Play(t.NamedTuple):
    """What a task returned, which modules it ran, and what it printed."""

    result: Json
    calls: list[tuple[str, Json]]
    lines: list[str]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., Play]:
    def run(results: list[Json], module: str = MODULE, check: bool = False, **args: t.Any) -> Play:
        clock, calls, lines, left = Clock(), [], list[str](), iter(results)
        monkeypatch.setattr(_progress, "Display", lambda: types.SimpleNamespace(display=lines.append))
        monkeypatch.setattr(_progress, "Progress", lambda display: Progress(display, clock.monotonic))
        monkeypatch.setattr(waiting, "time", clock)
        monkeypatch.setattr(_progress.ActionBase, "run", lambda self, tmp=None, task_vars=None: {})

        class Action(WaitingAction):
            MODULE = module
            WAITS_BY_DEFAULT = module != INFO

            def _execute_module(self, module_name: str, module_args: Json, task_vars: t.Any, wrap_async: bool) -> Json:
                calls.append((module_name, module_args))
                seconds = module_args.get("wait_timeout")
                clock.sleep(seconds if isinstance(seconds, int) else 0)
                return dict(next(left))

        action = Action.__new__(Action)
        action._task = types.SimpleNamespace(args=args, check_mode=check, async_val=0)
        return Play(action.run(), calls, lines)

    return run


def test_a_stack_that_is_ready_at_once_takes_one_call(play: t.Callable[..., Play]) -> None:
    done = play([READY], spec={})
    assert done.result == READY and done.calls == [(MODULE, {"spec": {}, "wait_timeout": SLICE_S})] and done.lines == []


def test_later_slices_only_read(play: t.Callable[..., Play]) -> None:
    first = timed_out(reason("driver", "slow."), changed=True, clusterpolicy={"a": 1}, diff={"before": {}})
    done = play(
        [first, timed_out(reason("driver", "slow.")), READY], spec={"x": {}}, name="p", kubeconfig="k", wait_timeout=100
    )
    assert done.calls[1:] == [(INFO, {"name": "p", "kubeconfig": "k", "wait": True, "wait_timeout": SLICE_S})] * 2
    assert done.result == {
        "changed": True,
        "clusterpolicy": {"a": 1},
        "diff": {"before": {}},
        "verdict": READY["verdict"],
        "operands": [],
    }
    assert len(done.lines) == 1


def test_the_wait_ends_at_its_timeout(play: t.Callable[..., Play]) -> None:
    done = play([timed_out(reason("driver", "slow."))] * 4, wait_timeout=20)
    assert [args["wait_timeout"] for dummy, args in done.calls] == [8, 8, 4]
    assert done.result["failed"] and done.result["msg"] == "The GPU stack is not ready after 20 s: m"


def test_the_wait_ends_at_its_timeout_even_during_an_outage(play: t.Callable[..., Play]) -> None:
    begun = timed_out(reason("driver", "slow."), reason="Unreachable") | {"msg": "Cannot reach the Kubernetes API."}
    done = play([begun, begun, begun], wait_timeout=16)
    assert done.result["msg"] == "Cannot reach the Kubernetes API. Its last answer was 0 s ago."
    assert done.lines == ["  [00:10] Cannot reach the Kubernetes API. (for 00:00)"]


def test_a_verdict_that_is_failed_ends_the_wait(play: t.Callable[..., Play]) -> None:
    done = play([timed_out(reason("driver", "slow.")), {"failed": True, "reason": "NotReady", "msg": "never"}])
    assert done.result["msg"] == "never" and done.result["failed"] and len(done.calls) == 2


def test_the_wait_survives_an_outage(play: t.Callable[..., Play]) -> None:
    done = play([timed_out(reason("driver", "slow.")), AWAY, AWAY, READY], wait_timeout=600)
    assert "failed" not in done.result and "Cannot reach the Kubernetes API." in done.lines[1]


def test_the_wait_survives_an_outage_in_the_first_slice_once_it_has_begun(play: t.Callable[..., Play]) -> None:
    assert "failed" not in play([timed_out(reason("driver", "slow."), reason="Unreachable"), READY]).result
    assert play([AWAY]).result == AWAY


def test_the_length_of_an_outage_is_stated_for_a_slice_and_for_the_whole_wait(play: t.Callable[..., Play]) -> None:
    begun = timed_out(reason="Unreachable") | {"msg": "Cannot reach the Kubernetes API. Its last answer was 3 s ago."}
    done = play([begun, *[AWAY] * 50], wait_timeout=600)
    assert done.result["msg"] == "Cannot reach the Kubernetes API. Its last answer was 70 s ago."


def test_a_long_outage_ends_the_wait(play: t.Callable[..., Play]) -> None:
    done = play([timed_out(reason("driver", "slow.")), *[AWAY] * 50], wait_timeout=600)
    assert done.result["reason"] == "Unreachable" and len(done.calls) < waiting.OUTAGE_S / SLICE_S + 3


def test_the_info_module_waits_in_the_same_way(play: t.Callable[..., Play]) -> None:
    done = play([timed_out(reason("driver", "slow.")), READY], module=INFO, wait=True)
    assert [name for name, dummy in done.calls] == [INFO, INFO] and done.result == READY


@pytest.mark.parametrize(
    "args",
    [
        {"wait": False},
        {"state": "absent"},
        {"wait_timeout": 5},
        {"wait_timeout": "soon"},
        {"wait": "perhaps"},
        {"check": True},
    ],
)
def test_a_call_without_a_wait_is_passed_on_as_given(play: t.Callable[..., Play], args: Json) -> None:
    done = play([READY], **args)
    assert done.calls == [(MODULE, {key: value for key, value in args.items() if key != "check"})]
    assert play([READY], module=INFO).calls == [(INFO, {})]


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
        monkeypatch.setattr(_progress, "SLICE_S", 0.02)
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


def test_the_controller_does_not_import_the_kubernetes_client() -> None:
    """Otherwise every run would start half a second later."""
    module = "ansible_collections.gpuops.nvidia.plugins.plugin_utils._progress"
    imports = f"import sys, {module}; sys.exit('kubernetes' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", imports], env=environment, check=False).returncode == 0
