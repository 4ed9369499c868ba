# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Roles on bare hosts: what they need and the host lacks, they bring, and a check in advance says so without touching anything."""

from __future__ import annotations

import os
import re
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.hosts import ContainerHosts, HostsError
from tests.hosts.containers.hosts import ContainerHost
from tests.hosts.fixtures import running_containers

ROOT = Path(__file__).resolve().parents[3]
DRIVER = {
    "gpuops_driver": "host",
    "host_driver_version": "580.95.05",
    "host_driver_repository": {"url": "file:///usr/local/share/repository", "suites": ["./"]},
}


@pytest.fixture(scope="module")
def bare() -> t.Iterator[ContainerHosts]:
    """Hosts that nothing has been done to."""
    with running_containers("bare", {"debian": 1, "rhel": 1}) as hosts:
        yield hosts


def host_of(hosts: ContainerHosts, flavour: str) -> ContainerHost:
    return next(host for host in hosts.hosts() if host.flavour == flavour)


def apply(hosts: ContainerHosts, folder: Path, flavour: str, role: str, *arguments: str, **variables: t.Any) -> str:
    """Run a role on the hosts of a flavour; what Ansible printed."""
    inventory, play = folder / "inventory.yml", folder / "play.yml"
    inventory.write_text(yaml.safe_dump(hosts.inventory()))
    play.write_text(yaml.safe_dump([{"hosts": flavour, "gather_facts": False, "vars": variables, "roles": [f"gpuops.nvidia.{role}"]}]))
    return playing(inventory, play, *arguments)


