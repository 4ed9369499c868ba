# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another kernel on a host with the real apt and GRUB: refused without headers, installed, and given up again.

A container always runs the kernel of its machine. So the host never runs the new one, and the way back is what shows.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest
import yaml

from lab.cluster import Options
from lab.hosts.containers.hosts import ContainerHost
from tests.support import drivers, kernel_archives
from tests.support.ansible import SITE
from tests.support.changes import record_of
from tests.support.hosts import running_containers
from tests.support.kernel_archives import Deb, kernel, meta
from tests.support.labs import running_lab
from tests.support.plays import Plays

pytestmark = pytest.mark.slow("hosts install kernels with the real apt, and reboot")

KERNEL = SITE.with_name("upgrade_kernel.yml")
NEW = "99.1.0-1-amd64"
GA_60, HWE_37 = kernel("6.8.0-60-generic", "6.8.0-60.63"), kernel("6.14.0-37-generic", "6.14.0-37.37~24.04.1")
GENERIC = meta("linux-image-generic", "6.8.0-60.63", "6.8.0-60-generic")
GENERIC_HWE = meta("linux-image-generic-hwe-24.04", "6.14.0-37.37~24.04.1", "6.14.0-37-generic")
STABLE_41 = kernel("6.1.0-41-amd64", "6.1.158-1")
BACKPORTS_57 = kernel("6.12.57+deb12-amd64", "6.12.57-1~bpo12+1")
AMD64 = meta("linux-image-amd64", "6.1.158-1", "6.1.0-41-amd64")
AMD64_BACKPORTS = meta("linux-image-amd64", "6.12.57-1~bpo12+1", "6.12.57+deb12-amd64")
PACKAGE = """
set -eu
mkdir -p /srv/kernels && cd /srv/kernels
make() {
  folder=$(mktemp -d) name=$1
  mkdir -p $folder/DEBIAN
  printf 'Package: %s\\nVersion: 1\\nArchitecture: all\\nMaintainer: Nobody <nobody@example.com>\\nDescription: x\\n' \
    $name > $folder/DEBIAN/control
  if [ ${name#linux-image-} != $name ]; then
    mkdir -p $folder/boot $folder/lib/modules/NEW
    cp /boot/vmlinuz-$(uname -r) $folder/boot/vmlinuz-NEW
    cp /boot/config-$(uname -r) $folder/boot/config-NEW
    cp /lib/modules/$(uname -r)/modules.* $folder/lib/modules/NEW/
    printf '#!/bin/sh\\nset -e\\nupdate-initramfs -c -k NEW\\nupdate-grub\\n' > $folder/DEBIAN/postinst
    chmod 0755 $folder/DEBIAN/postinst
  fi
  dpkg-deb --root-owner-group --build $folder $name.deb > /dev/null
  { dpkg-deb --field $name.deb; echo "Filename: ./$name.deb"; echo "Size: $(stat -c %s $name.deb)"
    echo "SHA256: $(sha256sum $name.deb | cut -d' ' -f1)"; echo; } >> Packages
}
for name in NAMES; do make $name; done
echo 'deb [trusted=yes] file:/srv/kernels ./' > /etc/apt/sources.list.d/kernels.list
"""


def offer(host: ContainerHost, *names: str) -> None:
    """Let a repository on the host offer packages of the kernel."""
    host.shell(PACKAGE.replace("NAMES", " ".join(f"{name}-{NEW}" for name in names)).replace("NEW", NEW))


