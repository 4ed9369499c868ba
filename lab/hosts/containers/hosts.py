# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sets of container hosts: systemd and the packages of a distribution on a simulated GPU machine."""

from __future__ import annotations

import json
import shlex
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from lab import bytecode
from lab.errors import LabError, UnavailableError
from lab.hosts import packages
from lab.hosts.containers import images
from lab.hosts.containers.image.machine.spec import Machine
from lab.hosts.containers.podman import Podman

PYTHON_PATH = "/usr/local/lib"
"""Where the images have the simulated machine (image/Containerfile)."""

BOOT_ID = "/proc/sys/kernel/random/boot_id"

ANSWER_S = 10.0
"""The seconds after which a host that boots is asked again: what runc starts while a container ends may hang."""

Say = t.Callable[[str], None]


@dataclass(frozen=True)
class ContainerHost:
    """One host, with the name that Ansible and podman use for it."""

    name: str
    flavour: str
    podman: Podman

    @property
    def identity(self) -> Path:
        """The file with podman's ID of the container."""
        return self.podman.hosts / self.name

    @property
    def environment(self) -> Path:
        """The file with the variables of commands on the host, as lines of shell."""
        return self.podman.hosts / f"{self.name}.env"

    def run(self, *command: str, timeout: float = 120) -> str:
        """Run a command on the host and return its output."""
        return self.podman.run_on(self.name, *command, timeout=timeout)

    def shell(self, command: str) -> str:
        """Run a line of shell on the host and return its output."""
        return self.run("sh", "-c", command)

    def read(self, path: str) -> str:
        """Return the text of a file."""
        return self.run("cat", path)

    @property
    def boot_id(self) -> str:
        """The ID of the current boot."""
        return self.read(BOOT_ID)

    def reboot(self) -> None:
        """Reboot the host and wait until it is up again."""
        before = self.boot_id
        self.run("systemctl", "reboot")
        self.wait(other_than=before)

    def wait(self, other_than: str | None = None, timeout: float = 90) -> None:
        """Wait until systemd has started everything in a boot other than ``other_than``, or until a kernel panic."""
        deadline = time.monotonic() + timeout
        said = "no answer yet"
        while time.monotonic() < deadline:
            try:
                if self.run("cat", BOOT_ID, timeout=ANSWER_S) != other_than:
                    self.run(
                        "systemctl", "is-system-running", "--wait", timeout=max(ANSWER_S, deadline - time.monotonic())
                    )
                    return
                said = "the boot before still runs"
            except LabError as error:
                said = str(error)
            if "Kernel panic" in self.podman("logs", "--tail", "1", self.name):
                break
            time.sleep(0.1)
        log = self.podman("logs", "--tail", "20", self.name)
        failed = self.run("systemctl", "--failed", "--no-legend") if "degraded" in said else ""
        raise LabError(f"{self.name} did not come up (waited up to {timeout:.0f} s): {said}\n{failed}{log}")


class ContainerHosts:
    """A named set of container hosts. podman is the only record of the hosts that exist."""

    def __init__(self, name: str = "default", say: Say = lambda line: None) -> None:
        self.name = name
        self._say = say

    def up(self, flavours: t.Mapping[str, int], machine: Machine | None = None) -> list[ContainerHost]:
        """Start the given number of hosts of each flavour, unless they run already, and wait until all are up."""
        unknown = set(flavours) - set(images.FLAVOURS)
        if unknown:
            raise LabError(f"Unknown flavour {', '.join(sorted(unknown))}. Choose from {', '.join(images.FLAVOURS)}.")
        packages.require("containers")
        podman = Podman()
        images.provide(podman, flavours, self._say)
        wanted = [
            ContainerHost(f"{self.name}-{flavour}-{i + 1}", flavour, podman)
            for flavour, count in flavours.items()
            for i in range(count)
        ]
        existing = {host.name for host in self.hosts()}
        for name in existing & {host.name for host in wanted}:
            podman("start", name)  # The machine may have been rebooted. No effect on a container that runs.
        missing = [host for host in wanted if host.name not in existing]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda host: self._start(host, machine or Machine()), missing))
        return wanted

    def down(self) -> int:
        """Remove the hosts and return how many there were."""
        hosts = self.hosts()
        if hosts:
            hosts[0].podman("rm", "--force", "--time", "0", *(host.name for host in hosts))
        for host in hosts:
            host.identity.unlink(missing_ok=True)
            host.environment.unlink(missing_ok=True)
        return len(hosts)

    def hosts(self) -> list[ContainerHost]:
        """Return the hosts that exist, sorted by name."""
        try:
            packages.require("containers")
        except UnavailableError:
            return []
        podman = Podman()
        listed = podman.json("ps", "--all", "--filter", f"label=gpuops.hosts={self.name}", "--format", "json") or []
        found = [ContainerHost(entry["Names"][0], entry["Labels"]["gpuops.flavour"], podman) for entry in listed]
        return sorted(found, key=lambda host: host.name)

    def inventory(self) -> dict[str, t.Any]:
        """Return an Ansible inventory: one group for each flavour, and ``gpu_hosts`` for all."""
        groups: dict[str, t.Any] = {}
        for host in self.hosts():
            groups.setdefault(host.flavour, {"hosts": {}})["hosts"][host.name] = {}
        variables = {
            "ansible_connection": "containers.podman.podman",
            "ansible_podman_executable": str(Podman().login),
            # Otherwise each copied file mounts and unmounts the root of the container, and on a busy machine such an
            # unmount can affect the running container.
            "ansible_podman_mount_detection": False,
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_pipelining": True,
        }
        return {"gpu_hosts": {"children": groups, "vars": variables}}

    def _start(self, host: ContainerHost, machine: Machine) -> None:
        # No network: a host has its own package repository, and no role reaches anything outside the host.
        host.identity.unlink(missing_ok=True)
        options = [f"--cidfile={host.identity}", f"--name={host.name}", f"--hostname={host.name}", "--network=none"]
        options += ["--systemd=always", "--restart=always", "--annotation=gpuops.machine=1"]
        options += [f"--label=gpuops.hosts={self.name}", f"--label=gpuops.flavour={host.flavour}"]
        variables = {"MACHINE": json.dumps(asdict(machine)), **bytecode.variables_inside(PYTHON_PATH)}
        options += [f"--env={name}={value}" for name, value in variables.items()]
        more = {"HOME": "/root", "TERM": "xterm", "HOSTNAME": host.name, "container": "podman"}
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in {**variables, **more}.items()]
        host.environment.write_text("".join(lines))
        host.podman("run", "--detach", *options, *bytecode.volumes(), images.name(host.flavour))
        host.wait()
