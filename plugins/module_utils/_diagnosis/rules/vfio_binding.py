# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""GPUs that do not change from one driver to another on their host: to vfio, away from it, and back into a machine."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_ADDRESS = r"(?P<address>(?:[\da-f]{4,8}:)?[\da-f]{2}:[\da-f]{2}\.[\da-f])"

_HOST_DRIVER = pattern(
    r"NVIDIA GPU driver is already pre-installed on the node|driver is pre-installed on host", "pre-installed"
)
_STILL_NVIDIA = pattern(rf"device not bound to 'vfio-pci'; device: {_ADDRESS} driver: 'nvidia'", "not bound to 'vfio-")
_IN_USE = pattern(
    rf"NVRM: Attempting to remove device {_ADDRESS} with non-zero usage count", "with non-zero usage count"
)
# pci_dev_wait and pci_power_up of Linux, drivers/pci/pci.c. The lines that end in "waiting" may be followed by success.
_NO_RESET = (
    pattern(rf"vfio-pci {_ADDRESS}: not ready \d+ms after [^;]{{1,40}}; giving up", "; giving up"),
    pattern(
        rf"vfio-pci {_ADDRESS}: Unable to change power state from D3cold to D0, device inaccessible",
        "from d3cold to d0",
    ),
)
_SPLIT = pattern(
    rf"vfio {_ADDRESS}: group (?P<group>\d+) used in multiple address spaces", "used in multiple address spaces"
)
_WARNED = pattern(rf"Failed to bind device {_ADDRESS}: (?P<why>.{{1,300}})", "failed to bind device ")


def _kept_by_the_hosts_driver(view: View) -> t.Iterator[Sighting]:
    """Yield the GPUs that the validator finds on nvidia, if the driver's manager has left the host's driver alone."""
    if any(view.hits(_HOST_DRIVER)):
        yield from (matches.sighting(hit) for hit in view.hits(_STILL_NVIDIA))


_MANAGER = "https://github.com/NVIDIA/k8s-driver-manager/"
_OPEN_MODULES = "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/"

RULES = (
    Rule(
        code="HostDriverKeepsGPUFromVMs",
        title="A driver of the host keeps the GPUs from virtual machines",
        severity="failure",
        cause="The node is to pass its GPUs to virtual machines, and the host has a driver of its own. NVIDIA's driver "
        "manager leaves such a driver alone, so the GPU {address} stays with it.",
        remedy="Remove the driver from this host: give it gpuops_workload_kind: vm-passthrough, gpuops_driver: "
        "container and host_driver_remove: true, and run playbooks/site.yml. Then delete the node's label "
        "nvidia.com/gpu.deploy.driver=pre-installed and its pod nvidia-vfio-manager.",
        sources=(f"{_MANAGER}issues/191", "https://github.com/cozystack/cozystack/issues/2763"),
        check=_kept_by_the_hosts_driver,
        patterns=(_HOST_DRIVER, _STILL_NVIDIA),
        explains=frozenset({"GPUNotOnVFIO", "DriverOnHostAndInContainer", "HostPreflightHostDriver"}),
    ),
    Rule(
        code="GPUInUseAtUnbind",
        title="A GPU was taken from its driver while something used it",
        severity="failure",
        cause="The GPU {address} should change its driver, and something still had it open: a program, "
        "nvidia-persistenced, DCGM, or persistence mode itself. The change waits for it. With drivers from branch 595 "
        "on, it still waits when the program has ended.",
        remedy="Stop what uses the GPU before its driver changes: drain the node, stop nvidia-persistenced, and run "
        "nvidia-smi -pm 0. fuser -v /dev/nvidia* shows programs. If the change already hangs, reboot the host.",
        sources=(
            "https://github.com/kubevirt/kubevirt/issues/8549",
            f"{_OPEN_MODULES}1119",
            f"{_OPEN_MODULES}1374",
            "https://github.com/OpenNebula/one-deploy/pull/251",
        ),
        patterns=(_IN_USE,),
    ),
    Rule(
        code="VFIODeviceResetFails",
        title="A device of a virtual machine does not come back from its reset",
        severity="failure",
        cause="The kernel has reset {address} for a virtual machine, and the device no longer answers. No machine can "
        "have it until it has lost its power.",
        remedy="Turn the host off and on: a warm reboot may not be enough. If it happens again with each machine, "
        "update the GPU's firmware and the kernel, and set d3cold_allowed of the device to 0 in /sys/bus/pci/devices.",
        sources=(
            f"{_OPEN_MODULES}853",
            "https://github.com/gnif/vendor-reset/issues/76",
            "https://github.com/torvalds/linux/blob/v6.12/drivers/pci/pci.c",
        ),
        patterns=_NO_RESET,
    ),
    Rule(
        code="IOMMUGroupInTwoSpaces",
        title="The functions of one GPU were given to a virtual machine as if they were apart",
        severity="failure",
        cause="Devices of IOMMU group {group} stand behind different virtual buses of the machine, and {address} is "
        "one of them. A group can have one address space only.",
        remedy="Give the machine the functions of the GPU as functions of one device (KubeVirt and NVIDIA's device "
        "plugins do), or leave out the virtual IOMMU. With Kata, offer the whole group as one device.",
        sources=("https://github.com/kata-containers/kata-containers/issues/10622",),
        patterns=(_SPLIT,),
        certainty="likely",
    ),
    Rule(
        code="VFIOBindFailed",
        title="NVIDIA's vfio manager could not bind a GPU, and its pod is Ready all the same",
        severity="failure",
        cause="The vfio manager has not bound {address}: {why}. It only warns, so the sandbox validator is the "
        "first to fail.",
        remedy="Run lspci -nnk -d 10de: and ls /sys/kernel/iommu_groups on the host. With invalid argument, the IOMMU "
        "is off. If the driver's folder is missing, the kernel lacks the module of vfio. Then delete the node's pod "
        "nvidia-vfio-manager, which tries again.",
        sources=(f"{_MANAGER}blob/bd62ca7d/cmd/vfio-manage/bind.go",),
        patterns=(_WARNED,),
        explains=frozenset({"GPUNotOnVFIO"}),
    ),
)
