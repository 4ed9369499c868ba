# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Container hosts with the stand-in for NVIDIA's driver, from the repository in their image."""

from __future__ import annotations

import contextlib
import typing as t
from pathlib import Path

from lab.hosts import Machine
from lab.hosts.containers.hosts import ContainerHost
from tests.support.hosts import running_containers
from tests.support.plays import Plays

VERSION = "580.95.05"
DRIVER: dict[str, t.Any] = {
    "gpuops_driver": "host",
    "host_driver_version": VERSION,
    "host_driver_repositories": [
        {"name": "nvidia", "url": "file:///usr/local/share/repository", "suites": ["./"], "trusted": True}
    ],
}
"""The variables of the host roles for a driver on the host."""

MACHINES = {"debian": Machine(model="b200-sxm", gpus=8), "rhel": Machine(), "ubuntu": Machine(nvswitches=2)}
_TO_GB200 = (
    "for device in /sys/bus/pci/devices/*/device; do grep -q 0x2330 $device && echo 0x2941 > $device; done; true"
)
_LIST = {"rhel": "rpm --query --all --queryformat '%{NAME} %{VERSION}\\n'"}
_LIST_DEBS = "dpkg-query --show --showformat '${Package} ${Version} ${db:Status-Abbrev}\\n'"


@contextlib.contextmanager
def running_machines(purpose: str, folder: Path) -> t.Iterator[Plays]:
    """Run a B200 machine (debian), a tray of an NVL72 (rhel) and an H100 machine with NVSwitches (ubuntu)."""
    with running_containers(purpose, {}) as hosts:
        for flavour, machine in MACHINES.items():
            hosts.up({flavour: 1}, machine)
        plays = Plays(hosts, folder)
        plays.host("rhel").shell(_TO_GB200)
        yield plays


def install_with_role(plays: Plays) -> None:
    """Install and load the driver on every host that does not have it."""
    lacking = [host for host in plays.hosts if "nvidia" not in host.run("lsmod")]
    if not lacking:
        return
    run = plays.run("host_driver", limit=",".join(host.name for host in lacking), **DRIVER)
    assert run.status == 0, run.output
    for host in lacking:
        load(host)


def install_with_apt(host: ContainerHost) -> None:
    """Install and load the driver as a user would without the role. This takes a fraction of the time."""
    host.shell("echo 'deb [trusted=yes] file:/usr/local/share/repository ./' > /etc/apt/sources.list.d/nvidia.list")
    packages = " ".join(f"{name}={VERSION}-1" for name in ("nvidia-kernel-open-dkms", "nvidia-driver-cuda"))
    host.shell(f"apt-get --quiet update && apt-get --quiet --yes install {packages}")
    load(host)


def load(host: ContainerHost) -> None:
    """Load the driver's kernel module in place of nouveau."""
    host.shell("if lsmod | grep -q ^nouveau; then rmmod nouveau; fi; modprobe nvidia")


def packages(host: ContainerHost) -> dict[str, str]:
    """Return NVIDIA's installed packages and their versions, without the distribution's revision."""
    rows = [row.split() for row in host.shell(_LIST.get(host.flavour, _LIST_DEBS)).splitlines()]
    installed = [row[:2] for row in rows if row[2:] in ([], ["ii"], ["hi"])]
    return {name: version.partition("-")[0] for name, version in installed if "nvidia" in name or name == "nvlsm"}


def unit_state(host: ContainerHost, unit: str) -> str:
    """Return ``active``, or how systemd describes a unit that is not active: ``disabled``, ``masked``."""
    return host.shell(f"systemctl is-active {unit} || systemctl is-enabled {unit} || true").splitlines()[-1]
