# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A set of container hosts: systemd, the packages of a distribution, and a simulated GPU machine under them."""

from __future__ import annotations

import json
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.errors import LabError, UnavailableError
from lab.hosts import packages
from lab.hosts.containers import images
from lab.hosts.containers.podman import Podman

Say = t.Callable[[str], None]


@dataclass(frozen=True)
class Machine:
    """The hardware that a container host shows: the fields of image/machine/spec.py."""

    model: str = "h100-sxm"
    gpus: int = 2
    nvswitches: int = 0
    cpu: str = "intel"


@dataclass(frozen=True)
class ContainerHost:
    """One host, by the name that Ansible and podman know it by."""

    name: str
    flavour: str
    podman: Podman

    @property
    def identity(self) -> Path:
        """The file with podman's id of it."""
        return self.podman.hosts / self.name

    def run(self, *command: str, timeout: float = 120) -> str:
        """Run a command on it; what it printed."""
        return self.podman("exec", self.name, *command, timeout=timeout)

    def shell(self, command: str) -> str:
        """Run a line of shell on it; what it printed."""
        return self.run("sh", "-c", command)

    def read(self, path: str) -> str:
        """A file's text."""
        return self.run("cat", path)

    @property
    def boot_id(self) -> str:
        """Which boot it is in."""
        return self.read("/proc/sys/kernel/random/boot_id")

    def reboot(self) -> None:
        """Reboot it, and wait until it is up again."""
        before = self.boot_id
        self.run("systemctl", "reboot")
        self.wait(other_than=before)

    def wait(self, other_than: str | None = None, timeout: float = 90) -> None:
        """Wait until systemd has started everything, in another boot than the one given. A panic ends the wait."""
        deadline = time.monotonic() + timeout
        said = "nothing yet"
        while time.monotonic() < deadline:
            try:
                if self.boot_id != other_than:
                    self.run("systemctl", "is-system-running", "--wait")
                    return
            except LabError as error:
                said = str(error)
            if "Kernel panic" in self.podman("logs", "--tail", "1", self.name):
                break
            time.sleep(0.1)
        log = self.podman("logs", "--tail", "20", self.name)
        failed = self.podman("exec", self.name, "systemctl", "--failed", "--no-legend") if "degraded" in said else ""
        raise LabError(f"{self.name} did not come up (waited up to {timeout:.0f} s): {said}\n{failed}{log}")


class ContainerHosts:
    """All container hosts of one name, which keeps sets of hosts apart. podman itself is the only record of what there is."""

    def __init__(self, name: str = "default", say: Say = lambda line: None) -> None:
        self.name = name
        self._say = say

    def up(self, flavours: t.Mapping[str, int], machine: Machine | None = None) -> list[ContainerHost]:
        """Start hosts of these flavours, as many of each, beside those that run; wait until all are up."""
        unknown = set(flavours) - set(images.FLAVOURS)
        if unknown:
            raise LabError(f"No flavour {', '.join(sorted(unknown))}: there are {', '.join(images.FLAVOURS)}.")
        packages.require("containers")
        podman = Podman()
        images.provide(podman, flavours, self._say)
        there = {host.name for host in self.hosts()}
        wanted = [
            ContainerHost(f"{self.name}-{flavour}-{i + 1}", flavour, podman)
            for flavour, count in flavours.items()
            for i in range(count)
        ]
        for host in wanted:
            if host.name in there:
                podman("start", host.name)  # it may have gone down with the machine; one that runs takes no notice
        with ThreadPoolExecutor(8) as pool:
            list(
                pool.map(
                    lambda host: self._start(host, machine or Machine()),
                    [host for host in wanted if host.name not in there],
                )
            )
        return wanted

    def down(self) -> int:
        """Remove them; how many there were."""
        hosts = self.hosts()
        if hosts:
            hosts[0].podman("rm", "--force", "--time", "0", *(host.name for host in hosts))
        for host in hosts:
            host.identity.unlink(missing_ok=True)
        return len(hosts)

    def hosts(self) -> list[ContainerHost]:
        """Those that there are, by name."""
        try:
            packages.require("containers")
        except UnavailableError:
            return []
        podman = Podman()
        listed = podman.json("ps", "--all", "--filter", f"label=gpuops.hosts={self.name}", "--format", "json") or []
        found = [ContainerHost(entry["Names"][0], entry["Labels"]["gpuops.flavour"], podman) for entry in listed]
        return sorted(found, key=lambda host: host.name)

    def inventory(self) -> dict[str, t.Any]:
        """An Ansible inventory: a group per flavour, and ``gpu_hosts`` for all."""
        groups: dict[str, t.Any] = {}
        for host in self.hosts():
            groups.setdefault(host.flavour, {"hosts": {}})["hosts"][host.name] = {}
        variables = {
            "ansible_connection": "containers.podman.podman",
            "ansible_podman_executable": str(Podman().login),
            # Each copied file would mount and unmount the container's root, and on a busy machine an unmount can hit the running container.
            "ansible_podman_mount_detection": False,
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_pipelining": True,
        }
        return {"gpu_hosts": {"children": groups, "vars": variables}}

    def _start(self, host: ContainerHost, machine: Machine) -> None:
        # No network: a host gets its packages from a repository of its own, and nothing that a role does reaches further.
        host.identity.unlink(missing_ok=True)
        host.podman(
            "run", "--detach", f"--cidfile={host.identity}", f"--name={host.name}", f"--hostname={host.name}", "--network=none", "--systemd=always",
            "--restart=always", "--annotation=gpuops.machine=1", f"--label=gpuops.hosts={self.name}", f"--label=gpuops.flavour={host.flavour}",
            f"--env=MACHINE={json.dumps(asdict(machine))}", images.name(host.flavour),
        )  # fmt: skip
        host.wait()
