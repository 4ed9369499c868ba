# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""A child process for calls into the driver, which may hang or crash.

If the driver is broken, a call can hang in the kernel forever, where no signal ends it. Therefore the child shares only
one pipe with its parent and writes message by message, and the parent stops waiting after a time limit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

LONGEST_ANSWER = 4 * 1024 * 1024
"""Bytes after which a child that goes on and on is given up. A host with 16 divided GPUs takes a twentieth of that."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a child has written. ``signal_number`` is 0 unless a signal ended it."""

    text: str
    timed_out: bool
    signal_number: int

    def messages(self) -> list[Json]:
        """Return the complete messages. The last line of the text may be incomplete."""
        return [json.loads(line) for line in self.text.split("\n")[:-1]]


class Child:
    """A process that produces messages. Start it first, and read its answer last."""

    def __init__(self, messages: t.Callable[[], t.Iterable[Json]]) -> None:
        """Fork, and produce the messages in the child."""
        self._reader, writer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _run_child(writer, messages)
        os.close(writer)

    def read(self, deadline: float) -> Answer:
        """Return what the child has written by ``deadline`` (of the monotonic clock)."""
        text = b""
        ended = False
        pipe = select.poll()  # select() refuses descriptors above 1023
        pipe.register(self._reader, select.POLLIN)
        while not ended and len(text) < LONGEST_ANSWER and pipe.poll(max(0.0, deadline - time.monotonic()) * 1000):
            chunk = os.read(self._reader, 65536)
            text += chunk
            ended = not chunk
        os.close(self._reader)
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        # A child that hangs in the kernel must not be waited for.
        status = os.waitpid(self._pid, 0 if ended else os.WNOHANG)[1]
        return Answer(
            text.decode("utf-8", "replace"),
            timed_out=not ended,
            signal_number=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        )


def _run_child(writer: int, messages: t.Callable[[], t.Iterable[Json]]) -> t.NoReturn:
    """Close everything but the pipe. Otherwise, readers of this process's output would wait for a child that hangs."""
    try:
        pipe = os.dup2(writer, 3)
        os.closerange(4, 4096)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        os.setsid()
        with os.fdopen(pipe, "w", encoding="utf-8") as out:
            for message in messages():
                out.write(json.dumps(message) + "\n")
                out.flush()
    finally:
        # Skip the exit handlers, which are the parent's.
        os._exit(0)
