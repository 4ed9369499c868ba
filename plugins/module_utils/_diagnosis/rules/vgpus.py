# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""vGPUs that a node does not offer: the vGPU manager, its devices and its service."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern

_NO_BUS = pattern(
    r"unable to read MDEV devices directory: open /sys/bus/mdev/devices: no such file", "unable to read mdev devices"
)
_NO_PARENT = pattern(
    r"no parent devices found for GPU at index '?(?P<index>\d+)", "no parent devices found for gpu at index"
)
_NO_CLIENT = pattern(
    r"vmiop_env_log: Failed to initialize RM client: (?P<code>0x[0-9a-f]+)", "failed to initialize rm client"
)
_FRAMEWORK = (
    "Run ls /sys/bus/mdev and lspci -d 10de: on the host. Without the folder, no driver with vGPUs is loaded, or its "
    "vGPUs are not mediated devices. With it, and with one function per GPU only, its virtual functions are off."
)
_GUIDE = "https://docs.nvidia.com/vgpu/latest/grid-vgpu-user-guide/index.html"

RULES = (
    Rule(
        code="VGPUBusMissing",
        title="The node has no mediated devices for vGPUs",
        severity="failure",
        cause="The vGPU device manager finds no mediated devices (/sys/bus/mdev). NVIDIA's vGPU manager is not loaded "
        "on the host, or this kernel and release have vGPUs of another kind (vendor-specific VFIO, since Linux 6.8).",
        remedy="Run nvidia-smi vgpu on the host. If it fails, read the log of the node's pod nvidia-vgpu-manager. If "
        "it works, the host's vGPUs are virtual functions: use a release of the operator that knows them "
        "(playbooks/upgrade_operator.yml).",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/591",
            "https://github.com/NVIDIA/vgpu-device-manager/pull/15",
            "https://github.com/harvester/harvester/issues/10026",
        ),
        patterns=(_NO_BUS,),
        certainty="likely",
        unlike={"VGPUParentMissing": _FRAMEWORK},
    ),
    Rule(
        code="VGPUParentMissing",
        title="A GPU offers no vGPUs",
        severity="failure",
        cause="The vGPU manager offers no vGPU device for the GPU with index {index}: its virtual functions (SR-IOV) "
        "are off, its driver did not start it, or its vGPUs are of another kind (vendor-specific VFIO, with vGPU 17 on "
        "Ada, Hopper and newer GPUs), which this release of the operator does not know.",
        remedy="Run nvidia-smi vgpu -s on the host: it lists the types of each GPU. Read the log of the node's pod "
        "nvidia-vgpu-manager for sriov-manage, and see that SR-IOV is on in the firmware of the host. GPUs that need "
        "open modules and GSP firmware need a newer vGPU release. If a virtual function has the file "
        "nvidia/current_vgpu_type in /sys/bus/pci/devices, use a release of the operator that knows this kind.",
        sources=(
            "https://github.com/NVIDIA/cloud-native-docs/pull/76",
            "https://github.com/NVIDIA/vgpu-device-manager/pull/195",
            _GUIDE,
        ),
        patterns=(_NO_PARENT,),
        certainty="likely",
        unlike={"VGPUBusMissing": _FRAMEWORK},
    ),
    Rule(
        code="VGPUManagerWithoutDriver",
        title="The vGPU manager's service does not reach its driver",
        severity="failure",
        cause="nvidia-vgpu-mgr cannot talk to NVIDIA's module (error {code}): the module is not loaded, is of another "
        "release than the service, or is not the one for hosts with vGPUs.",
        remedy="Run nvidia-smi and cat /proc/driver/nvidia/version on the host, and compare the release with that of "
        "the package with nvidia-vgpu-mgr. If no module is loaded, read journalctl -k -b -g NVRM for the reason.",
        sources=("https://github.com/mrzenc/vgpu4nixos/issues/4", _GUIDE),
        patterns=(_NO_CLIENT,),
        certainty="likely",
    ),
)
