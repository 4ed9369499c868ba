# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""GPUs by ResourceClaim: the DRA driver for GPUs, ComputeDomains and IMEX."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern

_ROOT = pattern(
    r"^(?!.*continuing without attribute).*symlink target for PCI Bus ID "
    r"(?P<address>[\da-f:.]+) is invalid: it must start with /sys/devices/pci",
    "symlink target for pci bus id",
)
_LIBRARIES = pattern(
    r"failed to locate (?P<what>driver libraries|nvidia-smi)", "failed to locate ", of=("dra", "toolkit")
)
_NOT_SERVED = (
    pattern(r"no matches for kind \\?\"(?:ResourceSlice|DeviceClass|ResourceClaim\w*)\\?\"", "no matches for kind"),
    pattern(r"resource\.k8s\.io DeviceClass API is not served", "deviceclass api is not served"),
    pattern(
        r"failed to list \*v1\w*\.(?:ResourceSlice|ResourceClaim|DeviceClass): the server could not find",
        "the server could not find",
    ),
)
_NOT_REGISTERED = (
    pattern(
        r"plugin name (?P<driver>[\w.-]*nvidia\.com) not found in the list of registered DRA plugins",
        "list of registered dra plugins",
    ),
    pattern(r"DRA driver (?P<driver>[\w.-]*nvidia\.com) is not registered", "is not registered"),
)
_CLIQUES = pattern(
    r"unexpected number of unique (?P<what>ClusterUUIDs|CliqueIDs) found on devices", "unexpected number of unique"
)
_DOMAIN = (
    pattern(r"error asserting ComputeDomain Ready: (?P<why>.{1,160})", "error asserting computedomain ready"),
    pattern(r"(?P<why>current node not ready in ComputeDomain)", "current node not ready in computedomain"),
    pattern(r"(?P<why>IMEX daemon not ready: .{1,120})", "imex daemon not ready"),
)
_SESSION = pattern(r"Failed to allocate Imex session\b.{0,200}NV_ERR_IN_USE", "failed to allocate imex session")
_REFERENCE = pattern(
    r"Failed to get (?:new memory reference with rc: \d+|export ref for UUID)", "failed to get ", of=("imex", "dra")
)
_CHANNEL = pattern(r"CUDA_ERROR_NOT_PERMITTED\b.{0,120}\bcuMemCreate\b", "cuda_error_not_permitted")

_DRA = "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/"
_SOURCE = "https://github.com/NVIDIA/k8s-dra-driver-gpu/tree/22407113/cmd/"
_INSTALL = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-intro-install.html"

