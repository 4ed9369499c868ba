# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages import apt_names
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import (
    InstalledDriver,
    Observed,
    Package,
    Request,
)

KERNEL = "6.14.0-37-generic"

# An excerpt of `dpkg -l` on an Ubuntu 24.04 with the driver of Ubuntu's archive, published by a user.
SIGNED_UBUNTU = """\
libnvidia-compute-580 580.95.05-0ubuntu0.24.04.3
libnvidia-egl-wayland1 1:1.1.13-1ubuntu0.1
linux-modules-nvidia-580-open-6.14.0-37-generic 6.14.0-37.37~24.04.1
linux-modules-nvidia-580-open-generic-hwe-24.04 6.14.0-37.37~24.04.1
nvidia-compute-utils-580 580.95.05-0ubuntu0.24.04.3
nvidia-driver-580-open 580.95.05-0ubuntu0.24.04.3
nvidia-firmware-580-580.95.05 580.95.05-0ubuntu0.24.04.3
nvidia-kernel-common-580 580.95.05-0ubuntu0.24.04.3
"""


def packages(text: str, origin: str = "unknown") -> tuple[Package, ...]:
    return tuple(Package(*line.split(), origin=origin) for line in text.splitlines())


def observed(*names: str, offered: str = "", kernels: tuple[str, ...] = (KERNEL,)) -> Observed:
    installed = tuple(Package(name, "1") for name in names)
    return Observed(InstalledDriver(), installed, packages(offered), kernels=kernels)


@pytest.mark.parametrize(
    ("maintainer", "origin"),
    [
        ("cudatools <cudatools@nvidia.com>", "nvidia"),
        ("Canonical Kernel Team <kernel-team@lists.ubuntu.com>", "ubuntu"),
        ("Ubuntu Core Developers <ubuntu-devel-discuss@lists.ubuntu.com>", "ubuntu"),
        ("Debian NVIDIA Maintainers <pkg-nvidia-devel@lists.alioth.debian.org>", "debian"),
        ("Debian QA Group <packages@qa.debian.org>", "debian"),
        ("somebody <me@example.org>", "unknown"),
    ],
)
def test_the_maintainer_tells_the_origin(maintainer: str, origin: str) -> None:
    assert apt_names.origin_of(maintainer) == origin


@pytest.mark.parametrize(
    ("name", "origin", "flavour"),
    [
        ("nvidia-dkms-580-server-open", "ubuntu", "open"),
        ("nvidia-dkms-580-server", "ubuntu", "proprietary"),
        ("nvidia-headless-580-server-open", "ubuntu", "open"),
        ("nvidia-dkms-open", "nvidia", "open"),
        ("nvidia-dkms", "nvidia", "proprietary"),
        ("nvidia-kernel-open-dkms", "nvidia", "open"),
        ("nvidia-open-kernel-dkms", "debian", "open"),
        ("nvidia-tesla-470-kernel-dkms", "debian", "proprietary"),
        ("nvidia-legacy-390xx-kernel-dkms", "debian", "proprietary"),
        ("nvidia-kernel-dkms", "unknown", "proprietary"),
    ],
)
def test_the_modules_tell_origin_and_flavour_even_without_a_maintainer(name: str, origin: str, flavour: str) -> None:
    installed = [Package("nvidia-smi", "1"), Package(name, "580.95.05-1")]
    assert apt_names.recognise(installed, ()) == (origin, flavour)


def test_signed_modules_and_bare_libraries_are_recognised() -> None:
    assert apt_names.recognise(packages(SIGNED_UBUNTU, "ubuntu"), ()) == ("ubuntu-signed", "open")
    assert apt_names.recognise((Package("libcuda1", "535.261.03-1", "debian"),), ("libcuda1",)) == ("debian", None)
    assert apt_names.recognise((), ()) == (None, None)
    assert apt_names.recognise((Package("nvidia-dkms-580", "580-1", "nvidia"),), ()) == ("nvidia", "proprietary")


def test_ubuntus_signed_modules_come_first_with_those_of_the_kernels_to_come() -> None:
    offered = f"""\
linux-modules-nvidia-580-server-open-{KERNEL} 6.14.0-37.37
linux-modules-nvidia-580-server-open-generic-hwe-24.04 6.14.0-37.37
linux-modules-nvidia-580-server-open-aws 6.14.0-37.37
"""
    host = observed("linux-image-generic-hwe-24.04", f"linux-image-{KERNEL}", offered=offered)
    signed, dkms, *desktop = apt_names.layouts(Request(origin="distribution"), host, "580", "open")
    assert signed.required == ("nvidia-headless-no-dkms-580-server-open", "nvidia-utils-580-server")
    assert signed.modules == (
        f"linux-modules-nvidia-580-server-open-{KERNEL}",
        "linux-modules-nvidia-580-server-open-generic-hwe-24.04",
    )
    assert signed.signed and signed.companions["persistenced"] == ("nvidia-compute-utils-580-server",)
    assert dkms.required == ("nvidia-headless-580-server-open", "nvidia-utils-580-server") and not dkms.signed
    assert [layout.required[0] for layout in desktop] == ["nvidia-headless-580-open", "nvidia-open-kernel-dkms"]


def test_without_modules_for_the_next_kernel_signed_ones_are_no_choice() -> None:
    offered = f"linux-modules-nvidia-580-server-{KERNEL} 1\n"
    host = observed(offered=offered, kernels=(KERNEL, "6.17.0-5-generic"))
    assert not any(layout.signed for layout in apt_names.layouts(Request(), host, "580", "proprietary"))


