# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Pods that ask for GPUs by ResourceClaim: who gets none, whose claim is not prepared, and which claim stays."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import claimed_pools, matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_NOT_REGISTERED = (
    pattern(
        r"plugin name (?P<driver>[\w.-]+) not found in the list of registered DRA plugins",
        "list of registered dra plugins",
    ),
    pattern(r"DRA driver (?P<driver>[\w.-]+) is not registered", "is not registered"),
)
_CONFIG = (
    pattern(r"error decoding config parameters: (?P<why>[^,]{1,200})", "error decoding config parameters"),
    pattern(
        r"error (?:normalizing|validating) (?:GPU )?config(?: at [\w.\[\]]+)?: (?P<why>[^,]{1,200})",
        " config",
        of=("dra",),
    ),
    pattern(r"object at [\w.\[\]]+ is invalid: (?P<why>.{1,200})", "is invalid", of=("dra",)),
    pattern(
        r"(?P<why>cannot apply (?:Gpu|MigDevice|VfioDevice|ComputeDomain\w*)Config to (?:device|request)[^(]{1,120})",
        "cannot apply ",
    ),
    pattern(r"(?P<why>only opaque parameters are supported by this driver)", "only opaque parameters are supported"),
)
_SHARING = pattern(
    r"\\?\"(?P<strategy>\w+)\\?\" is selected as the GPU sharing strategy, but the \\?\"(?P<gate>\w+)\\?\" feature "
    r"gate is not enabled",
    "is selected as the gpu sharing strategy",
)
_HELD = (
    pattern(
        r"requested device (?P<device>\S+) is already allocated to different claim (?P<claim>[\w-]+)",
        "is already allocated to different claim",
    ),
    pattern(
        r"(?P<device>channel \d+) already allocated by claim (?P<claim>[\w-]+) \(according to checkpoint\)",
        "already allocated by claim",
    ),
    pattern(
        r"requested device (?P<device>\S+) has conflicting configuration with already prepared claim (?P<claim>\S+)",
        "has conflicting configuration with already prepared claim",
    ),
)
_GONE = (
    pattern(r"requested device is not allocatable:(?: (?P<device>[\w.-]+))?", "requested device is not allocatable"),
    pattern(r"allocatable not found for (?:vfio )?device \\?\"(?P<device>[\w.-]+)", "allocatable not found for "),
)
_MIG = pattern(r"error creating MIG device: (?P<why>[^\"]{1,200})", "error creating mig device")
_MIG_FOREIGN = pattern(r"MIG devices found that aren't prepared to any claim", "mig devices found that aren't prepared")
_MIG_UNKNOWN = pattern(
    r"Called nvml\.SetMigMode\(.{0,140} got activationStatus: Not Supported", "got activationstatus: not supported"
)
_MPS = (
    pattern(r"(?:error starting|error stopping) MPS control daemon", "mps control daemon", of=("dra",)),
    pattern(r"MPS control daemon is not yet ready", "mps control daemon is not yet ready"),
    pattern(r"chroot: can't execute 'sh'", "chroot: can't execute 'sh'"),
    pattern(r"CUDA_MPS_PIPE_DIRECTORY must be set to start", "cuda_mps_pipe_directory must be set"),
)
_HANDOVER = (
    pattern(
        r"gpu device \\?\"(?P<gpu>[^\"\\]+)\\?\" has open fds by process\(es\)",
        "has open fds by process",
    ),
    pattern(r"error waiting for GPU \\?\"(?P<gpu>[^\"\\]+)\\?\" to be free", "error waiting for gpu "),
)
_NO_VFIO = pattern(
    r"error binding GPU \\?\"(?P<gpu>[^\"\\]+)\\?\" to driver \\?\"(?P<name>[\w-]+)\\?\".{0,300}no such file or "
    r"directory",
    "error binding gpu ",
)
_PARTITION = pattern(
    r"GPU module set (?P<modules>\[[\d ]*\]) does not match any FM partition", "does not match any fm partition"
)
_NOT_RESERVED = pattern(r"is not allowed to use resource ?claim (?P<claim>[\w.-]+)", "is not allowed to use resource")
_UNPREPARE = (
    pattern(r"unprepare dynamic resources: (?P<why>[^,]{1,200})", "unprepare dynamic resources"),
    pattern(r"error unpreparing devices for claim (?P<why>[^,]{1,200})", "error unpreparing devices for claim"),
)
_FORCED = pattern(
    r"old ResourceClaim with same name (?P<claim>\S+) and different UID \S+ still exists",
    "old resourceclaim with same name",
)
_CDI = pattern(r"unresolvable CDI devices (?P<device>k8s\.[\w.-]*nvidia\.com/\w+=[\w.-]+)", "unresolvable cdi devices")
_LEFT = pattern(r" deleted,allocated(?:,reserved)? ", "deleted,allocated")

