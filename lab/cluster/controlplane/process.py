# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A component as a detached process: started in its own process group, found again by pid and start time, and ended for sure."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

from lab.errors import LabError

# Children of this very process: they must be reaped here, or they stay zombies for as long as it lives.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass
class Component:
    """What it takes to start a component, and which process it became."""

    name: str
    argv: list[str]
    log: Path
    cwd: Path
    env: dict[str, str] = field(default_factory=dict)
    grace: float = 0.0
    """Seconds between SIGTERM and SIGKILL. 0 for what has nothing to put in order, since its data goes with the lab."""
    pid: int = 0
    identity: str = ""

    def start(self) -> None:
        """Start it in a process group of its own, so that Ctrl-C at the terminal does not reach it."""
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                self.argv,
                cwd=self.cwd,
                env={**os.environ, **self.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _children[child.pid] = child
        self.pid = child.pid
        self.identity = identity(child.pid) or ""

    @property
    def alive(self) -> bool:
        """Whether the very process that was started still runs (not another one that got its pid)."""
        child = _children.get(self.pid)
        if child is not None and child.poll() is not None:
            return False
        return bool(self.identity) and identity(self.pid) == self.identity

    def signal(self, number: signal.Signals) -> None:
        """Signal the whole process group: an external operator may have children."""
        if self._pid_is_someone_elses():
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def wait_gone(self, timeout: float) -> bool:
        """Wait until the process is gone; say whether it is."""
        deadline = time.monotonic() + timeout
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def kill(self) -> None:
        """End it without warning, as a crash would, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        if not self.wait_gone(timeout=10):
            raise LabError(f"{self.name} (pid {self.pid}) does not end, not even by SIGKILL.")

    def stop(self) -> None:
        """End it, with its grace where it has one, and whatever its group left behind."""
        if self.alive and self.grace:
            self.signal(signal.SIGTERM)
            self.wait_gone(self.grace)
        self.kill()

    def log_end(self, lines: int = 15) -> str:
        """The last lines of its log."""
        try:
            text = self.log.read_bytes()[-20_000:].decode(errors="replace")
        except FileNotFoundError:
            return "(no log)"
        return "\n".join(text.splitlines()[-lines:]) or "(its log is empty)"

    def as_dict(self) -> dict[str, t.Any]:
        """For state.json."""
        return {**vars(self), "log": str(self.log), "cwd": str(self.cwd)}

    @classmethod
    def from_dict(cls, data: dict[str, t.Any]) -> Component:
        """From state.json."""
        return cls(**{**data, "log": Path(data["log"]), "cwd": Path(data["cwd"])})

    def _pid_is_someone_elses(self) -> bool:
        found = identity(self.pid)
        return not self.pid or (found is not None and found != self.identity)


def identity(pid: int) -> str | None:
    """What tells a process from a later one with its pid: boot and start time. None when there is none, or only a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        threads = len(os.listdir(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else _identity_by_ps(pid)
    state, *rest = stat.rpartition(")")[2].split()
    if state in "ZX" and threads < 2:  # A dead leader's other threads still hold its ports.
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{rest[18]}"


def _identity_by_ps(pid: int) -> str | None:
    """The same where there is no /proc (macOS)."""
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split(maxsplit=1)
    return answer[1].strip() if len(answer) == 2 and not answer[0].startswith("Z") else None
