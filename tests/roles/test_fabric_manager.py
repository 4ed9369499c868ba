# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A driver on the host: the fabric of each generation of machines, a repository that lacks a version, a driver that hangs, and the way back.

The tests follow one another on the same hosts: a B200 machine, a tray of an NVL72, and an H100 machine.
"""

from __future__ import annotations

import time
import typing as t
from pathlib import Path

import pytest

from lab.hosts import ContainerHosts, Machine
from lab.hosts.containers.hosts import ContainerHost
from tests.support.hosts import running_containers
from tests.support.plays import Plays

VERSION = "580.95.05"
DRIVER: dict[str, t.Any] = {
    "gpuops_driver": "host",
    "host_driver_version": VERSION,
    "host_driver_repository": {"url": "file:///usr/local/share/repository", "suites": ["./"]},
    "fabric_manager_timeout": 10,
}
MACHINES = {"debian": Machine(model="b200-sxm"), "rhel": Machine(), "ubuntu": Machine(nvswitches=2)}
LIST = {"rhel": "rpm --query --all --queryformat '%{NAME} %{VERSION}\\n'"}
TO_GB200 = "for device in /sys/bus/pci/devices/*/device; do grep -q 0x2330 $device && echo 0x2941 > $device; done; true"


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Plays]:
    """The three machines, with a driver."""
    with running_containers("drivers", {}) as hosts:
        for flavour, machine in MACHINES.items():
            hosts.up({flavour: 1}, machine)
        yield with_driver(hosts, tmp_path_factory.mktemp("plays"))


def with_driver(hosts: ContainerHosts, folder: Path) -> Plays:
    plays = Plays(hosts, folder)
    plays.host("rhel").shell(TO_GB200)
    run = plays.run("host_driver", **DRIVER)
    assert run.status == 0, run.output
    for host in plays.hosts:
        host.shell("rmmod nouveau && modprobe nvidia")
    return plays


def packages(host: ContainerHost) -> dict[str, str]:
    """NVIDIA's packages and their versions, without the distribution's revision."""
    rows = host.shell(
        LIST.get(host.flavour, "dpkg-query --show --showformat '${Package} ${Version} ${db:Status-Abbrev}\\n'")
    ).splitlines()
    installed = [row.split() for row in rows if len(row.split()) == 2 or row.split()[2] == "ii"]
    return {row[0]: row[1].partition("-")[0] for row in installed if "nvidia" in row[0] or row[0] == "nvlsm"}


def state(host: ContainerHost, unit: str) -> str:
    return host.shell(f"systemctl is-active {unit} || systemctl is-enabled {unit} || true").splitlines()[-1]


def predicted_and_done(plays: Plays, *roles: str, host: ContainerHost, **variables: t.Any) -> str:
    """Check, run, and run again: the second has nothing to do. Returns what the run said."""
    runs = [
        plays.run(*roles, limit=host.name, arguments=arguments, **DRIVER | variables)
        for arguments in (["--check"], [], [])
    ]
    assert [run.status for run in runs] == [0, 0, 0], next(run.output for run in runs if run.status)
    assert runs[0].changed > 0 and runs[1].changed > 0, runs[1].output
    assert runs[2].changed == 0, runs[2].output
    return runs[1].output


def test_nvlink_5_gets_fabric_and_subnet_manager(plays: Plays) -> None:
    host = plays.host("debian")
    predicted_and_done(plays, "fabric_manager", host=host)
    found = packages(host)
    assert found["nvidia-fabricmanager"] == VERSION and "nvlsm" in found
    assert state(host, "nvidia-fabricmanager.service") == "active"
    assert host.read("/etc/modules-load.d/gpuops-fabric.conf").splitlines()[-1] == "ib_umad"


def test_a_tray_of_an_nvl72_leaves_imex_to_the_compute_domains(plays: Plays) -> None:
    host = plays.host("rhel")
    predicted_and_done(plays, "fabric_manager", host=host)
    assert packages(host)["nvidia-imex"] == VERSION and "nvidia-fabricmanager" not in packages(host)
    assert state(host, "nvidia-imex.service") == "masked"


def test_a_tray_whose_neighbours_are_named_runs_imex(plays: Plays) -> None:
    host = plays.host("rhel")
    predicted_and_done(plays, "fabric_manager", host=host, fabric_manager_imex_nodes=["192.0.2.1", "192.0.2.2"])
    assert state(host, "nvidia-imex.service") == "active"
    assert host.read("/etc/nvidia-imex/nodes_config.cfg") == "192.0.2.1\n192.0.2.2"
    before = host.shell("systemctl show --property=MainPID nvidia-imex.service")
    predicted_and_done(plays, "fabric_manager", host=host, fabric_manager_imex_nodes=["192.0.2.1", "192.0.2.3"])
    assert host.shell("systemctl show --property=MainPID nvidia-imex.service") != before, (
        "It reads the file at its start."
    )


def test_a_fabric_manager_that_no_repository_has_for_the_driver(plays: Plays) -> None:
    """Named with its version and with what there is; no other version is taken, and nothing is touched."""
    host = plays.host("ubuntu")
    wanted = "nvidia-fabricmanager-580"
    strip = f"awk -v RS= -v ORS='\\n\\n' '!/^Package: {wanted}\\nVersion: {VERSION}/'"
    host.shell(
        f"cd /usr/local/share/repository && cp Packages /srv/Packages && {strip} /srv/Packages > Packages && apt-cache gencaches"
    )
    before = packages(host)

    run = plays.run("fabric_manager", limit=host.name, **DRIVER)

    assert run.status == 2, run.output
    assert f"has the driver {VERSION}. No repository of the host offers {wanted} or " in run.message, run.output
    assert f"of version {VERSION}. It offers {wanted} 580.105.08-1. Configure a repository that has it" in run.message
    assert packages(host) == before

    host.shell("cp /srv/Packages /usr/local/share/repository/Packages && apt-cache gencaches")
    predicted_and_done(plays, "fabric_manager", host=host)
    assert packages(host)[wanted] == VERSION
    assert [gpu["fabric"]["state"] for gpu in plays.facts(host, "gpus")["gpus"]] == ["Completed"] * 2


def test_a_hung_nvidia_smi_costs_its_time_out_and_its_facts(plays: Plays) -> None:
    host = plays.host("ubuntu")
    host.shell(
        "mv /usr/bin/nvidia-smi /srv && printf '#!/bin/sh\\nexec sleep 600\\n' > /usr/bin/nvidia-smi && chmod 755 /usr/bin/nvidia-smi"
    )
    started = time.monotonic()
    facts = plays.facts(host)
    assert time.monotonic() - started < 60
    assert [(gpu["pci_address"], gpu["uuid"]) for gpu in facts["gpus"]] == [
        ("0000:18:00.0", None),
        ("0000:29:00.0", None),
    ]
    assert facts["driver"]["version"] == VERSION
    assert "nvidia-smi did not answer within" in str(facts["sources"])
    host.shell("mv /srv/nvidia-smi /usr/bin && pkill sleep || true")


@pytest.mark.parametrize("flavour", MACHINES)
def test_persistence_on_and_off(plays: Plays, flavour: str) -> None:
    host = plays.host(flavour)
    install = {
        "rhel": "dnf --assumeyes --quiet install nvidia-persistenced",
        "ubuntu": "apt-get --yes install nvidia-compute-utils-580-server",
    }
    host.shell(install.get(flavour, "apt-get --yes install nvidia-persistenced"))
    predicted_and_done(plays, "host_prep/driver", host=host)
    assert state(host, "nvidia-persistenced.service") == "active"
    predicted_and_done(plays, "host_prep/driver", host=host, host_prep_persistence=False)
    assert state(host, "nvidia-persistenced.service") == "disabled"


@pytest.mark.parametrize("flavour", MACHINES)
def test_the_way_back_to_a_driver_container(plays: Plays, flavour: str) -> None:
    """Without a permission nothing goes; with it, all but the container toolkit."""
    host = plays.host(flavour)
    refused = plays.run("host_prep", limit=host.name, gpuops_driver="container")
    assert (
        refused.status == 2
        and f"has the driver {VERSION}" in refused.message
        and "host_prep_remove_host_driver" in refused.message
    ), refused.output
    assert packages(host)
    back = {"gpuops_driver": "container", "host_prep_remove_host_driver": True}
    said = predicted_and_done(plays, "host_prep", "fabric_manager", host=host, **back)
    assert list(packages(host)) == ["nvidia-container-toolkit"], said
    assert plays.facts(host, "driver")["driver"]["userspace_version"] is None