LONG_S = 300.0
"""How long a deletion may take. A pod has 30 seconds to end, and the kubelet tries again every few."""

_DRA = "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/"
_SOURCE = f"{_DRA}tree/95932046/"
_GPUS = f"{_SOURCE}cmd/gpu-kubelet-plugin/device_state.go"
_GATES = f"{_SOURCE}site/content/docs/reference/feature-gates.md"
_INSTALL = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-intro-install.html"
_KUBERNETES = "https://github.com/kubernetes/kubernetes/tree/v1.36.3/"
_KUBELET = f"{_KUBERNETES}pkg/kubelet/cm/dra"
_DOCS = "https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/"

_ANEW = "Then delete the pod and, if a template has made it, its claim goes along: the next pod gets a new one"


def _not_released(view: View) -> t.Iterator[Sighting]:
    for hit in view.hits(_LEFT):
        yield matches.sighting(hit, "likely")
    for held in view.once(claimed_pools.held):
        deleted_at = held.claim.deleted_at
        if deleted_at and objects.timestamp(view.evidence.taken) - objects.timestamp(deleted_at) > LONG_S:
            text = f"deleted at {deleted_at}, allocated on {held.node}, reserved for {held.claim.users}"
            quote = matches.fact(text, f"claim {held.name}", held.node)
            yield Sighting(held.node, f"claim {held.name}", quote, "certain")


