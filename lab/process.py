# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Detached processes: each has its own process group, is found again by pid and start time, and is stopped reliably."""

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

# Children of this process, which must reap them: otherwise they stay zombies as long as it runs.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass
class Component:
    """A detached process: how to start it, and the pid and identity of the process once it runs."""

    name: str
    argv: list[str]
    log: Path
    cwd: Path
    env: dict[str, str] = field(default_factory=dict)
    grace: float = 0.0
    """Seconds between SIGTERM and SIGKILL. 0 for a process without data to save."""
    pid: int = 0
    identity: str = ""

    def start(self) -> None:
        """Start the process in its own process group, so that Ctrl-C at the terminal does not reach it."""
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
        """Whether the process still runs. Another process that got the same pid does not count."""
        child = _children.get(self.pid)
        if child is not None and child.poll() is not None:
            return False
        return bool(self.identity) and identity(self.pid) == self.identity

    def signal(self, number: signal.Signals) -> None:
        """Signal the whole process group: the process may have children."""
        if self._pid_was_reused():
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def wait_gone(self, timeout: float) -> bool:
        """Wait until the process is gone. Return whether it is."""
        deadline = time.monotonic() + timeout
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def kill(self) -> None:
        """End the process without warning, as a crash would, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        if not self.wait_gone(timeout=10):
            raise LabError(f"{self.name} (pid {self.pid}) did not end within 10 s of SIGKILL.")

    def stop(self) -> None:
        """End the process, after its grace period if it has one, and whatever is left of its process group."""
        if self.alive and self.grace:
            self.signal(signal.SIGTERM)
            self.wait_gone(self.grace)
        self.kill()

    def log_end(self, lines: int = 15) -> str:
        """Return the last lines of the log."""
        try:
            text = self.log.read_bytes()[-20_000:].decode(errors="replace")
        except FileNotFoundError:
            return "(no log)"
        return "\n".join(text.splitlines()[-lines:]) or "(the log is empty)"

    def as_dict(self) -> dict[str, t.Any]:
        """Return the fields as JSON types."""
        return {**vars(self), "log": str(self.log), "cwd": str(self.cwd)}

    @classmethod
    def from_dict(cls, data: dict[str, t.Any]) -> Component:
        """Return a component with the fields that ``as_dict`` returned."""
        return cls(**{**data, "log": Path(data["log"]), "cwd": Path(data["cwd"])})

    def _pid_was_reused(self) -> bool:
        found = identity(self.pid)
        return not self.pid or (found is not None and found != self.identity)


def identity(pid: int) -> str | None:
    """Return the boot and start time of a process, which identify it. None: no process, or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        threads = len(os.listdir(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else _identity_by_ps(pid)
    state, *rest = stat.rpartition(")")[2].split()
    if state in "ZX" and threads < 2:  # The other threads of a dead leader still hold its ports.
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{rest[18]}"


def _identity_by_ps(pid: int) -> str | None:
    """Return the same where there is no /proc (macOS)."""
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split(maxsplit=1)
    return answer[1].strip() if len(answer) == 2 and not answer[0].startswith("Z") else None
