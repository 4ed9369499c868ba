# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Parts of the stack that do not fit each other: one is older than the GPU, or two settings exclude each other."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_NO_MEMORY = pattern(r"^(?!.*Ignoring ).*error getting device memory: Not Supported", "error getting device memory: ")
_NO_NAME = pattern(
    r"unable to get device name: \[?failed to find device with id '(?P<id>[0-9a-f]{4})'",
    "failed to find device with id",
)
_POLICY = pattern(r"ClusterPolicy validation failed: (?P<why>.{3,200}?)[\"\\]*,?$", "clusterpolicy validation failed: ")
_PORT = pattern(
    r"(?:cold|hot)_plug_vfio= ?(?:or (?:cold|hot)_plug_vfio= ?)?port is not set for device (?P<device>[\da-f:.]+)",
    "port is not set for device ",
)
_RENEWED = pattern(r"inotify: \S*/kubelet\.sock created, restarting", "kubelet.sock created, restarting")
_ENDED = pattern(
    r"ListAndWatch ended unexpectedly for device plugin.{0,300}\bresource=\"?(?P<resource>nvidia\.com/[\w.-]+)",
    "listandwatch ended unexpectedly",
)
_UNBOUND = pattern(
    r"Allocate failed due to .{0,60}\bno binding pod found on node (?P<node>[\w.-]+)", "no binding pod found"
)
_BWRAP = pattern(r"bwrap: Can't mount proc on \S+: Operation not permitted", "bwrap: can't mount proc")
_SIDECAR = pattern(
    r"\b(?P<container>nvidia-(?:fs|gdrcopy)-ctr)\b.{0,120}(?:CrashLoopBackOff|exit(?: code)? 127)", "-ctr"
)
_PACKAGE = pattern(
    r"package (?P<package>[\w.+:-]*nvidia[\w.+:-]*) .{0,80}requires (?P<wants>[\w.+-]*nvidia[\w.+-]* = \S+), but "
    r"none of the providers can be installed",
    "but none of the providers can be installed",
)


def _renewed(view: View) -> t.Iterator[Sighting]:
    """Yield the plugins that registered with a kubelet that had not finished its start."""
    renewed = {hit.line.node for hit in view.hits(_RENEWED)}
    for hit in view.hits(_ENDED):
        if hit.line.node in renewed:  # in the log of another program
            yield matches.sighting(hit, "likely")


