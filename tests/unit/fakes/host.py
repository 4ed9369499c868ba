# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host whose files are in a folder and whose commands are functions or recorded output."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output

FIXTURES = Path(__file__).parents[1] / "fixtures" / "hosts"

Command = Output | str | t.Callable[[list[str]], str]
"""Recorded output, or a function that returns what the command prints and raises OSError if the command fails."""


class FakeHost(Host):
    """A host below ``root``. It has only the given commands. ``ran`` lists the commands that have run."""

    def __init__(self, root: Path, timeout_s: float = 10, **commands: Command) -> None:
        super().__init__(str(root), timeout_s)
        self.commands: dict[str, Command] = {name.replace("_", "-"): answer for name, answer in commands.items()}
        self.ran: list[list[str]] = []

    def put(self, path: str, text: str) -> None:
        """Write a file, even where the code under test must not."""
        target = Path(self.path(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def machine(self) -> str:
        return "x86_64"

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.commands else None

    def run(self, command: t.Sequence[str], timeout_s: float | None = None) -> Output:
        self.ran.append(list(command))
        name = command[0]
        answer = self.commands.get(name, Output(error=f"{name} is not installed"))
        if isinstance(answer, Output):
            return answer
        if isinstance(answer, str):
            return Output(answer)
        try:
            return Output(answer(list(command)))
        except OSError as e:
            return Output(stderr=str(e), error=f"{name} ended with 1: {e}")


def recorded(path: str) -> str:
    """Return a recorded text."""
    return (FIXTURES / path).read_text()
