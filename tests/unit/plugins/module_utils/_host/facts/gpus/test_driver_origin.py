# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.driver_origin import origin
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.software import InstalledPackage

UBUNTU = "Ubuntu Core Developers <ubuntu-devel-discuss@lists.ubuntu.com>"
KERNEL_TEAM = "Canonical Kernel Team <kernel-team@lists.ubuntu.com>"
DEBIAN = "Debian NVIDIA Maintainers <pkg-nvidia-devel@lists.alioth.debian.org>"
NVIDIA = "cudatools <cudatools@nvidia.com>"


def driver(**facts: object) -> dict[str, object]:
    nothing = {"module_installed": True, "userspace_version": "580.95.05", "uninstaller": None}
    return {"containerised": False, "loaded": False, **nothing, **facts}


def packages(*rows: tuple[str, str, str]) -> dict[str, InstalledPackage]:
    return {name: InstalledPackage(version, maker) for name, version, maker in rows}


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        (packages(("libnvidia-compute-580-server", "580.95.05", UBUNTU)), "ubuntu"),
        (
            packages(
                ("libnvidia-compute-580-server", "580.95.05", UBUNTU),
                ("linux-modules-nvidia-580-server-open-6.8.0-87-generic", "6.8.0-87.88", KERNEL_TEAM),
            ),
            "ubuntu-signed",
        ),
        (packages(("libnvidia-ml1", "580.95.05", DEBIAN)), "debian"),
        (packages(("nvidia-open", "580.95.05", NVIDIA)), "nvidia"),
        # NVIDIA's RPMs name no vendor.
        (packages(("nvidia-driver-cuda", "580.95.05", "(none)")), "nvidia"),
        (packages(("xorg-x11-drv-nvidia-cuda", "580.95.05", "RPM Fusion")), "distribution"),
        # The packages with the libraries' version decide, not what is left of another driver.
        (packages(("a-old", "550.1", NVIDIA), ("libnvidia-ml1", "580.95.05", DEBIAN)), "debian"),
        (packages(("nvidia-open", "550.1", NVIDIA)), "nvidia"),
        ({}, "unknown"),
        (None, None),
    ],
)
def test_the_origin_by_the_packages(installed: dict[str, InstalledPackage] | None, expected: str | None) -> None:
    assert origin(driver(), installed) == expected


def test_a_driver_container_needs_no_packages() -> None:
    assert origin(driver(containerised=True), None) == "container"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"module_installed": False, "userspace_version": None}, None),
        ({"module_installed": None, "userspace_version": None}, None),
        ({"module_installed": None, "userspace_version": None, "loaded": True}, "debian"),
        ({"module_installed": True, "userspace_version": None}, "debian"),
    ],
)
def test_every_part_of_a_driver_has_an_origin(facts: dict[str, object], expected: str | None) -> None:
    assert origin(driver(**facts), packages(("libnvidia-ml1", "580.95.05", DEBIAN))) == expected


def test_a_run_file() -> None:
    facts = driver(uninstaller="/usr/bin/nvidia-uninstall")
    assert origin(facts, {}) == "runfile"
    assert origin(facts, None) == "runfile"
    # The packages of another version stay when a .run file writes over their files.
    assert origin(facts, packages(("libnvidia-ml1", "535.261.03", DEBIAN))) == "runfile"
    # A driver from packages was installed after it.
    assert origin(facts, packages(("libnvidia-ml1", "580.95.05", DEBIAN))) == "debian"