@pytest.mark.parametrize(
    ("branch", "flavour", "names"),
    [
        (
            "580",
            "open",
            [
                ("nvidia-kernel-open-dkms", "nvidia-driver-cuda"),
                ("nvidia-dkms-580-open", "libnvidia-compute-580", "nvidia-utils-580"),
            ],
        ),
        ("595", "open", [("nvidia-kernel-open-dkms", "nvidia-driver-cuda"), ("nvidia-dkms-open", "libnvidia-compute")]),
        ("590", "proprietary", [("nvidia-kernel-dkms", "nvidia-driver-cuda"), ("nvidia-dkms", "libnvidia-compute")]),
    ],
)
def test_nvidias_names_lose_the_branch_with_590(branch: str, flavour: str, names: list[tuple[str, ...]]) -> None:
    found = apt_names.layouts(Request(origin="nvidia"), observed(), branch, flavour)
    assert [layout.required for layout in found] == names


def test_debian_has_branches_for_data_centres() -> None:
    found = apt_names.layouts(Request(origin="distribution"), observed(), "535", "proprietary")[-2:]
    assert [layout.required for layout in found] == [
        ("nvidia-kernel-dkms", "nvidia-smi", "libcuda1"),
        ("nvidia-tesla-535-kernel-dkms", "nvidia-tesla-535-smi", "libnvidia-tesla-535-cuda1"),
    ]


def test_headers_follow_the_kernels_and_their_flavours() -> None:
    names = ("linux-image-amd64", "linux-image-rt-amd64", "linux-image-6.1.0-40-amd64", "linux-image-amd64-dbg")
    host = Observed(
        InstalledDriver(), tuple(Package(name, "1") for name in names), kernels=("6.1.0-39-amd64", "6.1.0-40-amd64")
    )
    assert apt_names.headers(host) == (
        "linux-headers-6.1.0-39-amd64",
        "linux-headers-6.1.0-40-amd64",
        "linux-headers-amd64",
        "linux-headers-rt-amd64",
    )
    built = Observed(InstalledDriver(), kernels=("6.1.0-39-amd64",), built_for=("6.1.0-39-amd64",))
    assert apt_names.headers(built) == ()


def test_a_removal_covers_the_driver_and_whatever_owns_its_files() -> None:
    version = "535.261.03-1"
    driver = ("libcuda1", "libnvidia-ml1", "nvidia-smi")
    others = ("nvidia-container-toolkit", "linux-image-amd64", "libc6", "nvidia-raid-config")
    installed = (*(Package(name, version) for name in driver), *(Package(name, "1") for name in (*others, "my-nvidia")))
    host = Observed(InstalledDriver(version="535.261.03"), installed, owners=("libnvidia-ml1", "my-nvidia"))
    assert apt_names.removal(host) == ["libcuda1", "libnvidia-ml1", "my-nvidia", "nvidia-smi"]


def test_without_a_driver_there_is_nothing_to_remove() -> None:
    names = ("nvidia-raid-config", "nvidia-repo-keys", "nvidia-crashdump", "nvidia-mlnx-config", "nvlsm")
    installed = (*(Package(name, "24.07-1") for name in names), Package("nvidia-modprobe", "580.95.05-1"))
    assert apt_names.removal(Observed(InstalledDriver(version="580.95.05"), installed)) == []


def test_modules_of_another_version_than_the_libraries_go_too() -> None:
    """An installation that was cut off leaves both."""
    installed = (Package("nvidia-dkms-570", "570.86.15-0ubuntu1"), Package("nvidia-utils-570", "570.86.15-0ubuntu1"))
    host = Observed(
        InstalledDriver(True, version="580.95.05"), (*installed, Package("libnvidia-compute-580", "580.95.05-0ubuntu1"))
    )
    assert apt_names.removal(host) == ["libnvidia-compute-580", "nvidia-dkms-570", "nvidia-utils-570"]


def test_pins_keep_a_branch_or_a_version() -> None:
    assert apt_names.pins(Request(), "580.95.05") == {"/etc/apt/preferences.d/gpuops-nvidia": None}
    assert apt_names.pins(Request(state="absent", branch="580"), None) == {"/etc/apt/preferences.d/gpuops-nvidia": None}
    [branch] = apt_names.pins(Request(branch="580"), "580.95.05").values()
    assert branch and branch.count("Package: ") == 1 and "Pin: version 580.*\nPin-Priority: 1001\n" in branch
    [version] = apt_names.pins(Request(version="580.95.05"), "580.95.05").values()
    assert version and "Pin: version 580.95.05*\nPin-Priority: 1002\n" in version
    assert " libcuda1 " in version and " nvidia-* " in version and "libnvidia-*" in version
    pins = apt_names.transient_pins("570.133.20").split("\n\n")
    assert [pin.partition("Pin: ")[2].split("\n")[:2] for pin in pins] == [
        ["version 570.133.20*", "Pin-Priority: 1002"],
        ["version 570.*", "Pin-Priority: 1001"],
    ]


def test_names_of_interest() -> None:
    assert apt_names.relevant("linux-headers-amd64") and apt_names.relevant("libcuda1")
    assert not apt_names.relevant("bash") and not apt_names.relevant("nvidia-cuda-toolkit")
