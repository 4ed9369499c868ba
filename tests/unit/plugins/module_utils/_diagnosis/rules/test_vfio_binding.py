# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs that do not change from one driver to another."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import vfio_binding

from tests.unit import diagnosed

# https://github.com/NVIDIA/k8s-driver-manager/issues/191
LEFT_ALONE = "NVIDIA GPU driver is already pre-installed on the node, disabling the containerized driver"
NOT_BOUND = "device not bound to 'vfio-pci'; device: 0000:18:00.0 driver: 'nvidia'"


@pytest.mark.parametrize(
    ("text", "code", "certainty"),
    [
        (f"{LEFT_ALONE}\n{NOT_BOUND}", "HostDriverKeepsGPUFromVMs", "certain"),
        # https://github.com/kubevirt/kubevirt/issues/8549
        (
            "NVRM: Attempting to remove device 0000:8a:00.0 with non-zero usage count!",
            "GPUInUseAtUnbind",
            "certain",
        ),
        (
            "vfio-pci 0000:01:00.0: not ready 65535ms after FLR; giving up",
            "VFIODeviceResetFails",
            "certain",
        ),
        (
            "vfio-pci 0000:01:00.0: not ready 65535ms after bus reset; giving up",
            "VFIODeviceResetFails",
            "certain",
        ),
        (
            "vfio-pci 0000:01:00.0: Unable to change power state from D3cold to D0, device inaccessible",
            "VFIODeviceResetFails",
            "certain",
        ),
        # https://github.com/kata-containers/kata-containers/issues/10622
        (
            "QMP command failed: vfio 0000:01:00.1: group 1 used in multiple address spaces: unknown",
            "IOMMUGroupInTwoSpaces",
            "likely",
        ),
        # The words of NVIDIA/k8s-driver-manager at bd62ca7d, cmd/vfio-manage and internal/nvpassthrough.
        (
            "time=x level=warning msg=Failed to bind device 0000:18:00.0: failed to bind device 0000:18:00.0 to vfio-pci: "
            "failed to bind 0000:18:00.0 to vfio-pci: write /sys/bus/pci/drivers/vfio-pci/bind: invalid argument",
            "VFIOBindFailed",
            "certain",
        ),
    ],
)
def test_lines_about_drivers_that_change(text: str, code: str, certainty: str) -> None:
    found = diagnosed.found(vfio_binding.RULES, text)
    assert {name: each.certainty for name, each in found.items()} == {code: certainty}


@pytest.mark.parametrize(
    "text",
    [
        # https://github.com/gnif/vendor-reset/issues/72: it may still become ready.
        "vfio-pci 0000:01:00.0: not ready 1023ms after bus reset; waiting",
        # https://github.com/bryansteiner/gpu-passthrough-tutorial/issues/39: the driver is NVIDIA's own.
        "nvidia 0000:01:00.0: not ready 65535ms after resume; giving up",
        # A driver of the host is right where containers get the GPUs.
        LEFT_ALONE,
        NOT_BOUND,
        f"{LEFT_ALONE}\ndevice not bound to 'vfio-pci'; device: 0000:18:00.0 driver: 'nouveau'",
    ],
)
def test_lines_that_look_alike(text: str) -> None:
    assert diagnosed.found(vfio_binding.RULES, text) == {}


def test_the_gpu_is_named() -> None:
    found = diagnosed.found(vfio_binding.RULES, f"{LEFT_ALONE}\n{NOT_BOUND}")["HostDriverKeepsGPUFromVMs"]
    assert "0000:18:00.0" in found.cause
