# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""GPUs for virtual machines: KubeVirt's permissions, vfio-pci and IOMMU groups."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_NOT_WHOLE = (
    pattern(r"ensure all devices within the iommu_group are bound to their vfio bus driver", "within the iommu_group"),
    pattern(r"vfio\b.*\bgroup \d+ is not viable", "is not viable"),
)
_FUNCTION = pattern(r"^\W{0,4}(?P<address>(?:[\da-f]{4}:)?[\da-f]{2}:[\da-f]{2}\.[\da-f]) .*\[10de:", "[10de:")
_IN_USE = pattern(r"Kernel driver in use: (?P<driver>[\w-]+)", "kernel driver in use: ")
_VFIO = ("vfio-pci", "nvgrace_gpu_vfio_pci", "pcieport")
_NOT_BOUND = pattern(
    r"device not bound to 'vfio-pci'; device: (?P<address>\S+) driver: '(?P<driver>[^']*)'", "not bound to 'vfio-pci'"
)
_NO_IOMMU = (
    pattern(r"failed to (?:find directory for|bind).{0,80}vfio.{0,80}is the module loaded", "is the module loaded?"),
    pattern(r"\bvfio[\w-]*\b.{0,80}: (?:no iommu_group|No IOMMU)", "iommu"),
    pattern(r"vfio-manage\S*: line \d+: echo: write error: (?:Invalid argument|No such device)", "echo: write error: "),
    pattern(r"Could not get IOMMU Group for device", "could not get iommu group for device"),
    # vfio_pci_core_register_device of Linux gives -EINVAL for a device without a group.
    pattern(r"vfio-pci \S+: probe with driver vfio-pci failed with error -22", "failed with error -22"),
    pattern(r"vfio-pci: probe of \S+ failed with error -22", "failed with error -22"),
)
_NOT_PERMITTED = (
    pattern(
        r"(?:GPU|HostDevice) (?P<device>[\w./-]+) is not permitted in "
        r"(?:permittedHostDevices|kubevirt-host-device-plugin-config)",
        " is not permitted in ",
    ),
)
_GATE = pattern(r"(?P<gate>GPU|HostDevices?) feature gate is not enabled in kubevirt", "feature gate is not enabled in")
_NO_DEVICE = (
    pattern(
        r"the number of (?:GPU/s|host-?devices?\S*) do not match the number of devices",
        "do not match the number of dev",
    ),
    pattern(r"(?:MDEV_)?PCI_RESOURCE_NVIDIA_COM_\S+ not set for resource", "pci_resource_nvidia_com_"),
)
_MDEV = pattern(
    r"sysfsdev=/sys/bus/mdev/.*error getting device from group (?P<group>\d+): Input/output error",
    "sysfsdev=/sys/bus/mdev/",
)


def _groups(view: View) -> t.Iterator[Sighting]:
    """Yield the complaints, with the functions that have another driver, as ``lspci -nnk`` shows them nearby."""
    others = list(_bound_elsewhere(view))
    who = "; ".join(others) or "at least one function of the group"
    for hit in (hit for each in _NOT_WHOLE for hit in view.hits(each)):
        yield matches.sighting(hit, who=who)


def _bound_elsewhere(view: View) -> t.Iterator[str]:
    """Yield each function of NVIDIA's that a driver other than vfio-pci holds. The driver stands below its function."""
    names = {hit.line.text: hit.values["address"] for hit in view.hits(_FUNCTION)}
    drivers = {hit.line.text: hit.values["driver"] for hit in view.hits(_IN_USE)}
    address = ""
    for line in view.evidence.lines:
        address = names.get(line.text, address)
        driver = drivers.get(line.text, "")
        if address and driver and driver not in _VFIO:
            yield f"{address} (driver {driver})"
        address = "" if driver else address  # the next driver is that of another device


_PLUGIN = "https://github.com/NVIDIA/kubevirt-gpu-device-plugin/"
_GUIDE = "https://kubevirt.io/user-guide/compute/host-devices/"

