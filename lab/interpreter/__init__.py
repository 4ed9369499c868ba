# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Python interpreter for Ansible's modules that has loaded what they import.

A module that asks the cluster something takes 0.4 to 0.9 s, and most of it is the start of Python and the loading of
the same files. Tests run thousands of modules. The interpreter is a small program that sends each module to a server
(server.py), which runs it in a child. It starts the real Python for everything else.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lab.errors import LabError

_HERE = Path(__file__).parent
_START_S = 60


class _Server:
    """A server that lives as long as this process."""

    def __init__(self, share: Path, names: tuple[str, ...]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gpuops-interpreter-")
        folder = Path(self._folder.name)
        address = folder / "socket"
        command = [sys.executable, str(_HERE / "server.py"), str(address), *names]
        environment = {**os.environ, "PYTHONPATH": str(share)}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment)
        self.path = folder / "python"
        client = (_HERE / "client.py").read_text().replace("{python}", sys.executable)
        self.path.write_text(f"#!{sys.executable} -IS\n" + client.replace("{address}", str(address)))
        self.path.chmod(0o755)
        self._wait(address)

    def _wait(self, address: Path) -> None:
        deadline = time.monotonic() + _START_S
        while not address.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise LabError(f"The server of the interpreter did not start within {_START_S} s.")
            time.sleep(0.02)


@functools.cache
def _server(share: Path, names: tuple[str, ...]) -> _Server:
    return _Server(share, names)


def start(share: Path, *names: str) -> Path:
    """Start a server that has imported these modules, unless it runs, and return the path of its interpreter.

    ``share`` is the folder with ansible_collections.
    """
    return _server(share, names).path
