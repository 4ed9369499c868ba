# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages import apt_names, planner
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import (
    InstalledDriver,
    Observed,
    Package,
    Plan,
    Request,
)
from inline_snapshot import snapshot as wording

KERNEL = "6.8.0-60-generic"
PINS = "/etc/apt/preferences.d/gpuops-nvidia"
H100 = {"architecture": "Hopper", "device_id": "10de:2330", "name": "H100"}
V100 = {"architecture": "Volta", "device_id": "10de:1db6", "name": "V100"}

# What Debian bookworm and its backports offer (apt-cache madison, November 2026).
DEBIAN = """\
nvidia-open-kernel-dkms 535.261.03-1
nvidia-kernel-dkms 535.261.03-1 535.216.03-2~bpo12+1
nvidia-smi 535.261.03-1 535.216.03-2~bpo12+1
libcuda1 535.261.03-1 535.216.03-2~bpo12+1
libnvidia-ml1 535.261.03-1 535.216.03-2~bpo12+1
nvidia-persistenced 535.171.04-1~deb12u1
nvidia-tesla-470-kernel-dkms 470.256.02-1~deb12u1 470.256.02-5~bpo12+1
nvidia-tesla-470-smi 470.256.02-1~deb12u1 470.256.02-5~bpo12+1
libnvidia-tesla-470-cuda1 470.256.02-1~deb12u1 470.256.02-5~bpo12+1
linux-headers-amd64 6.1.176-1
"""
# NVIDIA's repository for Ubuntu 24.04: names before and since branch 590.
NVIDIA = """\
nvidia-dkms-580-open 580.95.05-0ubuntu1 580.105.08-0ubuntu1
libnvidia-compute-580 580.95.05-0ubuntu1 580.105.08-0ubuntu1
nvidia-utils-580 580.95.05-0ubuntu1 580.105.08-0ubuntu1
nvidia-fabricmanager-580 580.95.05-1 580.105.08-1
nvidia-dkms-580 580.105.08-0ubuntu1
nvidia-dkms-open 590.48.01-1ubuntu1 595.71.05-1ubuntu1
libnvidia-compute 590.48.01-1ubuntu1 595.71.05-1ubuntu1
nvidia-fabricmanager 590.48.01-1 595.71.05-1
nvlsm 2025.10.11-1
nvidia-container-toolkit 1.19.1-1 1.18.2-1
"""
# Ubuntu's archive for a host with the kernel above.
UBUNTU = f"""\
nvidia-headless-no-dkms-580-server-open 580.95.05-0ubuntu0.24.04.1
nvidia-headless-580-server-open 580.95.05-0ubuntu0.24.04.1
nvidia-utils-580-server 580.95.05-0ubuntu0.24.04.1
nvidia-compute-utils-580-server 580.95.05-0ubuntu0.24.04.1
nvidia-fabricmanager-580 580.95.05-0ubuntu0.24.04.1
linux-modules-nvidia-580-server-open-{KERNEL} 6.8.0-60.63+1
linux-modules-nvidia-580-server-open-generic 6.8.0-60.63+1
linux-headers-{KERNEL} 6.8.0-60.63
linux-headers-generic 6.8.0-60.63
"""


def offers(text: str, origin: str) -> tuple[Package, ...]:
    rows = [line.split() for line in text.splitlines()]
    return tuple(Package(name, version, origin) for name, *versions in rows for version in versions)


def installed(text: str, origin: str) -> tuple[Package, ...]:
    return tuple(Package(*line.split(), origin) for line in text.splitlines())


def host(*offered: tuple[Package, ...], driver: InstalledDriver = InstalledDriver(), **others: t.Any) -> Observed:  # noqa: B008
    defaults: dict[str, t.Any] = {"gpus": (H100,), "kernels": (KERNEL,), "built_for": (KERNEL,), "pins": {PINS: None}}
    return Observed(driver=driver, offered=tuple(p for each in offered for p in each), **(defaults | others))


def plan(observed: Observed, **request: t.Any) -> Plan:
    return planner.plan(Request(**request), observed, t.cast(planner.PackageNames, apt_names))


