# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role host_change changes drivers, goes back to the former one, and is killed on both ways."""

from __future__ import annotations

import re
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.cluster import Lab, Options
from lab.hosts.containers.hosts import ContainerHost
from tests.support import drivers
from tests.support.changes import DRAINED, HELD, IN_SERVICE, node, record_of, taints
from tests.support.hosts import running_containers
from tests.support.labs import running_lab
from tests.support.plays import Plays

FORMER, NEW = drivers.VERSION, "580.105.08"
WANTED = {
    **drivers.DRIVER,
    "host_driver_version": NEW,
    "host_driver_fabric_timeout": 30,
    "host_change_allowed": True,
    "host_change_timeout": 120,
}
BREAKS = "post-invoke=if {condition}; then find /lib/modules -name 'nvidia.ko*' -delete; depmod; fi"
"""A hook of dpkg that makes a driver unusable after each of its runs."""
IS_NEW = f"modinfo -F version nvidia | grep --quiet {NEW}"
STALLS = (
    'pre-invoke=if [ "$DPKG_HOOK_ACTION" = configure ] && [ -e /srv/stall ]; then touch /srv/stalled; sleep 600; fi'
)
"""A hook of dpkg that waits when the new driver is unpacked and not configured."""


@pytest.fixture(scope="module")
def cluster() -> t.Iterator[Lab]:
    """A cluster with two empty nodes."""
    with running_lab("drivers", Options(nodes=2, operator="none", pods="instant")) as lab:
        yield lab


class Change:
    """The change of one host's driver, in runs that are killed."""

    def __init__(self, plays: Plays, lab: Lab, host: ContainerHost, breaks_if: str) -> None:
        self.plays, self.lab, self.host, self._breaks_if = plays, lab, host, breaks_if

    def prepare(self) -> None:
        """Install the former driver. A later one is broken on the condition."""
        self.host.shell("echo blacklist nouveau > /etc/modprobe.d/test.conf && update-initramfs -u")
        drivers.install_with_apt(self.host)
        for name, text in (("breaks", BREAKS.format(condition=self._breaks_if)), ("stalls", STALLS)):
            self.host.shell(f"cat > /etc/dpkg/dpkg.cfg.d/{name} <<'END'\n{text}\nEND")

    def repair(self) -> None:
        """Let new drivers work from now on."""
        self.host.run("rm", "/etc/dpkg/dpkg.cfg.d/breaks")

    @property
    def driver(self) -> str:
        """The version of the loaded driver, or ``none``."""
        return self.host.shell("cat /sys/module/nvidia/version 2>/dev/null || echo none")

    @property
    def node(self) -> tuple[bool, list[str]]:
        """Whether the host's node is cordoned, and its annotations from this collection."""
        return node(self.lab, self.plays.node(self.host.name))

    @property
    def taints(self) -> dict[str, str]:
        """The taints of the host's node."""
        return taints(self.lab, self.plays.node(self.host.name))

    def lose_power_while_the_driver_is_unpacked(self) -> None:
        """Kill the run, and everything on the host, between dpkg's two steps."""
        self.host.run("touch", "/srv/stall")
        self.plays.cut_when("host_change", self.host, lambda: self._there("/srv/stalled"), **WANTED)
        self.host.podman("restart", "--time=0", self.host.name)
        self.host.run("/usr/local/lib/stand-ins/login", "true")
        self.host.run("rm", "/srv/stall", "/srv/stalled")
        states = self.host.shell("dpkg-query --show --showformat '${db:Status-Status} ' 'nvidia-*'").split()
        assert "unpacked" in states, states
        self.is_held_at("change")

    def kill_as_soon_as(self, stage: str) -> None:
        """Kill the run when the host's record says how far it has come. A command on the host continues."""
        self.plays.cut_when("host_change", self.host, lambda: record_of(self.host).get("stage") == stage, **WANTED)
        self.is_held_at(stage)

    def kill_when_installed(self, version: str) -> None:
        """Kill the run when the packages of a version are installed."""
        self.plays.cut_when("host_change", self.host, lambda: version in drivers.packages(self.host).values(), **WANTED)

    def kill_after(self, task: str, within: str | None = None) -> None:
        """Kill the run after a task."""
        self.plays.cut("host_change", self.host, task, within, **WANTED)

    def is_held_at(self, stage: str) -> None:
        """Assert that the node is out of service, and that the record knows the stage and the way back."""
        record = record_of(self.host)
        assert (record["stage"], record["former"]["version"], self.node) == (stage, FORMER, DRAINED)

    def _there(self, path: str) -> bool:
        return bool(self.host.shell(f"ls {path} 2>/dev/null || true"))


def kill_on_the_way_there_and_back(change: Change, often: bool) -> None:
    """The new driver does not work. Every run goes on where the last was killed."""
    change.lose_power_while_the_driver_is_unpacked()
    if often:
        change.kill_as_soon_as("back")
    change.kill_after("Restore the former packages", within="host_driver")
    change.is_held_at("back")
    if often:
        change.kill_after("Put the node back")
        assert (change.node, record_of(change.host)["stage"], change.driver) == (IN_SERVICE, "back", FORMER)


def kill_before_the_host_is_held(change: Change, often: bool) -> None:
    """No driver works. The last run is killed when it has tainted the node, and before it says so."""
    if often:
        change.kill_when_installed(NEW)
        change.is_held_at("change")
    change.kill_after("Taint the node with the reason")
    assert (change.node, record_of(change.host)["stage"]) == (HELD, "back")


def kill_on_the_way_to_a_driver_that_works(once: Change, always: Change) -> None:
    together(lambda: once.kill_after("Reboot"), lambda: always.kill_after("Prove the host"))
    assert (once.node, always.node) == (DRAINED, HELD)


def together(*calls: t.Callable[[], None]) -> None:
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(call) for call in calls]:
            done.result()


@pytest.mark.deep
@pytest.mark.parametrize("often", [False, True])
def test_changes_that_are_killed_on_the_way_there_and_back(cluster: Lab, tmp_path: Path, often: bool) -> None:
    """On one host only the new driver is broken, on the other the former one, too. Repaired, both get the new one."""
    with running_containers("back", {"debian": 2}) as hosts:
        plays = Plays(hosts, tmp_path, cluster)
        once, always = (
            Change(plays, cluster, host, breaks_if) for host, breaks_if in zip(plays.hosts, (IS_NEW, "true"))
        )
        together(once.prepare, always.prepare)
        together(
            lambda: kill_on_the_way_there_and_back(once, often), lambda: kill_before_the_host_is_held(always, often)
        )

        run = plays.run("host_driver", "host_change", host_driver_leave=True, **WANTED)

        assert run.status != 0, run.output
        assert (once.driver, always.driver) == (FORMER, "none"), run.output
        assert (once.node, always.node) == (IN_SERVICE, HELD), run.output
        assert f"{once.host.name} is back in service" in run.output, run.output
        assert "because the change failed: " in run.output, run.output
        assert f"{always.host.name} is not fit" in run.output, run.output
        assert re.search(r"The way back to .* failed, too: ", run.output), run.output
        assert (record_of(once.host), record_of(always.host)["stage"]) == ({}, "failed")

        together(once.repair, always.repair)
        if often:
            kill_on_the_way_to_a_driver_that_works(once, always)
        again = plays.run("host_change", **WANTED)

        assert again.status == 0, again.output
        assert (once.driver, always.driver) == (NEW, NEW), again.output
        assert (once.node, always.node) == (IN_SERVICE, IN_SERVICE), again.output
        assert not once.taints and not always.taints
