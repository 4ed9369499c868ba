# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role host_driver on bare hosts and on a host whose driver hangs."""

from __future__ import annotations

import time
import typing as t

import pytest

from lab.hosts import LabError
from lab.hosts.containers.hosts import ContainerHost
from tests.support import drivers
from tests.support.drivers import DRIVER, VERSION
from tests.support.hosts import become_opensuse, running_containers
from tests.support.plays import Plays


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Plays]:
    """Bare hosts, one for each test."""
    with running_containers("driver", {"debian": 3, "ubuntu": 1}) as hosts:
        yield Plays(hosts, tmp_path_factory.mktemp("plays"))


def has_python_debian(host: ContainerHost) -> bool:
    try:
        return "installed" in host.run("dpkg-query", "--show", "--showformat=${db:Status-Status}", "python3-debian")
    except LabError:
        return False


def test_installs_what_a_repository_of_apt_needs(plays: Plays) -> None:
    host = plays.hosts[0]
    assert not has_python_debian(host)
    predicted = plays.run("host_driver", limit=host.name, arguments=["--check"], **DRIVER)
    assert predicted.status == 0, predicted.output
    repository = DRIVER["host_driver_repository"]["url"]
    assert f"A run would configure the repository {repository} and install python3-debian, " in predicted.output
    assert f"nvidia-kernel-open-dkms={VERSION}*" in predicted.output
    assert host.run("ls", "/etc/apt/sources.list.d") == "" and not has_python_debian(host)

    installed = plays.run("host_driver", limit=host.name, **DRIVER)
    assert installed.status == 0, installed.output
    assert has_python_debian(host) and "gpuops-nvidia.sources" in host.run("ls", "/etc/apt/sources.list.d")
    assert drivers.packages(host)["nvidia-kernel-open-dkms"] == VERSION

    for arguments in (["--check"], []):
        again = plays.run("host_driver", limit=host.name, arguments=arguments, **DRIVER)
        assert (again.status, again.changed) == (0, 0), again.output


def test_without_a_repository_nothing_else_is_installed(plays: Plays) -> None:
    host = plays.hosts[1]
    host.shell("mkdir -p /lib/modules/$(uname -r)/build && touch /lib/modules/$(uname -r)/build/Makefile")
    run = plays.run("host_driver", limit=host.name, host_driver_packages=["kmod"], host_driver_toolkit=False)
    assert run.status == 0, run.output
    assert not has_python_debian(host)


def test_refuses_an_operating_system_without_packages(plays: Plays) -> None:
    host = plays.host("ubuntu")
    become_opensuse(host)
    run = plays.run("host_driver", limit=host.name)
    assert run.status == 2, run.output
    assert "host_driver knows the packages of Debian, Ubuntu and the Red Hat family" in run.message, run.message


def test_an_nvidia_smi_that_hangs_costs_only_its_timeout_and_its_facts(plays: Plays) -> None:
    host = plays.hosts[2]
    drivers.install_with_apt(host)
    host.shell("printf '#!/bin/sh\\nexec sleep 600\\n' > /usr/bin/nvidia-smi")
    started = time.monotonic()
    facts = plays.facts(host)
    assert time.monotonic() - started < 60
    gpus = [(gpu["pci_address"], gpu["uuid"]) for gpu in facts["gpus"]]
    assert gpus == [("0000:18:00.0", None), ("0000:29:00.0", None)]
    assert facts["driver"]["version"] == VERSION
    assert "nvidia-smi did not answer within" in str(facts["sources"])