DEBIAN_OLD = installed(
    "nvidia-kernel-dkms 535.216.03-2~bpo12+1\nnvidia-smi 535.216.03-2~bpo12+1\nlibcuda1 535.216.03-2~bpo12+1\n"
    "libnvidia-ml1 535.216.03-2~bpo12+1\nnvidia-support 20220217+3~deb12u1\n",
    "debian",
)
OLD = InstalledDriver(True, "debian", "535.216.03", "proprietary", loaded=True)


# ---- a host without a driver --------------------------------------------------------------------------------------


def test_a_bare_host_gets_branch_580_and_its_companions_in_one_version() -> None:
    found = plan(host(offers(NVIDIA, "nvidia")), fabric="nvlink5", toolkit=True)
    assert (found.action, found.version, found.refused) == ("install", "580.105.08", None)
    assert found.transaction.install == {
        "libnvidia-compute-580": "580.105.08-0ubuntu1",
        "nvidia-container-toolkit": "1.19.1-1",
        "nvidia-dkms-580-open": "580.105.08-0ubuntu1",
        "nvidia-fabricmanager-580": "580.105.08-1",
        "nvidia-utils-580": "580.105.08-0ubuntu1",
        "nvlsm": "2025.10.11-1",
    }
    assert found.transaction.pins == {} and found.transaction.version == "580.105.08"


@pytest.mark.parametrize(
    ("request_", "version", "modules"),
    [
        ({"branch": "595"}, "595.71.05", "nvidia-dkms-open"),
        ({"branch": "590"}, "590.48.01", "nvidia-dkms-open"),
        ({"version": "580.95.05"}, "580.95.05", "nvidia-dkms-580-open"),
    ],
)
def test_a_branch_and_a_version_are_found_by_any_names_and_pinned(
    request_: dict[str, str], version: str, modules: str
) -> None:
    found = plan(host(offers(NVIDIA, "nvidia")), **request_)
    assert found.version == version and modules in found.transaction.install
    assert f"Pin: version {version.partition('.')[0]}.*" in str(found.transaction.pins[PINS])


def test_ubuntu_prefers_signed_modules_of_the_archive() -> None:
    image = (Package("linux-image-generic", "6.8.0-60.63", "ubuntu"),)
    found = plan(
        host(offers(UBUNTU, "ubuntu"), offers(NVIDIA, "nvidia"), installed=image), branch="580", persistence=True
    )
    assert found.layout and found.layout.signed and found.layout.origin == "ubuntu"
    assert found.transaction.install == {
        f"linux-modules-nvidia-580-server-open-{KERNEL}": "",
        "linux-modules-nvidia-580-server-open-generic": "",
        "nvidia-compute-utils-580-server": "580.95.05-0ubuntu0.24.04.1",
        "nvidia-headless-no-dkms-580-server-open": "580.95.05-0ubuntu0.24.04.1",
        "nvidia-utils-580-server": "580.95.05-0ubuntu0.24.04.1",
    }
    theirs = plan(host(offers(UBUNTU, "ubuntu"), offers(NVIDIA, "nvidia")), branch="580", origin="nvidia")
    assert "nvidia-dkms-580-open" in theirs.transaction.install


def test_secure_boot_refuses_what_the_kernel_would_not_load() -> None:
    only_dkms = offers(NVIDIA, "nvidia")
    refused = plan(host(only_dkms, secure_boot=True), branch="580")
    assert refused.refused == (
        wording(
            "Secure boot is on, and the repositories offer no signed modules of the branch 580 for the kernel 6.8.0-60-generic. Enrol the key of DKMS with mokutil, or use a kernel that Ubuntu signs modules for."
        )
    )
    assert plan(host(only_dkms, secure_boot=True, mok=True), branch="580").refused is None
    assert plan(host(only_dkms, offers(UBUNTU, "ubuntu"), secure_boot=True), branch="580").refused is None


