# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role host_prep on a host of each family: every option turned on and off, and what the role refuses."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

import pytest

from lab.hosts import ContainerHosts, Machine
from lab.hosts.containers.hosts import ContainerHost
from tests.support.hosts import running_containers
from tests.support.plays import Plays

pytestmark = pytest.mark.slow("hosts of each family write their initramfs and boot menu")

ON: dict[str, t.Any] = {
    "host_prep_acs": False,
    "host_prep_numa_balancing": False,
    "host_prep_iommu": "passthrough",
    "host_prep_hugepages": {"1G": 2},
    "host_prep_modules_load": ["br_netfilter"],
    "host_prep_modules_blacklist": ["vfio"],
    "host_prep_sysctls": {"vm.max_map_count": 1048576},
    "host_prep_hold": ["kernel"],
    "host_prep_job_directory": "/var/lib/dcgm-exporter/job-mapping",
}
RULE = "/etc/udev/rules.d/90-gpuops-acs.rules"
ACS_CONTROL = "setpci -s 0000:00:01.0 ECAP_ACS+0x6.w"
KERNEL_DRIVERS = ["blacklist nouveau", "blacklist nova_core", "blacklist nova_drm"]


@pytest.fixture(scope="module")
def plays(container_hosts: ContainerHosts, tmp_path_factory: pytest.TempPathFactory) -> Plays:
    return Plays(container_hosts, tmp_path_factory.mktemp("plays"))


def settings(host: ContainerHost) -> str:
    """Return everything that the options change: files, held packages, sysctls."""
    folders = "/etc/modules-load.d /etc/udev/rules.d /etc/sysctl.d /etc/default /boot/loader"
    files = host.shell(f"find {folders} -type f 2>/dev/null | sort | xargs sha256sum")
    holds = host.shell("apt-mark showhold 2>/dev/null || cat /etc/dnf/plugins/versionlock.list 2>/dev/null || true")
    return f"{files}\n{holds}\n{host.run('sysctl', 'kernel.numa_balancing', 'vm.max_map_count')}"


@pytest.mark.wide
def test_installs_the_plugin_that_holds_packages_only_to_hold_some(plays: Plays) -> None:
    host = plays.host("rhel")
    locks = "/etc/dnf/plugins/versionlock.list"

    def prepare(*arguments: str, **variables: t.Any) -> int:
        run = plays.run("host_prep", limit=host.name, arguments=arguments, **variables)
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


@pytest.mark.parametrize(
    "flavours", [("debian",), pytest.param(("rhel", "ubuntu"), marks=pytest.mark.wide)], ids=" ".join
)
def test_every_option_turned_on_and_off_again(plays: Plays, flavours: tuple[str, ...]) -> None:
    hosts = [plays.host(flavour) for flavour in flavours]
    prepare = functools.partial(plays.run, "host_prep", limit=",".join(host.name for host in hosts))
    for host in hosts:
        host.shell("echo 3 > /proc/sys/kernel/numa_balancing")
        host.shell("echo 'vm.max_map_count = 65530' > /etc/sysctl.d/99-sysctl.conf")
    predicted = prepare(arguments=["--check", "--verbose"], **ON)
    assert predicted.status == 0, predicted.output
    reasons = (
        "nouveau is loaded",
        "intel_iommu=on iommu=pt",
    )
    assert all(predicted.output.count(reason) >= len(hosts) for reason in reasons), predicted.output
    assert prepare().status == 0
    before = {host.name: settings(host) for host in hosts}

    on = prepare(**ON)
    assert on.status == 0, on.output
    for host in hosts:
        assert_on(host, before[host.name])
    assert "/etc/sysctl.d/99-sysctl.conf sets vm.max_map_count to 65530 at the next boot" in on.output
    assert prepare(**ON).changed == 0

    predicted = prepare(arguments=["--check"])
    off = prepare()
    assert (predicted.status, off.status) == (0, 0), predicted.output + off.output
    assert predicted.changed_by_host == off.changed_by_host and all(off.changed_by_host.values()), off.output
    for host in hosts:
        assert settings(host) == before[host.name]
        assert host.shell(ACS_CONTROL) == "001d"
        lines = host.read("/etc/modprobe.d/zz-gpuops.conf").splitlines()
        assert lines[1:] == [*KERNEL_DRIVERS, "options nouveau modeset=0"]

    nouveau = prepare(host_prep_nouveau=True)
    assert nouveau.status == 0, nouveau.output
    assert not any("gpuops.conf" in host.run("ls", "/etc/modprobe.d") for host in hosts)