RULES = (
    Rule(
        code="DRARootNotOnPCI",
        title="The DRA driver does not find the GPU's place on the PCIe bus",
        severity="failure",
        cause="The DRA driver cannot resolve the PCIe root of the GPU {address}. In this virtual machine the GPU hangs "
        "on a bus of the hypervisor (such as VMBUS on Azure), and this release of the DRA driver expects one below "
        "/sys/devices/pci. The GPU and its driver work.",
        remedy="Update the DRA driver: newer releases log this as a warning and leave out the attribute pcieRoot. "
        "Until then, offer the GPUs of these nodes through the device plugin (nvidia.com/gpu).",
        sources=(f"{_DRA}issues/575", f"{_SOURCE}gpu-kubelet-plugin/nvlib.go"),
        patterns=(_ROOT,),
    ),
    Rule(
        code="DRADriverRootWrong",
        title="The DRA driver looks for the GPU driver in the wrong place",
        severity="failure",
        cause="The DRA driver does not find {what}. It looks below its nvidiaDriverRoot, and the driver is not there: "
        "it belongs to the host and the root is that of a driver container, or the other way round, or no driver is "
        "installed.",
        remedy="Set nvidiaDriverRoot in the values of the chart nvidia-dra-driver-gpu: / for a driver on the host, "
        "/run/nvidia/driver for a driver container. If nvidia-smi fails on the host as well, look at the driver first.",
        sources=(_INSTALL, f"{_SOURCE}gpu-kubelet-plugin"),
        patterns=(_LIBRARIES,),
        certainty="likely",
    ),
    Rule(
        code="ResourceAPINotServed",
        title="The cluster does not serve the API of ResourceClaims",
        severity="failure",
        cause="The API server does not serve resource.k8s.io in the version that the DRA driver asks for. Dynamic "
        "resource allocation is off, or Kubernetes is too old for this release of the DRA driver.",
        remedy="Run kubectl api-versions | grep resource.k8s.io. Kubernetes serves resource.k8s.io/v1 from 1.34 on; in "
        "1.32 and 1.33 the API server needs --feature-gates=DynamicResourceAllocation=true and --runtime-config for "
        "the beta version.",
        sources=(_INSTALL, "https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/"),
        patterns=_NOT_SERVED,
    ),
    Rule(
        code="DRAPluginNotRegistered",
        title="A node has no DRA driver for a claim",
        severity="failure",
        cause="The kubelet knows no DRA plugin {driver} on the node of the pod. The plugin's pod does not run there, "
        "fails, or has not registered yet.",
        remedy="Read the log of the node's pod nvidia-dra-driver-gpu-kubelet-plugin (kubectl get pods -A -o wide). The "
        "container gpus serves gpu.nvidia.com, and compute-domains serves compute-domain.nvidia.com.",
        sources=(_INSTALL, "https://github.com/kubernetes/kubernetes/tree/master/pkg/kubelet/cm/dra"),
        patterns=_NOT_REGISTERED,
        certainty="likely",
    ),
    Rule(
        code="FabricCliquesDiffer",
        title="GPUs of one node belong to different NVLink fabrics",
        severity="failure",
        cause="The GPUs of the node report different {what}, so it cannot be in a ComputeDomain. The NVLink fabric is "
        "not complete, or some GPUs have not joined it.",
        remedy="Run nvidia-smi -q | grep -A 6 Fabric on the node: all GPUs must show State Completed and one "
        "ClusterUUID. If not, look at the fabric manager of the switch trays, and at NVLink errors.",
        sources=(f"{_SOURCE}compute-domain-kubelet-plugin", _INSTALL),
        patterns=(_CLIQUES,),
        certainty="likely",
    ),
    Rule(
        code="ComputeDomainNotReady",
        title="A ComputeDomain is not ready",
        severity="warning",
        cause="A pod waits for its ComputeDomain: {why}. The IMEX daemons of its nodes have not all found each other.",
        remedy="Run kubectl get computedomains -A -o yaml for the nodes that are not ready, and read the logs of their "
        "pods of the compute-domain daemon: they run nvidia-imex. All nodes need the same driver, and TCP ports that "
        "reach each other.",
        sources=(
            f"{_SOURCE}compute-domain-kubelet-plugin",
            "https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/",
        ),
        patterns=_DOMAIN,
        certainty="likely",
    ),
    Rule(
        code="IMEXSessionInUse",
        title="The host runs IMEX itself",
        severity="failure",
        cause="The driver of a node has one IMEX session, and the service nvidia-imex of the host holds it. So the "
        "daemon of a ComputeDomain gets none, and the domain is never ready.",
        remedy="On nodes with ComputeDomains, run systemctl disable --now nvidia-imex, after jobs that use the "
        "host's domain have ended. Then delete the pod of the daemon.",
        sources=(
            "https://github.com/NVIDIA/aicr/pull/2520",
            "https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/",
        ),
        patterns=(_SESSION,),
        certainty="likely",
        explains=frozenset({"ComputeDomainNotReady"}),
    ),
    Rule(
        code="IMEXEnsembleChanged",
        title="IMEX cannot hand memory to another node",
        severity="warning",
        cause="An IMEX daemon has no valid reference to memory of another node. Usually a daemon of the domain was "
        "started again under running jobs, or the job began before all daemons were ready.",
        remedy="Run nvidia-imex-ctl -N in a daemon of the domain: all nodes must be READY. Then start all pods of the "
        "job again. If it happens often, update the DRA driver.",
        sources=(f"{_DRA}issues/948",),
        patterns=(_REFERENCE,),
        certainty="possible",
    ),
    Rule(
        code="IMEXChannelMissing",
        title="A program may not share GPU memory between nodes",
        severity="failure",
        cause="The program allocates memory for other nodes (a fabric handle), and the driver refuses: the container "
        "has no IMEX channel, or the machine has no NVLink between nodes at all.",
        remedy="Run nvidia-smi -q | grep -A 6 Fabric, and ls /dev/nvidia-caps-imex-channels in the container. With "
        "NVLink between nodes, give the pod a ComputeDomain; without it, this program does not work over nodes.",
        sources=(
            "https://github.com/NVIDIA/nvbandwidth/issues/39",
            "https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/",
        ),
        patterns=(_CHANNEL,),
        certainty="possible",
    ),
)