def test_headers_are_for_the_kernels_and_missing_ones_are_named() -> None:
    image = (Package("linux-image-amd64", "6.1.176-1", "debian"),)
    bare = host(offers(DEBIAN, "debian"), installed=image, kernels=("6.1.0-39-amd64",), built_for=())
    found = plan(bare)
    assert found.version == "535.261.03" and "nvidia-open-kernel-dkms" in found.transaction.install
    assert found.transaction.install["linux-headers-amd64"] == ""
    assert found.messages == (
        wording(
            "The host's repositories do not offer linux-headers-6.1.0-39-amd64. DKMS builds no modules for these kernels: "
            "boot a kernel whose headers can be had."
        ),
    )


def test_old_gpus_get_the_last_branch_that_knows_them() -> None:
    found = plan(host(offers(NVIDIA, "nvidia"), gpus=(V100,)))
    assert found.version == "580.105.08" and "nvidia-dkms-580" in found.transaction.install
    refused = plan(host(offers(NVIDIA, "nvidia"), gpus=(V100,)), branch="595").refused
    assert refused == wording("The driver branch 595 does not support V100. 580 is the last branch that does.")


def test_what_is_not_offered_is_refused_with_what_is() -> None:
    refused = plan(host(offers(NVIDIA, "nvidia")), version="580.126.09").refused
    assert refused == (
        wording(
            "The host's repositories do not offer the driver 580.126.09. They offer 595.71.05, 590.48.01, 580.105.08, "
            "580.95.05."
        )
    )
    assert "do not offer the driver of the distribution" in str(plan(host(), origin="distribution").refused)
    without = tuple(package for package in offers(NVIDIA, "nvidia") if "fabric" not in package.name)
    assert plan(host(without), branch="580", fabric="nvswitch").refused == (
        wording(
            "The host's repositories do not offer nvidia-fabricmanager-580 or nvidia-fabricmanager or "
            "nvidia-fabric-manager in version 580.105.08. Name a repository that does in host_driver_repositories."
        )
    )


def test_named_packages_replace_the_names_that_are_known() -> None:
    mine = offers("my-driver 580.95.05-1 570.133.20-1\n", "unknown")
    found = plan(host(mine, offers(NVIDIA, "nvidia")), packages=("my-driver",), branch="570")
    assert found.transaction.install == {"my-driver": "570.133.20-1"}
    refused = plan(host(mine), packages=("my-driver",), version="590.1.2").refused
    assert refused == (
        wording(
            "The host's repositories do not offer my-driver in version 590.1.2. They offer my-driver 570.133.20, "
            "my-driver 580.95.05."
        )
    )


# ---- an installed driver ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_",
    [{}, {"branch": "535"}, {"version": "535.216.03"}, {"origin": "distribution"}, {"flavour": "proprietary"}],
)
def test_an_installed_driver_that_fits_stays(request_: dict[str, str]) -> None:
    found = plan(host(offers(DEBIAN, "debian"), driver=OLD, installed=DEBIAN_OLD), **request_)
    assert found.refused is None and found.transaction.install == {} and found.transaction.remove == ()
    assert found.version == "535.216.03" and (found.action == "adopt") == (not found.transaction.pins)


@pytest.mark.parametrize("origin", ["nvidia", "ubuntu", "ubuntu-signed", "runfile", "unknown"])
def test_a_driver_of_any_origin_is_adopted_and_only_lacks_companions_in_its_version(origin: str) -> None:
    driver = InstalledDriver(
        True, origin, "580.95.05", "open", loaded=True, uninstaller="/x" if origin == "runfile" else None
    )
    found = plan(host(offers(NVIDIA, "nvidia"), driver=driver), fabric="nvswitch", toolkit=True)
    assert found.action == "install" and found.uninstall is None
    assert found.transaction.install == {
        "nvidia-container-toolkit": "1.19.1-1",
        "nvidia-fabricmanager-580": "580.95.05-1",
    }