def assert_on(host: ContainerHost, before: str) -> None:
    """Assert that the options in ON took effect on a host."""
    assert host.read("/proc/sys/kernel/numa_balancing") == "0"
    assert f'RUN+="{host.shell("command -v setpci")} -s %k' in host.read(RULE)
    assert host.shell(ACS_CONTROL) == "0000"
    assert "vfio" in host.read("/etc/modprobe.d/zz-gpuops.conf")
    assert host.shell(f"stat --format=%U:%a {ON['host_prep_job_directory']}") == "root:755"
    assert settings(host).count("\n") > before.count("\n")


def test_an_invalid_kernel_argument_prevents_every_change(plays: Plays) -> None:
    before = [settings(host) for host in plays.hosts]
    invalid = {"host_prep_kernel_args": ["intel_iommu=yes"], "host_prep_sysctls": {"vm.swappiness": 1}}
    run = plays.run("host_prep", host_prep_nouveau=True, **invalid)
    assert run.status == 2, run.output
    assert "intel_iommu=yes has no effect: intel_iommu takes" in run.message
    assert [settings(host) for host in plays.hosts] == before


def test_a_host_without_gpus_is_left_alone(tmp_path: Path) -> None:
    with running_containers("nogpu", {"debian": 1}, Machine(gpus=0)) as hosts:
        plays = Plays(hosts, tmp_path)
        before = settings(plays.hosts[0])
        roles = ("host_prep", "host_driver", "host_change")
        run = plays.run(*roles, host_change_allowed=True, gpuops_driver="host", **ON)
        assert (run.status, run.changed) == (0, 0), run.output
        assert "no NVIDIA GPU" in run.output
        assert settings(plays.hosts[0]) == before


def test_refuses_systemd_boot_before_any_change(tmp_path: Path) -> None:
    with running_containers("refused", {"ubuntu": 1}, Machine(model="b200-sxm", gpus=8)) as hosts:
        plays = Plays(hosts, tmp_path)
        [host] = plays.hosts
        prepared = plays.run("host_prep", host_prep_nouveau=True)
        assert prepared.status == 0, prepared.output
        # The switches of NVLink 5 need it, whoever brings the driver.
        assert host.read("/etc/modules-load.d/gpuops.conf").splitlines()[1:] == ["ib_umad"]
        host.shell("mkdir -p /boot/efi/EFI && touch /boot/efi/EFI/systemd")
        host.shell("mv /boot/grub /srv/menu && mv /etc/default/grub /srv")
        before = settings(host)
        run = plays.run("host_prep", host_prep_nouveau=True, host_prep_kernel_args=["init_on_alloc=0"])
        assert run.status == 2, run.output
        assert "systemd-boot" in run.message and "/etc/kernel/cmdline" in run.message, run.message
        assert settings(host) == before


@pytest.mark.wide
def test_a_run_waits_for_the_initramfs_of_a_killed_run(plays: Plays) -> None:
    """The controller dies while the host writes its initramfs. The next run does not start a second one beside it."""
    host = plays.host("debian")
    hook, log = "/etc/initramfs-tools/hooks/slow", "/srv/initramfs.log"
    slow = f'#!/bin/sh\\n[ "$1" = prereqs ] || {{ echo begin >> {log}; sleep 8; echo end >> {log}; }}\\n'
    host.shell(f"printf '{slow}' > {hook}; chmod 755 {hook}; : > {log}")
    wanted = {"host_prep_modules_blacklist": ["floppy"]}

    plays.cut_when("host_prep", host, lambda: "begin" in host.read(log), **wanted)
    assert host.read(log) == "begin"
    rerun = plays.run("host_prep", limit=host.name, **wanted)

    assert (rerun.status, rerun.changed) == (0, 0), rerun.output
    assert host.read(log) == "begin\nend"
    host.run("rm", hook, log)
    assert plays.facts(host, "nouveau", "initramfs")["nouveau"]["blacklisted"]
