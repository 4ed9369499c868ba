# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages import observe as core
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.apt import Apt
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import (
    InstalledDriver,
    Observed,
    Request,
)

from tests.unit.fakes.apt_host import KERNEL, AptHost

PINS = "/etc/apt/preferences.d/gpuops-nvidia"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


@pytest.fixture
def host(tmp_path: Path) -> AptHost:
    return AptHost(tmp_path, {"nvidia-smi": ["535.261.03-1"]})


def observe(host: AptHost, **options: object) -> Observed:
    defaults = {"kernels": [], "gpus": []}
    return core.observe(host, Apt(host, 0), {**defaults, **options}, Request())


def put_library(host: AptHost, version: str, owner: str | None) -> None:
    """Install a library as Debian does: through the alternatives."""
    real = f"{LIBRARIES}/nvidia/current/libnvidia-ml.so.{version}"
    host.put(real, "")
    link = Path(host.path(f"{LIBRARIES}/libnvidia-ml.so.1"))
    link.symlink_to(f"nvidia/current/libnvidia-ml.so.{version}")
    if owner:
        host.files[real] = owner


def test_a_bare_host(host: AptHost) -> None:
    found = observe(host)
    assert found.driver == InstalledDriver(libraries=False)
    assert found.kernels == (KERNEL,) and found.built_for == (KERNEL,)
    assert found.pins == {PINS: None} and not found.secure_boot and not found.mok


def test_a_driver_of_packages(host: AptHost) -> None:
    host.packages |= {"nvidia-kernel-dkms": "535.216.03-1", "libnvidia-ml1": "535.216.03-1", "nvidia-support": "2022"}
    put_library(host, "535.216.03", "libnvidia-ml1")
    host.put("/sys/module/nvidia/version", "535.216.03\n")
    host.put(PINS, "Package: x\n")
    found = observe(host, kernels=["6.1.0-1", KERNEL])
    assert found.driver == InstalledDriver(True, "debian", "535.216.03", "proprietary", loaded=True)
    assert found.owners == ("libnvidia-ml1",) and found.pins == {PINS: "Package: x\n"}
    assert found.kernels == ("6.1.0-1", KERNEL) and found.built_for == (KERNEL,)


def test_libraries_alone_are_no_driver(host: AptHost) -> None:
    """Other packages depend on them."""
    host.packages["libnvidia-ml1"] = "535.216.03-1"
    put_library(host, "535.216.03", "libnvidia-ml1")
    assert observe(host).driver == InstalledDriver(version="535.216.03")


def test_modules_alone_are_a_driver_without_libraries(host: AptHost) -> None:
    host.packages |= {"nvidia-kernel-dkms": "535.216.03-1", "nvidia-support": "20220217-1", "nvlsm": "2025.10.1-1"}
    assert observe(host).driver == InstalledDriver(True, "debian", "535.216.03", "proprietary", libraries=False)


def test_a_run_driver_and_one_of_unknown_origin(host: AptHost) -> None:
    put_library(host, "570.86.15", None)
    assert observe(host).driver == InstalledDriver(True, "unknown", "570.86.15")
    host.put("/usr/bin/nvidia-uninstall", "")
    assert observe(host).driver == InstalledDriver(
        True, "runfile", "570.86.15", uninstaller="/usr/bin/nvidia-uninstall"
    )
    host.files["/usr/bin/nvidia-uninstall"] = "nvidia-installer-package"
    assert observe(host).driver.uninstaller is None


def test_a_loaded_driver_without_any_file(host: AptHost) -> None:
    host.put("/sys/module/nvidia/version", "570.86.15\n")
    assert observe(host).driver == InstalledDriver(True, "unknown", "570.86.15", loaded=True, libraries=False)


def test_a_driver_container(host: AptHost) -> None:
    host.put("/run/nvidia/driver/usr/bin/nvidia-smi", "")
    host.put("/sys/module/nvidia/version", "580.95.05\n")
    assert observe(host).driver == InstalledDriver(True, "container", "580.95.05", loaded=True)


def test_secure_boot_and_the_key_of_dkms(host: AptHost) -> None:
    variable = Path(host.path("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"))
    variable.parent.mkdir(parents=True)
    variable.write_bytes(b"\x06\0\0\0\x01")
    host.put("/var/lib/dkms/mok.pub", "")
    host.commands["mokutil"] = "/var/lib/dkms/mok.pub is not enrolled\n"
    assert (observe(host).secure_boot, observe(host).mok) == (True, False)
    host.commands["mokutil"] = "/var/lib/dkms/mok.pub is already enrolled\n"
    assert observe(host).mok


def test_the_result_describes_the_driver() -> None:
    driver = InstalledDriver(True, "debian", "535.216.03", "open")
    assert core.described(driver, {"a": "1"}, {PINS: None}, ["a"]) == {
        "present": True,
        "origin": "debian",
        "version": "535.216.03",
        "branch": "535",
        "flavour": "open",
        "packages": {"a": "1"},
        "holds": ["a"],
        "pins": {PINS: None},
        "uninstaller": None,
        "described": "the driver 535.216.03 of Debian",
    }
    absent = core.described(InstalledDriver(version="535.1"), {}, {}, [])
    assert (absent["version"], absent["branch"], absent["described"]) == (None, None, "no driver")