def test_signed_modules_of_the_next_kernel_are_added() -> None:
    there = installed(
        "linux-image-generic 1\nnvidia-headless-no-dkms-580-server-open 580.95.05-1\n"
        "nvidia-utils-580-server 580.95.05-1\n"
        "linux-modules-nvidia-580-server-open-6.8.0-59-generic 6.8.0-59.1\n",
        "ubuntu",
    )
    driver = InstalledDriver(True, "ubuntu-signed", "580.95.05", "open")
    kernels = ("6.8.0-59-generic", KERNEL)
    found = plan(host(offers(UBUNTU, "ubuntu"), driver=driver, installed=there, kernels=kernels))
    assert list(found.transaction.install) == [
        f"linux-modules-nvidia-580-server-open-{KERNEL}",
        "linux-modules-nvidia-580-server-open-generic",
    ]


def test_an_installation_that_was_cut_off_is_completed_in_its_version() -> None:
    there = installed("nvidia-kernel-dkms 535.216.03-2~bpo12+1\n", "debian")
    driver = dataclasses.replace(OLD, libraries=False, loaded=False)
    found = plan(host(offers(DEBIAN, "debian"), driver=driver, installed=there, gpus=(V100,)))
    assert found.action == "install"
    assert found.transaction.install == {"libcuda1": "535.216.03-2~bpo12+1", "nvidia-smi": "535.216.03-2~bpo12+1"}


def test_an_adopted_driver_that_does_not_know_the_gpus_is_named() -> None:
    driver = InstalledDriver(True, "nvidia", "595.71.05", "open")
    found = plan(host(offers(NVIDIA, "nvidia"), driver=driver, gpus=(V100,)))
    assert found.messages == (
        wording("The driver branch 595 does not support V100. 580 is the last branch that does."),
    )


def test_companions_of_an_adopted_driver_have_the_names_of_its_branch() -> None:
    driver = InstalledDriver(True, "nvidia", "570.133.20", "open", loaded=True)
    offered = offers("nvidia-fabricmanager-570 570.133.20-1\nnvidia-fabricmanager-580 580.95.05-1\n", "nvidia")
    found = plan(host(offered, driver=driver), fabric="nvswitch")
    assert found.transaction.install == {"nvidia-fabricmanager-570": "570.133.20-1"}


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ("550.1-1 535.171.04-1 535.216.03-1", "535.216.03-1"),
        ("550.1-1 535.171.04-1 535.261.03-1", "535.261.03-1"),
        ("550.1-1 535.171.04-1", "535.171.04-1"),
        ("550.1-1 570.2-1", "570.2-1"),
    ],
)
def test_a_companion_comes_in_the_drivers_version_else_in_its_branch_else_in_the_newest(
    offered: str, chosen: str
) -> None:
    persistenced = offers(f"nvidia-persistenced {offered}\n", "debian")
    found = plan(host(persistenced, driver=OLD, installed=DEBIAN_OLD), persistence=True)
    assert found.transaction.install == {"nvidia-persistenced": chosen}


def test_headers_are_added_only_to_a_driver_whose_names_are_known() -> None:
    headers = offers(f"linux-headers-{KERNEL} 6.8.0-60.63\n", "ubuntu")
    unknown = InstalledDriver(True, "runfile", "580.95.05", "open", loaded=True)
    assert plan(host(offers(NVIDIA, "nvidia"), headers, driver=unknown, built_for=())).transaction.install == {}
    known = InstalledDriver(True, "nvidia", "580.95.05", "open", loaded=True)
    install = plan(host(offers(NVIDIA, "nvidia"), headers, driver=known, built_for=())).transaction.install
    assert f"linux-headers-{KERNEL}" in install


def test_only_what_differs_is_named() -> None:
    found = plan(
        host(offers(NVIDIA, "nvidia"), driver=InstalledDriver(True, "nvidia", "580.95.05", "open")),
        branch="580",
        version="580.105.08",
    )
    assert found.refused and found.refused == wording(
        "The host has the driver 580.95.05 of NVIDIA's repository, and the driver 580.105.08 of NVIDIA's repository is asked for. Allow the change, which interrupts GPU workloads, or leave out what differs (version 580.105.08)."
    )


