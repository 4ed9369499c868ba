# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts whose files are a folder and whose commands answer what was recorded."""

from __future__ import annotations

import time
import typing as t
from pathlib import Path

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output

FIXTURES = Path(__file__).parent / "fixtures" / "hosts"


class RecordedHost(Host):
    """A host below ``root``. A command is installed when it has an answer: an output, or a text to print."""

    def __init__(self, root: Path, timeout_s: float = 10, **answers: Output | str) -> None:
        super().__init__(str(root), timeout_s)
        self.answers = {
            name.replace("_", "-"): Output(answer) if isinstance(answer, str) else answer
            for name, answer in answers.items()
        }
        self.ran: list[list[str]] = []

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.answers else None

    def run(self, command: t.Sequence[str], timeout_s: float | None = None) -> Output:
        self.ran.append(list(command))
        return self.answers.get(command[0], Output(error=f"{command[0]} is not installed"))


class HangingHost(RecordedHost):
    """A host on which one command does not answer."""

    hangs = "nvidia-smi"

    def run(self, command: t.Sequence[str], timeout_s: float | None = None) -> Output:
        if command[0] != self.hangs:
            return super().run(command, timeout_s)
        time.sleep(timeout_s or 0)
        return Output(error=f"{command[0]} did not answer within {timeout_s:g} s")


def recorded(path: str) -> str:
    """Return a recorded text."""
    return (FIXTURES / path).read_text()
