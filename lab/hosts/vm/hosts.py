# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Virtual machines as hosts: started from a saved state in seconds, reached by SSH, really rebooted."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import typing as t
from dataclasses import asdict, dataclass
from pathlib import Path

from lab import ports
from lab.errors import LabError
from lab.hosts import folders, packages
from lab.hosts.vm import image, qemu
from lab.hosts.vm.qemu import Shape
from lab.process import Component

Say = t.Callable[[str], None]
# A boot takes 26 s on two idle processors, and minutes on busy ones.
BOOT_S = 900.0
ROOT = Path(__file__).resolve().parents[3]
SSH_OPTIONS = (
    "-oStrictHostKeyChecking=no",
    "-oUserKnownHostsFile=/dev/null",
    "-oLogLevel=ERROR",
    "-oConnectTimeout=10",
)


@dataclass(frozen=True)
class Settings:
    """The settings that a machine was started with."""

    shape: Shape
    port: int
    saved: bool

    def write(self, folder: Path) -> None:
        """Write the settings to the machine's folder."""
        (folder / "settings.json").write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Settings:
        """Read the settings of the machine in a folder."""
        data = json.loads((folder / "settings.json").read_text())
        return cls(**{**data, "shape": Shape(**data["shape"])})


class VmHost:
    """A named virtual machine. Its folder is the only record of it."""

    def __init__(self, name: str = "default", say: Say = lambda line: None) -> None:
        self.name = name
        self.folder = folders.state() / "vm" / name
        self._say = say

    def up(self, shape: Shape | None = None, cold: bool = False) -> VmHost:
        """Start the machine from the saved state of its shape (created if it is missing), or boot it with ``cold``."""
        packages.require("vm")
        if self.status() == "up":
            return self
        self.down()
        image.provide(self._say)
        shape = shape or Shape()
        saved = None if cold else _provide_state(shape, self._say)
        self._start(shape, saved)
        # The clock of the guest shows the time at which its state was saved.
        self.shell(f"date --set=@{time.time():.0f}")
        return self

    def down(self) -> bool:
        """Stop the machine and remove its state. Return whether there was one."""
        if not self.folder.exists():
            return False
        with contextlib.suppress(FileNotFoundError):
            self._supervisor().kill()
        shutil.rmtree(self.folder)
        return True

    def status(self) -> str:
        """Return ``up``, ``died`` or ``absent``."""
        if not (self.folder / "supervisor.json").exists():
            return "absent"
        return "up" if self._supervisor().alive else "died"

    def shell(self, command: str, timeout: float = 300) -> str:
        """Run a line of shell on the machine and return its output."""
        done = subprocess.run(
            self.ssh(command), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False
        )
        if done.returncode:
            raise LabError(f"{self.name}: {command}: {(done.stderr or done.stdout).strip()[-800:] or done.returncode}")
        return done.stdout.strip()

    def ssh(self, *command: str) -> list[str]:
        """Return the command line that runs a command on the machine, or without a command logs in."""
        return ["ssh", *SSH_OPTIONS, "-i", str(image.key()), "-p", str(self.settings.port), "root@127.0.0.1", *command]

    def reboot(self) -> None:
        """Reboot the machine and wait until it is up again."""
        before = self.boots
        self.shell("systemctl reboot || true")
        deadline = time.monotonic() + 60
        while self.boots == before:
            if time.monotonic() > deadline:
                raise LabError(f"{self.name} did not go down within 60 s.\n{self.console_end()}")
            time.sleep(0.2)
        self.wait()

    def wait(self, timeout: float = BOOT_S) -> None:
        """Wait for the banner of SSH: the port is open before the guest answers."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if _is_ssh(self.settings.port):
                return
            if self.status() != "up":
                raise LabError(f"{self.name} died: {self._log('supervisor.log')}\n{self._log('qemu.log')}")
            time.sleep(0.2)
        raise LabError(f"{self.name} does not answer after {timeout:.0f} s.\n{self.console_end()}")

    @property
    def settings(self) -> Settings:
        """The settings that the machine was started with."""
        if self.status() == "absent":
            raise LabError(f"There is no virtual machine {self.name}. Start one with `python -m lab vm up`.")
        return Settings.read(self.folder)

    @property
    def boot_id(self) -> str:
        """The ID of the current boot."""
        return self.shell("cat /proc/sys/kernel/random/boot_id")

    @property
    def boots(self) -> int:
        """The number of boots, counting the start."""
        return len(self._log("boots.log").splitlines())

    def console_end(self) -> str:
        """Return the last lines of the serial console."""
        return "\n".join(self._log("console.log").splitlines()[-20:])

    def inventory(self) -> dict[str, t.Any]:
        """Return an Ansible inventory with the machine in ``gpu_hosts``."""
        variables = {
            "ansible_host": "127.0.0.1",
            "ansible_port": self.settings.port,
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(image.key()),
            "ansible_ssh_common_args": " ".join(SSH_OPTIONS),
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_pipelining": True,
        }
        return {"gpu_hosts": {"hosts": {self.name: {}}, "vars": variables}}

    def hosts(self) -> list[VmHost]:
        """Return the machine as a set of one host."""
        return [self]

    def save(self, path: Path) -> None:
        """Save the memory and the disk of the running machine in a file, and remove the machine."""
        self.shell("sync; echo 3 > /proc/sys/vm/drop_caches")
        os.kill(self._supervisor().pid, signal.SIGKILL)  # Only the supervisor, which would start another qemu.
        qemu.save(self.folder)
        (self.folder / "disk.qcow2").rename(path)
        self.down()

    def _start(self, shape: Shape, saved: Path | None) -> None:
        self.folder.mkdir(parents=True)
        disk = self.folder / "disk.qcow2"
        if saved:
            subprocess.run(["cp", "--reflink=auto", "--sparse=always", saved, disk], check=True)
        else:
            overlay = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", image.disk(), disk]
            subprocess.run(overlay, check=True)
        Settings(shape, ports.free(1)[0], saved is not None).write(self.folder)
        command = [sys.executable, "-m", "lab.hosts.vm.supervisor", str(self.folder)]
        supervisor = Component("supervisor", command, log=self.folder / "supervisor.log", cwd=ROOT)
        supervisor.start()
        (self.folder / "supervisor.json").write_text(json.dumps(supervisor.as_dict()))
        self.wait()

    def _supervisor(self) -> Component:
        return Component.from_dict(json.loads((self.folder / "supervisor.json").read_text()))

    def _log(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(errors="replace") if path.exists() else ""


def _provide_state(shape: Shape, say: Say) -> Path:
    """Return the file with the saved state of a machine of this shape that has just booted, and create it if needed."""
    path = image.folder() / f"booted-{folders.key(json.dumps(asdict(shape)), Path(qemu.__file__))}.qcow2"
    with folders.lock(path.with_suffix(".lock")):
        if not path.exists():
            started = time.monotonic()
            host = VmHost(f"saving-{path.stem}", say)
            try:
                host.up(shape, cold=True)
                host.shell("systemctl is-system-running --wait || systemctl --failed")
                host.save(path)
            finally:
                host.down()
            say(f"Saved the state of a booted machine after {time.monotonic() - started:.0f} s")
    return path


def _is_ssh(port: int) -> bool:
    """Return whether an SSH server answers on a port."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.settimeout(2)
        return connection.recv(4) == b"SSH-"
    return False
