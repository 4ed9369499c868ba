# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What is in the way of a kind before anything changes, each with its remedy. Pure.

Sources: NVIDIA/gpu-operator v26.7.0, ``api/nvidia/v1/clusterpolicy_types.go`` (what an absent ``enabled`` means) and
``controllers/state_manager.go``; NVIDIA/k8s-driver-manager at bd62ca7d, which ends on a node with a driver of its own;
NVIDIA/cloud-native-docs of 2026-08-21, ``gpu-operator-kubevirt.rst``, for the kernels.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import (
    CONTAINER,
    VM_PASSTHROUGH,
    VM_VGPU,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.own_label import (
    KIND_LABEL,
    LAYOUT_LABEL,
    SHARING_LABEL,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.workload_kinds.kinds import KATA, KUBEVIRT
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_NEW_KERNEL = 6
"""NVIDIA documents vGPU with KubeVirt for kernels before this one, and for Red Hat Enterprise Linux CoreOS."""


def _is_on(spec: Json, block: str) -> bool:
    """Return whether a block is switched on. Those of virtual machines are off unless ``enabled`` says true."""
    return bool((spec.get(block) or {}).get("enabled"))


def refuse_gpucluster(gpuclusters: t.Sequence[Json]) -> None:
    """Raise if a GPUCluster gives out the GPUs: its operator has one kind of node, and ignores the label."""
    if gpuclusters:
        raise GpuOpsError(
            f"GPUCluster {name_of(gpuclusters[0])} gives the GPUs out by claims, and ignores the label "
            f"{names.WORKLOAD_CONFIG}. Move the cluster to a ClusterPolicy first (gpuops.nvidia.to_device_plugin).",
            reason="Unsupported",
        )


def refuse_policy(kinds: t.Collection[str], spec: Json, drivers: t.Sequence[Json]) -> None:
    """Raise if a ClusterPolicy does not deploy what a kind needs. ``drivers`` are the NVIDIADrivers."""
    why = against_policy(kinds, spec, drivers)
    if why:
        raise GpuOpsError(why, reason="Invalid")


def against_policy(kinds: t.Collection[str], spec: Json, drivers: t.Sequence[Json]) -> str:
    """Return what a ClusterPolicy lacks for these kinds, with the remedy, or an empty string."""
    machines = [kind for kind in (VM_PASSTHROUGH, VM_VGPU) if kind in kinds]
    if not machines:
        return ""
    sandbox = spec.get("sandboxWorkloads") or {}
    if not sandbox.get("enabled"):
        return (
            f"The ClusterPolicy has sandboxWorkloads off, so the operator ignores {machines[0]}. Set "
            "sandboxWorkloads.enabled: true in operator_values, and run the role operator. First give every GPU node "
            f"the kind {CONTAINER}, unless defaultWorkload is {CONTAINER}."
        )
    mode = str(sandbox.get("mode") or KUBEVIRT)
    lacks = {VM_PASSTHROUGH: _against_passthrough(spec, mode), VM_VGPU: _against_vgpu(spec, mode, drivers)}
    return next(filter(None, (lacks[kind] for kind in machines)), "")


def _off(kind: str, block: str, does: str) -> str:
    return f"{kind} needs {block}, which {does}, and the ClusterPolicy has it off. Set {block}.enabled: true."


def _against_passthrough(spec: Json, mode: str) -> str:
    if not _is_on(spec, "vfioManager"):
        return _off(VM_PASSTHROUGH, "vfioManager", "binds the GPUs to vfio-pci")
    plugin = "kataSandboxDevicePlugin" if mode == KATA else "sandboxDevicePlugin"
    return "" if _is_on(spec, plugin) else _off(VM_PASSTHROUGH, plugin, "offers them")


def _against_vgpu(spec: Json, mode: str, drivers: t.Sequence[Json]) -> str:
    if mode == KATA:
        return (
            f"sandboxWorkloads.mode is {KATA}, for which the operator has no plugin that offers vGPUs. Set it to "
            f"{KUBEVIRT}, or give these nodes the kind {VM_PASSTHROUGH}."
        )
    manager = spec.get("vgpuManager") or {}
    by_driver = any((each.get("spec") or {}).get("driverType") == "vgpu-host-manager" for each in drivers)
    if not by_driver and not manager.get("enabled"):
        return _off(VM_VGPU, "vgpuManager", "installs NVIDIA's driver for vGPU hosts")
    is_named = (manager.get("repository") and manager.get("version")) or "/" in str(manager.get("image") or "")
    if not by_driver and not is_named:
        return (
            f"{VM_VGPU} needs an image of the vGPU manager, which NVIDIA publishes nowhere: build it from the licensed "
            "driver, and set vgpuManager.repository, vgpuManager.image and vgpuManager.version."
        )
    if not _is_on(spec, "vgpuDeviceManager"):
        return _off(VM_VGPU, "vgpuDeviceManager", "creates the vGPUs")
    return "" if _is_on(spec, "sandboxDevicePlugin") else _off(VM_VGPU, "sandboxDevicePlugin", "offers the vGPUs")


def refuse_nodes(wanted: t.Mapping[str, str], by_name: t.Mapping[str, Json], spec: Json) -> None:
    """Raise if nodes that shall give their GPUs to virtual machines cannot, or still share or divide them."""
    found: dict[str, list[str]] = {}
    for name, kind in wanted.items():
        why = against_node(by_name[name], spec) if kind != CONTAINER else ""
        if why:
            found.setdefault(why, []).append(name)
    if found:
        said = [f"{first_few(where)}: {why}" for why, where in found.items()]
        raise GpuOpsError(f"Nodes cannot give their GPUs to virtual machines. {' '.join(said)}", reason="Invalid")


def against_node(node: Json, spec: Json) -> str:
    """Return why a node cannot give its GPUs to virtual machines yet, or an empty string."""
    labels = labels_of(node)
    is_own = not operands.delegates_driver(spec) and (spec.get("driver") or {}).get("enabled") is False
    if labels.get(operands.DRIVER.deploy_label) == names.PRE_INSTALLED or (
        is_own and nodes.workload_kind(node, spec) == CONTAINER
    ):
        return (
            "the host has an NVIDIA driver of its own, which the operator cannot unload. Remove its packages from the "
            "host, and reboot it."
        )
    if SHARING_LABEL.is_ours(node):
        return "its GPUs are shared by gpu_sharing. End that first (sharing_state=absent)."
    if LAYOUT_LABEL.is_ours(node) and LAYOUT_LABEL.value_of(node) != names.MIG_DISABLED:
        return f"its MIG layout is {LAYOUT_LABEL.value_of(node)}. Make its GPUs whole first (mig_state=absent)."
    if nodes.is_switched_off(node):
        return f"its label {names.OPERANDS_SWITCH}=false keeps all operands away. Remove the label."
    return ""


def refuse_foreign(wanted: t.Mapping[str, str], by_name: t.Mapping[str, Json]) -> None:
    """Raise if somebody else has given one of these nodes another kind."""
    values = {name: KIND_LABEL.value_of(by_name[name]) for name in wanted}
    foreign = {
        name: value
        for name, value in values.items()
        if value and value != wanted[name] and not KIND_LABEL.is_ours(by_name[name])
    }
    if foreign:
        found = first_few([f"{name} ({value})" for name, value in foreign.items()])
        raise GpuOpsError(
            f"Somebody else has set the label {names.WORKLOAD_CONFIG} of {found}. Remove the label, or set "
            "replace_labels: true.",
            reason="Conflict",
        )


# ---- warnings -----------------------------------------------------------------------------------------------------


def unlabelled(after: t.Mapping[str, str], labels: t.Mapping[str, str], spec: Json) -> str:
    """Return a warning about GPU nodes without a label while nodes are of several kinds, or an empty string.

    ``after`` has the kind of each GPU node after this call, and ``labels`` its label then. The operator v26.7 reads the
    default from a variable that is ``container`` until the ClusterPolicy has been read once, so a restart of it can
    make such a node a container node.
    """
    sandbox = spec.get("sandboxWorkloads") or {}
    default = str(sandbox.get("defaultWorkload") or CONTAINER)
    bare = sorted(name for name, value in labels.items() if value not in names.WORKLOAD_KINDS)
    is_mixed = default != CONTAINER or any(kind != CONTAINER for kind in after.values())
    if not (sandbox.get("enabled") and bare and is_mixed):
        return ""
    return (
        f"{first_few(bare)} {'has' if len(bare) == 1 else 'have'} no label {names.WORKLOAD_CONFIG}, so the operator "
        f"decides by sandboxWorkloads.defaultWorkload ({default}), and after a restart may take {CONTAINER} for it. "
        "Give each GPU node its kind."
    )


def on_new_kernels(wanted: t.Mapping[str, str], by_name: t.Mapping[str, Json]) -> str:
    """Return a warning about vGPU nodes whose kernel NVIDIA does not document for it, or an empty string."""
    found = {
        name: nodes.kernel_of(by_name[name])
        for name, kind in wanted.items()
        if kind == VM_VGPU and nodes.os_of(by_name[name])[0] != "rhcos"
    }
    new = [f"{name} ({kernel})" for name, kernel in found.items() if _major(kernel) >= _NEW_KERNEL]
    if not new:
        return ""
    return (
        f"{first_few(new)}: NVIDIA documents vGPU with KubeVirt for kernels before {_NEW_KERNEL}.0. On newer ones its "
        "driver creates vGPUs without mediated devices, which the vGPU device manager and the plugin do not see."
    )


def _major(kernel: str) -> int:
    found = re.match(r"\d{1,4}", kernel)
    return int(found[0]) if found else 0
