# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A build of NVIDIA's open kernel modules from Debian's package, against a real kernel of Debian with its headers."""

from __future__ import annotations

import pytest

from lab.hosts.containers import releases
from tests.support.hosts import running_release

pytestmark = pytest.mark.deep


# Debian keeps the modules of several drivers apart by their names. An alias in modprobe.d chooses one of them.
MODULE = "nvidia-current-open"


def test_the_open_modules_are_built_and_signed_for_a_kernel_that_does_not_run() -> None:
    """On bookworm: the driver of trixie (550.163.01) cannot be built for its present kernel (6.12.107)."""
    with running_release("dkms", "bookworm") as hosts:
        [host] = hosts.hosts()
        # The package builds for every kernel that has headers.
        releases.install(host, "linux-headers-amd64", "nvidia-open-kernel-dkms", "kmod", timeout=3000)
        kernel = host.shell("basename $(dirname $(ls --directory /lib/modules/*/build))")

        version = host.shell("dpkg-query --show --showformat '${source:Upstream-Version}' nvidia-open-kernel-dkms")
        fields = {
            name: host.run("modinfo", "-k", kernel, "-F", name, MODULE) for name in ("version", "license", "vermagic")
        }
        assert fields["version"] == version
        # The proprietary modules have the licence "NVIDIA".
        assert fields["license"] == "Dual MIT/GPL"
        assert fields["vermagic"].split()[0] == kernel
        assert host.run("modinfo", "-k", kernel, "-F", "signer", MODULE) == "DKMS module signing key"
        assert f"{version}, {kernel}, x86_64: installed" in host.run("dkms", "status")
