# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role host_change: permission, the node of a host, interrupted runs, proofs that fail, and the way back.

A simulated cluster has the hosts as nodes.
"""

from __future__ import annotations

import json
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.cluster import Lab, Options
from lab.hosts.containers.hosts import ContainerHost
from tests.support.hosts import running_containers
from tests.support.labs import running_lab
from tests.support.plays import Plays

RECORD = "/var/lib/gpuops/change.json"
STAGE = ["Note how far the change has come", "Create the folder for the record", "Write the record"]
TASKS = [
    "Gather the facts of the host",
    "Read what an earlier run has recorded",
    "Note what identifies the host in a cluster",
    "Find the node of the host",
    "Decide what to do",
    "Note what is to be done",
    "Group the hosts that are to be changed",
    "Gather what the host has now",
    "Note what the host has now",
    "Begin the record, or go on with that of an earlier run",
    *STAGE,
    "Drain the node",
    "Find out whether a reboot is due now",
    *STAGE,
    "Reboot",
    *STAGE,
    "Gather what the host has now",
    "Prove the host",
    "Wait until the node is Ready",
    "Put the node back",
    "Delete the record",
    "Note that the host is changed",
]
"""The tasks of the role on a host that needs a reboot."""
CUTS = [
    number + 1
    for number, name in enumerate(TASKS)
    if name.partition(" ")[0] in ("Write", "Drain", "Reboot", "Put", "Delete")
]
"""After how many tasks a run is killed. Tasks that only read are left out: they change nothing."""
DRAINED = (True, [f"gpuops.nvidia/{name}" for name in ("initial-state.unschedulable", "maintenance.change")])
HELD = (True, sorted([*DRAINED[1], "gpuops.nvidia/failed.change"]))
IN_SERVICE: tuple[bool, list[str]] = (False, [])


@pytest.fixture(scope="module")
def cluster() -> t.Iterator[Lab]:
    """A cluster with empty nodes."""
    with running_lab("changes", Options(nodes=len(CUTS), operator="none", pods="instant")) as lab:
        yield lab


def require_a_reboot(host: ContainerHost) -> None:
    host.shell("echo blacklist nouveau > /etc/modprobe.d/test.conf; modprobe nouveau")


def boots(hosts: t.Iterable[ContainerHost]) -> list[str]:
    """Return the boot id of each host."""
    return [host.boot_id for host in hosts]


def record_of(host: ContainerHost) -> dict[str, t.Any]:
    """Return what the role has recorded on a host, or an empty dict."""
    return dict(json.loads(host.shell(f"cat {RECORD} 2>/dev/null || echo {{}}")))


def node(lab: Lab, name: str) -> tuple[bool, list[str]]:
    """Return whether a node is cordoned, and its annotations from this collection."""
    found = json.loads(lab.kubectl("get", "node", name, "--output=json"))
    return bool(found["spec"].get("unschedulable")), sorted(
        key for key in found["metadata"]["annotations"] if key.startswith("gpuops.nvidia/")
    )


def taints(lab: Lab, name: str) -> dict[str, str]:
    """Return the values of a node's taints, without those of Kubernetes itself."""
    found = json.loads(lab.kubectl("get", "node", name, "--output=json"))["spec"].get("taints") or []
    return {taint["key"]: taint.get("value", "") for taint in found if "kubernetes.io" not in taint["key"]}


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
            return plays.cut("host_change", cuts[after], after, host_change_allowed=True)

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(run_until, cuts)) == [TASKS[:after] for after in cuts]
        between = boots(plays.hosts)
        rebooted = [one != other for one, other in zip(before, between)]
        assert rebooted == ["Reboot" in TASKS[:after] for after in cuts]
        for after, host in cuts.items():
            assert (bool(record_of(host)), node(cluster, plays.node(host.name))) == left_by(TASKS[:after]), after

        resumed = plays.run("host_change", host_change_allowed=True)

        assert resumed.status == 0, resumed.output
        assert [one != other for one, other in zip(between, boots(plays.hosts))] == [not each for each in rebooted]
        for after, host in cuts.items():
            assert (record_of(host), node(cluster, plays.node(host.name))) == ({}, IN_SERVICE), after
        again = plays.run("host_change/plan", "host_change")
        assert (again.status, again.changed) == (0, 0), again.output