@pytest.mark.deep
def test_a_kernel_that_does_not_come_up_is_given_up_again(tmp_path: Path) -> None:
    with running_containers("kernel", {"debian": 1}) as hosts:
        plays = Plays(hosts, tmp_path)
        [host] = plays.hosts
        running = host.shell("uname -r").strip()
        wanted = {"host_kernel_release": NEW, "host_change_allowed": True, "host_change_drain": False}

        refused = plays.run("host_change", **wanted)
        assert refused.status == 2, refused.output
        assert f"offers the kernel {NEW}" in refused.message, refused.output

        offer(host, "linux-image")
        refused = plays.run("host_change", **wanted)
        assert f"No enabled repository offers linux-headers-{NEW}" in refused.message, refused.output
        assert NEW not in host.shell("ls /boot")

        offer(host, "linux-headers")
        before = host.boot_id
        predicted = plays.run("host_change", arguments=["--check"], **wanted)
        assert predicted.status == 0 and predicted.changed > 0, predicted.output
        assert (host.boot_id, NEW in host.shell("ls /boot"), record_of(host)) == (before, False, {})

        failed = plays.run("host_change", **wanted)
        assert failed.status == 2, failed.output
        assert f"with the kernel {running}" in failed.message and f"The kernel {running} runs" in failed.message
        assert host.boot_id != before and record_of(host) == {}
        # The new kernel stays installed, and the former one is the one of the next boot.
        assert f"vmlinuz-{NEW}" in host.shell("ls /boot")
        assert plays.facts(host, "min")["kernel"]["next_boot"] == running

        again = plays.run("host_kernel", host_kernel_release=running, host_kernel_headers="ignored")
        assert (again.status, again.changed) == (0, 0), again.output
        forth = plays.run("host_kernel", host_kernel_release=NEW, host_kernel_headers="offered")
        assert (forth.status, forth.changed) == (0, 1), forth.output
        assert plays.facts(host, "min")["kernel"]["next_boot"] == NEW


@pytest.mark.wide
def test_the_playbook_leaves_out_takes_back_and_reports(tmp_path: Path) -> None:
    """One host has no repository with the kernel, and the kernel of the other one does not come up."""
    with (
        running_lab("kernel", Options(nodes=2, operator="none", pods="instant")) as cluster,
        running_containers("fleet", {"debian": 2}) as hosts,
    ):
        plays = Plays(hosts, tmp_path, cluster, timeout=900)
        without, tried = plays.hosts
        running = tried.shell("uname -r").strip()
        file = tmp_path / "rollout.yml"
        wanted = {
            **drivers.DRIVER,
            "gpuops_max_failed": 2,
            "gpuops_rollout_file": str(file),
            "gpuops_serial": "100%",
            "host_change_allowed": True,
        }
        installed = plays.site(**wanted)
        assert installed.status == 0, installed.output
        file.unlink()
        offer(tried, "linux-image", "linux-headers")
        boots = [host.boot_id for host in plays.hosts]

        predicted = plays.playbook(KERNEL, arguments=["--check"], host_kernel_release=NEW, **wanted)
        assert predicted.status == 2 and f"offers the kernel {NEW}" in predicted.output, predicted.output
        assert (file.exists(), NEW in tried.shell("ls /boot")) == (False, False)

        run = plays.playbook(KERNEL, host_kernel_release=NEW, **wanted)
        assert run.status == 2 and "Traceback" not in run.output, run.output
        states = {name: entry["state"] for name, entry in yaml.safe_load(file.read_text())["hosts"].items()}
        assert states == {without.name: "left out", tried.name: "failed"}, run.output
        assert f"The kernel {running} runs" in run.output
        assert [host.boot_id != boot for host, boot in zip(plays.hosts, boots)] == [False, True]
        assert plays.facts(tried, "min")["kernel"]["next_boot"] == running and record_of(tried) == {}

        settled = plays.playbook(KERNEL, host_kernel_release=running, **wanted)
        assert settled.status == 0, settled.output
        nodes = json.loads(cluster.kubectl("get", "nodes", "--output=json"))["items"]
        assert not any(node["spec"].get("unschedulable") for node in nodes), settled.output
        again = plays.playbook(KERNEL, host_kernel_release=running, **wanted)
        assert (again.status, again.changed) == (0, 0), again.output


