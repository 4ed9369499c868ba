# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import driver_module
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output

from lab.nvml.tree import write
from tests.unit.fakes.host import FakeHost, recorded

DEBIAN_MODPROBE = recorded("packages/debian-12-nvidia-modprobe.conf")
CURRENT, OPEN = "/lib/modules/6/updates/dkms/nvidia-current.ko", "/lib/modules/6/updates/dkms/nvidia-current-open.ko"


@pytest.mark.parametrize(
    ("paths", "modprobe", "expected"),
    [
        ([CURRENT, OPEN], DEBIAN_MODPROBE, CURRENT),
        ([CURRENT, OPEN], DEBIAN_MODPROBE.replace("-i nvidia-current ", "-i nvidia-current-open "), OPEN),
        (["/m/nvidia-current.ko.xz", "/m/nvidia.ko.xz"], "", "/m/nvidia.ko.xz"),
        ([OPEN], "", OPEN),
        ([OPEN], DEBIAN_MODPROBE, OPEN),
        ([], "", None),
    ],
)
def test_the_file_that_modprobe_loads(paths: list[str], modprobe: str, expected: str | None) -> None:
    assert driver_module.chosen(paths, modprobe) == expected


@pytest.mark.parametrize(
    ("signer", "enrolled"),
    [
        ("Debian Secure Boot CA", True),
        ("sforshee", True),
        ("morfikov's kernel-signing key", True),
        ("DKMS module signing key", False),
        ("Secure Boot CA", False),
        ("Debian Secure Boot", False),
    ],
)
def test_the_certificates_of_the_kernel(tmp_path: Path, signer: str, enrolled: bool) -> None:
    write(tmp_path / "proc/keys", recorded("packages/proc-keys-debian.txt"))
    assert driver_module.signer_enrolled(FakeHost(tmp_path), signer) == (enrolled, "/proc/keys")


def test_a_certificate_with_an_organization(tmp_path: Path) -> None:
    row = "302d2d52 I------     1 perm 1f010000     0     0 asymmetri Ann Inc.: module key: 0a1b2c: X509.rsa 0a1b2c []"
    write(tmp_path / "proc/keys", f"{row}\n")
    assert driver_module.signer_enrolled(FakeHost(tmp_path), "module key") == (True, "/proc/keys")


def test_a_key_of_the_machines_owner_that_the_running_kernel_does_not_know_yet(tmp_path: Path) -> None:
    write(tmp_path / "proc/keys", recorded("packages/proc-keys-debian.txt"))
    host = FakeHost(tmp_path, mokutil=recorded("packages/mokutil-list-enrolled.txt"))
    assert driver_module.signer_enrolled(host, "gpu-4 Secure Boot Module Signature key") == (True, "mokutil")
    assert driver_module.signer_enrolled(host, "Canonical Ltd. Master Certificate Authority") == (True, "/proc/keys")
    assert driver_module.signer_enrolled(host, "Secure Boot Module Signature key") == (False, "/proc/keys")


def test_a_kernel_that_hides_its_keys(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, mokutil=recorded("packages/mokutil-list-enrolled.txt"))
    assert driver_module.signer_enrolled(host, "DKMS module signing key") == (False, "mokutil")
    nothing = FakeHost(tmp_path, mokutil=Output(error="mokutil ended with 1: EFI variables are not supported"))
    assert driver_module.signer_enrolled(nothing, "DKMS module signing key") == (
        None,
        "/proc/keys shows no certificate, and mokutil ended with 1: EFI variables are not supported",
    )


def test_the_last_replacement_counts(tmp_path: Path) -> None:
    other = DEBIAN_MODPROBE.replace("-i nvidia-current ", "-i nvidia-current-open ")
    assert driver_module.chosen([CURRENT, OPEN], DEBIAN_MODPROBE + other) == OPEN


def test_the_files_of_the_running_kernel(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    assert driver_module.files(host)[0] is None
    write(tmp_path / "proc/sys/kernel/osrelease", "6\n")
    listed = ("updates/dkms/nvidia-current.ko:", f"{OPEN}: kernel/a.ko", "updates/gone/nvidia.ko:", "extra/other.ko:")
    write(tmp_path / "lib/modules/6/modules.dep", "\n".join(listed) + "\n")
    for path in (CURRENT, OPEN, "/lib/modules/6/extra/other.ko"):
        write(tmp_path / path.lstrip("/"), "")
    assert driver_module.files(host) == ([CURRENT, OPEN], "/lib/modules/6/modules.dep")


def test_what_modinfo_says_of_the_file(tmp_path: Path) -> None:
    said = "filename:       /x.ko\nversion:        580.95.05\nsigner:         DKMS module signing key  \n"
    found = driver_module.inspect(FakeHost(tmp_path, modinfo=said), CURRENT)
    assert (found.path, found.version, found.signer, found.reason) == (
        CURRENT,
        "580.95.05",
        "DKMS module signing key",
        None,
    )
    failed = FakeHost(tmp_path, modinfo=Output(error="modinfo ended with 1"))
    assert driver_module.inspect(failed, CURRENT).reason == "modinfo ended with 1"