RULES = (
    Rule(
        code="DRAPluginNotRegistered",
        title="A node has no DRA driver for a claim",
        severity="failure",
        cause="The kubelet knows no DRA plugin {driver} on the node of the pod. The plugin's pod does not run there, "
        "fails, or has not registered yet. A pod that ends stays in Terminating until the plugin is back.",
        remedy="Read the log of the node's pod whose name contains dra-driver and kubelet-plugin (kubectl get pods -A "
        "-o wide). The container gpus serves gpu.nvidia.com, and compute-domains serves compute-domain.nvidia.com.",
        sources=(_INSTALL, _KUBELET),
        patterns=_NOT_REGISTERED,
        certainty="likely",
        explains=frozenset({"ClaimNotUnprepared"}),
    ),
    Rule(
        code="ClaimConfigRefused",
        title="The DRA driver does not accept the configuration of a claim",
        severity="failure",
        cause="The opaque configuration of the claim is not one that this release of the DRA driver takes: {why}. The "
        "API server accepts any, so this shows only when the pod starts, or when it ends.",
        remedy="Correct config.opaque.parameters in the ResourceClaimTemplate or the DeviceClass, by the API reference "
        "of "
        f"the release that runs. {_ANEW}. If the driver was replaced by an older release, bring the newer one back.",
        sources=(f"{_DRA}pull/576", f"{_DRA}pull/598", f"{_SOURCE}site/content/docs/reference/api.md"),
        patterns=_CONFIG,
        explains=frozenset({"ClaimNotUnprepared"}),
    ),
    Rule(
        code="ClaimSharingGateOff",
        title="A claim asks for a sharing that the DRA driver has off",
        severity="failure",
        cause="The claim asks for {strategy}, and the feature gate {gate} of the DRA driver is off.",
        remedy="Turn {gate} on: in spec.draDriver.featureGates of the GPUCluster, or in featureGates of the chart's "
        "values. MPSSupport does not go together with DynamicMIG and NVMLDeviceHealthCheck. Or take the sharing out of "
        "the claim.",
        sources=(f"{_SOURCE}api/nvidia.com/resource/v1beta1/validate.go", _GATES),
        patterns=(_SHARING,),
        explains=frozenset({"ClaimConfigRefused", "ClaimNotUnprepared"}),
    ),
    Rule(
        code="DeviceHeldByOldClaim",
        title="The plugin still holds a device for another claim",
        severity="failure",
        cause="The checkpoint of the DRA driver on this node gives {device} to the claim {claim}. The scheduler sees "
        "the device free, so the pod of that claim is gone, and its preparation was not undone.",
        remedy="Look for the claim: kubectl get resourceclaims -A -o yaml | grep {claim}. If a pod still uses it, wait "
        "for it. If it is gone, update the DRA driver, and drain and reboot the node: releases from 0.4.0 on begin a "
        "new checkpoint after a reboot.",
        sources=(f"{_DRA}issues/1162", f"{_DRA}issues/1278", f"{_DRA}pull/1066"),
        patterns=_HELD,
        certainty="likely",
    ),
    Rule(
        code="ClaimedDeviceGone",
        title="The plugin does not have the device that a claim was given",
        severity="failure",
        cause="The scheduler gave out a device ({device}) that the DRA driver of the node does not have: MIG instances "
        "or GPUs have changed since it published its ResourceSlices, or the claim was made before.",
        remedy="Compare kubectl get resourceslices -o yaml with nvidia-smi -L on the node. The plugin looks at the "
        "GPUs once: "
        f"delete its pod on this node after a change of MIG, which interrupts no running pod. {_ANEW}.",
        sources=(f"{_DRA}pull/435", _GPUS, f"{_SOURCE}site/content/docs/guides/gpu-allocation/mig.md"),
        patterns=_GONE,
        certainty="likely",
    ),
    Rule(
        code="ClaimMIGNotCreated",
        title="The DRA driver cannot create a MIG instance for a claim",
        severity="failure",
        cause="The driver refuses the instance: {why}. Usually instances that the DRA driver did not create take its "
        "place, or a process holds the GPU.",
        remedy="Run nvidia-smi mig -lgi on the node. With DynamicMIG, only the DRA driver may create and destroy "
        "instances: stop the MIG manager and nvidia-smi mig there. A100 needs MIG mode on before the plugin starts.",
        sources=(f"{_DRA}issues/35", f"{_SOURCE}site/content/docs/guides/gpu-allocation/mig.md"),
        patterns=(_MIG,),
        certainty="likely",
        explains=frozenset({"MIGLayoutDoesNotFit"}),
    ),
    Rule(
        code="DynamicMIGMeetsInstances",
        title="The DRA driver finds MIG instances that it did not create",
        severity="failure",
        cause="With dynamic MIG, the DRA driver alone creates instances, and the GPUs of the node have some already.",
        remedy="Drain the node. Stop the MIG manager there, delete the instances (nvidia-smi mig -dci && nvidia-smi "
        "mig -dgi), and start the plugin again. For instances that shall stay, turn DynamicMIG off: static MIG offers "
        "them.",
        sources=(f"{_DRA}issues/149", f"{_SOURCE}site/content/docs/guides/gpu-allocation/mig.md"),
        patterns=(_MIG_FOREIGN,),
    ),
    Rule(
        code="DynamicMIGWithoutMIG",
        title="Dynamic MIG is on for GPUs that have no MIG",
        severity="warning",
        cause="The feature gate DynamicMIG is on, and GPUs of the node cannot change their MIG mode. Releases before "
        "the change that looks first publish no device of such a node.",
        remedy="Update the DRA driver, which then offers whole GPUs there, or turn DynamicMIG off. kubectl get "
        "resourceslices shows whether the node offers devices.",
        sources=(f"{_DRA}issues/1092", f"{_DRA}pull/1113"),
        patterns=(_MIG_UNKNOWN,),
        certainty="likely",
    ),
    Rule(
        code="ClaimVFIODriverMissing",
        title="The kernel lacks the driver that the DRA driver binds a GPU to",
        severity="failure",
        cause="The GPU {gpu} shall be bound to {name}, and the kernel of the node has no such driver.",
        remedy="Run modprobe {name} on the node. On GB200, some releases take a wrong name: update the DRA driver.",
        sources=(f"{_DRA}issues/1268", f"{_DRA}issues/1042"),
        patterns=(_NO_VFIO,),
        certainty="likely",
    ),
    Rule(
        code="CDIOfClaimUnread",
        title="The container runtime does not find what the DRA driver has prepared",
        severity="failure",
        cause="The DRA driver has written a CDI specification for {device}, and the container runtime does not find "
        "it: it reads other directories (Talos), or a reboot has emptied /var/run/cdi since.",
        remedy="Compare cdi_spec_dirs in the runtime's configuration with the plugin's cdiRoot (/var/run/cdi). After a "
        "reboot, delete the pod, so that its claim is prepared again.",
        sources=(f"{_DRA}issues/736", "https://github.com/kubernetes/kubernetes/issues/141433"),
        patterns=(_CDI,),
        certainty="likely",
    ),
    Rule(
        code="ClaimMPSDaemonFails",
        title="The MPS daemon of a claim does not start",
        severity="failure",
        cause="The DRA driver starts an MPS daemon for each claim that shares a GPU so, and the claim's pods wait for "
        "it.",
        remedy="Read the log of the pod mps-control-daemon in the DRA driver's namespace. If it lacks a shell or "
        "CUDA_MPS_PIPE_DIRECTORY, update the DRA driver: this is a fault of it with a driver root other than /.",
        sources=(f"{_DRA}pull/889", f"{_DRA}pull/1143", f"{_SOURCE}cmd/gpu-kubelet-plugin/sharing.go"),
        patterns=_MPS,
        certainty="likely",
    ),
    Rule(
        code="GPUNotFreeForPassthrough",
        title="A GPU that a claim passes through is still in use",
        severity="failure",
        cause="The DRA driver cannot take the GPU {gpu} from the driver nvidia, because processes have it open.",
        remedy="Run fuser -v /dev/nvidia* on the node. Turn off what holds GPUs there: DCGM and its exporter, "
        "nvidia-persistenced, the device plugin, a display server. The kubelet tries again by itself.",
        sources=(
            f"{_SOURCE}cmd/gpu-kubelet-plugin/vfio-device.go",
            f"{_SOURCE}site/content/docs/guides/gpu-allocation/kubevirt-vfio-gpu-passthrough.md",
        ),
        patterns=_HANDOVER,
    ),
    Rule(
        code="ClaimFitsNoPartition",
        title="The GPUs of a claim are no partition of the fabric manager",
        severity="failure",
        cause="With FabricManagerPartitioning, the GPUs of a claim must be exactly one partition of the NVSwitch "
        "fabric, and the GPU modules {modules} are none.",
        remedy="Ask for GPUs of one partition: select them by the attributes of the ResourceSlices (matchAttribute on "
        "the partition of the wanted size), or turn the gate off.",
        sources=(_GPUS, f"{_DRA}pull/1281"),
        patterns=(_PARTITION,),
    ),
    Rule(
        code="ClaimNotReserved",
        title="A pod may not use its claim",
        severity="failure",
        cause="The claim {claim} is not reserved for the pod (status.reservedFor). The pod reached its node without "
        "the scheduler that allocates claims, or the claim was released meanwhile.",
        remedy="Leave spec.nodeName of the pod empty, and let a scheduler place it that knows claims. Then delete the "
        "pod, so that its controller makes a new one.",
        sources=("https://github.com/google/dranet/issues/30", _KUBELET),
        patterns=(_NOT_RESERVED,),
        certainty="likely",
    ),
    Rule(
        code="ClaimNotUnprepared",
        title="A pod stays in Terminating, because its claim cannot be released",
        severity="failure",
        cause="The kubelet asks the DRA driver to undo what it prepared for the claim, and that fails: {why}. The pod "
        "stays until it succeeds, and so does the claim.",
        remedy="Look whether the plugin's pod runs on the node, and read its log. If the claim object is gone, "
        "restarting the kubelet of the node ends it. Do not remove finalizers before: the GPU would stay as it is.",
        sources=("https://github.com/kubernetes/kubernetes/issues/139772", _KUBELET),
        patterns=_UNPREPARE,
        certainty="likely",
    ),
    Rule(
        code="ForcedPodHoldsClaim",
        title="A pod that was deleted by force still holds its claim on the node",
        severity="failure",
        cause="The node has prepared a claim {claim} whose object is gone, because its pod was deleted with --force. A "
        "new pod with a claim of the same name waits for that.",
        remedy="Wait for the kubelet to end the old pod's containers (crictl ps on the node). If it does not, restart "
        "the kubelet.",
        sources=(_KUBELET,),
        patterns=(_FORCED,),
    ),
    Rule(
        code="ClaimsNotReleased",
        title="Claims are deleted, and still allocated",
        severity="warning",
        cause="Claims wait for their finalizer: they are allocated, and reserved for pods that have not ended, or "
        "whose node or DRA plugin is gone. Their devices stay given out.",
        remedy="status.reservedFor of each claim names its pod (kubectl get resourceclaims -A -o yaml). Bring the "
        "node's DRA plugin back, and the pods end by themselves. A finalizer that is removed by hand leaves the device "
        "prepared.",
        sources=(f"{_DRA}issues/725", "https://github.com/NVIDIA/gpu-operator/pull/2571", _DOCS),
        check=_not_released,
        patterns=(_LEFT,),
    ),
)
