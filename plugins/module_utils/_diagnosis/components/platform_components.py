# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Components around those of NVIDIA: the kernel, container runtimes, Kubernetes, virtual machines, programs. Pure."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.components.component import Component, github

PLATFORM_COMPONENTS = (
    Component(
        "nfd",
        "Node Feature Discovery",
        r"(?:[\w-]+-)?node-feature-discovery|nfd-",
        r"nfd-(?:master|worker|gc|topology)|NodeFeature\b|node-feature-discovery",
        "It labels nodes with their hardware, such as feature.node.kubernetes.io/pci-10de.present.",
        "The operator finds no GPU nodes without these labels.",
        ("an API server that answers", "its CRDs", "a worker on each GPU node"),
        "Run kubectl get nodes -l feature.node.kubernetes.io/pci-10de.present=true, and read the log of nfd-master.",
        "https://github.com/kubernetes-sigs/node-feature-discovery",
    ),
    Component(
        "kubevirt",
        "KubeVirt",
        r"virt-(?:handler|launcher|controller|api|operator|exportproxy)",
        r"\"component\":\"virt-|virt-(?:handler|launcher|controller|api)\b|kubevirt\.io|kubevirt-config|permitted"
        r"(?:HostDevices|-host-device)|kubevirt-host-device|VirtualMachineInstance",
        "It runs virtual machines in pods, and gives them the devices that its configuration permits.",
        "Virtual machines do not start without it.",
        ("the device in permittedHostDevices", "a device plugin that offers it", "the feature gates for devices"),
        "Run kubectl get kubevirt -A -o yaml, and compare permittedHostDevices with the node's allocatable.",
        "https://kubevirt.io/user-guide/compute/host-devices/",
    ),
    Component(
        "network-driver",
        "the network operator's driver container",
        r"mofed|doca-driver|nvidia-network-operator|network-operator",
        r"\bmofed\b|mofed-container|\bopenibd\b|doca-driver|\bOFED\b|mlnx-(?:ofed|nvme|tools)|UNLOAD_STORAGE_MODULES"
        r"|NVIDIA driver container exec start|NicClusterPolicy|drivers-inventory",
        "It builds NVIDIA's network driver (DOCA-OFED) for the kernel of the node, and loads it in place of the "
        "kernel's own.",
        "GPUDirect over InfiniBand waits for it. Drivers of GPUs with driver.rdma.enabled wait for it, too.",
        (
            "packages for exactly this kernel",
            "a package archive that it reaches",
            "network and storage modules that nothing uses",
        ),
        "Read kubectl logs of the node's pod mofed-... in the network operator's namespace, and the conditions of "
        "the NicClusterPolicy.",
        "https://github.com/Mellanox/doca-driver-build/blob/main/entrypoint.sh",
    ),
    Component(
        "libvirt",
        "libvirt or QEMU, which run a virtual machine",
        r"libvirtd|virtqemud|virtlogd|qemu-",
        r"\bqemu-(?:kvm|system-\w+): |QEMU unexpectedly closed the monitor|LibvirtError|\blibvirt: |\bvirtqemud\b"
        r"|\bvfio [0-9a-fx]{4}:[0-9a-fx]{2}:|VFIO_MAP_DMA|vfio_(?:container_)?dma_map|/dev/vfio/\d+",
        "It starts the virtual machine and hands the GPU to it through vfio-pci.",
        "The virtual machine does not start without it.",
        (
            "a GPU whose IOMMU group is on vfio-pci and free",
            "a limit of locked memory above the machine's memory",
            "an IOMMU that is on",
        ),
        "Run lspci -nnk -d 10de: and ls -l /dev/vfio on the host, and read the log of the pod virt-launcher.",
        "https://www.qemu.org/docs/master/system/devices/vfio.html",
    ),
    Component(
        "kata",
        "Kata Containers",
        r"nvidia-kata-manager|kata|nvidia-cc-manager",
        r"\bkata-(?:runtime|agent|manager|qemu|shim)|containerd-shim-kata|io\.containerd\.kata|\bvsock\b|cc-manager"
        r"|Check if grpc server is working|cold plug failed",
        "It runs each pod in a small virtual machine, with a GPU through vfio-pci.",
        "Pods with a Kata runtime class do not start without it.",
        ("nested or hardware virtualisation", "an IOMMU", "GPUs on vfio-pci", "the runtime class of the GPU's kind"),
        "Run kata-runtime check on the host, and journalctl -u containerd -g kata.",
        "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-kata.html",
    ),
    Component(
        "crio",
        "CRI-O",
        r"crio|cri-o",
        r"\bcrio(?:\[\d+\])?: |\bcri-o\b|/crio\.conf|CRI-O",
        "It runs the containers of the node for the kubelet.",
        "No pod starts on the node while it fails.",
        ("a configuration that it can read", "its OCI runtimes", "SELinux labels that the file system takes"),
        "Run crio config (it checks the files below /etc/crio), and journalctl -u crio.",
        github("cri-o/cri-o", "f954a17e5"),
    ),
    Component(
        "containerd",
        "containerd",
        r"containerd|k3s-containerd|rke2-containerd",
        r"\bcontainerd(?:\[\d+\])?: |io\.containerd\.|/etc/containerd/|containerd config|failed to create containerd",
        "It runs the containers of the node for the kubelet.",
        "No pod starts on the node while it fails.",
        ("a configuration of a version that it knows", "the programs of its runtimes", "space on its disk"),
        "Run containerd config dump on the host (it reads all files and changes nothing), and journalctl -u "
        "containerd.",
        github("containerd/containerd", "301026e58", "cmd/containerd"),
    ),
    Component(
        "kubelet",
        "the kubelet",
        r"kubelet",
        r"\bkubelet(?:\[\d+\])?: |pod_workers\.go|kuberuntime_\w+\.go|remote_(?:runtime|image)\.go|kubelet(?:_\w+)?\.go"
        r"|plugin_watcher\.go|FailedCreatePodSandBox|FailedPrepareDynamicResources|UnexpectedAdmissionError|FailedMount|devicemanager/",
        "It starts the pods of the node, and gives GPUs to containers through device plugins.",
        "All pods of the node depend on it.",
        ("a container runtime that answers", "device plugins that are registered", "disk and memory"),
        "Run kubectl describe pod POD for its events, and journalctl -u kubelet on the node.",
        "https://github.com/kubernetes/kubernetes/tree/master/pkg/kubelet",
    ),
    Component(
        "helm",
        "Helm",
        r"helm",
        r"\b(?:INSTALLATION|UPGRADE|UNINSTALL|ROLLBACK) FAILED\b|helm\.go:|cannot be imported into the current release",
        "It installs the operator's chart.",
        "Nothing of the release is changed if it fails, or only a part of it.",
        ("values that the chart knows", "CRDs of the chart's version", "no release that is pending"),
        "Run helm status RELEASE and helm history RELEASE in the namespace of the operator.",
        "https://helm.sh/docs/",
    ),
    Component(
        "nccl",
        "NCCL",
        r"nccl",
        r"\bNCCL (?:WARN|INFO|ERROR)|\bNCCL error|nccl(?:System|Internal|UnhandledCuda|InvalidUsage|Remote)\w*",
        "It moves data between the GPUs of a program, over NVLink, PCIe and the network.",
        "All ranks of the job wait while one of them fails.",
        (
            "the same NCCL and driver on all ranks",
            "a network interface that all ranks reach",
            "enough /dev/shm",
            "GPUs that may reach each other",
        ),
        "Run the program again with NCCL_DEBUG=INFO, and read the first WARN of the rank that failed first.",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    Component(
        "cuda-program",
        "a CUDA program",
        r"(?!)",
        r"\bCUDA (?:error|failure|failed|driver version|runtime)|CUDA-capable device|\bcudaError\w*"
        r"|\bcuda(?:Get|Set|Malloc|Memcpy)\w+|CUDA_ERROR_\w+"
        r"|torch\.cuda|RuntimeError: .*CUDA|\bcu(?:Init|Device\w+)\b",
        "It computes on the GPUs that its container got.",
        "Nothing else waits for it.",
        ("GPUs in its container", "a driver that is as new as its CUDA", "GPUs whose fabric and MIG devices are ready"),
        "Run nvidia-smi -L in the container, and the sample vectorAdd with the same limits.",
        "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html",
    ),
    Component(
        "kernel",
        "the kernel, or NVIDIA's module in it",
        r"kernel log|dmesg|kern\b",
        r"\bNVRM: |\bnvidia-(?:nvswitch|uvm|modeset|gpu)\d*: |\bnouveau \d{4}:|\bmodprobe: |\binsmod: ",
        "It drives the GPUs.",
        "Everything on the node that uses a GPU depends on it.",
        (
            "modules for this kernel, with a signature that it trusts",
            "a GPU that answers",
            "no other driver on the GPU",
        ),
        "Read journalctl -k -b -g 'NVRM|nvidia|Xid' on the node from its beginning.",
        "https://docs.nvidia.com/deploy/xid-errors/",
    ),
)
