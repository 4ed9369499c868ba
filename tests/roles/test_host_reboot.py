# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role host_reboot: which hosts need a reboot, interrupted runs, and hosts that do not come back.

A simulated cluster has the hosts as nodes.
"""

from __future__ import annotations

import json
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from lab.cluster import Lab, Options
from lab.hosts import LabError
from lab.hosts.containers.hosts import ContainerHost
from tests.support import drivers
from tests.support.ansible import SITE
from tests.support.hosts import running_containers
from tests.support.labs import running_lab
from tests.support.plays import Plays

TASKS = [
    "Find out whether a reboot is due",
    "Find out whether an earlier run was interrupted",
    "Group the hosts that need a reboot",
    "Find the node",
    "Create the folder for the record",
    "Read the ID of the boot",
    "Write the record",
    "Drain the node",
    "Reboot",
    "Gather the facts after the reboot",
    "Read the record",
    "Wait until the node is Ready",
    "Put the node back",
    "Delete the record",
]
"""The tasks of the role on a host that needs a reboot."""
CUTS = [
    TASKS.index(name) + 1
    for name in TASKS
    if name.partition(" ")[0] in ("Create", "Write", "Drain", "Reboot", "Put", "Delete")
]
"""After how many tasks a run is killed. Tasks that only read are left out: they change nothing."""
DRAINED = (True, [f"gpuops.nvidia/{name}" for name in ("initial-state.unschedulable", "maintenance.reboot")])
REMOVED = "The NVIDIA kernel module is loaded although it is no longer installed"
IN_SERVICE: tuple[bool, list[str]] = (False, [])


@pytest.fixture(scope="module")
def cluster() -> t.Iterator[Lab]:
    """A cluster with empty nodes."""
    with running_lab("reboots", Options(nodes=len(CUTS), operator="none", pods="instant")) as lab:
        yield lab


def require_a_reboot(host: ContainerHost) -> None:
    host.shell("echo blacklist nouveau > /etc/modprobe.d/test.conf")


def boots(hosts: t.Iterable[ContainerHost]) -> list[str]:
    """Return the boot id of each host."""
    return [host.boot_id for host in hosts]


def recorded(host: ContainerHost) -> bool:
    return bool(host.run("find", "/var/lib", "-path", "/var/lib/gpuops/reboot.json"))


def node(lab: Lab, name: str) -> tuple[bool, list[str]]:
    """Return whether a node is cordoned, and its annotations from this collection."""
    found = json.loads(lab.kubectl("get", "node", name, "--output=json"))
    return bool(found["spec"].get("unschedulable")), sorted(
        key for key in found["metadata"]["annotations"] if key.startswith("gpuops.nvidia/")
    )


def left_by(finished: list[str]) -> tuple[bool, tuple[bool, list[str]]]:
    """Return whether a run that is killed after these tasks leaves a record, and the state of its node."""
    record = "Write the record" in finished and "Delete the record" not in finished
    drained = "Drain the node" in finished and "Put the node back" not in finished
    return record, DRAINED if drained else IN_SERVICE


def test_a_run_that_is_killed_between_any_two_tasks_is_completed_by_the_next(cluster: Lab, tmp_path: Path) -> None:
    """Each task that changes something has a host, whose run is killed after it. One more run completes all hosts."""
    with running_containers("cut", {"debian": len(CUTS)}) as hosts:
        plays = Plays(hosts, tmp_path, cluster)
        cuts = dict(zip(CUTS, plays.hosts))
        for host in plays.hosts:
            require_a_reboot(host)
        before = boots(plays.hosts)

        def run_until(after: int) -> list[str]:
            return plays.cut("host_reboot", cuts[after], after, host_reboot_allowed=True)

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(run_until, cuts)) == [TASKS[:after] for after in cuts]
        between = boots(plays.hosts)
        rebooted = [one != other for one, other in zip(before, between)]
        assert rebooted == ["Reboot" in TASKS[:after] for after in cuts]
        for after, host in cuts.items():
            assert (recorded(host), node(cluster, plays.node(host.name))) == left_by(TASKS[:after]), after

        resumed = plays.run("host_reboot", host_reboot_allowed=True)

        assert resumed.status == 0, resumed.output
        assert [one != other for one, other in zip(between, boots(plays.hosts))] == [not each for each in rebooted]
        for after, host in cuts.items():
            assert (recorded(host), node(cluster, plays.node(host.name))) == (False, IN_SERVICE), after
        again = plays.run("host_reboot")
        assert (again.status, again.changed) == (0, 0), again.output


def test_the_role_can_run_twice_in_a_play(cluster: Lab, tmp_path: Path) -> None:
    with running_containers("twice", {"debian": 1}) as hosts:
        plays = Plays(hosts, tmp_path, cluster)
        require_a_reboot(plays.hosts[0])
        before = boots(plays.hosts)
        run = plays.run("host_reboot", "host_reboot", host_reboot_allowed=True)
        assert run.status == 0, run.output
        assert boots(plays.hosts) != before and not recorded(plays.hosts[0])


def empty_initramfs(host: ContainerHost) -> None:
    host.shell("for image in /boot/initrd.img-*; do cp --preserve $image /srv && truncate --size=0 $image; done")


def repair_initramfs(host: ContainerHost) -> None:
    host.shell("cp --preserve /srv/initrd.img-* /boot")
    host.podman("restart", "--time=0", host.name)
    host.run("/usr/local/lib/stand-ins/login", "true")


def test_a_host_that_does_not_come_back_stops_the_rollout_and_is_named(cluster: Lab, tmp_path: Path) -> None:
    """The first host has an empty initramfs. Once it is repaired, the same command continues.

    site.yml reboots the hosts in the order of the inventory, although the first host answers last here.
    """
    with running_containers("panic", {"debian": 2}) as hosts:
        plays = Plays(hosts, tmp_path, cluster)
        broken, other = plays.hosts

        def states() -> list[tuple[bool, list[str]]]:
            return [node(cluster, plays.node(host.name)) for host in plays.hosts]

        prepared = plays.run("host_prep")
        assert prepared.status == 0, prepared.output
        empty_initramfs(broken)
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
        assert states() == [DRAINED, IN_SERVICE]

        repair_initramfs(broken)
        again = plays.site(host_reboot_allowed=True, host_reboot_timeout=60)

        assert again.status == 0, again.output
        assert boots([other]) != before[1:]
        assert states() == [IN_SERVICE, IN_SERVICE]
        assert not any(recorded(host) for host in plays.hosts)


def test_site_reboots_in_batches_only_the_hosts_that_need_it(tmp_path: Path) -> None:
    """The plays of site.yml for reboots, on three hosts of which two have been changed."""
    playbook = tmp_path / "play.yml"
    site = yaml.safe_load(SITE.read_text())
    first = next(i for i, play in enumerate(site) if play["name"] == "Find the GPU hosts that need a reboot")
    playbook.write_text(yaml.safe_dump(site[first : first + 2]))
    settings = {"host_reboot_allowed": True, "host_reboot_timeout": 120}
    with running_containers("batches", {"debian": 3}) as hosts:
        plays = Plays(hosts, tmp_path)
        due = plays.hosts[:2]
        for host in due:
            host.shell("echo 'GRUB_CMDLINE_LINUX=iommu=pt' > /etc/default/grub.d/test.cfg && update-grub")
        before = boots(plays.hosts)

        done = plays.playbook(playbook, **settings)

        assert done.status == 0, done.output
        assert done.output.count("PLAY [Reboot these hosts in batches]") == 2 and "WARNING" not in done.output, (
            done.output
        )
        assert [one != other for one, other in zip(before, boots(plays.hosts))] == [True, True, False]

        again = plays.playbook(playbook, limit=due[0].name, **settings)

        assert again.status == 0 and "WARNING" not in again.output, again.output
        assert "PLAY [Reboot these hosts in batches]" in again.output, again.output
        assert "skipping: no hosts matched" in again.output, again.output


def test_a_driver_that_was_removed_but_is_still_loaded_needs_a_reboot(tmp_path: Path) -> None:
    with running_containers("removed", {"debian": 1}) as hosts:
        plays = Plays(hosts, tmp_path)
        [host] = plays.hosts
        drivers.install_with_apt(host)
        require_a_reboot(host)
        host.reboot()
        assert "nvidia" in host.run("lsmod")
        assert REMOVED not in predicted(plays)
        host.run("dpkg", "--purge", "--force-all", "nvidia-kernel-open-dkms")
        host.run("depmod")
        assert REMOVED in predicted(plays)
        host.reboot()
        assert REMOVED not in predicted(plays)


def predicted(plays: Plays) -> str:
    """Return the output of the role in check mode."""
    run = plays.run("host_reboot", arguments=["--check"], host_reboot_allowed=False)
    assert run.status == 0, run.output
    return run.output