def playing(inventory: Path, playbook: Path, *arguments: str) -> str:
    """Run a playbook; what Ansible printed."""
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".venv/share"),
        "ANSIBLE_HOME": str(ROOT / "build/ansible"),
        "ANSIBLE_NOCOLOR": "true",
    }
    command = [str(ROOT / ".venv/bin/ansible-playbook"), "-i", str(inventory), str(playbook), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def changed(output: str) -> int:
    found = re.search(r"\bchanged=(\d+)", output)
    assert found, output
    return int(found[1])


def has_python_debian(host: ContainerHost) -> bool:
    try:
        return "installed" in host.run("dpkg-query", "--show", "--showformat=${db:Status-Status}", "python3-debian")
    except HostsError:
        return False


def test_host_driver_brings_what_configures_a_repository_of_apt(bare: ContainerHosts, tmp_path: Path) -> None:
    host = host_of(bare, "debian")
    assert not has_python_debian(host)
    predicted = apply(bare, tmp_path, "debian", "host_driver", "--check", **DRIVER)
    assert "A run would configure the repository file:///usr/local/share/repository and install python3-debian, " in predicted
    assert "nvidia-kernel-open-dkms=580.95.05*" in predicted
    assert host.run("ls", "/etc/apt/sources.list.d") == "" and not has_python_debian(host)

    apply(bare, tmp_path, "debian", "host_driver", **DRIVER)
    assert has_python_debian(host) and "gpuops-nvidia.sources" in host.run("ls", "/etc/apt/sources.list.d")
    assert "580.95.05" in host.run("dpkg-query", "--show", "nvidia-kernel-open-dkms")
    assert [changed(apply(bare, tmp_path, "debian", "host_driver", *check, **DRIVER)) for check in (["--check"], [])] == [0, 0]


def test_without_a_repository_to_configure_nothing_is_brought(tmp_path: Path) -> None:
    with running_containers("bare-too", {"debian": 1}) as hosts:
        host = host_of(hosts, "debian")
        host.run("sh", "-c", "mkdir -p /lib/modules/$(uname -r)/build && touch /lib/modules/$(uname -r)/build/Makefile")
        apply(hosts, tmp_path, "debian", "host_driver", host_driver_packages=["kmod"], host_driver_toolkit=False)
        assert not has_python_debian(host)


def test_host_prep_brings_what_dnf_holds_packages_with(bare: ContainerHosts, tmp_path: Path) -> None:
    host = host_of(bare, "rhel")
    locks = "/etc/dnf/plugins/versionlock.list"
    apply(bare, tmp_path, "rhel", "host_driver", **DRIVER)
    apply(bare, tmp_path, "rhel", "host_prep", gpuops_driver="host")
    assert "versionlock" not in host.run("ls", "/etc/dnf/plugins"), "Nothing is held, so nothing is needed."
    holding = {"gpuops_driver": "host", "host_prep_hold": ["kernel"]}
    predicted = apply(bare, tmp_path, "rhel", "host_prep", "--check", **holding)
    assert changed(predicted) == 1 and "versionlock" not in host.run("ls", "/etc/dnf/plugins")

    assert changed(apply(bare, tmp_path, "rhel", "host_prep", **holding)) == 1
    assert "kernel-core-0:" in host.read(locks)
    assert "versionlock" in host.run("rpm", "--query", "python3-dnf-plugin-versionlock")
    assert "kernel-core-0:" in host.run("dnf", "--quiet", "versionlock", "list")
    assert [changed(apply(bare, tmp_path, "rhel", "host_prep", *check, **holding)) for check in (["--check"], [])] == [0, 0]
    apply(bare, tmp_path, "rhel", "host_prep", gpuops_driver="host")
    assert "kernel-core" not in host.read(locks)


def test_a_driver_that_was_removed_needs_a_reboot(bare: ContainerHosts, tmp_path: Path) -> None:
    """Installed and loaded by the boot, then removed on disk."""
    host = host_of(bare, "debian")
    apply(bare, tmp_path, "debian", "host_prep", **DRIVER)
    host.reboot()
    assert "nvidia" in host.run("lsmod")
    assert "installed any more" not in _need(bare, tmp_path)
    host.run("dpkg", "--purge", "--force-all", "nvidia-kernel-open-dkms")
    host.run("depmod")
    assert "The NVIDIA kernel module is loaded although it is not installed any more" in _need(bare, tmp_path)
    host.reboot()
    assert "installed any more" not in _need(bare, tmp_path)


def _need(hosts: ContainerHosts, folder: Path) -> str:
    return apply(hosts, folder, "debian", "host_reboot", "--check", host_reboot_allowed=False)


def test_site_reboots_only_the_hosts_that_need_it_in_batches(tmp_path: Path) -> None:
    """The plays of site.yml about reboots, on three hosts of which two have been changed."""
    plays = yaml.safe_load((ROOT / "playbooks/site.yml").read_text())
    first = next(i for i, play in enumerate(plays) if play["name"] == "See which GPU hosts need a reboot")
    with running_containers("batches", {"debian": 3}) as hosts:
        due, idle = hosts.hosts()[:2], hosts.hosts()[2]
        for host in due:
            host.run("sh", "-c", "echo 'GRUB_CMDLINE_LINUX=iommu=pt' > /etc/default/grub.d/test.cfg && update-grub")
        booted = {host.name: host.read("/proc/sys/kernel/random/boot_id") for host in hosts.hosts()}
        inventory, playbook = tmp_path / "inventory.yml", tmp_path / "play.yml"
        inventory.write_text(yaml.safe_dump(hosts.inventory()))
        playbook.write_text(yaml.safe_dump(plays[first : first + 2]))
        settings = ["--extra-vars", '{"host_reboot_allowed": true, "host_reboot_drain": false, "host_reboot_timeout": 120}']
        done = playing(inventory, playbook, *settings)
        assert done.count("PLAY [Reboot those in batches]") == 2 and "WARNING" not in done, done
        now = {host.name: host.read("/proc/sys/kernel/random/boot_id") for host in hosts.hosts()}
        assert {name for name in now if now[name] != booted[name]} == {host.name for host in due} != {idle.name}
        again = playing(inventory, playbook, *settings, "--limit", due[0].name)
        assert "PLAY [Reboot those in batches]" in again and "skipping: no hosts matched" in again and "WARNING" not in again, again
