# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The DRA driver for GPUs itself: what keeps its plugin from starting, and from publishing what a node has."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern

_GATE_UNKNOWN = (
    pattern(
        r"environment variable \\?\"FEATURE_GATES\\?\".{0,80}unrecognized feature gate: (?P<gate>\w+)",
        "unrecognized feature gate",
    ),
    pattern(
        r"^(?!.*FEATURE_GATES).*unrecognized feature gate: (?P<gate>\w+)", "unrecognized feature gate", of=("dra",)
    ),
)
_GATES_CONFLICT = (
    pattern(
        r"feature gate (?P<gate>\w+) (?P<relation>is currently mutually exclusive with|requires) (?P<other>\w+)",
        "feature gate ",
    ),
    pattern(
        r"(?P<gate>--consumable-shares) (?P<relation>requires) feature gate (?P<other>\w+) to be enabled",
        "--consumable-shares requires",
    ),
    pattern(
        r"(?P<gate>imex\.mode=\S{1,30}) (?P<relation>requires) the (?P<other>\w+) feature gate to be enabled",
        "imex.mode=",
    ),
)
_ROOT_OFF_PCI = pattern(
    r"^(?!.*continuing without attribute).*symlink target for PCI Bus ID "
    r"(?P<address>[\da-f:.]+) is invalid: it must start with /sys/devices/pci",
    "symlink target for pci bus id",
)
_LIBRARIES = (
    pattern(r"failed to locate (?:driver libraries|nvidia-smi)", "failed to locate ", of=("dra", "toolkit")),
    pattern(
        r"(?:Check failed\.|nvidia-smi failed \(see error above\)\.|Could not find 'nvidia-smi'\.) Has the NVIDIA "
        r"GPU driver been set up\?",
        "gpu driver been set up",
    ),
    pattern(r"/driver-root \(.{1,80} on host\): nvidia-smi: not found", "/driver-root ("),
)
_NOT_SERVED = (
    pattern(r"no matches for kind \\?\"(?:ResourceSlice|DeviceClass|ResourceClaim\w*)\\?\"", "no matches for kind"),
    pattern(r"resource\.k8s\.io DeviceClass API is not served", "deviceclass api is not served"),
    pattern(
        r"failed to list \*v1\w*\.(?:ResourceSlice|ResourceClaim|DeviceClass): the server could not find",
        "the server could not find",
    ),
    pattern(r"No supported resource\.k8s\.io API version found in the cluster", "no supported resource.k8s.io api"),
)
_OLD_KUBELET = pattern(
    r"failed to fetch ResourceClaim \S+ referenced by pod \S+: the server could not find the requested resource",
    "failed to fetch resourceclaim",
)
_NO_HANDLER = pattern(r"no handler registered for plugin type: DRAPlugin", "no handler registered for plugin type: dra")
_OLD_DRIVER = pattern(
    r"(?P<feature>IMEXDaemonsWithDNSNames) feature requires (?:GPU )?driver version >= (?P<wanted>[\d.]+), but found "
    r"(?P<found>[\d.]+)",
    "feature requires",
)
_SLICE_REFUSED = pattern(
    r"resourceslices\.resource\.k8s\.io.{0,300}ValidatingAdmissionPolicy '(?P<policy>[\w./-]+)'.{0,300}denied request: "
    r"(?P<why>[^\"]{1,160})",
    "validatingadmissionpolicy",
)
_SLICE_INVALID = pattern(
    r"(?:create|update) resource slice: .{0,200}is invalid: \[?(?P<why>[^\"]{1,120})", " resource slice: "
)
_FORBIDDEN = pattern(
    r"User \\?\"system:serviceaccount:(?P<account>[\w:.-]+)\\?\" cannot (?P<verb>\w+) resource \\?\""
    r"(?P<kind>resourceslices|resourceclaims|resourceclaimtemplates|deviceclasses|computedomain\w*)\\?\"",
    "system:serviceaccount:",
)
_DROPPED = pattern(
    r"some fields were dropped by the apiserver, probably because these features are disabled: (?P<gates>[\w ]{1,200})",
    "some fields were dropped by the apiserver",
)
_CHECKPOINT = tuple(
    pattern(words, words, of=("dra",))
    for words in (
        "checkpoint is corrupted",
        "checkpoint failed checksum verification",
        "error verifying checksum for",
    )
)
_NO_IOMMU = pattern(r"IOMMU is not enabled in the kernel", "iommu is not enabled in the kernel")
_NO_PARTITIONS = pattern(
    r"FabricManagerPartitioning enabled but (?P<why>[^\":]{1,100})", "fabricmanagerpartitioning enabled"
)
_OVERRIDE = pattern(
    r"when 'resources\.gpus\.enabled=true' this DRA driver cannot be deployed alongside the standard GPU device plugin",
    "this dra driver cannot be deployed alongside",
)
_NO_CDI = pattern(r"CDI container edits did not apply -- is CDI enabled", "cdi container edits did not apply")

