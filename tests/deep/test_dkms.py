# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A build of NVIDIA's open kernel modules from Debian's package, against a real kernel of Debian with its headers."""

from __future__ import annotations

import pytest

from lab.hosts.containers import releases
from tests.support.hosts import running_release

pytestmark = pytest.mark.deep


def test_the_open_modules_are_built_for_a_kernel_that_does_not_run() -> None:
    with running_release("dkms", "trixie") as hosts:
        [host] = hosts.hosts()
        releases.install(host, "linux-headers-amd64", "nvidia-open-kernel-dkms", "kmod")
        kernel = host.shell("basename $(dirname $(ls --directory /lib/modules/*/build))")
        host.run("dkms", "autoinstall", "-k", kernel, timeout=3000)

        version = host.shell("dpkg-query --show --showformat '${source:Upstream-Version}' nvidia-open-kernel-dkms")
        facts = {
            key: host.run("modinfo", "-k", kernel, "-F", key, "nvidia") for key in ("version", "license", "vermagic")
        }
        assert facts["version"] == version
        # The open modules say so here. The proprietary ones have the licence "NVIDIA".
        assert facts["license"] == "Dual MIT/GPL"
        assert facts["vermagic"].split()[0] == kernel
        status = host.run("dkms", "status")
        assert f"{version}, {kernel}" in status and "installed" in status, status
