# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role host_prep where /boot is full or cannot be written: the host boots as before, and is told what to do."""

from __future__ import annotations

import subprocess
import typing as t

import pytest

from lab.hosts.containers.hosts import ContainerHost
from tests.support.hosts import running_containers
from tests.support.plays import Plays

FLAVOURS = ["debian", "rhel"]
HOOKS = {
    "debian": ("/etc/initramfs-tools/hooks/large", '#!/bin/sh\n[ "$1" = prereqs ] || cp /srv/large $DESTDIR/\n'),
    "rhel": ("/etc/dracut.conf.d/large.conf", 'install_items+=" /srv/large "\n'),
}
"""What makes an initramfs larger than the one before it was."""


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Plays]:
    """Hosts whose /boot is a file system of its own, of 100 MiB."""
    with running_containers("boot", dict.fromkeys(FLAVOURS, 1)) as hosts:
        for host in hosts.hosts():
            in_mounts_of(
                host, "cp -a /boot /srv/boot && mount -t tmpfs -o size=100m boot /boot && cp -a /srv/boot/. /boot"
            )
        yield Plays(hosts, tmp_path_factory.mktemp("plays"))


def in_mounts_of(host: ContainerHost, command: str) -> None:
    """What the host itself may not do: mounts."""
    pid = host.podman("inspect", "--format={{.State.Pid}}", host.name)
    subprocess.run(["nsenter", f"--target={pid}", "--mount", "sh", "-c", command], check=True)


def what_boots(host: ContainerHost) -> str:
    """All that the next boot goes by, and what the role would write."""
    return host.shell(
        "find /boot /etc/modprobe.d /etc/modules-load.d /etc/dracut.conf.d /etc/default -type f 2>/dev/null | sort | xargs sha256sum"
    )


def fill(host: ContainerHost, leave_kib: int) -> None:
    """An old kernel in /boot that leaves only so much."""
    host.shell(
        f"head -c $(($(df --output=avail --block-size=1K /boot | tail -1) - {leave_kib}))K /dev/urandom > /boot/vmlinuz-old"
    )


def free(host: ContainerHost) -> None:
    host.run("rm", "-f", "/boot/vmlinuz-old")


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_an_initramfs_that_does_not_fit_after_all(plays: Plays, flavour: str) -> None:
    """There is room for one as the last was, and the new one is larger: the disk is full in the middle of it."""
    host = plays.host(flavour)
    path, text = HOOKS[flavour]
    host.shell(f"head -c 12M /dev/urandom > /srv/large; printf '%s' '{text}' > {path}; chmod 755 {path}")
    fill(host, 16 * 1024)
    before = what_boots(host)

    run = plays.run("host_prep", limit=host.name)

    assert run.status == 2, run.output
    assert "could not be made, and the old one is kept" in run.message, run.message
    assert "No space left on device" in run.message and "Remove kernels that are no longer used" in run.message, (
        run.message
    )
    assert run.output.count("FAILED! =>") == 1
    assert what_boots(host) == before

    free(host)
    again = plays.run("host_prep", limit=host.name)

    assert again.status == 0, again.output
    assert plays.facts(host, "nouveau", "initramfs")["nouveau"]["blacklisted"]
    rerun = plays.run("host_prep", limit=host.name)
    assert (rerun.status, rerun.changed) == (0, 0), rerun.output
    host.shell(f"rm {path} /srv/large")


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_boot_file_system_that_takes_nothing(plays: Plays, flavour: str) -> None:
    """Nothing is touched, neither for an initramfs nor for kernel arguments, while it is full or read-only."""
    host = plays.host(flavour)
    changes: list[dict[str, t.Any]] = [
        {"host_prep_modules_blacklist": ["vfio"]},
        {"host_prep_kernel_args": ["init_on_alloc=0"]},
    ]
    prepared = plays.run("host_prep", limit=host.name)
    assert prepared.status == 0, prepared.output

    def refused(remedy: str) -> None:
        before = what_boots(host)
        for change in changes:
            run = plays.run("host_prep", limit=host.name, **change)
            assert run.status == 2, run.output
            assert "/boot" in run.message and remedy in run.message, run.message
            assert what_boots(host) == before

    fill(host, 0)
    refused("emove kernels that are no longer used")
    free(host)
    in_mounts_of(host, "mount -o remount,ro /boot")
    refused("not writable")
    in_mounts_of(host, "mount -o remount,rw /boot")
    for change in changes:
        assert plays.run("host_prep", limit=host.name, **change).status == 0
