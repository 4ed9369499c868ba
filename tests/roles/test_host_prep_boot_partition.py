# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role host_prep with a full or read-only /boot: the host boots as before, and the message names the remedy."""

from __future__ import annotations

import subprocess
import typing as t

import pytest

from lab.hosts.containers.hosts import ContainerHost
from tests.support.hosts import running_containers
from tests.support.plays import Plays

pytestmark = pytest.mark.slow("hosts with a boot partition of their own write their initramfs")

FLAVOURS = ["debian", "rhel"]
HOOKS = {
    "debian": ("/etc/initramfs-tools/hooks/large", '#!/bin/sh\n[ "$1" = prereqs ] || cp /srv/large $DESTDIR/\n'),
    "rhel": ("/etc/dracut.conf.d/large.conf", 'install_items+=" /srv/large "\n'),
}
"""Files that make the next initramfs larger than the current one."""


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Plays]:
    """Hosts with /boot on its own file system of 100 MiB."""
    with running_containers("boot", dict.fromkeys(FLAVOURS, 1)) as hosts:
        mount = "cp -a /boot /srv/boot && mount -t tmpfs -o size=100m boot /boot && cp -a /srv/boot/. /boot"
        for host in hosts.hosts():
            in_mounts_of(host, mount)
        yield Plays(hosts, tmp_path_factory.mktemp("plays"))


def in_mounts_of(host: ContainerHost, command: str) -> None:
    """Run a command in the mount namespace of a host, which may not mount anything itself."""
    pid = host.podman("inspect", "--format={{.State.Pid}}", host.name)
    subprocess.run(["nsenter", f"--target={pid}", "--mount", "sh", "-c", command], check=True)


def boot_files(host: ContainerHost) -> str:
    """Return the checksums of all files that decide the next boot or that the role would write."""
    folders = "/boot /etc/modprobe.d /etc/modules-load.d /etc/dracut.conf.d /etc/default"
    return host.shell(f"find {folders} -type f 2>/dev/null | sort | xargs sha256sum")


def fill(host: ContainerHost, leave_kib: int) -> None:
    """Write an old kernel that leaves this much space in /boot."""
    available = "$(df --output=avail --block-size=1K /boot | tail -1)"
    host.shell(f"head -c $(({available} - {leave_kib}))K /dev/urandom > /boot/vmlinuz-old")


def free(host: ContainerHost) -> None:
    host.run("rm", "-f", "/boot/vmlinuz-old")


@pytest.mark.parametrize("flavour", ["debian", pytest.param("rhel", marks=pytest.mark.deep)])
def test_an_initramfs_that_turns_out_too_large(plays: Plays, flavour: str) -> None:
    """There is space for an initramfs of the old size. The new one is larger and fills up the disk."""
    host = plays.host(flavour)
    path, text = HOOKS[flavour]
    host.shell(f"head -c 12M /dev/urandom > /srv/large; printf '%s' '{text}' > {path}; chmod 755 {path}")
    fill(host, 16 * 1024)
    before = boot_files(host)

    run = plays.run("host_prep", limit=host.name)

    assert run.status == 2, run.output
    assert "could not be built" in run.message, run.message
    assert "No space left on device" in run.message, run.message
    assert "Remove kernels" in run.message, run.message
    assert run.output.count("FAILED! =>") == 1
    assert boot_files(host) == before

    free(host)
    again = plays.run("host_prep", limit=host.name)

    assert again.status == 0, again.output
    assert plays.facts(host, "nouveau", "initramfs")["nouveau"]["blacklisted"]
    rerun = plays.run("host_prep", limit=host.name)
    assert (rerun.status, rerun.changed) == (0, 0), rerun.output
    host.shell(f"rm {path} /srv/large")


@pytest.mark.parametrize(
    "flavour", [pytest.param("debian", marks=pytest.mark.wide), pytest.param("rhel", marks=pytest.mark.deep)]
)
def test_a_boot_file_system_that_cannot_be_written(plays: Plays, flavour: str) -> None:
    """While /boot is full or read-only, the role changes nothing, neither for an initramfs nor for kernel arguments."""
    host = plays.host(flavour)
    changes: list[dict[str, t.Any]] = [
        {"host_prep_modules_blacklist": ["vfio"]},
        {"host_prep_kernel_args": ["init_on_alloc=0"]},
    ]
    prepared = plays.run("host_prep", limit=host.name)
    assert prepared.status == 0, prepared.output

    def refused(remedy: str) -> None:
        before = boot_files(host)
        for change in changes:
            run = plays.run("host_prep", limit=host.name, **change)
            assert run.status == 2, run.output
            assert "/boot" in run.message and remedy in run.message, run.message
            assert boot_files(host) == before

    fill(host, 0)
    refused("emove kernels")
    free(host)
    in_mounts_of(host, "mount -o remount,ro /boot")
    refused("not writable")
    in_mounts_of(host, "mount -o remount,rw /boot")
    for change in changes:
        assert plays.run("host_prep", limit=host.name, **change).status == 0
