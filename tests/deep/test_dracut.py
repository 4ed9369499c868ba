# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role host_prep on Debian sid, whose real dracut has an update-initramfs of its own, with a real kernel."""

from __future__ import annotations

import typing as t

import pytest

from lab.hosts.containers import releases
from tests.support.hosts import running_release
from tests.support.plays import Plays

pytestmark = pytest.mark.deep

FILE = "/etc/modprobe.d/zz-gpuops.conf"
RULE = "/etc/udev/rules.d/90-gpuops-acs.rules"
WANTED: dict[str, t.Any] = {
    "host_prep_without_gpus": True,
    "host_prep_modules_options": {"nvidia": {"NVreg_Test": 1}},
    "host_prep_acs": False,
}


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Plays]:
    with running_release("dracut", "sid") as hosts:
        releases.install(hosts.hosts()[0], "dracut", "linux-image-cloud-amd64", "zstd", "kmod")
        yield Plays(hosts, tmp_path_factory.mktemp("plays"))


def test_every_image_of_debians_dracut_has_the_settings(plays: Plays) -> None:
    [host] = plays.hosts
    assert host.run("dpkg", "--search", "/usr/sbin/update-initramfs").startswith("dracut:")
    [image] = host.shell("ls /boot/initrd.img-*").split()
    assert "nouveau" not in host.run("lsinitrd", image, "-f", FILE)

    assert host.shell("command -v setpci || true") == ""
    plays.converge("host_prep", **WANTED)
    assert f'RUN+="{host.shell("command -v setpci")} -s %k' in host.read(RULE)
    inside = host.run("lsinitrd", image, "-f", FILE).splitlines()
    assert inside[1:] == [
        "blacklist nouveau",
        "blacklist nova_core",
        "blacklist nova_drm",
        "options nouveau modeset=0",
        "options nvidia NVreg_Test=1",
    ]
    # Another image that a new kernel gets has them, too, by the file in /etc/dracut.conf.d.
    host.run("update-initramfs", "-u", "-k", "all", timeout=600)
    assert host.run("lsinitrd", image, "-f", FILE).splitlines() == inside

    plays.converge("host_prep", host_prep_state="absent")
    assert FILE.lstrip("/") not in host.run("lsinitrd", image)
    assert host.shell("ls -A /etc/modprobe.d /etc/dracut.conf.d | grep gpuops || true") == ""
