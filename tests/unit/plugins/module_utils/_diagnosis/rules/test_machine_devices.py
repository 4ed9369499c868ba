# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs that QEMU, libvirt and Kata hand to a virtual machine."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import machine_devices

from tests.unit import diagnosed


@pytest.mark.parametrize(
    ("text", "code"),
    [
        # https://github.com/kubevirt/kubevirt/issues/18915
        (
            "initialization failed: Region ram-node0: vfio_container_dma_map(0x1, 0x0) = -12 (Cannot allocate memory)",
            "VMMemoryNotLocked",
        ),
        # https://github.com/kubevirt/kubevirt/issues/14593
        ('"bus":"pci.8","addr":"0x0"}: VFIO_MAP_DMA failed: Cannot allocate memory', "VMMemoryNotLocked"),
        # https://github.com/kubevirt/kubevirt/issues/17694
        ("libvirt: error : cannot limit locked memory of process 111 to 9007199254740991", "VMMemoryNotLocked"),
        # https://github.com/harvester/harvester/issues/8294
        ("vfio 0000:01:00.0: failed to open /dev/vfio/1: Device or resource busy", "VFIOGroupBusy"),
        # https://github.com/harvester/harvester/issues/7348
        ("spec: failed to generate spec: lstat /dev/vfio/39: no such file or directory", "VFIOGroupMissing"),
        # https://github.com/kubevirt/kubevirt/issues/18895
        ("failed to generate spec: lstat /dev/vfio/devices/vfio0: no such file or directory", "VFIOFileMissing"),
        # https://github.com/kata-containers/kata-containers/issues/10470
        ("ctr: failed to create shim task: timed out connecting to vsock 1521785742:1024: unknown", "KataAgentSilent"),
        # https://github.com/NVIDIA/gpu-operator/issues/1356
        ("failed to create shim task: Failed to Check if grpc server is working: ttrpc: closed", "KataAgentSilent"),
    ],
)
def test_published_lines_of_machines_with_devices(text: str, code: str) -> None:
    found = diagnosed.found(machine_devices.RULES, text)
    assert {name: each.certainty for name, each in found.items()} == {code: "likely"}


def test_the_group_that_is_held_is_named() -> None:
    line = "vfio 0000:01:00.0: failed to open /dev/vfio/17: Device or resource busy"
    found = diagnosed.found(machine_devices.RULES, line)["VFIOGroupBusy"]
    assert "/dev/vfio/17" in found.cause and "fuser -v /dev/vfio/17" in found.remedy


def test_an_address_that_is_wrong_is_no_matter_of_locked_memory() -> None:
    # https://github.com/kata-containers/kata-containers/issues/10360
    line = "memory listener initialization failed: Region dimm1: vfio_dma_map(0x5, 0x1) = -14 (Bad address)"
    assert diagnosed.found(machine_devices.RULES, line) == {}
