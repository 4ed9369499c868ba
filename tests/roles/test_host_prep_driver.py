# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role host_prep on hosts with a driver: persistence, held packages, and the way back to a driver container."""

from __future__ import annotations

import typing as t

import pytest

from lab.hosts.containers.hosts import ContainerHost
from tests.support import drivers
from tests.support.drivers import DRIVER, VERSION
from tests.support.plays import Plays

PERSISTENCED = {"ubuntu": "nvidia-compute-utils-580-server"}
INSTALL = {"rhel": "dnf --assumeyes --quiet install"}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Plays]:
    """The three machines."""
    with drivers.running_machines("prep-driver", tmp_path_factory.mktemp("plays")) as plays:
        yield plays


@pytest.fixture
def plays(hosts: Plays) -> Plays:
    """The machines with the driver, which is installed again if a test has removed it."""
    drivers.install_with_role(hosts)
    return hosts


def install_persistence_daemon(host: ContainerHost) -> None:
    install = INSTALL.get(host.flavour, "apt-get --quiet --yes install")
    host.shell(f"{install} {PERSISTENCED.get(host.flavour, 'nvidia-persistenced')}")


def test_persistence_on_and_off(plays: Plays) -> None:
    for host in plays.hosts:
        install_persistence_daemon(host)

    for persistence, state in ((True, "active"), (False, "disabled")):
        plays.converge("host_prep/protect_driver", host_prep_persistence=persistence, **DRIVER)
        states = [drivers.unit_state(host, "nvidia-persistenced.service") for host in plays.hosts]
        assert states == [state] * len(plays.hosts)


def test_installs_the_plugin_that_holds_packages_only_to_hold_some(plays: Plays) -> None:
    host = plays.host("rhel")
    locks = "/etc/dnf/plugins/versionlock.list"

    def prepare(*arguments: str, **variables: t.Any) -> int:
        run = plays.run("host_prep", limit=host.name, arguments=arguments, gpuops_driver="host", **variables)
        assert run.status == 0, run.output
        return run.changed

    prepare()
    assert "versionlock" not in host.run("ls", "/etc/dnf/plugins")
    assert prepare("--check", host_prep_hold=["kernel"]) == 1
    assert "versionlock" not in host.run("ls", "/etc/dnf/plugins")

    assert prepare(host_prep_hold=["kernel"]) == 1
    assert "kernel-core-0:" in host.read(locks)
    assert "versionlock" in host.run("rpm", "--query", "python3-dnf-plugin-versionlock")
    assert "kernel-core-0:" in host.run("dnf", "--quiet", "versionlock", "list")
    assert [prepare(*arguments, host_prep_hold=["kernel"]) for arguments in (["--check"], [])] == [0, 0]
    prepare()
    assert "kernel-core" not in host.read(locks)


def test_the_way_back_to_a_driver_container(plays: Plays) -> None:
    """Without permission nothing is removed. With permission, everything but the container toolkit is removed."""
    for host in plays.hosts:
        install_persistence_daemon(host)
    served = plays.run("fabric_manager", fabric_manager_timeout=10, **DRIVER)
    assert served.status == 0, served.output
    before = [drivers.packages(host) for host in plays.hosts]
    for installed, expected in zip(before, ("nvlsm", "nvidia-imex", "nvidia-fabricmanager-580")):
        assert expected in installed

    refused = plays.run("host_prep", gpuops_driver="container")
    assert refused.status == 2 and refused.output.count("FAILED! =>") == len(plays.hosts), refused.output
    assert f"has the driver {VERSION}" in refused.message and "host_prep_remove_host_driver" in refused.message
    assert [drivers.packages(host) for host in plays.hosts] == before

    back = {"gpuops_driver": "container", "host_prep_remove_host_driver": True}
    removed = plays.converge("host_prep", "fabric_manager", **(DRIVER | back))
    for host in plays.hosts:
        assert list(drivers.packages(host)) == ["nvidia-container-toolkit"], removed.output
        assert plays.facts(host, "driver")["driver"]["userspace_version"] is None
