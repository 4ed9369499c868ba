# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Pods that the kubelet refuses after they were placed: devices that are lost, unhealthy or taken."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern

_DOCS = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/"

_LOST = pattern(
    r"GetPreferredAllocation rpc failed.{0,300}?(?:nvml: GPU is lost|unable to get device link information)",
    "getpreferredallocation rpc failed",
)

_UNHEALTHY = pattern(
    r"no healthy devices present; cannot allocate unhealthy devices (?P<resource>nvidia\.com/[\w.-]+)",
    "cannot allocate unhealthy devices",
)

_UNREGISTERED = pattern(
    r"can't allocate unregistered device (?P<resource>nvidia\.com/[\w.-]+)", "allocate unregistered device"
)

_UNAVAILABLE_DEVICES = pattern(
    r"requested number of devices unavailable for (?P<resource>nvidia\.com/[\w.-]+)\. Requested: ?(?P<asked>\d+), "
    r"Available: ?(?P<left>\d+)",
    "requested number of devices unavailable",
)

_OUT_OF = pattern(
    r"\bOutOf(?P<resource>nvidia\.com/[\w.-]+)|Node didn't have enough resource: (?P<other>nvidia\.com/[\w.-]+)",
    "nvidia.com/",
)

_SHARES = pattern(
    r"maximum request size for shared resources is 1; found (?P<number>\d+)", "maximum request size for shared"
)

_RESTARTED = (
    "Look at the age of the device plugin's pod on that node (`kubectl get pods -o wide`), and at when the kubelet "
    "started (`systemctl status kubelet`). If one of them started only minutes before the refusal, that restart is the "
    "cause. If both are older, two programs disagree about which devices are free."
)

_KUBELET = "https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/cm/devicemanager/manager.go"

RULES = (
    Rule(
        code="LostGPUBlocksAdmission",
        title="One lost GPU blocks all pods of its node",
        severity="failure",
        cause="A GPU of the node is lost. The device plugin then fails for all GPUs, so the kubelet refuses each pod "
        "that asks for one (UnexpectedAdmissionError), although other GPUs are free.",
        remedy="Run `kubectl cordon <node>` now, because controllers create new pods without end. Then drain the node "
        "and reboot it. If the GPU does not come back, have it repaired.",
        sources=(
            "https://github.com/NVIDIA/k8s-device-plugin/issues/2038",
            "https://github.com/NVIDIA/k8s-device-plugin/issues/231",
        ),
        patterns=(_LOST,),
        explains=frozenset({"UnhealthyGPUs"}),
    ),
    Rule(
        code="NoHealthyGPUForPod",
        title="The kubelet had no healthy GPU for a pod",
        severity="warning",
        cause="When the pod arrived on the node, the device plugin had no healthy {resource}. It was restarting, or it "
        "had marked all devices as unhealthy. The kubelet does not try again.",
        remedy="Delete the failed pod. If it happens again, read the log of the device plugin's pod on that node.",
        sources=(_KUBELET, "https://github.com/openshift/instaslice-operator/issues/140"),
        patterns=(_UNHEALTHY,),
        unlike={"DevicesTakenForPod": _RESTARTED},
    ),
    Rule(
        code="DevicePluginForgotten",
        title="The kubelet does not know the device plugin",
        severity="warning",
        cause="The kubelet has restarted, and the device plugin has not registered {resource} with it since.",
        remedy="Wait a minute. If pods are still refused, delete the device plugin's pod of that node: its DaemonSet "
        "creates a new one.",
        sources=(_KUBELET,),
        patterns=(_UNREGISTERED,),
        explains=frozenset({"NoAllocatableGPUs"}),
        unlike={"DevicesTakenForPod": _RESTARTED},
    ),
    Rule(
        code="DevicesTakenForPod",
        title="The kubelet and the scheduler disagree about free GPUs",
        severity="warning",
        cause="The scheduler placed a pod that asks for {asked} {resource}, and the kubelet had {left} left. Either a "
        "pod that is ending still held its devices, or two device plugins or schedulers count separately.",
        remedy="Delete the failed pod. If it happens again, look for a second device plugin or GPU scheduler with "
        "`kubectl get daemonsets,deployments -A`, and remove one of the two.",
        sources=(
            "https://github.com/kubernetes/kubernetes/issues/130145",
            "https://github.com/Project-HAMi/HAMi/issues/596",
        ),
        patterns=(_UNAVAILABLE_DEVICES,),
        certainty="possible",
        unlike=dict.fromkeys(("NoHealthyGPUForPod", "DevicePluginForgotten", "GPUsNotYetThereForPod"), _RESTARTED),
    ),
    Rule(
        code="GPUsNotYetThereForPod",
        title="The kubelet had fewer GPUs than the scheduler thought",
        severity="warning",
        cause="When the pod arrived, its node did not offer enough GPUs. This happens after a restart of the node, "
        "before the device plugin has registered. The kubelet does not try again.",
        remedy="Delete the failed pod. If a controller owns it, the controller has already created another one.",
        sources=("https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/lifecycle/predicate.go",),
        patterns=(_OUT_OF,),
        unlike={"DevicesTakenForPod": _RESTARTED},
    ),
    Rule(
        code="PodAsksForSeveralShares",
        title="A pod asks for several shares of a GPU",
        severity="warning",
        cause="The pod asks for {number} shares of GPUs, and the device plugin's configuration allows only one "
        "(failRequestsGreaterThanOne). Several shares would not give the pod more of a GPU.",
        remedy="Ask for 1 in the pod's limits. A pod that needs more must ask for whole GPUs on nodes without sharing.",
        sources=(
            "https://github.com/NVIDIA/k8s-device-plugin/blob/main/internal/rm/rm.go",
            f"{_DOCS}gpu-sharing.html",
        ),
        patterns=(_SHARES,),
    ),
)
