# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role host_driver: a bare host, a host in service, another version, the way back, and the removal."""

from __future__ import annotations

import json
import time
import typing as t

import pytest

from lab.hosts.containers.hosts import ContainerHost
from tests.support import drivers
from tests.support.drivers import DRIVER, VERSION
from tests.support.hosts import become_opensuse, running_containers
from tests.support.plays import Plays

pytestmark = pytest.mark.slow("hosts install and change a driver")

NEWER = "580.105.08"
PINS = "/etc/apt/preferences.d/gpuops-nvidia"


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Plays]:
    """Bare hosts with nouveau: two of Debian and one of Ubuntu."""
    with running_containers("driver", {"debian": 2, "ubuntu": 1}) as hosts:
        yield Plays(hosts, tmp_path_factory.mktemp("plays"))


PLATFORM = ("nvidia-raid-config", "nvidia-repo-keys", "nvidia-crashdump")


def install_platform(host: ContainerHost) -> None:
    """Install packages that NVIDIA's system for DGX machines has, and that are no driver."""
    for name in PLATFORM:
        fields = (
            f"Package: {name}\\nVersion: 24.07-1\\nArchitecture: all\\nMaintainer: x <x@nvidia.com>\\nDescription: x\\n"
        )
        host.shell(
            f"folder=$(mktemp -d) && mkdir $folder/DEBIAN && printf '{fields}' > $folder/DEBIAN/control "
            f"&& dpkg-deb --root-owner-group --build $folder /tmp/{name}.deb && dpkg -i /tmp/{name}.deb"
        )
    host.shell("echo 'DGX_SWBUILD_VERSION=\"7.1.0\"' > /etc/dgx-release")


def modules(host: ContainerHost) -> str:
    return host.run("lsmod")


def with_driver(host: ContainerHost) -> ContainerHost:
    """Return the host with the driver loaded, whatever ran before."""
    if "nvidia-driver-cuda" not in drivers.packages(host):
        drivers.install_with_apt(host)
    drivers.load(host)
    return host


@pytest.mark.wide
def test_a_bare_host_gets_the_driver_and_a_reason_to_reboot(plays: Plays) -> None:
    host = plays.hosts[0]
    predicted = plays.run("host_driver", limit=host.name, arguments=["--check"], **DRIVER)
    assert predicted.status == 0, predicted.output
    assert f"configure repositories on {host.name}" in predicted.output
    assert host.run("ls", "/etc/apt/sources.list.d") == "" and drivers.packages(host) == {}

    installed = plays.run("host_driver", limit=host.name, **DRIVER)
    assert installed.status == 0, installed.output
    assert drivers.packages(host) == {
        "nvidia-container-toolkit": "1.18.0",
        "nvidia-driver-cuda": VERSION,
        "nvidia-kernel-open-dkms": VERSION,
        "nvidia-persistenced": VERSION,
    }
    assert f"Pin: version {VERSION}*" in host.read(PINS)
    assert "nouveau is loaded" in installed.output

    for arguments in (["--check"], []):
        again = plays.run("host_driver", limit=host.name, arguments=arguments, **DRIVER)
        assert (again.status, again.changed) == (0, 0), again.output


@pytest.mark.wide
def test_a_driver_that_nothing_hinders_is_loaded_at_once(plays: Plays) -> None:
    host = plays.host("ubuntu")
    host.run("rmmod", "nouveau")
    run = plays.run("host_driver", limit=host.name, **DRIVER)
    assert run.status == 0, run.output
    assert modules(host).splitlines()[1:] and "nvidia " in modules(host)
    assert drivers.packages(host)["nvidia-headless-580-server-open"] == VERSION
    again = plays.run("host_driver", "host_driver/plan", "host_driver/change", limit=host.name, **DRIVER)
    assert (again.status, again.changed) == (0, 0), again.output
    # One plan holds for the whole run.
    assert again.output.count(": Plan or change") == 1, again.output