@pytest.mark.wide
def test_one_host_builds_a_driver_for_a_kernel_before_the_others(tmp_path: Path) -> None:
    """The driver comes from a container, and no node runs the new kernel. It does not come up on the first host."""
    fleet = tmp_path / "fleet.yml"
    fleet.write_text(yaml.safe_dump({"pools": [{"count": 3, "kernel": platform.release()}]}))
    with (
        running_lab("builds", Options(fleet=str(fleet), pods="instant")) as cluster,
        running_containers("builds", {"debian": 3}) as hosts,
    ):
        cluster.deploy()
        plays = Plays(hosts, tmp_path, cluster, timeout=900)
        for host in plays.hosts:
            offer(host, "linux-image", "linux-headers")
        wanted = {
            "gpuops_max_failed": 3,
            "gpuops_serial": "100%",
            "host_change_allowed": True,
            "host_kernel_release": NEW,
        }
        boots = [host.boot_id for host in plays.hosts]

        for playbook in (KERNEL, SITE):
            predicted = plays.playbook(playbook, arguments=["--check"], **wanted)
            assert predicted.status == 0 and "Traceback" not in predicted.output, predicted.output
            assert predicted.output.count(f"with the kernel {NEW} on amd64, as 3 of these hosts would") == 1
            assert [host.boot_id for host in plays.hosts] == boots

        run = plays.playbook(KERNEL, **wanted)
        first, *others = plays.hosts
        assert run.status == 2 and f"The canary {first.name} did not pass" in run.output, run.output
        assert [host.boot_id != boot for host, boot in zip(plays.hosts, boots)] == [True, False, False], run.output
        assert [NEW in host.shell("ls /boot") for host in others] == [False, False]


def latest(plays: Plays, running: str, *installed: Deb) -> str:
    """Return the kernel that ``latest`` would give to a host, and check that it would come with its headers."""
    [host] = plays.hosts
    kernel_archives.become(host, running, *installed)
    found = plays.module(host, "kernel_packages", check=True, release="latest")
    assert (found["running"], found["refused"]) == (running, ""), found
    release = str(found["release"])
    assert found["installs"] == [f"linux-image-{release}", f"linux-headers-{release}"], found
    return release


@pytest.mark.wide
def test_an_ubuntu_follows_its_series_beside_the_other_one(tmp_path: Path) -> None:
    """An archive with GA and HWE kernels, as noble-updates has them."""
    with running_containers("series", {"ubuntu": 1}) as hosts:
        plays = Plays(hosts, tmp_path)
        kernel_archives.add(plays.hosts[0], "noble-updates", kernel_archives.NOBLE)
        assert latest(plays, "6.8.0-60-generic", GENERIC, *GA_60) == "6.8.0-101-generic"
        assert latest(plays, "6.8.0-60-generic", *GA_60) == "6.8.0-101-generic", "Without a metapackage, too."
        assert latest(plays, "6.14.0-37-generic", GENERIC_HWE, *HWE_37) == "6.17.0-14-generic"
        # HWE was chosen, and does not run yet.
        assert latest(plays, "6.8.0-60-generic", GENERIC_HWE, *GA_60, *HWE_37) == "6.17.0-14-generic"
        named = plays.module(plays.hosts[0], "kernel_packages", check=True, release="6.17.0-14-generic")
        assert (named["release"], named["refused"]) == ("6.17.0-14-generic", "")


@pytest.mark.wide
def test_a_debian_leaves_its_series_for_backports_only_if_its_pins_say_so(tmp_path: Path) -> None:
    """Archives like bookworm and bookworm-backports, whose metapackages have the same name."""
    with running_containers("series", {"debian": 1}) as hosts:
        plays = Plays(hosts, tmp_path)
        [host] = plays.hosts
        kernel_archives.add(host, "bookworm", kernel_archives.BOOKWORM)
        kernel_archives.add(host, "bookworm-backports", kernel_archives.BOOKWORM_BACKPORTS, backports=True)
        assert latest(plays, "6.1.0-41-amd64", AMD64, *STABLE_41) == "6.1.0-56-amd64"
        # apt upgrades what came from backports.
        assert latest(plays, "6.12.57+deb12-amd64", AMD64_BACKPORTS, *BACKPORTS_57) == "6.12.117+deb12-amd64"
        pin = "Package: linux-image-amd64\nPin: release n=bookworm-backports\nPin-Priority: 500\n"
        kernel_archives.write(host, "/etc/apt/preferences.d/kernel", pin)
        assert latest(plays, "6.1.0-41-amd64", AMD64, *STABLE_41) == "6.12.117+deb12-amd64"
