# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Roles on bare hosts: what they need and the host lacks, they bring, and a check in advance says so without touching anything."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from lab.hosts import LabError
from lab.hosts.containers.hosts import ContainerHost
from tests.support.ansible import SITE, Run
from tests.support.hosts import running_containers
from tests.support.plays import Plays

DRIVER = {
    "gpuops_driver": "host",
    "host_driver_version": "580.95.05",
    "host_driver_repository": {"url": "file:///usr/local/share/repository", "suites": ["./"]},
}
CHECK_AND_RUN: tuple[list[str], ...] = (["--check"], [])


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Plays]:
    """On hosts that nothing has been done to."""
    with running_containers("bare", {"debian": 1, "rhel": 1}) as hosts:
        yield Plays(hosts, tmp_path_factory.mktemp("plays"))


def apply(plays: Plays, flavour: str, role: str, *arguments: str, **variables: t.Any) -> Run:
    """Run a role on the host of a flavour, with success."""
    run = plays.run(role, limit=plays.host(flavour).name, arguments=arguments, **variables)
    assert run.status == 0, run.output
    return run


def has_python_debian(host: ContainerHost) -> bool:
    try:
        return "installed" in host.run("dpkg-query", "--show", "--showformat=${db:Status-Status}", "python3-debian")
    except LabError:
        return False


def test_host_driver_brings_what_configures_a_repository_of_apt(plays: Plays) -> None:
    host = plays.host("debian")
    assert not has_python_debian(host)
    predicted = apply(plays, "debian", "host_driver", "--check", **DRIVER)
    assert (
        "A run would configure the repository file:///usr/local/share/repository and install python3-debian, "
        in predicted.output
    )
    assert "nvidia-kernel-open-dkms=580.95.05*" in predicted.output
    assert host.run("ls", "/etc/apt/sources.list.d") == "" and not has_python_debian(host)

    apply(plays, "debian", "host_driver", **DRIVER)
    assert has_python_debian(host) and "gpuops-nvidia.sources" in host.run("ls", "/etc/apt/sources.list.d")
    assert "580.95.05" in host.run("dpkg-query", "--show", "nvidia-kernel-open-dkms")
    assert [apply(plays, "debian", "host_driver", *check, **DRIVER).changed for check in CHECK_AND_RUN] == [0, 0]


def test_without_a_repository_to_configure_nothing_is_brought(tmp_path: Path) -> None:
    with running_containers("bare-too", {"debian": 1}) as hosts:
        plays = Plays(hosts, tmp_path)
        host = plays.host("debian")
        host.shell("mkdir -p /lib/modules/$(uname -r)/build && touch /lib/modules/$(uname -r)/build/Makefile")
        apply(plays, "debian", "host_driver", host_driver_packages=["kmod"], host_driver_toolkit=False)
        assert not has_python_debian(host)


def test_host_prep_brings_what_dnf_holds_packages_with(plays: Plays) -> None:
    host = plays.host("rhel")
    locks = "/etc/dnf/plugins/versionlock.list"
    apply(plays, "rhel", "host_driver", **DRIVER)
    apply(plays, "rhel", "host_prep", gpuops_driver="host")
    assert "versionlock" not in host.run("ls", "/etc/dnf/plugins"), "Nothing is held, so nothing is needed."
    holding = {"gpuops_driver": "host", "host_prep_hold": ["kernel"]}
    predicted = apply(plays, "rhel", "host_prep", "--check", **holding)
    assert predicted.changed == 1 and "versionlock" not in host.run("ls", "/etc/dnf/plugins")

    assert apply(plays, "rhel", "host_prep", **holding).changed == 1
    assert "kernel-core-0:" in host.read(locks)
    assert "versionlock" in host.run("rpm", "--query", "python3-dnf-plugin-versionlock")
    assert "kernel-core-0:" in host.run("dnf", "--quiet", "versionlock", "list")
    assert [apply(plays, "rhel", "host_prep", *check, **holding).changed for check in CHECK_AND_RUN] == [0, 0]
    apply(plays, "rhel", "host_prep", gpuops_driver="host")
    assert "kernel-core" not in host.read(locks)


def test_a_driver_that_was_removed_needs_a_reboot(plays: Plays) -> None:
    """Installed and loaded by the boot, then removed on disk."""
    host = plays.host("debian")
    apply(plays, "debian", "host_prep", **DRIVER)
    host.reboot()
    assert "nvidia" in host.run("lsmod")
    assert "installed any more" not in _need(plays)
    host.run("dpkg", "--purge", "--force-all", "nvidia-kernel-open-dkms")
    host.run("depmod")
    assert "The NVIDIA kernel module is loaded although it is not installed any more" in _need(plays)
    host.reboot()
    assert "installed any more" not in _need(plays)


def _need(plays: Plays) -> str:
    return apply(plays, "debian", "host_reboot", "--check", host_reboot_allowed=False).output


def test_site_reboots_only_the_hosts_that_need_it_in_batches(tmp_path: Path) -> None:
    """The plays of site.yml about reboots, on three hosts of which two have been changed."""
    site = yaml.safe_load(SITE.read_text())
    first = next(i for i, play in enumerate(site) if play["name"] == "See which GPU hosts need a reboot")
    playbook = tmp_path / "play.yml"
    playbook.write_text(yaml.safe_dump(site[first : first + 2]))
    settings = {"host_reboot_allowed": True, "host_reboot_timeout": 120}
    with running_containers("batches", {"debian": 3}) as hosts:
        plays = Plays(hosts, tmp_path)
        due, idle = plays.hosts[:2], plays.hosts[2]
        for host in due:
            host.shell("echo 'GRUB_CMDLINE_LINUX=iommu=pt' > /etc/default/grub.d/test.cfg && update-grub")
        booted = {host.name: host.boot_id for host in plays.hosts}
        done = plays.playbook(playbook, **settings)
        assert done.status == 0, done.output
        assert done.output.count("PLAY [Reboot those in batches]") == 2 and "WARNING" not in done.output, done.output
        now = {host.name: host.boot_id for host in plays.hosts}
        assert {name for name in now if now[name] != booted[name]} == {host.name for host in due} != {idle.name}
        again = plays.playbook(playbook, limit=due[0].name, **settings)
        assert again.status == 0, again.output
        said = again.output
        assert (
            "PLAY [Reboot those in batches]" in said and "skipping: no hosts matched" in said and "WARNING" not in said
        ), said
