# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""GPUs that are handed to a virtual machine through vfio, and what QEMU, libvirt and Kata say when that fails."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern

_LOCKED = (
    pattern(r"vfio(?:_container)?_dma_map\b.{0,120}Cannot allocate memory", "cannot allocate memory"),
    pattern(r"VFIO_MAP_DMA failed: Cannot allocate memory", "vfio_map_dma failed: cannot allocate memory"),
    pattern(r"initialization failed: Region .*vfio_(?:container_)?dma_map\(.*\) = -12\b", "dma_map("),
    pattern(r"cannot limit locked memory\b", "cannot limit locked memory"),
)
_BUSY = pattern(r"failed to open (?P<group>/dev/vfio/\d+): Device or resource busy", "failed to open /dev/vfio/")
_GONE = (
    pattern(r"lstat (?P<group>/dev/vfio/\d+): no such file or directory", "lstat /dev/vfio/"),
    pattern(r"failed to open (?P<group>/dev/vfio/\d+): No such file", "failed to open /dev/vfio/"),
)
_NO_CDEV = pattern(r"(?:lstat|open) (?P<file>/dev/vfio/devices/vfio\d+): no such file", "/dev/vfio/devices/vfio")
_AGENT = (
    pattern(r"Failed to Check if grpc server is working", "failed to check if grpc server is working"),
    pattern(r"timed out connecting to vsock \d+", "timed out connecting to vsock"),
)
_HELD = "Run fuser -v GROUP for the file below /dev/vfio: a process shows that the group is in use, and no file that "
_TELL = f"{_HELD}it was never bound to vfio-pci."
_KUBEVIRT = "https://github.com/kubevirt/kubevirt/"
_KATA = "https://github.com/kata-containers/kata-containers/"

RULES = (
    Rule(
        code="VMMemoryNotLocked",
        title="A virtual machine with a GPU may not lock its memory",
        severity="failure",
        cause="A machine with a GPU through vfio must lock all of its memory, and the limit for QEMU (memlock) is too "
        "small or may not be raised. The host's free memory does not matter.",
        remedy="Compare the requests and limits of the machine's memory: with fewer requests than limits, or with "
        "overcommit, KubeVirt sets too small a limit, so make them equal. With several devices, or with the words "
        '"cannot limit locked memory", update KubeVirt.',
        sources=(
            f"{_KUBEVIRT}issues/8472",
            f"{_KUBEVIRT}issues/18915",
            f"{_KUBEVIRT}issues/17694",
            f"{_KUBEVIRT}pull/17805",
        ),
        patterns=_LOCKED,
        certainty="likely",
    ),
    Rule(
        code="VFIOGroupBusy",
        title="Another process holds the GPU's IOMMU group",
        severity="failure",
        cause="QEMU cannot open {group}: another process has it open. A group goes to one machine at a time, and "
        "another device of the same group counts, too.",
        remedy="Run fuser -v {group} on the host, and ls /sys/kernel/iommu_groups/NUMBER/devices for the devices of "
        "the group. Give all of them to the same machine, or end the machine that holds it.",
        sources=(
            "https://github.com/harvester/harvester/issues/8294",
            "https://docs.kernel.org/driver-api/vfio.html",
        ),
        patterns=(_BUSY,),
        certainty="likely",
        unlike={"VFIOGroupMissing": _TELL},
    ),
    Rule(
        code="VFIOGroupMissing",
        title="The GPU for a virtual machine is no longer on vfio-pci",
        severity="failure",
        cause="The machine is to get {group}, and the host has no such file: no device of the group is bound to "
        "vfio-pci (any more), or the node got other group numbers at its last boot.",
        remedy="Run lspci -nnk -d 10de: on the host. If vfio-pci is not the driver in use, read the log of the node's "
        "pod nvidia-vfio-manager. If it is, restart the pod of the device plugin for virtual machines "
        "(nvidia-sandbox-device-plugin, or the addon's), so that it offers the groups of this boot.",
        sources=("https://github.com/harvester/harvester/issues/7348",),
        patterns=_GONE,
        certainty="likely",
        unlike={"VFIOGroupBusy": _TELL},
    ),
    Rule(
        code="VFIOFileMissing",
        title="The host has no VFIO files of the newer kind",
        severity="failure",
        cause="The machine is to get {file}, a file of the interface IOMMUFD, and the host has none: its kernel is "
        "built without CONFIG_IOMMUFD and CONFIG_VFIO_DEVICE_CDEV, or no GPU is bound to vfio-pci. KubeVirt 1.9.0 "
        "hands these files out even with its feature gate IOMMUFD off.",
        remedy="Run ls /dev/vfio /dev/vfio/devices on the host. If only the first has files, use a release of "
        "KubeVirt other than 1.9.0, or a kernel with IOMMUFD. If neither has, bind the GPU to vfio-pci.",
        sources=(f"{_KUBEVIRT}issues/18895",),
        patterns=(_NO_CDEV,),
        certainty="likely",
    ),
    Rule(
        code="KataAgentSilent",
        title="The virtual machine of a Kata pod does not answer",
        severity="failure",
        cause="Kata has started the pod's virtual machine, and the agent in it does not answer in time: the guest does "
        "not boot, or takes long to set up a GPU with a large memory window.",
        remedy="Set enable_debug for the hypervisor in Kata's configuration, and read the guest's console in "
        "journalctl -t kata. For a GPU, use the runtime class of the GPU's kind (kata-qemu-nvidia-gpu), whose guest "
        "has a larger memory, PCIe root ports and a longer timeout (create_container_timeout).",
        sources=(f"{_KATA}issues/10470", "https://github.com/NVIDIA/gpu-operator/issues/1356"),
        patterns=_AGENT,
        certainty="likely",
    ),
)
