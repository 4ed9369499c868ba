# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.driver import (
    driver,
    driver_root,
    is_loaded,
    library,
    with_packages,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output
from inline_snapshot import snapshot as wording

from lab.nvml.tree import load, write
from tests.unit.fakes.host import FakeHost, recorded


def process(root: Path, pid: int, name: str, *targets: str) -> None:
    write(root / f"proc/{pid}/comm", f"{name}\n")
    for number, target in enumerate(targets):
        link = root / f"proc/{pid}/fd/{number}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)


def test_a_driver_and_its_users(tmp_path: Path) -> None:
    load(tmp_path, "580.95.05")
    process(tmp_path, 1, "systemd", "/dev/null")
    process(tmp_path, 1207, "nvidia-persiste", "/dev/null", "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia0")
    process(tmp_path, 99, "sshd", "/dev/null", "/etc/nvidia0.conf")
    process(tmp_path, 301, "nv-fabricmanage", "/dev/nvidia-nvswitch0")
    section = driver(FakeHost(tmp_path))
    assert section.facts == {
        "loaded": True,
        "version": "580.95.05",
        "module_type": "open",
        "module_installed": None,
        "installed_version": None,
        "signer": None,
        "signer_enrolled": None,
        "platform": None,
        "uninstaller": None,
        "userspace_version": "580.95.05",
        "matches": True,
        "containerised": False,
        "users": [
            {"pid": 301, "name": "nv-fabricmanage", "devices": ["nvidia-nvswitch0"]},
            {"pid": 1207, "name": "nvidia-persiste", "devices": ["nvidia0", "nvidiactl"]},
        ],
    }
    assert section.sources["userspace_version"] == {"source": "libnvidia-ml.so.1", "reason": None}


def test_a_driver_that_was_updated_while_its_module_was_loaded(tmp_path: Path) -> None:
    load(tmp_path, "570.158.01", libraries="580.95.05", flavour="x86_64 Kernel Module")
    facts = driver(FakeHost(tmp_path)).facts
    assert (facts["version"], facts["userspace_version"], facts["matches"], facts["module_type"]) == (
        "570.158.01",
        "580.95.05",
        False,
        "proprietary",
    )


def test_a_host_without_a_driver(tmp_path: Path) -> None:
    section = driver(FakeHost(tmp_path))
    assert section.facts["loaded"] is False
    assert section.facts["users"] == []
    assert section.sources["version"]["reason"] == wording("The module nvidia is not loaded")
    assert section.sources["matches"]["reason"] == wording("The module nvidia is not loaded")


def test_modules_without_libraries(tmp_path: Path) -> None:
    load(tmp_path, "580.95.05")
    (tmp_path / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1").unlink()
    section = driver(FakeHost(tmp_path))
    assert section.facts["matches"] is None
    assert section.sources["matches"] == {"source": None, "reason": "libnvidia-ml.so.1 is not installed"}


def test_only_root_can_see_the_users(tmp_path: Path) -> None:
    load(tmp_path, "580.95.05")
    write(tmp_path / "proc/1/comm", "systemd\n")
    section = driver(FakeHost(tmp_path))
    assert section.facts["users"] is None
    assert section.sources["users"] == {
        "source": None,
        "reason": wording("Only root can see which files other users' processes have open"),
    }


def test_a_driver_container(tmp_path: Path) -> None:
    load(tmp_path, "580.95.05")
    write(tmp_path / "run/nvidia/driver/usr/bin/nvidia-smi", "")
    link = tmp_path / "run/nvidia/driver/usr/lib64/libnvidia-ml.so.1"
    link.parent.mkdir(parents=True)
    # An absolute link leads to a file of the container, not of the host.
    link.symlink_to("/usr/lib64/driver/libnvidia-ml.so.580.82.07")
    write(tmp_path / "run/nvidia/driver/usr/lib64/driver/libnvidia-ml.so.580.82.07", "")
    host = FakeHost(tmp_path)
    facts = driver(host).facts
    assert facts["containerised"] is True
    assert facts["userspace_version"] == "580.82.07"
    assert library(host, driver_root(host)) == ("/run/nvidia/driver/usr/lib64/driver/libnvidia-ml.so.580.82.07")


def test_a_driver_container_in_another_folder(tmp_path: Path) -> None:
    write(tmp_path / "run/other/usr/bin/nvidia-smi", "")
    assert driver(FakeHost(tmp_path)).facts["containerised"] is False
    section = driver(FakeHost(tmp_path), "/run/other")
    assert section.facts["containerised"] is True
    assert section.sources["containerised"] == {"source": "/run/other", "reason": None}


def debian_12(root: Path, *, without: str = "") -> FakeHost:
    """Make the links of Debian's packages libnvidia-ml1, nvidia-smi and nvidia-alternative."""
    for line in recorded("packages/debian-12-nvidia-links.txt").splitlines():
        link, dummy, target = line.partition(" -> ")
        if link != without:
            (root / link).parent.mkdir(parents=True, exist_ok=True)
            (root / link).symlink_to(target)
    write(root / "usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.535.261.03", "")
    return FakeHost(root)


def test_the_libraries_of_debians_alternatives(tmp_path: Path) -> None:
    host = debian_12(tmp_path)
    assert library(host, "") == "/usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.535.261.03"
    assert driver(host).facts["userspace_version"] == "535.261.03"


def test_the_libraries_of_debian_without_an_alternative(tmp_path: Path) -> None:
    host = debian_12(tmp_path, without="usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")
    assert driver(host).facts["userspace_version"] == "535.261.03"


def test_links_of_libraries_that_were_removed(tmp_path: Path) -> None:
    host = debian_12(tmp_path)
    (tmp_path / "usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.535.261.03").unlink()
    assert driver(host).facts["userspace_version"] is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('DGX_NAME="DGX Server"\nDGX_SWBUILD_VERSION="6.0.11"\n', "DGX OS 6.0.11"),
        ('DGX_SWBUILD_VERSION="6.0.11"\nDGX_OTA_VERSION="6.3.1"\n', "DGX OS 6.3.1"),
        ('DGX_NAME="DGX Server"\n', "DGX OS"),
        ("", None),
    ],
)
def test_nvidias_own_system(tmp_path: Path, text: str, name: str | None) -> None:
    write(tmp_path / "etc/dgx-release", text)
    assert driver(FakeHost(tmp_path)).facts["platform"] == name


