# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role fabric_manager on each generation of machines, and with a repository that lacks a version."""

from __future__ import annotations

import typing as t

import pytest

from tests.support import drivers
from tests.support.drivers import DRIVER, VERSION
from tests.support.plays import Plays

SERVED = DRIVER | {"fabric_manager_timeout": 10}


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Plays]:
    """The three machines with the driver."""
    with drivers.running_machines("fabric", tmp_path_factory.mktemp("plays")) as plays:
        drivers.install_with_role(plays)
        yield plays


def test_nvlink_5_gets_fabric_manager_and_subnet_manager(plays: Plays) -> None:
    host = plays.host("debian")
    plays.converge("fabric_manager", limit=host.name, **SERVED)
    packages = drivers.packages(host)
    assert packages["nvidia-fabricmanager"] == VERSION and "nvlsm" in packages
    assert drivers.unit_state(host, "nvidia-fabricmanager.service") == "active"
    assert host.read("/etc/modules-load.d/gpuops-fabric.conf").splitlines()[-1] == "ib_umad"


def test_a_tray_of_an_nvl72_leaves_imex_to_the_compute_domains(plays: Plays) -> None:
    host = plays.host("rhel")
    plays.converge("fabric_manager", limit=host.name, **SERVED)
    packages = drivers.packages(host)
    assert packages["nvidia-imex"] == VERSION and "nvidia-fabricmanager" not in packages
    assert drivers.unit_state(host, "nvidia-imex.service") == "masked"


def test_a_tray_with_imex_nodes_runs_imex(plays: Plays) -> None:
    host = plays.host("rhel")

    def imex_with(*nodes: str) -> str:
        plays.converge("fabric_manager", limit=host.name, fabric_manager_imex_nodes=nodes, **SERVED)
        assert drivers.unit_state(host, "nvidia-imex.service") == "active"
        assert host.read("/etc/nvidia-imex/nodes_config.cfg").splitlines() == list(nodes)
        return host.shell("systemctl show --property=MainPID nvidia-imex.service")

    before = imex_with("192.0.2.1", "192.0.2.2")
    assert imex_with("192.0.2.1", "192.0.2.3") != before, "IMEX reads the file only when it starts."


def test_a_fabric_manager_that_no_repository_has_for_the_driver(plays: Plays) -> None:
    """The message names the version that is missing and those that exist. The role installs none of them."""
    host = plays.host("ubuntu")
    wanted = "nvidia-fabricmanager-580"
    strip = f"awk -v RS= -v ORS='\\n\\n' '!/^Package: {wanted}\\nVersion: {VERSION}/'"
    repository = "/usr/local/share/repository/Packages"
    host.shell(f"cp {repository} /srv/Packages && {strip} /srv/Packages > {repository} && apt-cache gencaches")
    before = drivers.packages(host)

    run = plays.run("fabric_manager", limit=host.name, **SERVED)

    assert run.status == 2, run.output
    assert f"has the driver {VERSION}. No repository of the host offers {wanted} or " in run.message, run.output
    assert f"in version {VERSION}. The repositories offer {wanted} 580.105.08-1. Configure a" in run.message, run.output
    assert drivers.packages(host) == before

    host.shell(f"cp /srv/Packages {repository} && apt-cache gencaches")
    plays.converge("fabric_manager", limit=host.name, **SERVED)
    assert drivers.packages(host)[wanted] == VERSION
    assert [gpu["fabric"]["state"] for gpu in plays.facts(host, "gpus")["gpus"]] == ["Completed"] * 2
