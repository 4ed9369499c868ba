# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""NVIDIA's own components: those of the GPU Operator, and its services on hosts. Pure."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.components.component import Component, github

_OPERATOR = ("NVIDIA/gpu-operator", "a22dbf671")
_DRIVER = ("NVIDIA/gpu-driver-container", "06a208c")
_PLUGIN = ("NVIDIA/k8s-device-plugin", "1b826acc6")
_TOOLKIT = ("NVIDIA/nvidia-container-toolkit", "d34b3046")
_DRA = ("kubernetes-sigs/dra-driver-nvidia-gpu", "95932046")

NVIDIA_COMPONENTS = (
    Component(
        "validator",
        "the operator's validator",
        r"nvidia-operator-validator|nvidia-node-status-exporter|nvidia-sandbox-validator"
        r"|nvidia-(?:cuda|device-plugin)-validator"
        r"|(?:driver|toolkit|cuda|plugin|nvidia-fs|mofed|vfio-pci|cc-manager|vgpu-manager|vgpu-devices)-validation",
        r"error validating (?:the )?(?:driver|toolkit|cuda workload|plugin|\w+ driver|vGPU|CC|MOFED|vfio)"
        r"|vectorAdd kernel|device vector [ABC] \(|creating symlinks under /dev/char"
        r"|GPU resources are not (?:yet )?disc",
        "It proves on each node that the driver, the toolkit, CUDA and the device plugin work.",
        "All other operands of the node wait for its stages.",
        ("a loaded driver", "the container toolkit", "a GPU that CUDA can use", "a device plugin that offers GPUs"),
        "Read which init container of the pod nvidia-operator-validator fails: kubectl logs POD -c driver-validation "
        "(toolkit-validation, cuda-validation, plugin-validation).",
        github(*_OPERATOR, "cmd/nvidia-validator"),
    ),
    Component(
        "driver-manager",
        "the driver manager",
        r"k8s-driver-manager",
        r"driver-manager|nvidia driver components|Unable to proceed with (?:node|driver)|auto upgrade policy",
        "It empties the node of GPU pods and unloads the old driver before a driver container starts.",
        "The driver's container of the node waits for it, and all operands wait for the driver.",
        ("permission to evict the pods that hold GPUs", "a driver that nothing uses", "an API server that answers"),
        "Read kubectl logs POD -c k8s-driver-manager, and look for processes that hold a GPU (fuser -v /dev/nvidia*).",
        github("NVIDIA/k8s-driver-manager", "bd62ca7d"),
    ),
    Component(
        "driver",
        "the driver container",
        r"nvidia-driver-ctr|openshift-driver-toolkit-ctr|nvidia-(?:vgpu-|gpu-)?driver|nvidia-peermem|nvidia-fs-ctr"
        r"|nvidia-gdrcopy|nvidia-installer|dkms",
        r"NVIDIA Software Installer|Linux kernel version \d|Installing NVIDIA driver|nvidia-installer|extract-vmlinux"
        r"|NVIDIA driver kernel modules|Updating the package cache|Installing Linux kernel headers|\bdkms\b"
        r"|NVIDIA-Linux-(?:x86_64|aarch64)-|Unable to load the kernel module 'nvidia|nv-ctr-run-with-dtk",
        "It builds or unpacks NVIDIA's kernel modules, loads them, and gives the driver's libraries to the node.",
        "The toolkit, the validator and all other operands of the node wait for it.",
        (
            "kernel headers or a precompiled package",
            "a package archive that it reaches",
            "a kernel that accepts its modules",
            "a GPU that this release supports",
        ),
        "Read the whole log of the driver's pod (kubectl logs POD -c nvidia-driver-ctr), then journalctl -k -g NVRM on "
        "the node.",
        github(*_DRIVER, "ubuntu22.04/nvidia-driver"),
    ),
    Component(
        "toolkit",
        "the container toolkit",
        r"nvidia-container-toolkit|nvidia-container-runtime|nvidia-ctk|nvidia-toolkit|nvidia-cdi-refresh",
        r"nvidia-container-(?:cli|runtime|toolkit)|nvidia-ctk|nvidia-cdi-(?:hook|refresh)|nvidia-toolkit"
        r"|unable to (?:restart|configure|load|setup) (?:containerd|docker|cri-?o|runtime)|toolkit components",
        "It tells the container runtime how containers get GPUs, and its runtime and hooks put them in.",
        "No container of the node gets a GPU before it is ready.",
        (
            "a loaded driver whose libraries it finds",
            "the configuration and the socket of the container runtime",
            "CDI specifications that are as new as the driver",
        ),
        "Read the log of the node's pod nvidia-container-toolkit-daemonset, and run nvidia-container-cli info on the "
        "host.",
        github(*_TOOLKIT, "cmd"),
    ),
    Component(
        "dra",
        "the DRA driver for GPUs",
        r"nvidia-dra-driver|gpu-kubelet-plugin|compute-?domain|dra-driver-nvidia|(?:gpus|compute-domains)$"
        r"|mps-control-daemon-[0-9a-f]{8}-",
        r"nvidia-dra-driver|gpu-kubelet-plugin|compute-domain|computedomain|(?<!/)\bgpu\.nvidia\.com\b"
        r"|error creating driver: |error enumerating all possible devices|prepare devices failed"
        r"|NVIDIA_DRIVER_ROOT|Checkpointed RC cleanup|resourceslicecontroller\.go|dra: handling|\bDRAPlugin\b"
        r"|DRA driver",
        "It offers GPUs and ComputeDomains as ResourceSlices, and prepares them for pods with a ResourceClaim.",
        "Pods with a claim stay in ContainerCreating, or are not placed.",
        (
            "a loaded driver below its nvidiaDriverRoot",
            "CDI in the container runtime",
            "for ComputeDomains a fabric and IMEX",
            "an API server that serves resource.k8s.io",
        ),
        "Read the log of the node's pod whose name contains dra-driver and kubelet-plugin, and kubectl get "
        "resourceslices,resourceclaims -A.",
        github(*_DRA, "cmd"),
    ),
    Component(
        "kubevirt-device-plugin",
        "the GPU device plugin for KubeVirt",
        r"nvidia-sandbox-device-plugin|nvidia-kubevirt-gpu-(?:device-plugin|dp)|kubevirt-gpu-device-plugin",
        r"kubevirt-gpu-device-plugin|iommu_?group|Iommu Map|vfio bus driver|not a supported VFIO driver",
        "It offers GPUs that are bound to vfio-pci, and vGPUs, to virtual machines.",
        "Virtual machines with GPUs are not placed until it offers them.",
        ("an IOMMU that is on", "all functions of the GPU's IOMMU group on vfio-pci", "for vGPUs the vGPU manager"),
        "Run lspci -nnk -d 10de: on the host: each function of the GPU must show vfio-pci as the driver in use.",
        github("NVIDIA/kubevirt-gpu-device-plugin", "d26f2374", "pkg/device_plugin"),
    ),
    Component(
        "device-plugin",
        "the device plugin",
        r"nvidia-device-plugin|config-manager|mps-control-daemon|k8s-device-plugin",
        r"k8s-device-plugin|nvidia-device-plugin|mps-control-daemon|error (?:starting|getting) plugins"
        r"|nvidia-cuda-mps|\[[\d-]{10} [\d:.]{12} +(?:Control|Server|Other|Legacy Server) +\d+\]|/mps/nvidia\.com/"
        r"|error getting daemons|Retr[ei]{2}ving plugins|NvidiaDevicePlugin|MPS (?:control )?daemon",
        "It offers the GPUs of the node to the kubelet as nvidia.com/gpu, and with sharing or MIG in parts.",
        "Pods that ask for nvidia.com/gpu stay Pending until it offers some.",
        (
            "a container that sees the driver (the handler nvidia)",
            "GPUs that answer",
            "a valid configuration",
            "the kubelet's socket",
        ),
        "Read the log of the node's pod nvidia-device-plugin-daemonset, and kubectl describe node NODE for its "
        "allocatable nvidia.com/gpu.",
        github(*_PLUGIN, "cmd"),
    ),
    Component(
        "feature-discovery",
        "GPU Feature Discovery",
        r"gpu-feature-discovery|gfd\b",
        r"gpu-feature-discovery|gfd: ",
        "It labels the node with the model, the memory and the driver of its GPUs.",
        "Placement by GPU labels, and the choice of MIG layouts, wait for it.",
        ("a container that sees the driver", "GPUs that answer"),
        "Read the log of the node's pod gpu-feature-discovery.",
        github(*_PLUGIN, "cmd/gpu-feature-discovery"),
    ),
    Component(
        "mig-manager",
        "the MIG manager",
        r"nvidia-mig-manager|mig-parted",
        r"mig-manager|mig-parted|MIGConfig|MIG (?:mode|config)\w* (?:change|Manager)",
        "It divides the GPUs of a node as the label nvidia.com/mig.config asks, with nvidia-mig-parted.",
        "Pods that ask for MIG devices wait for it. It stops the operands of the node meanwhile.",
        ("GPUs that nothing uses", "a layout that fits the model", "a driver that may change the MIG mode"),
        "Read the log of the node's pod nvidia-mig-manager, and its label nvidia.com/mig.config.state.",
        github("NVIDIA/mig-parted", "bd7160f4", "cmd"),
    ),
    Component(
        "dcgm-exporter",
        "the DCGM exporter",
        r"(?:nvidia-)?dcgm-exporter",
        r"dcgm-exporter|dcgm_exporter|DCP metrics|DCGM_FI_",
        "It serves the metrics of the GPUs to Prometheus.",
        "Dashboards and alerts about GPUs are silent without it. Workloads do not wait for it.",
        ("DCGM, in its own container or in another one", "a loaded driver", "the kubelet's socket for pod names"),
        "Read the log of the node's pod nvidia-dcgm-exporter, and ask it for metrics (port 9400, /metrics).",
        github("NVIDIA/dcgm-exporter", "d5e5f51", "internal"),
    ),
    Component(
        "dcgm",
        "DCGM",
        r"(?:nvidia-)?dcgm\b|nv-hostengine|nvidia-dcgm-ctr",
        r"nv-hostengine|\bdcgmi\b|DcgmModule|nvidia-dcgm\.service|CacheManager Init",
        "It watches the health of the GPUs (nv-hostengine), and runs diagnostics.",
        "The exporter waits for it where it runs apart.",
        ("a loaded driver", "GPUs that answer", "its port 5555"),
        "Run dcgmi discovery -l and dcgmi health -c on the host, or in DCGM's pod.",
        github("NVIDIA/DCGM", "master"),
    ),
    Component(
        "nvlsm",
        "the NVLink subnet manager",
        r"nvlsm|opensm",
        r"\bnvlsm\b|\bOpenSM\b|\bumad_init\b|ibwarn: ",
        "It routes the NVLink fabric of GPUs with NVLink 5 (B200, GB200). The fabric manager starts it.",
        "The fabric manager waits for it, and CUDA does not start before the fabric is ready.",
        ("the modules mlx5_core and ib_umad", "the NVSwitch's InfiniBand devices", "the package nvlsm"),
        "Run lsmod | grep -e ib_umad -e mlx5_core, ls /sys/class/infiniband, and journalctl -u nvidia-fabricmanager.",
        "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
    ),
    Component(
        "fabric-manager",
        "the fabric manager",
        r"nvidia-fabricmanager|nv-fabricmanager|fabricmanager",
        r"nv-fabricmanager|nvidia-fabricmanager|[Ff]abric ?[Mm]anager\b",
        "It sets up the NVSwitches, so that the GPUs of a machine work as one.",
        "CUDA does not start on machines with NVSwitches before it is ready.",
        ("exactly the driver's version", "NVSwitches that answer", "for NVLink 5 also nvlsm and ib_umad"),
        "Run systemctl status nvidia-fabricmanager, nvidia-smi -q | grep -A 3 Fabric, and read "
        "/var/log/fabricmanager.log.",
        "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",
    ),
    Component(
        "imex",
        "IMEX",
        r"nvidia-imex|imex",
        r"nvidia-imex|\bI(?:MEX|mex)\b|memory reference|request from node id \d",
        "It lets the GPUs of several nodes share memory over NVLink (GB200 and newer).",
        "Jobs over several nodes of a ComputeDomain wait for it.",
        (
            "the same driver on all nodes of the domain",
            "the addresses of all nodes in nodes_config.cfg",
            "open TCP ports 50000 and 50005",
            "a fabric that is complete",
        ),
        "Run nvidia-imex-ctl -N on a node of the domain: it shows which nodes do not answer.",
        "https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/",
    ),
    Component(
        "vfio-manager",
        "the vfio manager",
        r"nvidia-vfio-manager|vfio-manager",
        r"nvidia-vfio-manager|vfio-manage\b|\bvfio[-_]pci\b",
        "It takes the GPUs of a node away from other drivers and binds them to vfio-pci, for virtual machines.",
        "The device plugin for virtual machines offers no GPU before that.",
        ("an IOMMU that is on (intel_iommu=on or amd_iommu=on)", "the module vfio-pci", "GPUs that no process holds"),
        "Run lspci -nnk -d 10de: and ls /sys/kernel/iommu_groups on the host.",
        github("NVIDIA/k8s-driver-manager", "bd62ca7d", "cmd/vfio-manage"),
    ),
    Component(
        "vgpu",
        "NVIDIA vGPU",
        r"nvidia-vgpu-(?:manager|device-manager|mgr)|nvidia-gridd",
        r"nvidia-gridd|nvidia-vgpu-m(?:gr|anager)|vgpu-device-manager|\bvGPU\b",
        "It divides GPUs among virtual machines, and gets their licences.",
        "A virtual machine without a vGPU does not start, and one without a licence becomes slow.",
        ("a vGPU manager of the same branch as the guest's driver", "SR-IOV", "a licence server that is reached"),
        "Run nvidia-smi vgpu on the host, and nvidia-smi -q | grep -i license in the guest.",
        "https://docs.nvidia.com/vgpu/",
    ),
    Component(
        "operator",
        "the GPU Operator",
        r"gpu-operator",
        r"clusterpolicy-controller|controllers?\.(?:ClusterPolicy|Upgrade|NVIDIADriver)|(?:nvidia-driver|upgrade)-cont"
        r"roller|cluster-policy\b",
        "It turns a ClusterPolicy into the operands of each GPU node, and upgrades their drivers.",
        "No operand is created or changed while it fails.",
        (
            "its CRDs and permissions",
            "labels of Node Feature Discovery",
            "a ClusterPolicy that is valid",
            "an operating system and a runtime that this release knows",
        ),
        "Read kubectl logs deployment/gpu-operator, and the conditions of the ClusterPolicy (kubectl describe "
        "clusterpolicy).",
        github(*_OPERATOR, "controllers"),
    ),
)
