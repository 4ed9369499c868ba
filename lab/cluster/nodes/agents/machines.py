# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operands of nodes whose GPUs are for virtual machines: vfio-pci, vGPUs, their validation, and what a node offers.

Sources: NVIDIA/gpu-operator at a22dbf67, ``assets/state-sandbox-device-plugin/0500_daemonset.yaml`` (what the plugin
waits for) and ``cmd/nvidia-validator/main.go`` (the validator ends with an error unless vfio-pci has every GPU, and
waits for the vGPU manager and for vGPUs); NVIDIA/k8s-driver-manager at bd62ca7d, ``cmd/vfio-manage/bind.go`` (it warns
about a GPU that it could not bind, and its pod is Ready); NVIDIA/vgpu-device-manager at acb72704 (the labels of the
state); NVIDIA/kubevirt-gpu-device-plugin at d26f2374, ``utils/pci.ids`` (the names).
"""

from __future__ import annotations

import typing as t

from lab.cluster.api import Api, Json
from lab.cluster.nodes.agents.facts import note
from lab.cluster.nodes.agents.feature_discovery import PREFIX
from lab.cluster.nodes.agents.pods import crash, crashes, is_ready, label, labels_of, recover, running_init, with_app
from lab.cluster.nodes.fleet import MODELS, NOTE

KIND = "nvidia.com/gpu.workload.config"
VALIDATOR, PLUGIN = "nvidia-sandbox-validator", "nvidia-sandbox-device-plugin-daemonset"
KATA_PLUGIN = "nvidia-kata-sandbox-device-plugin-daemonset"
DEVICE_MANAGER, VGPU_MANAGER = "nvidia-vgpu-device-manager", "nvidia-vgpu-manager-daemonset"
VFIO_MANAGER = "nvidia-vfio-manager"
BOUND, VGPU_HOST, VGPUS = "vfio-pci-validation", "vgpu-manager-validation", "vgpu-devices-validation"
GATES = (BOUND, VGPU_HOST, VGPUS)
UNBOUND, VGPU_FAULT = "vfio-unbound", "vgpu-failed"
"""The faults: how many GPUs vfio-pci could not get, and whether the vGPU device manager fails."""
STATE = "nvidia.com/vgpu.config.state"

_NAMES = {
    "1eb8": "TU104GL_TESLA_T4",
    "20b2": "GA100_A100_SXM4_80GB",
    "20b7": "GA100GL_A30_PCIE",
    "2330": "GH100_H100_SXM5_80GB",
    "2335": "GH100_H200_SXM_141GB",
    "26b9": "AD102GL_L40S",
    "2901": "GB100_B200",
}
VGPUS_OF_EACH = 2
"""How many vGPUs the default configuration makes of a GPU."""


def resource_of(node: Json, kind: str, app: str = PLUGIN) -> tuple[str, int]:
    """Return the resource that a node of a kind offers, and how much of it."""
    model, gpus = note(node, "model"), int(note(node, "gpus", "0"))
    if app == KATA_PLUGIN:
        return f"{PREFIX}pgpu", gpus
    if kind == "vm-vgpu":
        memory = MODELS[model].memory_mib // 1024 // VGPUS_OF_EACH
        return f"{PREFIX}NVIDIA_{model}-{memory}Q", gpus * VGPUS_OF_EACH
    return PREFIX + _NAMES[MODELS[model].device_id], gpus


class MachineAgents:
    """The programs of nodes for virtual machines."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def play(self, node: Json, pods: list[Json]) -> None:
        """Take the next step: the driver's end, the validation, the vGPUs, and what the node offers."""
        if any(map(is_ready, _vfio(pods))) and note(node, "loaded"):
            self._annotate(node, "loaded")  # its driver manager has unloaded the driver
        for pod in with_app(pods, VALIDATOR):
            self._validate(node, pods, pod)
        self._make_vgpus(node, pods)
        self._offer(node, pods)

    def finds(self, name: str, node: Json, pod: Json, pods: list[Json]) -> bool:
        """Return whether the condition that an init container waits for is met."""
        if label(pod, "app") in (PLUGIN, KATA_PLUGIN):  # it waits for the files that the validator writes
            return any(map(is_ready, with_app(pods, VALIDATOR)))
        kind = labels_of(node).get(KIND)
        if name == BOUND:
            return kind != "vm-passthrough" or _is_bound(node, pods)
        if kind != "vm-vgpu":
            return True
        return any(map(is_ready, with_app(pods, VGPU_MANAGER))) if name == VGPU_HOST else _has_vgpus(node, pods)

    def _validate(self, node: Json, pods: list[Json], pod: Json) -> None:
        """Let the validator crash while a GPU has another driver than vfio-pci, and start again when none has."""
        if self.finds(BOUND, node, pod, pods):
            recover(self._api, pod, BOUND, init=True)
        elif running_init(pod) == BOUND and not crashes(pod, BOUND, init=True):
            crash(self._api, pod, BOUND, init=True)

    def _make_vgpus(self, node: Json, pods: list[Json]) -> None:
        if not any(map(is_ready, with_app(pods, DEVICE_MANAGER))):
            return
        state = "failed" if note(node, VGPU_FAULT) else "success"
        if labels_of(node).get(STATE) != state:
            self._api.merge(_path(node), {"metadata": {"labels": {STATE: state}}})

    def _offer(self, node: Json, pods: list[Json]) -> None:
        """Report what the plugins offer. What they offered before stays in the node's status, with 0."""
        listed = node["status"].get("allocatable") or {}
        mine = [resource_of(node, kind)[0] for kind in ("vm-passthrough", "vm-vgpu")]
        wanted = {name: "0" for name in [*mine, f"{PREFIX}pgpu"] if name in listed}
        for app in (PLUGIN, KATA_PLUGIN):
            if any(map(is_ready, with_app(pods, app))):
                name, number = resource_of(node, labels_of(node).get(KIND, ""), app)
                wanted[name] = str(number)
        if any(listed.get(name) != number for name, number in wanted.items()):
            self._api.merge(f"{_path(node)}/status", {"status": {"capacity": wanted, "allocatable": wanted}})

    def _annotate(self, node: Json, name: str) -> None:
        self._api.merge(_path(node), {"metadata": {"annotations": {NOTE + name: None}}})


def _path(node: Json) -> str:
    return f"/api/v1/nodes/{node['metadata']['name']}"


def _vfio(pods: t.Iterable[Json]) -> list[Json]:
    """Return the pods of vfio-manager, which NVIDIA's manifest labels with ``name`` only."""
    return [pod for pod in pods if label(pod, "name") == VFIO_MANAGER]


def _is_bound(node: Json, pods: list[Json]) -> bool:
    return any(map(is_ready, _vfio(pods))) and not int(note(node, UNBOUND, "0"))


def _has_vgpus(node: Json, pods: list[Json]) -> bool:
    made = labels_of(node).get(STATE) == "success"
    return made and any(map(is_ready, with_app(pods, DEVICE_MANAGER)))