_DRA = "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/"
_SOURCE = f"{_DRA}tree/95932046/"
_GATES = f"{_SOURCE}site/content/docs/reference/feature-gates.md"
_INSTALL = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-intro-install.html"
_KUBERNETES = "https://github.com/kubernetes/kubernetes/tree/v1.36.3/"

_WHERE_GATES = "Gates stand in spec.draDriver.featureGates of the GPUCluster, or in featureGates of the chart's values."

_STOPS_PLUGIN = frozenset({"DRAPluginNotRegistered"})
"""What follows where the plugin of a node does not start."""

RULES = (
    Rule(
        code="DRAGateUnknown",
        title="A component of the DRA driver does not know a feature gate",
        severity="failure",
        cause="The gate {gate} is misspelt, or it is one of another release than that of the container that got it. "
        "The container ends, and starts again without end.",
        remedy=f"Compare {{gate}} with the gates of the release. {_WHERE_GATES} If the name is right, "
        "bring the plugin, the controller and the daemons to one release.",
        sources=(f"{_DRA}issues/724", _GATES),
        patterns=_GATE_UNKNOWN,
        explains=_STOPS_PLUGIN,
    ),
    Rule(
        code="DRAGatesConflict",
        title="Feature gates of the DRA driver do not go together",
        severity="failure",
        cause="The DRA driver does not start: {gate} {relation} {other}.",
        remedy=f"Change one of the two. {_WHERE_GATES}",
        sources=(f"{_SOURCE}pkg/featuregates/featuregates.go", _GATES),
        patterns=_GATES_CONFLICT,
        explains=_STOPS_PLUGIN,
    ),
    Rule(
        code="DRARootNotOnPCI",
        title="The DRA driver does not find the GPU's place on the PCIe bus",
        severity="failure",
        cause="The DRA driver cannot resolve the PCIe root of the GPU {address}. In this virtual machine the GPU hangs "
        "on a bus of the hypervisor (such as VMBUS on Azure), and this release of the DRA driver expects one below "
        "/sys/devices/pci. The GPU and its driver work.",
        remedy="Update the DRA driver: newer releases log this as a warning and leave out the attribute pcieRoot. "
        "Until then, offer the GPUs of these nodes through the device plugin (nvidia.com/gpu).",
        sources=(f"{_DRA}issues/575", f"{_SOURCE}cmd/gpu-kubelet-plugin/nvlib.go"),
        patterns=(_ROOT_OFF_PCI,),
        explains=_STOPS_PLUGIN,
    ),
    Rule(
        code="DRADriverRootWrong",
        title="The DRA driver looks for the GPU driver in the wrong place",
        severity="failure",
        cause="The DRA driver does not find the driver's libraries and nvidia-smi. It looks below its "
        "nvidiaDriverRoot, and the driver is not there: it belongs to the host and the root is that of a driver "
        "container, or the other way round, or no driver is installed.",
        remedy="Set nvidiaDriverRoot in the values of the DRA driver's chart: / for a driver on the host, "
        "/run/nvidia/driver for a driver container. If nvidia-smi fails on the host as well, look at the driver first.",
        sources=(_INSTALL, f"{_DRA}pull/389", f"{_SOURCE}hack/kubelet-plugin-prestart.sh"),
        patterns=_LIBRARIES,
        certainty="likely",
        explains=_STOPS_PLUGIN | {"ValidatorKnowsNoDriver"},
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
        explains=_STOPS_PLUGIN,
    ),
    Rule(
        code="KubeletAsksOldClaimAPI",
        title="A kubelet asks for a version of ResourceClaims that the API server does not serve",
        severity="failure",
        cause="The kubelet of the node cannot read ResourceClaims, though they exist. It is older than the API server: "
        "kubelets before 1.34 ask for a beta version, and an API server of 1.34 serves only v1 unless it was told "
        "more.",
        remedy="Compare kubectl get nodes with kubectl version, and bring the kubelet to the API server's release. "
        "Until then, the API server needs --runtime-config=resource.k8s.io/v1beta1=true.",
        sources=(f"{_DRA}issues/766", f"{_KUBERNETES}pkg/kubelet/cm/dra"),
        patterns=(_OLD_KUBELET,),
        certainty="likely",
    ),
    Rule(
        code="KubeletWithoutDRA",
        title="A kubelet does not take DRA drivers",
        severity="failure",
        cause="The kubelet has no handler for DRA drivers, so the plugin of the node is never registered. Its feature "
        "gate DynamicResourceAllocation is off.",
        remedy="Set featureGates.DynamicResourceAllocation: true in the kubelet's configuration, and restart the "
        "kubelet. From Kubernetes 1.34 on, it is on by itself.",
        sources=("https://github.com/kubernetes/kubernetes/issues/124962", f"{_KUBERNETES}pkg/kubelet/pluginmanager"),
        patterns=(_NO_HANDLER,),
        explains=_STOPS_PLUGIN,
    ),
    Rule(
        code="DRANeedsNewerDriver",
        title="The GPU driver is too old for a feature of the DRA driver",
        severity="failure",
        cause="The plugin for ComputeDomains needs the GPU driver {wanted} for {feature}, and the node has {found}.",
        remedy="Update the GPU driver (playbooks/upgrade_driver.yml). Until then, set featureGates.{feature}=false, "
        "together with featureGates.ComputeDomainCliques=false, which needs it.",
        sources=(f"{_DRA}pull/611", f"{_SOURCE}cmd/compute-domain-kubelet-plugin/device_state.go", _GATES),
        patterns=(_OLD_DRIVER,),
        explains=_STOPS_PLUGIN,
    ),
    Rule(
        code="ResourceSliceRefused",
        title="An admission policy refuses the ResourceSlices of the DRA driver",
        severity="failure",
        cause="The policy {policy} lets each plugin write slices of its own node only, and refused one: {why}. So the "
        "scheduler does not see what the node has.",
        remedy="Compare the service account and the node in the message with the policy (kubectl get "
        "validatingadmissionpolicies {policy} -o yaml). A policy of another release, or of a second installation of "
        "the DRA driver, must go.",
        sources=(f"{_DRA}pull/219", f"{_DRA}pull/1318"),
        patterns=(_SLICE_REFUSED,),
    ),
    Rule(
        code="ResourceSliceInvalid",
        title="The API server refuses a ResourceSlice as invalid",
        severity="failure",
        cause="A DRA driver has built a ResourceSlice that Kubernetes does not take: {why}. So the scheduler does not "
        "see these devices.",
        remedy="Compare the release of the DRA driver with the Kubernetes releases that it supports, and update it. "
        "With DynamicMIG or ConsumableShares, the feature gates of the cluster must be on as well.",
        sources=("https://github.com/kubernetes-sigs/dra-driver-cpu/pull/217", f"{_DRA}issues/1092"),
        patterns=(_SLICE_INVALID,),
    ),
    Rule(
        code="DRALacksPermission",
        title="A component may not read or write the objects of claims",
        severity="failure",
        cause="The service account {account} may not {verb} {kind}. Its ClusterRole is of another release, or was "
        "changed.",
        remedy="Apply the chart of the component's own release again. kubectl auth can-i {verb} {kind} "
        "--as=system:serviceaccount:{account} shows whether it helped.",
        sources=("https://kubernetes.io/docs/reference/access-authn-authz/rbac/", f"{_SOURCE}deployments/helm"),
        patterns=(_FORBIDDEN,),
    ),
    Rule(
        code="ClusterLacksDRAGate",
        title="The cluster drops what the DRA driver publishes",
        severity="failure",
        cause="The API server drops fields of the driver's ResourceSlices, because feature gates of the cluster are "
        "off: {gates}. Devices that need them are not offered as they are, and device taints have no effect.",
        remedy="Turn on {gates} with --feature-gates on the API server, the scheduler and the controller manager. From "
        "Kubernetes 1.36 on, DRAPartitionableDevices, DRAConsumableCapacity and DRADeviceTaints are on by themselves.",
        sources=(
            f"{_KUBERNETES}staging/src/k8s.io/dynamic-resource-allocation/resourceslice/resourceslicecontroller.go",
            "https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/",
        ),
        patterns=(_DROPPED,),
        certainty="likely",
    ),
    Rule(
        code="DRACheckpointUnreadable",
        title="The DRA driver cannot read its own checkpoint",
        severity="failure",
        cause="The file in which the plugin notes prepared claims does not match its checksum. Usually an older "
        "release reads what a newer one has written: from 0.4.0 on, there is no way back to 25.12.",
        remedy="Bring back the newer release. If the file is damaged, drain the node, stop the plugin, move "
        "checkpoint.json below /var/lib/kubelet/plugins/gpu.nvidia.com (or compute-domain.nvidia.com) away, and start "
        "the plugin again.",
        sources=(f"{_SOURCE}site/content/docs/upgrade.md", f"{_SOURCE}cmd/gpu-kubelet-plugin/device_state.go"),
        patterns=_CHECKPOINT,
        certainty="likely",
        explains=_STOPS_PLUGIN,
    ),
    Rule(
        code="DRAPassthroughWithoutIOMMU",
        title="The IOMMU is off, and the DRA driver shall pass GPUs through",
        severity="failure",
        cause="The feature gate PassthroughSupport is on, and the kernel of the node has no IOMMU. The plugin does not "
        "start, so it offers no GPU of the node at all.",
        remedy="Turn the IOMMU on (VT-d or AMD-Vi in the firmware, intel_iommu=on or amd_iommu=on for the kernel) and "
        "reboot the node, or turn the gate off.",
        sources=(f"{_SOURCE}cmd/gpu-kubelet-plugin/vfio-device.go", _GATES),
        patterns=(_NO_IOMMU,),
        explains=_STOPS_PLUGIN,
    ),
    Rule(
        code="DRAWithoutFabricManager",
        title="The DRA driver shall use partitions of a fabric manager that it does not reach",
        severity="failure",
        cause="The feature gate FabricManagerPartitioning is on, and: {why}. The plugin does not start.",
        remedy="Run systemctl status nvidia-fabricmanager on the node. It must run with FABRIC_MODE=1 in "
        "fabricmanager.cfg. On nodes without NVSwitches, turn the gate off.",
        sources=(f"{_SOURCE}cmd/gpu-kubelet-plugin/device_state.go", f"{_DRA}pull/1281"),
        patterns=(_NO_PARTITIONS,),
        explains=_STOPS_PLUGIN,
    ),
    Rule(
        code="DRABesideDevicePlugin",
        title="The DRA driver wants a word before it offers GPUs",
        severity="failure",
        cause="The chart does not install the plugin for GPUs unless someone says that no device plugin offers the "
        "same GPUs: both together give one GPU out twice.",
        remedy="Turn the device plugin off on these nodes (devicePlugin.enabled: false in operator_values), and set "
        "gpuResourcesEnabledOverride=true. For ComputeDomains alone, set resources.gpus.enabled=false instead.",
        sources=(f"{_SOURCE}deployments/helm/dra-driver-nvidia-gpu/templates/validation.yaml", _INSTALL),
        patterns=(_OVERRIDE,),
    ),
    Rule(
        code="CDIOffForDRA",
        title="The container runtime has CDI off",
        severity="failure",
        cause="The container did not get what the DRA driver has prepared for it, because its runtime ignores CDI "
        "devices. containerd before 2.0 has CDI off unless it is turned on.",
        remedy="Set enable_cdi = true in the section of the CRI plugin in /etc/containerd/config.toml, and restart "
        "containerd (this interrupts the start of pods). The operator's toolkit does so with cdi.enabled: true. Then "
        "delete the pod.",
        sources=(f"{_SOURCE}cmd/compute-domain-daemon/main.go", f"{_SOURCE}site/content/docs/prerequisites.md"),
        patterns=(_NO_CDI,),
        certainty="likely",
    ),
)
