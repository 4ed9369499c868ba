# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What belongs to each kind of node: which operands run there, and which resources the node offers. Pure.

Sources: NVIDIA/gpu-operator at a22dbf67, ``gpuStateLabels`` and ``getEffectiveStateLabels`` in
``controllers/state_manager.go``; NVIDIA/kubevirt-gpu-device-plugin at d26f2374 and NVIDIA/sandbox-device-plugin v0.0.5
for the names of resources.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import (
    CONTAINER,
    VM_PASSTHROUGH,
    VM_VGPU,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of, quantity
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines import plugin_names
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines.device_wishes import OF_KATA
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

KUBEVIRT, KATA = "kubevirt", "kata"
"""The values of ``sandboxWorkloads.mode``. It is one for the whole cluster."""

_OF_MACHINES = ("sandbox-validator", "sandbox-device-plugin")
_CONTAINER = (
    *("driver", "container-toolkit", "operator-validator", "device-plugin", "gpu-feature-discovery"),
    *("dcgm", "dcgm-exporter", "node-status-exporter", "client"),
)
_VGPU = (*_OF_MACHINES, "vgpu-manager", "vgpu-device-manager", "cc-manager", "client")
_PASSTHROUGH = ("sandbox-validator", "vfio-manager", "kata-manager", "cc-manager", "client")
_OF_OTHERS = "client"
"""The label that DaemonSets of others may select, to be moved away with the operands."""
_MANAGERS = ("vfio-manager", "vgpu-manager", "vgpu-device-manager")
"""What prepares the GPUs of one kind. The operands of both kinds for virtual machines differ in these only."""
_EVERY = frozenset((*_CONTAINER, *_VGPU, *_PASSTHROUGH, "mig-manager", "kata-sandbox-device-plugin"))
"""The ends of all labels by which the operator deploys what a ClusterPolicy has."""

_GPU_ALIAS, _SWITCH_ALIAS = "P_GPU_ALIAS", "NVSWITCH_ALIAS"
"""Environment variables with which the plugin for Kata offers its devices under other names."""
_SWITCH = "nvidia.com/nvswitch"


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of node under one ClusterPolicy."""

    name: str
    mode: str = KUBEVIRT
    aliases: tuple[str, ...] = ()
    """Other names of what the plugin for Kata containers offers."""
    switches: tuple[str, ...] = (_SWITCH,)
    """What it offers beside GPUs, which proves no GPU."""

    @classmethod
    def of(cls, name: str, spec: Json) -> Kind:
        """Return the kind with what a ClusterPolicy's spec says about it."""
        mode = str((spec.get("sandboxWorkloads") or {}).get("mode") or KUBEVIRT)
        env = (spec.get("kataSandboxDevicePlugin") or {}).get("env") or []
        values = {each.get("name"): str(each.get("value") or "") for each in env} if mode == KATA else {}
        gpus, switches = (
            [plugin_names.VENDOR_DOMAIN + values[each]] if values.get(each) else []
            for each in (_GPU_ALIAS, _SWITCH_ALIAS)
        )
        return cls(name, mode, (*gpus, *switches), (_SWITCH, *switches))

    @property
    def is_for_machines(self) -> bool:
        """Whether virtual machines get the GPUs."""
        return self.name != CONTAINER

    @property
    def deployed(self) -> tuple[str, ...]:
        """The ends of the labels that the operator sets on such a node."""
        if self.name == CONTAINER:
            return _CONTAINER
        return _VGPU if self.name == VM_VGPU else (*_PASSTHROUGH, self.plugin)

    @property
    def validator(self) -> str:
        """The operand that proves the node."""
        return "sandbox-validator" if self.is_for_machines else "operator-validator"

    @property
    def plugin(self) -> str:
        """The operand that offers the GPUs."""
        if self.name == CONTAINER:
            return "device-plugin"
        by_kata = self.name == VM_PASSTHROUGH and self.mode == KATA
        return "kata-sandbox-device-plugin" if by_kata else "sandbox-device-plugin"

    def offered(self, node: Json, others: t.Container[str] = ()) -> dict[str, int]:
        """Return the GPUs that a node has for the pods of this kind. ``others`` are known to be something else."""
        found = {name: number for name, number in allocatable(node).items() if self._has(name, others)}
        return {name: number for name, number in found.items() if name not in self.switches}

    def _has(self, resource: str, others: t.Container[str]) -> bool:
        if self.name == CONTAINER:
            return nodes.is_gpu_resource(resource)
        if self.name == VM_VGPU:
            return plugin_names.vgpu_of_resource(resource) is not None
        if self.mode == KATA and (resource in OF_KATA or resource in self.aliases):
            return True
        return _is_known(resource) or (plugin_names.names_whole_gpu(resource) and resource not in others)

    def left_over(self, node: Json) -> dict[str, int]:
        """Return what a node still has for the pods of another kind."""
        found = {name: number for name, number in allocatable(node).items() if _is_of_any_kind(name)}
        return {name: number for name, number in found.items() if not self._has(name, ())}

    def unlabelled(self, node: Json) -> str:
        """Return what the operator has not labelled yet, or what a label keeps away, or an empty string."""
        labels = labels_of(node)
        # Other labels of the set come and go with the operator's releases: v26.7 has brought client.
        managers = [end for end in self.deployed if end in _MANAGERS]
        lacks = [end for end in (self.validator, self.plugin, *managers) if not labels.get(names.DEPLOY_PREFIX + end)]
        kept = (*self.deployed, *(("mig-manager",) if self.name == CONTAINER else ()))
        # An empty value is none: a driver manager leaves one behind for operands that its node never had.
        old = [end for end in _EVERY if labels.get(names.DEPLOY_PREFIX + end) and end not in kept]
        if lacks or old:
            return "the operator has not given the node the labels of its kind yet"
        needed = {end: labels[names.DEPLOY_PREFIX + end] for end in (self.validator, self.plugin)}
        away = [f"{names.DEPLOY_PREFIX}{end}={value}" for end, value in needed.items() if value != "true"]
        return f"its label {first_few(away)} keeps the operand away" if away else ""

    def missing(self, node: Json, least: int = 1, others: t.Container[str] = ()) -> str:
        """Return what a node does not offer as this kind does, or an empty string.

        ``least`` is how many GPUs the node has at least, as far as that is known.
        """
        left = self.left_over(node)
        if left:
            return f"the node still offers {_listed(left)}"
        found = self.offered(node, others)
        if not found:
            return f"the node offers no GPUs to {'virtual machines' if self.is_for_machines else 'containers'}"
        if self.name == VM_PASSTHROUGH and sum(found.values()) < least:
            return f"the node offers {_listed(found)}, and has {least} GPUs"
        return ""


def _listed(found: t.Mapping[str, int]) -> str:
    return first_few([f"{number} of {name}" for name, number in sorted(found.items())])


def allocatable(node: Json) -> dict[str, int]:
    """Return the resources of NVIDIA's plugins of which pods can get some. Old ones stay with 0 for a while."""
    listed = (node.get("status") or {}).get("allocatable") or {}
    mine = {name: text for name, text in listed.items() if name.startswith(plugin_names.VENDOR_DOMAIN)}
    numbers = {name: quantity(text) for name, text in mine.items() if str(text).removesuffix("k").isdecimal()}
    return {name: number for name, number in numbers.items() if number}


def _is_known(resource: str) -> bool:
    return bool(plugin_names.gpus_of_resource(resource))


def _is_of_any_kind(resource: str) -> bool:
    """Return whether a resource is a GPU for certain: a name that another plugin could give is left out."""
    by_machines = plugin_names.vgpu_of_resource(resource) is not None or resource in OF_KATA or _is_known(resource)
    return nodes.is_gpu_resource(resource) or by_machines


def is_for_machines(resource: str, aliases: t.Container[str] = ()) -> bool:
    """Return whether a pod that asks for this resource is a virtual machine's or a Kata container's with a GPU."""
    if not resource.startswith(plugin_names.VENDOR_DOMAIN) or nodes.is_gpu_resource(resource):
        return False
    is_named = resource in OF_KATA or resource in aliases or plugin_names.vgpu_of_resource(resource) is not None
    return is_named or plugin_names.names_whole_gpu(resource)


# ---- pods ---------------------------------------------------------------------------------------------------------


def deploys(daemonset: Json) -> str:
    """Return the end of the deploy label that a DaemonSet selects nodes by, or an empty string."""
    selector = daemonset["spec"]["template"]["spec"].get("nodeSelector") or {}
    ends = (key.removeprefix(names.DEPLOY_PREFIX) for key in selector if key.startswith(names.DEPLOY_PREFIX))
    return next((end for end in ends if end in _EVERY), "")


def owner_of(pod: Json) -> str:
    """Return the name of the DaemonSet that a pod belongs to, or an empty string."""
    owners = pod["metadata"].get("ownerReferences") or []
    return next((str(owner["name"]) for owner in owners if owner.get("kind") == "DaemonSet"), "")


def unproved(kind: Kind, node: Json, daemonsets: t.Sequence[Json], pods: t.Sequence[Json]) -> str:
    """Return what the pods on a node lack for its kind, or an empty string.

    ``daemonsets`` are those in the operator's namespace, and ``pods`` its pods on the node. The pods of other kinds
    must be gone, and those of this kind must be Ready: that of the validator and that of the plugin among them. A Ready
    pod of vfio-manager proves no GPU: it only warns about one that it could not bind (NVIDIA/k8s-driver-manager at
    bd62ca7d, ``cmd/vfio-manage``).
    """
    by_end = {end: [each for each in daemonsets if deploys(each) == end] for end in _EVERY}
    mine = {*kind.deployed, *(("mig-manager",) if kind.name == CONTAINER else ())}
    old = {str(each["metadata"]["name"]) for end, listed in by_end.items() if end not in mine for each in listed}
    staying = sorted(str(pod["metadata"]["name"]) for pod in pods if owner_of(pod) in old)
    if staying:
        return f"pod {first_few(staying)} of its former kind is still there"
    for end in (kind.validator, kind.plugin, *sorted(mine - {kind.validator, kind.plugin, _OF_OTHERS})):
        wanted = [each for each in by_end.get(end, []) if _selects(each, node)]
        if not wanted and end in (kind.validator, kind.plugin):
            return f"no DaemonSet puts the {end} on the node"
        why = next(filter(None, (_unready(each, pods) for each in wanted)), "")
        if why:
            return why
    return ""


def _selects(daemonset: Json, node: Json) -> bool:
    return nodes.matches(daemonset["spec"]["template"]["spec"].get("nodeSelector"), node)


def _unready(daemonset: Json, pods: t.Sequence[Json]) -> str:
    name = str(daemonset["metadata"]["name"])
    own = [pod for pod in pods if owner_of(pod) == name]
    ready = [pod for pod in own if nodes.is_ready(pod) and not pod["metadata"].get("deletionTimestamp")]
    if len(ready) == len(own) and ready:
        return ""
    return f"pod {own[0]['metadata']['name']} is not Ready" if own else f"{name} has no pod there yet"


# ---- labels that a killed manager has left ------------------------------------------------------------------------

_PAUSED_BY = {names.VGPU_PAUSED: "vgpu-device-manager", names.CC_PAUSED: "cc-manager"}
"""What a paused label says, and the operand that puts it back. A new pod of that operand does not always do so."""


def stuck(kind: Kind, node: Json, daemonsets: t.Sequence[Json], pods: t.Sequence[Json]) -> dict[str, str]:
    """Return the labels to repair: those of the kind that are paused, by a manager that has no pod on the node."""
    running = {deploys(each) for each in daemonsets if str(each["metadata"]["name"]) in set(map(owner_of, pods))}
    found = {}
    for key, cause in paused(kind, node).items():
        if _PAUSED_BY[cause] not in running:
            found[key] = labels_of(node)[key].replace(cause, "").strip("_") or "true"
    return found


def paused(kind: Kind, node: Json) -> dict[str, str]:
    """Return the labels of the kind that are paused by one of these managers, each with the cause."""
    labels = labels_of(node)
    keys = [names.DEPLOY_PREFIX + end for end in kind.deployed]
    causes = {key: next((cause for cause in _PAUSED_BY if cause in labels.get(key, "")), "") for key in keys}
    return {key: cause for key, cause in causes.items() if cause}
