# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run Ansible's modules in children of a process that has loaded what most of them import.

Python, Ansible's own code and this collection take longer to load than most modules take to run. Each child gets the
files, the folder and the environment of the client that asks, and a session of its own. The server ends with the
process that started it, whose end closes its standard input.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import runpy
import select
import signal
import socket
import sys
import threading
import time
import traceback
import typing as t


class Request(t.NamedTuple):
    """What a client asks for."""

    path: str
    """The module's file."""
    folder: str
    """The working directory."""
    environment: dict[str, str]


def main(address: str, names: list[str]) -> None:
    """Load modules, listen, and start a child for each client until the standard input is closed."""
    for name in names:
        with contextlib.suppress(ImportError):  # The module that needs it says so.
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address + ".new")
    listener.listen(64)
    os.rename(address + ".new", address)
    _Server(listener).serve()


class _Server:
    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._clients: dict[int, socket.socket] = {}
        """The client of each child, by the child's handle."""
        self._children: dict[int, int] = {}
        """The process of each child, by its handle."""

    def serve(self) -> None:
        """Serve clients until the standard input is closed. End what still runs."""
        while True:
            sockets = {client.fileno(): handle for handle, client in self._clients.items()}
            ready = select.select([0, self._listener, *self._children, *sockets], [], [])[0]
            if 0 in ready:
                break
            for handle in [each for each in ready if each in self._children]:
                self._report(handle)
            for number in [each for each in ready if each in sockets and sockets[each] in self._children]:
                self._forward(sockets[number])
            if self._listener in ready:
                self._accept()
        for child in self._children.values():
            _signal(child, signal.SIGKILL)

    def _accept(self) -> None:
        client = self._listener.accept()[0]
        try:
            request, files = _read(client)
        except (OSError, EOFError, ValueError):
            client.close()
            return
        child = os.fork()
        if child == 0:
            self._listener.close()
            _run(request, files)
        for number in files:
            os.close(number)
        handle = os.pidfd_open(child)
        self._clients[handle], self._children[handle] = client, child

    def _report(self, handle: int) -> None:
        """Tell the client how its child ended."""
        client, child = self._clients.pop(handle), self._children.pop(handle)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.close(handle)
        with contextlib.suppress(OSError):  # The client may have been killed at this moment.
            client.sendall(status.to_bytes(4, "big", signed=True))
        client.close()

    def _forward(self, handle: int) -> None:
        """Send a child the signals that its client got. A client that is gone was killed, and so is its child."""
        try:
            got = self._clients[handle].recv(16)
        except OSError:
            got = b""
        for number in got or [signal.SIGKILL]:
            _signal(self._children[handle], number)


def _signal(child: int, number: int) -> None:
    """Send a signal to a child and to what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, number)


def _read(client: socket.socket) -> tuple[Request, list[int]]:
    """Return what a client asks for, and its standard files."""
    length, files = socket.recv_fds(client, 8, 3)[:2]
    left, parts = int.from_bytes(length, "big"), []
    while left:
        part = client.recv(left)
        if not part:
            raise EOFError
        parts.append(part)
        left -= len(part)
    path, folder, *environment = (os.fsdecode(text) for text in b"".join(parts).split(b"\0"))
    return Request(path, folder, dict(entry.split("=", 1) for entry in environment)), files


def _run(request: Request, files: list[int]) -> t.NoReturn:
    """Run the module in this process, as a Python that has just started would do, and end."""
    status = 1
    try:
        _become(request, files)
        status = _status_of(request.path)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _become(request: Request, files: list[int]) -> None:
    """Take the client's files, folder and environment."""
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, 4096)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    atexit._clear()
    sys.argv = [request.path]
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def _status_of(path: str) -> int:
    """Run a file as the main program and return its exit status."""
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as e:
        if e.code is None or isinstance(e.code, int):
            return e.code or 0
        print(e.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
