# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import driver_parts

from tests.unit.fakes.host import FakeHost, recorded

# NVIDIA's packages for DGX OS 7, by the tables "DGX Software Stack" of its user guide. Their versions count years.
DGX = dict.fromkeys(recorded("packages/dgx-os-7.txt").split(), "24.07-1")

# A driver of Ubuntu's archive with signed modules (`dpkg -l`, published by a user), and its services.
UBUNTU = {
    "libnvidia-compute-580:amd64": "580.95.05-0ubuntu0.24.04.3",
    "linux-modules-nvidia-580-open-6.14.0-37-generic": "6.14.0-37.37~24.04.1",
    "linux-modules-nvidia-580-open-generic-hwe-24.04": "6.14.0-37.37~24.04.1",
    "nvidia-compute-utils-580": "580.95.05-0ubuntu0.24.04.3",
    "nvidia-driver-580-open": "580.95.05-0ubuntu0.24.04.3",
    "nvidia-fabricmanager-580": "580.95.05-0ubuntu0.24.04.1",
    "nvidia-firmware-580-580.95.05": "580.95.05-0ubuntu0.24.04.3",
    "nvlsm": "2025.10.11-1",
}
OTHERS = {
    "libnvidia-container1": "1.18.1-1",
    "libnvidia-egl-wayland1": "1:1.1.13-1ubuntu0.1",
    "linux-image-6.14.0-37-generic": "6.14.0-37.37~24.04.1",
    "linux-modules-nvidia-fs-6.14.0-37-generic": "6.14.0-37.37~24.04.1",
    "nvidia-container-toolkit": "1.18.1-1",
    "nvidia-driver-local-repo-ubuntu2404-580.95.05": "1.0-1",
    "nvidia-driver-pinning-580": "580-1",
    "nvidia-prime": "0.8.17.2",
}


def debian() -> list[list[str]]:
    """Return name, version and source of the packages that NVIDIA's software has in Debian 12 (apt-cache show)."""
    return [line.split() for line in recorded("packages/debian-12.txt").splitlines()]


def test_the_platform_of_a_dgx_stays_when_its_driver_goes() -> None:
    assert driver_parts.parts({**DGX, **UBUNTU, **OTHERS}, ("libnvidia-compute-580",), ["580.95.05"]) == sorted(
        {*UBUNTU, "libnvidia-compute-580"}
    )


@pytest.mark.parametrize("installed", [DGX, UBUNTU, {"nvidia-modprobe": "580.95.05-1"}])
def test_without_a_driver_nothing_is_a_part_of_it(installed: dict[str, str]) -> None:
    assert driver_parts.parts(installed, (), ()) == []


@pytest.mark.parametrize(
    ("version", "source"),
    [
        ("535.309.01", "nvidia-graphics-drivers"),
        ("535.216.03", "nvidia-graphics-drivers-tesla-535"),
        ("525.147.05", "nvidia-graphics-drivers-tesla"),
        ("470.256.02", "nvidia-graphics-drivers-tesla-470"),
    ],
)
def test_every_package_that_debian_builds_from_a_drivers_source_belongs_to_its_version(
    version: str, source: str
) -> None:
    rows = debian()
    found = driver_parts.parts({name: full for name, full, dummy in rows}, (), [version])
    assert {name for name, dummy, of in rows if of == source} <= set(found)
    assert not {name for name, full, dummy in rows if not full.startswith(version[:3])} & set(found) - {
        "nvidia-persistenced"
    }


def test_two_hundred_names_of_debian_are_told_apart_by_their_sources() -> None:
    rows = debian()
    versions = ["535.309.01", "525.147.05", "470.256.02"]
    found = driver_parts.parts({name: full for name, full, dummy in rows}, (), versions)
    left = {of for name, dummy, of in rows if name not in found}
    assert len(found) == 172
    assert left == {
        "nvidia-cg-toolkit",
        "nvidia-cuda-toolkit",
        "nvidia-cudnn",
        "nvidia-egl-gbm",
        "nvidia-support",
        "nvidia-vaapi-driver",
    }


def test_rpms_belong_to_the_driver_by_version_too() -> None:
    installed = {
        "kmod-nvidia-open-dkms": "3:580.95.05-1.el9",
        "nvidia-driver-cuda": "(none):580.95.05-1.el9",
        "nvidia-raid-config": "0:23.1-1.el9",
        "nvidia-settings": "3:570.86.15-1.el9",
    }
    assert driver_parts.parts(installed, (), ["580.95.05"]) == ["kmod-nvidia-open-dkms", "nvidia-driver-cuda"]


@pytest.mark.parametrize(
    ("version", "branch"),
    [
        ("3:580.95.05-0ubuntu1", "580"),
        ("535.261.03", "535"),
        ("580-1", None),
        ("2025.10.1", None),
        ("1.18.1", None),
        ("", None),
    ],
)
def test_a_version_that_no_driver_can_have_has_no_branch(version: str, branch: str | None) -> None:
    assert driver_parts.branch(version) == branch


def test_the_files_of_a_driver_name_its_version(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    assert driver_parts.files(host) == [] and driver_parts.version_of_files([]) is None
    host.put("/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", "")
    (tmp_path / "usr/lib/x86_64-linux-gnu/libcuda.so.1").symlink_to("libcuda.so.580.95.05")
    host.put("/usr/bin/nvidia-smi", "")
    found = ["/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", "/usr/bin/nvidia-smi"]
    assert driver_parts.files(host) == found
    assert driver_parts.version_of_files(found[::-1]) == "580.95.05"


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("nvidia-driver-580", "580.95.05-0ubuntu1", True),
        ("linux-modules-nvidia-580-open-generic", "6.14.0-37.37", True),
        ("nvlsm", "2025.10.1", True),
        ("linux-modules-nvidia-fs-generic", "6.14.0-37.37", False),
        ("nvidia-raid-config", "24.07-1", False),
    ],
)
def test_a_package_is_of_some_driver_by_its_version_or_branch(name: str, version: str, expected: bool) -> None:
    assert driver_parts.is_of_a_driver(name, version) is expected
