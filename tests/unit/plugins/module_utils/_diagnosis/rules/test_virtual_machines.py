# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs for virtual machines: the lines of KubeVirt, qemu, the validator and the device plugin for KubeVirt."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import virtual_machines

from tests.unit import diagnosed


@pytest.mark.parametrize(
    ("text", "code", "certainty"),
    [
        # https://github.com/NVIDIA/kubevirt-gpu-device-plugin/issues/27
        (
            "Please ensure all devices within the iommu_group are bound to their vfio bus driver.",
            "IOMMUGroupNotWhole",
            "certain",
        ),
        # https://github.com/NVIDIA/kubevirt-gpu-device-plugin/issues/27
        (
            "vfio 0000:01:00.0: group 1 is not viable",
            "IOMMUGroupNotWhole",
            "certain",
        ),
        # https://github.com/NVIDIA/gpu-operator/tree/a22dbf671/cmd/nvidia-validator
        (
            "device not bound to 'vfio-pci'; device: 0000:65:00.0 driver: 'nvidia'",
            "GPUNotOnVFIO",
            "certain",
        ),
        # https://github.com/NVIDIA/k8s-driver-manager/tree/bd62ca7d
        (
            "failed to find directory for vfio driver vfio-pci at /sys/bus/pci/drivers/vfio-pci, is the module loaded?",
            "IOMMUOff",
            "likely",
        ),
        # https://github.com/NVIDIA/kubevirt-gpu-device-plugin/tree/d26f2374
        (
            "Could not get IOMMU Group for device  0000:01:00.0",
            "IOMMUOff",
            "likely",
        ),
        # https://github.com/kata-containers/kata-containers/issues/10753
        ("/bin/vfio-manage.sh: line 113: echo: write error: Invalid argument", "IOMMUOff", "likely"),
        # https://github.com/kubevirt/kubevirt/issues/4950
        (
            "spec.template.spec.GPUs: GPU nvidia.com/TU102_TITAN_RTX is not permitted in kubevirt-host-device-plugin-config",
            "VMDeviceNotPermitted",
            "certain",
        ),
        # https://github.com/harvester/harvester/issues/4160
        (
            "failed to render launch manifest: HostDevice nvidia.com/GP102_GEFORCE_GTX_1080_TI is not permitted in permittedHostDevices configuration",
            "VMDeviceNotPermitted",
            "certain",
        ),
        # https://github.com/NVIDIA/kubevirt-gpu-device-plugin/issues/17
        (
            "* spec.GPUs: GPU feature gate is not enabled in kubevirt-config",
            "VMFeatureGateOff",
            "certain",
        ),
        # https://github.com/kubevirt/kubevirt/issues/6459
        (
            "failed to creade GPU host-devices: the number of GPU/s do not match the number of devices:",
            "VMDevicesNotHandedOver",
            "likely",
        ),
        # https://github.com/kubevirt/kubevirt/issues/11135
        (
            "PCI_RESOURCE_NVIDIA_COM_GRID_P40-1Q not set for resource nvidia.com/GRID_P40-1Q",
            "VMDevicesNotHandedOver",
            "likely",
        ),
        # https://github.com/wvthoog/proxmox-vgpu-installer/issues/30
        (
            "kvm: -device vfio-pci,sysfsdev=/sys/bus/mdev/devices/0000-108,id=hostpci0: vfio 0000-108: error getting "
            "device from group 106: Input/output error",
            "VGPUDeviceFails",
            "likely",
        ),
    ],
)
def test_published_lines_of_virtual_machines(text: str, code: str, certainty: str) -> None:
    found = diagnosed.found(virtual_machines.RULES, text)
    assert {name: each.certainty for name, each in found.items()} == {code: certainty}


def test_the_functions_that_another_driver_holds_are_named() -> None:
    lines = (
        "Please ensure all devices within the iommu_group are bound to their vfio bus driver.",
        "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GM107M [10de:1392] (rev a2)",
        "        Kernel driver in use: vfio-pci",
        "01:00.1 Audio device [0403]: NVIDIA Corporation GM107 High Definition Audio Controller [10de:0fbc]",
        "        Kernel driver in use: snd_hda_intel",
        "02:00.0 Ethernet controller [0200]: Intel Corporation Ethernet Controller X710 [8086:1572] (rev 02)",
        "        Kernel driver in use: i40e",
    )
    found = diagnosed.found(virtual_machines.RULES, *lines)["IOMMUGroupNotWhole"]
    assert "01:00.1 (driver snd_hda_intel)" in found.cause and "01:00.0" not in found.cause
    assert "i40e" not in found.cause


def test_a_feature_gate_that_is_off_is_the_cause_of_the_other_refusal() -> None:
    lines = (
        "* spec.GPUs: GPU feature gate is not enabled in kubevirt-config",
        "* spec.GPUs: GPU nvidia.com/gpu is not permitted in permittedHostDevices configuration",
    )
    found = diagnosed.found(virtual_machines.RULES, *lines)
    assert [each.code for each in found["VMFeatureGateOff"].consequences] == ["VMDeviceNotPermitted"]
    assert [*found] == ["VMFeatureGateOff"]