def test_a_loaded_driver_is_changed_only_in_the_unit_of_change_and_comes_back(plays: Plays) -> None:
    host = with_driver(plays.hosts[0])
    newer = {**DRIVER, "host_driver_version": NEWER}
    refused = plays.run("host_driver", limit=host.name, **newer)
    assert refused.status == 2 and "Run the role host_change" in refused.message, refused.output
    assert f"The driver {VERSION} is loaded, and nvidia-" in refused.message
    left = plays.run("host_driver", limit=host.name, host_driver_leave=True, **newer)
    assert (left.status, left.changed) == (0, 0), left.output
    unspecific = {**DRIVER, "host_driver_version": "", "host_driver_branch": ""}
    adopted = plays.run("host_driver", limit=host.name, **unspecific)
    assert adopted.status == 0 and drivers.packages(host)["nvidia-driver-cuda"] == VERSION, adopted.output

    before = {name: f"{version}-1" for name, version in drivers.packages(host).items() if version == VERSION}
    host.run("apt-mark", "hold", "nvidia-driver-cuda")
    changed = plays.run("host_driver/change", limit=host.name, **newer)
    assert changed.status == 0, changed.output
    assert drivers.packages(host) == {
        "nvidia-container-toolkit": "1.18.0",
        "nvidia-driver-cuda": NEWER,
        "nvidia-kernel-open-dkms": NEWER,
        "nvidia-persistenced": NEWER,
    }
    assert host.run("apt-mark", "showhold").split() == ["nvidia-driver-cuda"]
    assert f"The driver {NEWER} is installed, and {VERSION} is loaded" in changed.output

    former = {"present": True, "version": VERSION, "pins": {PINS: None}, "packages": before}
    # The repository is away. The files of the former packages were kept.
    host.shell("mv /usr/local/share/repository /usr/local/share/away && touch /etc/apt/sources.list")
    back = plays.run("host_driver/restore", limit=host.name, host_driver_former=former, **newer)
    host.shell("mv /usr/local/share/away /usr/local/share/repository && touch /etc/apt/sources.list")
    assert back.status == 0, back.output
    assert set(drivers.packages(host).values()) == {"1.18.0", VERSION}


@pytest.mark.wide
def test_the_driver_is_removed_for_a_driver_container_only_with_permission(plays: Plays) -> None:
    """Holds are no obstacle, and only the container toolkit and the packages of a DGX's platform stay."""
    host = with_driver(plays.hosts[0])
    install_platform(host)
    container = {"gpuops_driver": "container"}
    refused = plays.run("host_driver/change", limit=host.name, **container)
    assert refused.status == 2 and f"The host has the driver {VERSION}" in refused.message, refused.output
    assert "host_driver_remove" in refused.message

    # The permission alone says that the driver is to come from a container.
    removed = plays.run("host_driver/change", limit=host.name, host_driver_remove=True)
    assert removed.status == 0, removed.output
    assert set(drivers.packages(host)) - {"nvidia-container-toolkit"} == set(PLATFORM)
    assert plays.facts(host, "driver")["driver"]["userspace_version"] is None
    again = plays.run("host_driver/change", limit=host.name, host_driver_remove=True, **container)
    assert (again.status, again.changed) == (0, 0), again.output
    host.reboot()
    assert "nvidia" not in modules(host)
    # Without a driver there is nothing to remove, whether that is permitted or not.
    bare = plays.run("host_driver", limit=host.name, **container)
    assert (bare.status, bare.changed) == (0, 0), bare.output
    assert {name: drivers.packages(host).get(name) for name in PLATFORM} == dict.fromkeys(PLATFORM, "24.07")


@pytest.mark.wide
def test_repositories_are_trusted_and_passwords_kept(plays: Plays) -> None:
    host = plays.hosts[1]
    [repository] = DRIVER["host_driver_repositories"]

    def run(**changes: t.Any) -> t.Any:
        one = {name: value for name, value in (repository | changes).items() if value is not None}
        variables = {**DRIVER, "host_driver_repositories": [one]}
        return plays.run("host_driver", limit=host.name, arguments=["--diff", "-vv"], **variables)

    assert "The repository nvidia in host_driver_repositories has no key" in run(trusted=None).message
    exposed = "The URL of the repository nvidia in host_driver_repositories, or of its key, contains credentials"
    assert run(url="https://me:secret@example.org/debian").message.startswith(exposed)
    assert run(key="https://me:secret@example.org/key.asc").message.startswith(exposed)
    assert host.run("ls", "/etc/apt/sources.list.d") == ""

    kept = run(username="me", password="secret")
    assert kept.status == 0, kept.output
    assert [line for line in kept.output.splitlines() if "secret" in line] == []
    path = "/etc/apt/auth.conf.d/gpuops-nvidia.conf"
    assert host.read(path).split() == ["machine", repository["url"], "login", "me", "password", "secret"]
    assert host.run("stat", "--format=%a", path) == "600"
    host.shell("printf '#!/bin/sh\\nexec sleep 600\\n' > /usr/bin/nvidia-smi")
    started = time.monotonic()
    drivers.load(host)
    facts = plays.facts(host)
    assert time.monotonic() - started < 60
    gpus = [(gpu["pci_address"], gpu["uuid"]) for gpu in facts["gpus"]]
    assert gpus == [("0000:18:00.0", None), ("0000:29:00.0", None)]
    assert facts["driver"]["version"] == VERSION
    assert "nvidia-smi did not answer within" in json.dumps(facts["sources"])


def test_refuses_an_operating_system_without_packages(plays: Plays) -> None:
    host = plays.host("ubuntu")
    become_opensuse(host)
    run = plays.run("host_driver", limit=host.name)
    assert run.status == 2, run.output
    assert "host_driver knows the packages of Debian, Ubuntu and the Red Hat family" in run.message, run.message
