# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role host_reboot where it is interrupted, and where a host does not come back; with a cluster that has the hosts as nodes."""

from __future__ import annotations

import json
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.cluster import Lab, Options
from lab.hosts import LabError
from lab.hosts.containers.hosts import ContainerHost
from tests.support.hosts import running_containers
from tests.support.labs import running_lab
from tests.support.plays import Plays

TASKS = [
    "See whether a reboot is due",
    "See whether an earlier run was interrupted",
    "Set the hosts apart that are to be rebooted",
    "Find the node",
    "Make the folder of the record",
    "Ask for the boot",
    "Write the record",
    "Drain the node",
    "Reboot",
    "Look at the host after the reboot",
    "Read what was before",
    "Find the node",
    "Put the node back",
    "Forget the record",
]
"""All that the role does to a host that needs a reboot."""
CUTS = [
    TASKS.index(name) + 1
    for name in TASKS
    if name.partition(" ")[0] in ("Make", "Write", "Drain", "Reboot", "Put", "Forget")
]
"""Where a run is killed. A task that only reads leaves what the one before it has left."""
HELD = [f"gpuops.nvidia/{name}" for name in ("initial-state.unschedulable", "maintenance.reboot")]


@pytest.fixture(scope="module")
def cluster() -> t.Iterator[Lab]:
    """Nodes, and nothing on them."""
    with running_lab("reboots", Options(nodes=len(CUTS), operator="none", pods="instant")) as lab:
        yield lab


def ask_for_a_reboot(host: ContainerHost) -> None:
    host.shell("echo blacklist nouveau > /etc/modprobe.d/test.conf")


def boots(hosts: t.Iterable[ContainerHost]) -> list[str]:
    """Which boot each host is in."""
    return [host.boot_id for host in hosts]


def recorded(host: ContainerHost) -> bool:
    return bool(host.run("find", "/var/lib", "-path", "/var/lib/gpuops/reboot.json"))


def node(lab: Lab, name: str) -> tuple[bool, list[str]]:
    """Whether a node is cordoned, and which of our annotations it has."""
    found = json.loads(lab.kubectl("get", "node", name, "--output=json"))
    return bool(found["spec"].get("unschedulable")), sorted(
        key for key in found["metadata"]["annotations"] if key.startswith("gpuops.nvidia/")
    )


def test_a_run_that_is_killed_between_any_two_tasks_is_completed_by_the_next(cluster: Lab, tmp_path: Path) -> None:
    """A host for each task that changes something: its run is killed when the task is done. Then one run, without a word of it, for all."""
    with running_containers("cut", {"debian": len(CUTS)}) as hosts:
        plays = Plays(hosts, tmp_path, cluster)
        cuts = dict(zip(CUTS, plays.hosts))
        for host in plays.hosts:
            ask_for_a_reboot(host)
        before = boots(plays.hosts)

        with ThreadPoolExecutor(2) as pool:
            done = list(
                pool.map(lambda after: plays.cut("host_reboot", cuts[after], after, host_reboot_allowed=True), cuts)
            )

        assert done == [TASKS[:after] for after in cuts]
        between = boots(plays.hosts)
        rebooted = [one != other for one, other in zip(before, between)]
        assert rebooted == ["Reboot" in TASKS[:after] for after in cuts]
        for after, host in cuts.items():
            finished = TASKS[:after]
            assert recorded(host) == ("Write the record" in finished and "Forget the record" not in finished), after
            drained = "Drain the node" in finished and "Put the node back" not in finished
            assert node(cluster, plays.node(host.name)) == ((True, HELD) if drained else (False, [])), after

        resumed = plays.run("host_reboot", host_reboot_allowed=True)

        assert resumed.status == 0, resumed.output
        assert [one != other for one, other in zip(between, boots(plays.hosts))] == [not each for each in rebooted]
        for after, host in cuts.items():
            assert not recorded(host), after
            assert node(cluster, plays.node(host.name)) == (False, []), after
        again = plays.run("host_reboot")
        assert (again.status, again.changed) == (0, 0), again.output


def test_the_role_can_come_twice_in_a_play(cluster: Lab, tmp_path: Path) -> None:
    with running_containers("twice", {"debian": 1}) as hosts:
        plays = Plays(hosts, tmp_path, cluster)
        ask_for_a_reboot(plays.hosts[0])
        before = boots(plays.hosts)
        run = plays.run("host_reboot", "host_reboot", host_reboot_allowed=True)
        assert run.status == 0, run.output
        assert boots(plays.hosts) != before and not recorded(plays.hosts[0])


def test_a_host_that_does_not_come_back_stops_the_rollout_and_is_named(cluster: Lab, tmp_path: Path) -> None:
    """Its initramfs is empty. By site.yml, one host after the other as the inventory has them; and when it is mended, the same command goes on."""
    with running_containers("panic", {"debian": 2}) as hosts:
        plays = Plays(hosts, tmp_path, cluster)
        broken, other = plays.hosts
        prepared = plays.run("host_prep")
        assert prepared.status == 0, prepared.output
        broken.shell("for image in /boot/initrd.img-*; do cp --preserve $image /srv && truncate --size=0 $image; done")
        before = boots(plays.hosts)

        answers_last = (
            f"{{{{ lookup('pipe', 'sleep 1; echo true') if inventory_hostname == '{broken.name}' else true }}}}"
        )
        run = plays.site(host_reboot_allowed=answers_last, host_reboot_timeout=10)

        assert run.status != 0
        assert f"{broken.name} could not be rebooted, or did not come back within 10 s" in run.message, run.output
        assert "No further host is rebooted. Look at its console." in run.message and "run this again" in run.message
        with pytest.raises(LabError, match="Kernel panic"):
            broken.wait(other_than=before[0])
        assert boots([other]) == before[1:]
        assert [node(cluster, plays.node(host.name)) for host in plays.hosts] == [(True, HELD), (False, [])]

        broken.shell("cp --preserve /srv/initrd.img-* /boot")
        broken.podman("restart", "--time=0", broken.name)
        broken.run("/usr/local/lib/stand-ins/login", "true")
        again = plays.site(host_reboot_allowed=True, host_reboot_timeout=60)

        assert again.status == 0, again.output
        assert boots([other]) != before[1:]
        assert [node(cluster, plays.node(host.name)) for host in plays.hosts] == [(False, [])] * 2
        assert not any(recorded(host) for host in plays.hosts)