RULES = (
    Rule(
        code="IOMMUGroupNotWhole",
        title="A part of the GPU's IOMMU group is not bound to vfio-pci",
        severity="failure",
        cause="A virtual machine gets a GPU only with all functions of its IOMMU group, and another driver holds "
        "{who}. Often that is the audio function of the GPU.",
        remedy="Run lspci -nnk -d 10de: on the host, and bind each function of the GPU to vfio-pci: give the kernel "
        "vfio-pci.ids=10de:GPU,10de:AUDIO (host_prep_kernel_args, and playbooks/site.yml, which drains and reboots "
        "the node), or let the operator's vfio manager do it (label nvidia.com/gpu.workload.config=vm-passthrough).",
        sources=(f"{_PLUGIN}issues/27", "https://docs.kernel.org/driver-api/vfio.html"),
        check=_groups,
        patterns=(*_NOT_WHOLE, _FUNCTION, _IN_USE),
    ),
    Rule(
        code="GPUNotOnVFIO",
        title="A GPU for virtual machines is not bound to vfio-pci",
        severity="failure",
        cause="The node is to pass its GPUs to virtual machines, and the driver {driver} holds the GPU {address}.",
        remedy="Read the log of the node's pod nvidia-vfio-manager. If a driver of the host holds the GPU, remove it "
        "from this node, since vfio-pci cannot take the GPU from a driver in use.",
        sources=("https://github.com/NVIDIA/gpu-operator/tree/a22dbf671/cmd/nvidia-validator",),
        patterns=(_NOT_BOUND,),
    ),
    Rule(
        code="IOMMUOff",
        title="The host has no IOMMU group for the GPU",
        severity="failure",
        cause="vfio-pci cannot take the GPU, because the kernel made no IOMMU group for it, or because the module is "
        "not loaded. Most often the IOMMU is off in the firmware (VT-d, AMD-Vi) or in the kernel.",
        remedy="Run ls /sys/kernel/iommu_groups on the host. If it is empty, turn the IOMMU on in the firmware, set "
        "host_prep_iommu: passthrough, and run playbooks/site.yml, which drains and reboots the node. If it is not, "
        "load the module vfio-pci.",
        sources=(
            "https://docs.kernel.org/driver-api/vfio.html",
            "https://github.com/kata-containers/kata-containers/issues/10753",
            f"{_PLUGIN}tree/d26f2374",
            "https://github.com/geerlingguy/raspberry-pi-pcie-devices/issues/754",
        ),
        patterns=_NO_IOMMU,
        certainty="likely",
    ),
    Rule(
        code="VMDeviceNotPermitted",
        title="KubeVirt does not permit the GPU",
        severity="failure",
        cause="The virtual machine asks for {device}, and permittedHostDevices of KubeVirt's configuration does not "
        "have it: the name differs, the list is in another object than KubeVirt reads, or the feature gate is off.",
        remedy="Permit it with the module kubevirt_gpus, which leaves the entries of others alone. By hand, run "
        "kubectl get kubevirt -A -o yaml. Below spec.configuration, developerConfiguration.featureGates must have GPU "
        "(up to KubeVirt v1.3) or HostDevices, and permittedHostDevices must have resourceName: {device}, with "
        "externalResourceProvider: true if a device plugin of NVIDIA offers it. A ConfigMap kubevirt-config of old "
        "releases hides these fields: remove it.",
        sources=("https://github.com/kubevirt/kubevirt/issues/4950", f"{_PLUGIN}issues/17", _GUIDE),
        patterns=_NOT_PERMITTED,
    ),
    Rule(
        code="VMFeatureGateOff",
        title="A feature gate of KubeVirt is off",
        severity="failure",
        cause="The virtual machine asks for a device, and KubeVirt's feature gate {gate} is off.",
        remedy="Add {gate} to spec.configuration.developerConfiguration.featureGates of the object KubeVirt.",
        sources=(f"{_PLUGIN}issues/17", _GUIDE),
        patterns=(_GATE,),
        explains=frozenset({"VMDeviceNotPermitted"}),
    ),
    Rule(
        code="VMDevicesNotHandedOver",
        title="The virtual machine's pod got no device for its GPU",
        severity="failure",
        cause="KubeVirt found fewer devices in the pod of the virtual machine than the machine asks for. The device "
        "plugin that KubeVirt expects and the one that offers the resource are not the same, or the "
        "resource is of another kind (a mediated device, a PCI device) than permittedHostDevices says.",
        remedy="In permittedHostDevices, set externalResourceProvider: true if NVIDIA's device plugin for KubeVirt "
        "offers the resource, and false if KubeVirt's own does. Let the container device plugin "
        "(nvidia-device-plugin-daemonset) not run on this node: it offers nvidia.com/gpu for containers only.",
        sources=("https://github.com/kubevirt/kubevirt/issues/6459", f"{_PLUGIN}issues/26"),
        patterns=_NO_DEVICE,
        certainty="likely",
    ),
    Rule(
        code="VGPUDeviceFails",
        title="The vGPU manager does not start a vGPU",
        severity="failure",
        cause="The kernel has made the vGPU (IOMMU group {group}), and NVIDIA's vGPU manager does not open it: its "
        "service does not run, its driver is not the one for hosts (vGPU KVM), or the GPU does not support the type.",
        remedy="Run nvidia-smi vgpu and systemctl status nvidia-vgpu-mgr on the host, and journalctl -u "
        "nvidia-vgpu-mgr for the reason.",
        sources=("https://github.com/wvthoog/proxmox-vgpu-installer/issues/30", "https://docs.nvidia.com/vgpu/"),
        patterns=(_MDEV,),
        certainty="likely",
    ),
)
