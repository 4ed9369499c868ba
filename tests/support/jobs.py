# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs as AWX starts them: ansible-runner, a user without a name, no terminal, a token, and answers of a survey."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from lab.cluster import Lab
from tests.support.ansible import ROOT

PROJECT = ROOT / "examples" / "awx" / "project"
NOBODY = 1000650000
"""A user id as OpenShift gives them to pods: it has no entry in /etc/passwd."""

# What a test needs may lie in a home folder that others cannot enter. In a mount namespace of the job's own, the home
# folder shows only these parts.
_AS_NOBODY = f"""
set -e
while [ "$1" != run ]; do
  private=$1 aside=$2; shift 2
  mount --bind "$private" "$aside"
  mount -t tmpfs -o mode=0755 tmpfs "$private"
  while [ "$1" != -- ]; do
    mkdir -p "$private/$1" && mount --bind "$aside/$1" "$private/$1"
    shift
  done
  shift
  umount "$aside"
done
shift
exec setpriv --reuid={NOBODY} --regid=0 --clear-groups --no-new-privs "$@"
"""
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


@dataclass(frozen=True)
class Ended:
    """A job that has ended, with its events and everything that it printed."""

    status: str
    output: str
    events: list[dict[str, t.Any]]
    text: str = field(repr=False)
    """Everything that AWX would keep of the job, as it would be stored."""

    @property
    def changed(self) -> int:
        return sum(self.statistics["changed"].values())

    @property
    def statistics(self) -> dict[str, t.Any]:
        return t.cast(
            "dict[str, t.Any]",
            next(event["event_data"] for event in self.events if event["event"] == "playbook_on_stats"),
        )

    @property
    def artifacts(self) -> dict[str, t.Any]:
        """What the job hands to the next jobs of a workflow."""
        return t.cast("dict[str, t.Any]", self.statistics["artifact_data"])

    def messages(self) -> list[str]:
        """Return the messages of all failed tasks."""
        failed = [event for event in self.events if event["event"] in ("runner_on_failed", "runner_item_on_failed")]
        return [str(event["event_data"]["res"].get("msg", "")) for event in failed]


@contextlib.contextmanager
def folder_of_jobs() -> t.Iterator[Path]:
    """Make a folder that other users may enter. pytest closes its own folders whenever a test run starts."""
    with tempfile.TemporaryDirectory(prefix="gpuops-jobs-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


class Job:
    """One start of a playbook of the example's project, as a job of AWX."""

    def __init__(self, folder: Path, lab: Lab, token: str, **answers: t.Any) -> None:
        self.folder = folder
        folder.mkdir()
        shutil.copytree(PROJECT, folder / "project")
        for name in ("bin", "env", "inventory", "tmp"):
            (folder / name).mkdir()
        shutil.move(folder / "project" / "inventory.yml", folder / "inventory" / "hosts.yml")
        shutil.rmtree(folder / "project" / "group_vars")  # The inventory of AWX has the variables.
        shutil.copy(lab.authority.ca.cert, folder / "env" / "ca.crt")
        shutil.copy(lab.helm, folder / "bin")  # Only the lab's user may enter the folder of its tools.
        self.environment = {
            "ANSIBLE_COLLECTIONS_PATH": f"{sys.prefix}/share",
            "ANSIBLE_CACHE_PLUGIN": "jsonfile",
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(folder / "facts"),
            "ANSIBLE_FORCE_COLOR": "True",
            "ANSIBLE_HOME": str(folder / "tmp"),
            "ANSIBLE_REMOTE_TEMP": str(folder / "tmp"),
            "HOME": "/",
            "K8S_AUTH_HOST": f"https://127.0.0.1:{lab.state.ports['kube-apiserver']}",
            "K8S_AUTH_API_KEY": token,
            "K8S_AUTH_SSL_CA_CERT": str(folder / "env" / "ca.crt"),
            "K8S_AUTH_VERIFY_SSL": "True",
            "PATH": f"{Path(sys.executable).parent}:{folder / 'bin'}:/usr/bin:/bin",
        }
        (folder / "env" / "envvars").write_text(yaml.safe_dump(self.environment))
        self.answer(**answers)
        self.runs = 0

    def answer(self, **answers: t.Any) -> None:
        """Give these answers, each as text that is no template, as AWX does."""
        lines = [f"{name}: {self._tagged(value)}\n" for name, value in answers.items()]
        (self.folder / "env" / "extravars").write_text("".join(lines) or "{}\n")

    @staticmethod
    def _tagged(value: t.Any) -> str:
        return f"!unsafe {json.dumps(value)}" if isinstance(value, str) else json.dumps(value)

    def start(self, playbook: str) -> subprocess.Popen[bytes]:
        """Start a playbook in a session without a terminal."""
        self.runs += 1
        command = [sys.executable, "-m", "ansible_runner", "run", self.folder, f"--playbook={playbook}"]
        environment = {"PATH": self.environment["PATH"], "HOME": "/"}
        return subprocess.Popen(
            [*as_nobody(self.folder), *map(str, command), f"--ident={self.runs}", "--quiet"],
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def run(self, playbook: str, timeout: float = 240) -> Ended:
        """Run a playbook to its end."""
        process = self.start(playbook)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.cancel(process)
            raise AssertionError(f"Still running after {timeout} s:\n{self.ended().output}") from None
        return self.ended()

    def cancel(self, process: subprocess.Popen[bytes]) -> None:
        """Cancel a job, as AWX does."""
        process.send_signal(signal.SIGTERM)
        process.wait(30)

    def ended(self) -> Ended:
        """Return the latest job."""
        artifacts = self.folder / "artifacts" / str(self.runs)
        files = sorted((artifacts / "job_events").glob("*.json"))
        texts = [file.read_text() for file in files if "partial" not in file.name]
        events = sorted(map(json.loads, texts), key=lambda event: event["counter"])
        output = (artifacts / "stdout").read_text()
        status = (artifacts / "status").read_text() if (artifacts / "status").exists() else "unknown"
        return Ended(status, _COLOURS.sub("", output), events, "\n".join([output, *texts]))

    def processes(self) -> list[str]:
        """Return the command lines of the processes that still have the job's environment."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if str(self.folder / "env" / "ca.crt").encode() in (process / "environ").read_bytes():
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue  # It has ended, or is another user's.
        return found

    def is_over(self, timeout: float = 20) -> bool:
        """Return whether everything that the job has started ends in time."""
        deadline = time.monotonic() + timeout
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.2)
        return not self.processes()


def as_nobody(folder: Path) -> list[str]:
    """Return the beginning of a command that runs as a user without a name, or nothing if this user cannot do that.

    Of folders that others may not enter, such as root's home, this user sees Python and the checkout.
    """
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        return []
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, 0)
    aside = folder / "aside"
    aside.mkdir(exist_ok=True)
    parts: dict[Path, list[str]] = {Path.home(): []}
    for path in sorted({Path(sys.base_prefix), Path(sys.prefix), ROOT}):
        closed = (each for each in path.parents[::-1] if each in parts or not each.stat().st_mode & stat.S_IXOTH)
        private = next(closed, None)
        if private:
            parts.setdefault(private, []).append(str(path.relative_to(private)))
    shown = [word for private, names in parts.items() for word in (str(private), str(aside), *names, "--")]
    return ["unshare", "--mount", "--propagation=private", "bash", "-c", _AS_NOBODY, "bash", *shown, "run"]