RULES = (
    Rule(
        code="PluginOlderThanGPU",
        title="The device plugin is older than the GPU",
        severity="failure",
        cause="NVML does not tell the memory of a GPU that shares it with the CPU, such as GB10 (DGX Spark), and "
        "this release of the device plugin ends there. From v0.17.4 on the device plugin continues.",
        remedy="Run playbooks/upgrade_operator.yml to v25.10.0 or newer, or use the device plugin v0.17.4 or newer.",
        sources=("https://github.com/NVIDIA/gpu-operator/issues/1794",),
        patterns=(_NO_MEMORY,),
        explains=NOT_READY,
    ),
    Rule(
        code="MIGToolOlderThanGPU",
        title="nvidia-mig-parted does not know the GPU",
        severity="failure",
        cause="nvidia-mig-parted has no name for the device {id}: this release is older than the GPU. It then finds no "
        "profile that fits, may make no partition, and says that it has succeeded.",
        remedy="Run nvidia-smi mig -lgi on the node: it lists no partition. Use a newer nvidia-mig-parted: "
        "playbooks/upgrade_operator.yml, or a newer release of what brings its own.",
        sources=("https://github.com/Project-HAMi/HAMi/issues/2131",),
        patterns=(_NO_NAME,),
        certainty="likely",
    ),
    Rule(
        code="PolicyRefused",
        title="The operator refuses its configuration",
        severity="failure",
        cause="The operator has validated the ClusterPolicy and refuses it: {why}. It changes nothing until that is "
        "repaired.",
        remedy="Change the setting that the message names in operator_values, and run playbooks/site.yml. For the "
        "device plugin and the DRA driver: leave only one of them to offer GPUs.",
        sources=("https://github.com/NVIDIA/gpu-operator/pull/1541",),
        patterns=(_POLICY,),
        explains=NOT_READY,
    ),
    Rule(
        code="KataPortNotSet",
        title="Kata has no port for the GPU",
        severity="failure",
        cause="The configuration that the sandbox uses sets neither cold_plug_vfio nor hot_plug_vfio, so Kata has no "
        "port to plug the device {device} into.",
        remedy="Use a runtime class for GPUs (kata-qemu-nvidia-gpu), or set cold_plug_vfio to root-port in the "
        "configuration of the runtime class. kata-runtime env shows which file it reads: a drop-in or another file "
        "than the one that was changed may count.",
        sources=("https://github.com/kata-containers/kata-containers/issues/9014",),
        patterns=(_PORT,),
        certainty="likely",
    ),
    Rule(
        code="PluginRegisteredTooEarly",
        title="The device plugin and the kubelet started at the same moment",
        severity="failure",
        cause="The device plugin registered {resource} and started again when the kubelet made a new socket. The "
        "kubelet then ended the connection of the second registration together with the first one, so the node offers "
        "no GPU.",
        remedy="Run kubectl get node NODE -o jsonpath={{.status.allocatable}}. If it shows no GPU, delete the pod of "
        "the device plugin, or start its service again after the kubelet (systemctl restart "
        "nvidia-k8s-device-plugin). No running workload is interrupted.",
        sources=("https://github.com/bottlerocket-os/bottlerocket/issues/4250",),
        check=_renewed,
        patterns=(_ENDED, _RENEWED),
    ),
    Rule(
        code="NotBoundByItsScheduler",
        title="A scheduler for shared GPUs did not place the pod",
        severity="failure",
        cause="The device plugin of HAMi looks for the pod that its own scheduler has bound to the node, and finds "
        "none. The pod was placed by another scheduler: it has a nodeName, a privileged container, or its "
        "creation passed the webhook by.",
        remedy="Run kubectl get pod POD -o jsonpath={{.spec.schedulerName}}: it must be hami-scheduler. Remove "
        "nodeName and privileged from the pod, and see that the webhook of HAMi answers.",
        sources=(
            "https://github.com/Project-HAMi/HAMi/issues/710",
            "https://github.com/Project-HAMi/HAMi/issues/653",
        ),
        patterns=(_UNBOUND,),
        certainty="likely",
    ),
    Rule(
        code="NestedProcRefused",
        title="A sandbox in a GPU's container may not mount proc",
        severity="failure",
        cause="A program in the container makes a sandbox with a proc of its own, and the kernel refuses. The CDI hook "
        "disable-device-node-modification mounts a file over /proc/driver/nvidia/params, which is one reason; a pod "
        "without procMount: Unmasked is another.",
        remedy="Run grep /proc/ /proc/self/mountinfo in the container. If only /proc/driver/nvidia/params is there, "
        "the hook is the reason: write the CDI specification with nvidia-ctk cdi generate --disable-hook "
        "disable-device-node-modification. Otherwise set procMount: Unmasked in the pod.",
        sources=("https://github.com/NVIDIA/nvidia-container-toolkit/pull/1833",),
        patterns=(_BWRAP,),
        certainty="possible",
    ),
    Rule(
        code="GPUDirectImageUnfit",
        title="There is no GPUDirect container for this system",
        severity="failure",
        cause="The container {container} of the driver's pod does not start, so the pod never becomes ready, though "
        "the driver itself may work. Its images exist for Ubuntu and OpenShift only: the rhel images are built for "
        "OpenShift's driver toolkit and hold no program for other systems (exit code 127).",
        remedy="Read kubectl logs POD -c {container}. On systems other than Ubuntu and OpenShift, set gds.enabled: "
        "false and gdrcopy.enabled: false in operator_values, and run playbooks/site.yml.",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/2911",
            "https://github.com/NVIDIA/gpu-operator/issues/2416",
        ),
        patterns=(_SIDECAR,),
        certainty="possible",
    ),
    Rule(
        code="DriverPackagesApart",
        title="The repositories hold only a part of the driver's packages",
        severity="failure",
        cause="The package {package} needs {wants}, and the repositories have none that can be installed: kernel "
        "modules and libraries of the driver are of different releases there, or the kernel's headers are missing.",
        remedy="Run dnf list --showduplicates 'kmod-nvidia*' 'nvidia-driver*' on the host. Pin the release that both "
        "have (host_driver_version, and playbooks/site.yml), or wait until the mirror is complete.",
        sources=("https://github.com/awslabs/amazon-eks-ami/issues/2544",),
        patterns=(_PACKAGE,),
        certainty="likely",
    ),
)