def test_another_driver_needs_permission_and_moves_everything_at_once() -> None:
    observed = host(offers(DEBIAN, "debian"), driver=OLD, installed=DEBIAN_OLD, gpus=(V100,))
    refused = plan(observed, version="535.261.03")
    assert (refused.action, refused.refused) == (
        "change",
        wording(
            "The host has the driver 535.216.03 of Debian, and the driver 535.261.03 of Debian is asked for. Allow the "
            "change, which interrupts GPU workloads, or leave out what differs (version 535.261.03)."
        ),
    )
    allowed = plan(observed, version="535.261.03", replace=True)
    assert allowed.refused is None and allowed.transaction.remove == ()
    assert allowed.transaction.install == dict.fromkeys(
        ("nvidia-kernel-dkms", "nvidia-smi", "libcuda1", "libnvidia-ml1"), "535.261.03-1"
    )


def test_packages_of_the_former_branch_that_have_no_successor_go() -> None:
    found = plan(
        host(offers(DEBIAN, "debian"), driver=OLD, installed=DEBIAN_OLD, gpus=(V100,)), branch="470", replace=True
    )
    assert found.version == "470.256.02"
    assert found.transaction.install == {
        "nvidia-tesla-470-kernel-dkms": "470.256.02-1~deb12u1",
        "nvidia-tesla-470-smi": "470.256.02-1~deb12u1",
        "libnvidia-tesla-470-cuda1": "470.256.02-1~deb12u1",
    }
    assert set(found.transaction.remove) == {"libcuda1", "libnvidia-ml1", "nvidia-kernel-dkms", "nvidia-smi"}


def test_a_run_driver_is_replaced_through_its_uninstaller() -> None:
    driver = InstalledDriver(True, "runfile", "570.86.15", "open", uninstaller="/usr/bin/nvidia-uninstall")
    found = plan(host(offers(NVIDIA, "nvidia"), driver=driver), branch="580", replace=True)
    assert (found.action, found.uninstall) == ("change", "/usr/bin/nvidia-uninstall")


def test_a_driver_container_is_never_joined() -> None:
    driver = InstalledDriver(True, "container", "580.95.05", "open", loaded=True)
    assert str(plan(host(driver=driver)).refused) == wording(
        "The host runs the driver of a driver container, and a second driver would conflict with it. Set driver.enabled to false in the operator's values and wait until the driver container is gone."
    )
    assert plan(host(driver=driver), state="absent").refused is None


# ---- removal ------------------------------------------------------------------------------------------------------


def test_a_removal_takes_every_package_and_the_pins() -> None:
    observed = host(driver=OLD, installed=DEBIAN_OLD, owners=("libnvidia-ml1",), pins={PINS: "text\n"})
    found = plan(observed, state="absent")
    assert (found.action, found.refused) == ("remove", None)
    assert found.transaction.remove == (
        "libcuda1",
        "libnvidia-ml1",
        "nvidia-kernel-dkms",
        "nvidia-smi",
    )
    assert found.transaction.pins == {PINS: None}
    assert plan(host(), state="absent") == Plan("none")


def test_a_run_driver_is_removed_by_its_uninstaller_with_permission() -> None:
    driver = InstalledDriver(True, "runfile", "570.86.15", uninstaller="/usr/bin/nvidia-uninstall")
    assert plan(host(driver=driver), state="absent").refused == (
        wording(
            "The host has the driver 570.86.15 of a .run installer, which no package manager can remove. Run "
            "/usr/bin/nvidia-uninstall --silent, or set replace to true to let the module run it."
        )
    )
    assert plan(host(driver=driver), state="absent", replace=True).uninstall == "/usr/bin/nvidia-uninstall"


def test_files_that_nobody_owns_are_named() -> None:
    found = plan(host(driver=InstalledDriver(True, "unknown", "570.86.15")), state="absent", replace=True)
    assert found.refused == (
        wording("The host has the driver 570.86.15 of unknown origin, and no package owns its files. Remove them.")
    )


def test_a_driver_that_is_only_still_loaded_is_gone() -> None:
    loaded = InstalledDriver(True, "unknown", "570.86.15", loaded=True, libraries=False)
    assert plan(host(driver=loaded), state="absent") == Plan("none")
