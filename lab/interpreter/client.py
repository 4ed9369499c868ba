# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Let the server run a module of Ansible, and behave as the Python that would have run it.

`lab.interpreter.start` writes a program with this text and the two constants. Whatever is no module of Ansible, and a
module that the server does not take, goes to the real Python.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import typing as t

PYTHON = "{python}"
ADDRESS = "{address}"

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: list[str]) -> t.NoReturn:
    """Run the module, and end with its exit status or by its signal."""
    if len(arguments) == 1 and os.path.basename(arguments[0]).startswith("AnsiballZ_"):
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(ADDRESS)
        except OSError:
            server.close()
        else:
            _end(_run(server, arguments[0]))
    os.execv(PYTHON, [PYTHON, *arguments])


def _run(server: socket.socket, path: str) -> int:
    """Return how the module ended, as `subprocess` says it: the exit status, or the signal as a negative number."""
    for number in FORWARDED:
        signal.signal(number, lambda got, frame: server.send(bytes([got])))
    texts = [os.fsencode(text) for text in (path, os.getcwd(), *(f"{k}={v}" for k, v in os.environ.items()))]
    request = b"\0".join(texts)
    socket.send_fds(server, [len(request).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(request)
    answer = server.recv(4)
    return int.from_bytes(answer, "big", signed=True) if len(answer) == 4 else -signal.SIGKILL


def _end(status: int) -> t.NoReturn:
    if status < 0:
        if -status in FORWARDED:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


main(sys.argv[1:])