def test_a_run_file_and_its_uninstaller(tmp_path: Path) -> None:
    write(tmp_path / "usr/bin/nvidia-uninstall", "")
    assert driver(FakeHost(tmp_path)).facts["uninstaller"] == "/usr/bin/nvidia-uninstall"


def test_users_are_looked_for_only_on_request(tmp_path: Path) -> None:
    load(tmp_path, "580.95.05")
    process(tmp_path, 1, "systemd", "/dev/nvidia0")
    section = driver(FakeHost(tmp_path), with_users=False)
    assert section.facts["users"] is None
    assert "subset gpus" in str(section.sources["users"]["reason"])


KERNEL = "6.8.0-87-generic"
MODULES = f"lib/modules/{KERNEL}"
MODULES_OF_THE_KERNEL = (
    "kernel/drivers/video/fbdev/nvidia/nvidiafb.ko.zst: kernel/x.ko.zst\n"
    "kernel/drivers/platform/x86/nvidia-wmi-ec-backlight.ko.zst:\n"
)


def with_modules(root: Path, *files: str, there: bool = True) -> FakeHost:
    write(root / "proc/sys/kernel/osrelease", f"{KERNEL}\n")
    write(
        root / MODULES / "modules.dep",
        MODULES_OF_THE_KERNEL + "".join(f"{file}: kernel/drm.ko\nx/user.ko: {file}\n" for file in files),
    )
    for file in files if there else ():
        write(root / MODULES / file, "")
    return FakeHost(root)


@pytest.mark.parametrize(
    "file",
    [
        "updates/dkms/nvidia.ko.zst",  # DKMS on Ubuntu
        "updates/dkms/nvidia-current.ko",  # DKMS on Debian
        "updates/dkms/nvidia-tesla-470.ko",
        "updates/dkms/nvidia-current-open.ko",
        "kernel/drivers/video/nvidia.ko",  # NVIDIA's .run
        "kernel/nvidia-580-server-open/nvidia.ko",  # Ubuntu's signed modules
        "extra/nvidia.ko.xz",  # DKMS on the Red Hat family
        "weak-updates/nvidia/nvidia.ko",
    ],
)
def test_a_module_on_disk(tmp_path: Path, file: str) -> None:
    section = driver(with_modules(tmp_path, file))
    assert section.facts["module_installed"] is True
    assert section.sources["module_installed"] == {"source": f"/{MODULES}/modules.dep", "reason": None}


def test_a_module_that_was_removed(tmp_path: Path) -> None:
    assert driver(with_modules(tmp_path)).facts["module_installed"] is False
    assert driver(with_modules(tmp_path, "updates/dkms/nvidia.ko", there=False)).facts["module_installed"] is False, (
        "depmod has not run since the file was removed."
    )


@pytest.mark.parametrize(
    "trace",
    [
        "run/nvidia/driver/usr/bin/nvidia-smi",
        "run/nvidia/nvidia-driver.pid",
        "run/nvidia/validations/.driver-ctr-ready",
    ],
)
def test_module_installed_is_unknown_with_a_driver_container(tmp_path: Path, trace: str) -> None:
    host = with_modules(tmp_path)
    write(tmp_path / trace, "")
    section = driver(host)
    assert section.facts["module_installed"] is None
    assert "driver container" in str(section.sources["module_installed"]["reason"])


