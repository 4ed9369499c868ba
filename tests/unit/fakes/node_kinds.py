# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An operator that follows the label of each node's kind at once, and a KubeVirt with machines on the nodes.

The sets of labels are those of ``gpuStateLabels`` in NVIDIA/gpu-operator at a22dbf67, ``controllers/state_manager.go``.
"""

from __future__ import annotations

import copy
import dataclasses
import typing as t

from tests.unit.fakes.api import ALL_PODS, DAEMONSETS, NODES, PODS, POLICIES, FakeApi, Reply
from tests.unit.fakes.stack import NAMESPACE

Json = dict[str, t.Any]

LABEL = "nvidia.com/gpu.workload.config"
MARK = "gpuops.nvidia/workload-kind"
DEPLOY = "nvidia.com/gpu.deploy."
INSTANCES = "/apis/kubevirt.io/v1/namespaces/research/virtualmachineinstances"
A10 = "nvidia.com/GA102GL_A10"
VGPU = "nvidia.com/NVIDIA_A10-12Q"

CONTAINER = {
    "driver": "nvidia-driver-daemonset",
    "container-toolkit": "nvidia-container-toolkit-daemonset",
    "operator-validator": "nvidia-operator-validator",
    "device-plugin": "nvidia-device-plugin-daemonset",
    "gpu-feature-discovery": "gpu-feature-discovery",
    "dcgm": "nvidia-dcgm",
    "dcgm-exporter": "nvidia-dcgm-exporter",
    "node-status-exporter": "",
    "client": "",
}
PASSTHROUGH = {
    "sandbox-validator": "nvidia-sandbox-validator",
    "sandbox-device-plugin": "nvidia-sandbox-device-plugin-daemonset",
    "vfio-manager": "nvidia-vfio-manager",
    "kata-manager": "",
    "cc-manager": "",
    "client": "",
}
VGPUS = {
    "sandbox-validator": "nvidia-sandbox-validator",
    "sandbox-device-plugin": "nvidia-sandbox-device-plugin-daemonset",
    "vgpu-manager": "nvidia-vgpu-manager-daemonset",
    "vgpu-device-manager": "nvidia-vgpu-device-manager",
    "cc-manager": "",
    "client": "",
}
OF_KIND = {"container": CONTAINER, "vm-passthrough": PASSTHROUGH, "vm-vgpu": VGPUS}
OFFERS = {"container": {"nvidia.com/gpu": "8"}, "vm-passthrough": {A10: "8"}, "vm-vgpu": {VGPU: "16"}}

SPEC: Json = {
    "sandboxWorkloads": {"enabled": True, "defaultWorkload": "container"},
    "vfioManager": {"enabled": True},
    "sandboxDevicePlugin": {"enabled": True},
    "vgpuManager": {"enabled": True, "repository": "registry.example/nvidia", "image": "vgpu", "version": "580.1"},
    "vgpuDeviceManager": {"enabled": True},
}


def daemonset(end: str, name: str) -> Json:
    """Return a DaemonSet that selects nodes by a label of the operator."""
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"template": {"spec": {"nodeSelector": {DEPLOY + end: "true"}}}},
    }


DAEMONSETS_OF_ALL = [daemonset(end, name) for end, name in {**CONTAINER, **PASSTHROUGH, **VGPUS}.items() if name]


def operand(name: str, node: str, ready: bool = True, waits: str = "") -> Json:
    """Return a pod of a DaemonSet on a node. ``waits`` is what its container says while it is not ready."""
    state: Json = (
        {"running": {}} if ready else {"waiting": {"reason": "CrashLoopBackOff", "message": waits or "back-off"}}
    )
    return {
        "metadata": {
            "name": f"{name}-{node}",
            "namespace": NAMESPACE,
            "ownerReferences": [{"kind": "DaemonSet", "name": name, "controller": True}],
        },
        "spec": {"nodeName": node},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{"name": "main", "ready": ready, "state": state}],
        },
    }


def instance(name: str, strategy: str | None = None, can_move: bool = False) -> Json:
    """Return a VirtualMachineInstance with a GPU."""
    spec: Json = {"domain": {"devices": {"gpus": [{"name": "gpu", "deviceName": A10}]}}}
    reason = {} if can_move else {"reason": "HostDeviceNotLiveMigratable"}
    return {
        "metadata": {"name": name, "namespace": "research", "uid": f"uid-of-{name}"},
        "spec": {**spec, **({"evictionStrategy": strategy} if strategy else {})},
        "status": {"phase": "Running", "conditions": [{"type": "LiveMigratable", "status": str(can_move), **reason}]},
    }


def launcher(machine: str, number: int = 0) -> Json:
    """Return the pod of a VirtualMachineInstance, with the volumes that KubeVirt gives it."""
    return {
        "metadata": {
            "namespace": "research",
            "name": f"virt-launcher-{machine}",
            "uid": f"uid-of-virt-launcher-{machine}",
            "labels": {"kubevirt.io": "virt-launcher"},
            "annotations": {"kubevirt.io/domain": machine},
            "ownerReferences": [
                {
                    "kind": "VirtualMachineInstance",
                    "name": machine,
                    "uid": f"uid-of-{machine}",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "nodeName": f"gpu-{number:04}",
            "volumes": [{"name": "private", "emptyDir": {}}],
            "containers": [{"name": "compute", "resources": {"limits": {A10: "1"}}}],
        },
        "status": {"phase": "Running"},
    }


def kata(name: str, number: int = 0) -> Json:
    """Return a pod in a Kata container that has the GPUs of its node."""
    made = launcher(name, number)
    owner = {"kind": "ReplicaSet", "name": name, "controller": True}
    made["metadata"] |= {"name": name, "labels": {}, "annotations": {}, "ownerReferences": [owner]}
    made["spec"] |= {"volumes": [], "runtimeClassName": "kata-qemu-nvidia-gpu"}
    made["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/pgpu": "8"}}
    return made


@dataclasses.dataclass
class Operator:
    """Labels the nodes, and runs the operands of their kinds. Its faults are those of one node each."""

    api: FakeApi
    unready: dict[str, str] = dataclasses.field(default_factory=dict)
    """The DaemonSet whose pod is not Ready on a node."""
    stays: dict[str, str] = dataclasses.field(default_factory=dict)
    """The DaemonSet whose pod stays on a node although its kind is another."""
    fewer: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)
    """What a node offers instead of what its kind does."""
    sees: t.Callable[[str, str], Reply | None] = lambda method, path: None
    """What a test does at a request."""

    def __post_init__(self) -> None:
        self.api.lists[POLICIES][0]["spec"] |= copy.deepcopy(SPEC)
        self.api.lists[DAEMONSETS] = list(DAEMONSETS_OF_ALL)
        self.api.lists[INSTANCES] = []
        self.api.answer = self.answer
        self.api.end = self.end
        self.act()

    def end(self, pod: Json) -> None:
        """End a pod that was evicted, also one of a list that a test has set since."""
        self.api.lists[ALL_PODS].remove(pod)

    def answer(self, method: str, path: str) -> Reply | None:
        """Play before the nodes, or the pods, are read."""
        if method == "GET" and path == NODES:
            self.act()
        if method == "GET" and path == ALL_PODS:
            there = {item["metadata"]["name"] for item in self.api.lists[INSTANCES]}
            self.api.lists[ALL_PODS] = [
                pod
                for pod in self.api.lists[ALL_PODS]
                if (pod["metadata"].get("labels") or {}).get("kubevirt.io") is None
                or pod["metadata"]["annotations"]["kubevirt.io/domain"] in there
            ]
        return self.sees(method, path)

    def kind(self, item: Json) -> str:
        """Return what the operator takes a node for."""
        sandbox = self.api.lists[POLICIES][0]["spec"].get("sandboxWorkloads") or {}
        label = item["metadata"]["labels"].get(LABEL)
        default = sandbox.get("defaultWorkload", "container")
        return (label if label in OF_KIND else default) if sandbox.get("enabled") else "container"

    def act(self) -> None:
        """Label the nodes, and run what belongs to them."""
        found = []
        for item in self.api.lists[NODES]:
            name, kind, labels = item["metadata"]["name"], self.kind(item), item["metadata"]["labels"]
            for key in [key for key in labels if key.startswith(DEPLOY)]:
                if key.removeprefix(DEPLOY) not in OF_KIND[kind]:
                    del labels[key]
            for end, app in OF_KIND[kind].items():
                labels.setdefault(DEPLOY + end, "true")
                if app and labels[DEPLOY + end] == "true":
                    found.append(operand(app, name, self.unready.get(name) != app, "vfio-pci-validation failed"))
            if name in self.stays and self.stays[name] not in OF_KIND[kind].values():
                found.append(operand(self.stays[name], name))
            old = {key: "0" for key in item["status"]["allocatable"] if key.startswith("nvidia.com/")}
            offers = {**old, **(self.fewer[name] if name in self.fewer else OFFERS[kind])}
            item["status"]["allocatable"] = item["status"]["capacity"] = {"cpu": "64", **offers}
        self.api.lists[PODS] = found
