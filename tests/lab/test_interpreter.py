# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interpreter of tests runs a module as the plain Python does, and differs only in what is loaded already."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest

from lab import interpreter

SHARE = Path(sys.prefix) / "share"
Python = t.Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(params=["plain", "loaded"])
def python(request: pytest.FixtureRequest, tmp_path: Path) -> Python:
    """Return a function that starts a Python with a text as the file of a module."""
    path = sys.executable if request.param == "plain" else str(interpreter.start(SHARE, "decimal"))

    def start(text: str, *arguments: str, **options: t.Any) -> subprocess.Popen[str]:
        module = tmp_path / "AnsiballZ_example.py"
        module.write_text(text)
        streams: dict[str, t.Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen([path, *(arguments or [str(module)])], text=True, **{**streams, **options})

    return start


def test_a_module_has_the_files_the_folder_and_the_environment_of_who_starts_it(python: Python, tmp_path: Path) -> None:
    text = "import json, os, sys\nprint(json.dumps([sys.stdin.read(), os.getcwd(), dict(os.environ), sys.argv]))"
    environment = {"A": "1", "TEXT": "ü=\n"}
    with python(text, cwd=tmp_path, env=environment) as process:
        given, folder, seen, arguments = json.loads(process.communicate("hello ü")[0])
    assert (given, folder, arguments) == ("hello ü", str(tmp_path), [str(tmp_path / "AnsiballZ_example.py")])
    assert seen.items() >= environment.items() and "HOME" not in seen


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("print('a')", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('no')", 1, "no\n"),
        ("raise SystemExit", 0, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
    ],
)
def test_a_module_ends_as_it_would(python: Python, text: str, status: int, said: str) -> None:
    with python(text) as process:
        error = process.communicate()[1]
    assert (process.returncode, error[len(error) - len(said) :]) == (status, said)


def test_what_a_module_does_at_its_exit_is_done(python: Python, tmp_path: Path) -> None:
    text = (
        "import atexit, threading, time\n"
        f"atexit.register(open({str(tmp_path / 'exit')!r}, 'w').write, 'done')\n"
        f"threading.Thread(target=lambda: (time.sleep(0.2), open({str(tmp_path / 'thread')!r}, 'w').close())).start()\n"
    )
    with python(text) as process:
        process.communicate()
    assert (process.returncode, (tmp_path / "exit").read_text(), (tmp_path / "thread").exists()) == (0, "done", True)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 7), (signal.SIGINT, 8), (signal.SIGKILL, -9)])
def test_a_signal_reaches_the_module(python: Python, tmp_path: Path, number: int, status: int) -> None:
    started = tmp_path / "pid"
    text = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *got: sys.exit(7))\n"
        "signal.signal(signal.SIGINT, lambda *got: sys.exit(8))\n"
        f"open({str(started)!r}, 'w').write(str(os.getpid()))\n"
        "while True: time.sleep(0.05)\n"
    )
    with python(text) as process:
        pid = _sees(lambda: started.exists() and int(started.read_text() or 0))
        process.send_signal(number)
        assert process.wait(20) == status
    assert _sees(lambda: not _runs(pid))


def test_anything_but_a_module_is_left_to_python(python: Python) -> None:
    with python("", "-c", "import sys; print(sys.argv)", "x") as process:
        assert process.communicate()[0] == "['-c', 'x']\n"


def test_modules_share_what_is_loaded_and_nothing_else() -> None:
    path = interpreter.start(SHARE, "decimal")
    module = "import sys; print('decimal' in sys.modules, getattr(sys, 'seen', 0)); sys.seen = 1"
    for dummy in range(2):
        folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"AnsiballZ_{os.getpid()}.py"
        folder.write_text(module)
        try:
            done = subprocess.run([str(path), str(folder)], capture_output=True, text=True, check=True)
        finally:
            folder.unlink()
        assert done.stdout == "True 0\n"


def test_the_server_ends_with_the_process_that_started_it() -> None:
    code = "from lab import interpreter; import pathlib, sys; print(interpreter.start(pathlib.Path(sys.argv[1])))"
    done = subprocess.run([sys.executable, "-c", code, str(SHARE)], capture_output=True, text=True, check=True)
    address = str(Path(done.stdout.strip()).parent)
    assert _sees(lambda: address not in "\0".join(_commands()))


def _commands() -> t.Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_text()
        except OSError:
            continue


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _sees(condition: t.Callable[[], t.Any]) -> t.Any:
    """Return what a condition returns as soon as that is true."""
    deadline = time.monotonic() + 20
    while not (found := condition()):
        assert time.monotonic() < deadline, "The condition was not met within 20 s."
        time.sleep(0.02)
    return found