def test_what_modinfo_says_of_the_installed_module(tmp_path: Path) -> None:
    host = with_modules(tmp_path, "updates/dkms/nvidia.ko.zst")
    host.commands["modinfo"] = recorded("packages/modinfo-535-ubuntu-dkms.txt")
    write(tmp_path / "proc/keys", recorded("packages/proc-keys-debian.txt"))
    section = driver(host)
    assert host.ran[0] == ["modinfo", f"{tmp_path}/{MODULES}/updates/dkms/nvidia.ko.zst"]
    assert section.facts["module_installed"] is True
    assert section.facts["loaded"] is False
    assert section.facts["installed_version"] == "535.129.03"
    assert section.facts["signer"] == "ubuntu-server Secure Boot Module Signature key"
    assert section.facts["signer_enrolled"] is False
    assert section.sources["signer_enrolled"] == {"source": "/proc/keys", "reason": None}


def test_an_unsigned_module(tmp_path: Path) -> None:
    host = with_modules(tmp_path, "extra/nvidia.ko.xz")
    host.commands["modinfo"] = recorded("packages/modinfo-510-fedora-akmod.txt")
    section = driver(host)
    assert (section.facts["installed_version"], section.facts["signer"]) == ("510.68.02", None)
    assert section.facts["signer_enrolled"] is None
    assert section.sources["signer"] == {"source": None, "reason": wording("The module has no signature")}
    assert section.sources["signer_enrolled"] == {"source": None, "reason": wording("The module has no signature")}


def test_a_module_without_modinfo(tmp_path: Path) -> None:
    section = driver(with_modules(tmp_path, "updates/dkms/nvidia.ko"))
    assert section.facts["module_installed"] is True
    for field in ("installed_version", "signer", "signer_enrolled"):
        assert section.facts[field] is None
        assert section.sources[field] == {"source": None, "reason": "modinfo is not installed"}


PACKAGES = Output(
    "nvidia-driver\t535.261.03-1\tinstalled\tDebian NVIDIA Maintainers <pkg-nvidia-devel@lists.alioth.debian.org>\n"
    "libnvidia-ml1\t535.261.03-1\tinstalled\tDebian NVIDIA Maintainers <pkg-nvidia-devel@lists.alioth.debian.org>\n"
    "nvidia-container-toolkit\t1.18.0-1\tinstalled\tNVIDIA CORPORATION <cudatools@nvidia.com>\n"
    "nvidia-raid-config\t24.07-1\tinstalled\tNVIDIA CORPORATION <cudatools@nvidia.com>\n"
    "containerd.io\t1.7.27-1\tinstalled\tContainerd team <help@containerd.io>\n"
)


def test_the_packages_and_the_origin_of_a_driver(tmp_path: Path) -> None:
    section = with_packages(driver(debian_12(tmp_path)), PACKAGES)
    assert section.facts["origin"] == "debian"
    assert section.facts["packages"] == {"libnvidia-ml1": "535.261.03", "nvidia-driver": "535.261.03"}
    assert section.sources["origin"] == {"source": "packages", "reason": None}


def test_a_package_manager_that_was_not_asked_or_did_not_answer(tmp_path: Path) -> None:
    host = debian_12(tmp_path)
    section = with_packages(driver(host), None)
    assert (section.facts["origin"], section.facts["packages"]) == (None, None)
    assert "subset services" in str(section.sources["packages"]["reason"])
    section = with_packages(driver(host), Output(error="dpkg-query did not answer within 10 s"))
    assert section.facts["packages"] is None
    assert section.sources["origin"] == {"source": None, "reason": "dpkg-query did not answer within 10 s"}


def test_a_host_without_a_driver_has_no_origin(tmp_path: Path) -> None:
    section = with_packages(driver(FakeHost(tmp_path)), PACKAGES)
    assert section.facts["origin"] is None
    assert section.sources["origin"] == {"source": None, "reason": wording("The host has no driver")}


def test_a_container_that_hides_the_list_of_modules(tmp_path: Path) -> None:
    write(
        tmp_path / "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n",
    )
    facts = driver(FakeHost(tmp_path)).facts
    assert (facts["loaded"], facts["version"], facts["module_type"]) == (True, "535.183.01", "proprietary")


# /proc/devices of an H20 with 550 or newer (nvidia-modprobe #9), and of drivers before 550.40.
@pytest.mark.parametrize(
    ("devices", "loaded"),
    [
        (
            "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n234 nvidia-caps-imex-channels\n509 nvidia-nvswitch\n",
            True,
        ),
        ("Character devices:\n195 nvidia-frontend\n", True),
        ("Character devices:\n  1 mem\n226 drm\n\nBlock devices:\n259 blkext\n", False),
        ("", False),
    ],
)
def test_a_device_file_counts_only_if_the_kernel_serves_it(tmp_path: Path, devices: str, loaded: bool) -> None:
    host = FakeHost(tmp_path)
    host.put("/dev/nvidiactl", "")
    host.put("/proc/devices", devices)
    assert is_loaded(host) is driver(host).facts["loaded"] is loaded
