# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a KubeVirt must be so that it can permit NVIDIA's devices, and what stands in the way. Pure.

Each refusal names its remedy. Where a rule depends on KubeVirt's version, its source stands beside it.
"""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import annotations_of, full_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines.machine_users import MachineUsers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines.permitted_devices import (
    DEVICE_LISTS,
    PermittedChange,
    PermittedDevice,
    configuration_of,
    resources_of,
    restricts,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Minor = tuple[int, int]

OLDEST_KUBEVIRT: Minor = (0, 59)
"""The oldest line that can leave mediated devices to NVIDIA's operator. Source: NVIDIA's guide, which names v0.59.1
(NVIDIA/cloud-native-docs at 52dcb7b8, ``gpu-operator/gpu-operator-kubevirt.rst``)."""
GPU_WITHOUT_GATE: Minor = (1, 4)
"""From this line on, the feature gate GPU is always on. Source: KubeVirt v1.4.0,
``pkg/virt-config/deprecation/feature-gates.go``; v1.3.0 asks for the gate."""
MDEV_SETTING: Minor = (1, 8)
"""From this line on, ``mediatedDevicesConfiguration.enabled`` exists, and outranks the gate. Source: KubeVirt v1.8.0,
``MediatedDevicesHandlingDisabled`` in ``pkg/virt-config/virt-config.go``."""
_MDEV_GATE = "DisableMDEVConfiguration"
_GATES = "spec.configuration.developerConfiguration.featureGates"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def the_one(kubevirts: list[Json] | None) -> Json:
    """Return the only KubeVirt of a cluster. Raises if there is none, or more than one."""
    if kubevirts is None:
        raise GpuOpsError(
            "This cluster does not serve kubevirt.io/v1. Install KubeVirt "
            f"{_text(OLDEST_KUBEVIRT)} or newer first, or correct kubeconfig and context.",
            reason="CRDMissing",
        )
    if not kubevirts:
        raise GpuOpsError(
            "This cluster has no object KubeVirt, although it serves the kind. Create one, and wait until its phase is "
            "Deployed.",
            reason="NotFound",
        )
    if len(kubevirts) > 1:
        names = sorted(map(full_name, kubevirts))
        raise GpuOpsError(
            f"There are {len(kubevirts)} objects KubeVirt: {first_few(names)}. KubeVirt works with one for each "
            "cluster: remove those that virt-operator does not use.",
            reason="Invalid",
        )
    return kubevirts[0]


def version_of(kubevirt: Json) -> str:
    """Return the version that runs, as KubeVirt reports it, or an empty text."""
    return str((kubevirt.get("status") or {}).get("observedKubeVirtVersion") or "")


def line_of(kubevirt: Json) -> Minor | None:
    """Return the release line that runs, or None for a version that is no release's."""
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})\.", version_of(kubevirt))
    return (int(found[1]), int(found[2])) if found else None


def phase_of(kubevirt: Json) -> str:
    """Return the phase of the deployment, or an empty text."""
    return str((kubevirt.get("status") or {}).get("phase") or "")


def refuse_managed(kubevirt: Json) -> None:
    """Raise if another object manages a KubeVirt that is to change."""
    owner = next((each for each in kubevirt["metadata"].get("ownerReferences") or [] if each.get("controller")), None)
    if owner:
        raise GpuOpsError(_managed(kubevirt, owner), reason="OwnedByOthers")


def refuse_unready(kubevirt: Json) -> None:
    """Raise if a KubeVirt is going, not deployed or too old."""
    name = f"KubeVirt {full_name(kubevirt)}"
    if kubevirt["metadata"].get("deletionTimestamp"):
        raise GpuOpsError(f"{name} is being deleted. Install KubeVirt again first.", reason="NotReady")
    if phase_of(kubevirt) != "Deployed":
        raise GpuOpsError(
            f"{name} is not deployed: its phase is {phase_of(kubevirt) or 'not reported yet'}. Wait for it with "
            f"`kubectl wait kubevirt --all --all-namespaces --for=condition=Available`.",
            reason="NotReady",
        )
    line = line_of(kubevirt)
    if line is not None and line < OLDEST_KUBEVIRT:
        raise GpuOpsError(
            f"{name} runs {version_of(kubevirt)}, and {_text(OLDEST_KUBEVIRT)} is the oldest that this module knows. "
            "Upgrade KubeVirt first.",
            reason="Unsupported",
        )


def _managed(kubevirt: Json, owner: Json) -> str:
    """Return what to say about a KubeVirt that a controller writes from its own object.

    Source: kubevirt/hyperconverged-cluster-operator at 03da3cff, ``UpdateCR`` in ``controllers/handlers/kubevirt.go``,
    which sets the spec of its KubeVirt back.
    """
    remedy = "Permit the devices there."
    if owner.get("kind") == "HyperConverged":
        remedy = (
            "Permit the devices in its spec.permittedHostDevices (spec.virtualization.permittedHostDevices in "
            "hco.kubevirt.io/v1), where pciVendorSelector is called pciDeviceSelector."
        )
    return (
        f"{owner.get('kind')} {owner.get('name')} manages KubeVirt {full_name(kubevirt)}, and would undo any change of "
        f"it. {remedy}"
    )


def gates_of(kubevirt: Json) -> list[str]:
    """Return the feature gates that a KubeVirt turns on."""
    return (configuration_of(kubevirt).get("developerConfiguration") or {}).get("featureGates") or []


def fields_for_devices(kubevirt: Json) -> list[str]:
    """Return by which fields virtual machines can ask for devices: ``gpus``, ``hostDevices``.

    Source: KubeVirt, ``vmi-create-admitter.go``, which refuses ``gpus`` without the gate GPU up to v1.3, and
    ``hostDevices`` without the gate HostDevices up to v1.9.
    """
    line, gates = line_of(kubevirt), gates_of(kubevirt)
    with_gpus = "GPU" in gates or (line is not None and line >= GPU_WITHOUT_GATE)
    return [*(["gpus"] if with_gpus else []), *(["hostDevices"] if "HostDevices" in gates else [])]


def refuse_closed_gates(kubevirt: Json) -> None:
    """Raise if no virtual machine may ask for a device at all."""
    if not fields_for_devices(kubevirt):
        known = version_of(kubevirt) or "an unknown version"
        raise GpuOpsError(
            f"KubeVirt {full_name(kubevirt)} runs {known}, which refuses virtual machines with GPUs without the "
            f"feature gate GPU (it is always on from {_text(GPU_WITHOUT_GATE)}). Add GPU to {_GATES} of the KubeVirt.",
            reason="Unsupported",
        )


def makes_mediated_devices(kubevirt: Json) -> bool:
    """Return whether KubeVirt makes mediated devices, and removes those that it does not know.

    Source: ``removeUndesiredMDEVs`` in ``pkg/virt-handler/device-manager/mediated_devices_types.go``.
    """
    line = line_of(kubevirt)
    setting = (configuration_of(kubevirt).get("mediatedDevicesConfiguration") or {}).get("enabled")
    if setting is not None and (line is None or line >= MDEV_SETTING):
        return bool(setting)
    return _MDEV_GATE not in gates_of(kubevirt)


def refuse_two_makers(kubevirt: Json, wanted: t.Iterable[PermittedDevice]) -> None:
    """Raise if both NVIDIA's operator and KubeVirt would make the mediated devices that are wanted."""
    concerned = [str(entry) for entry in wanted if entry.kind == "mdev" and entry.is_external]
    if concerned and makes_mediated_devices(kubevirt):
        line = line_of(kubevirt)
        has_setting = line is not None and line >= MDEV_SETTING
        remedy = (
            "Set spec.configuration.mediatedDevicesConfiguration.enabled of the KubeVirt to false"
            if has_setting
            else f"Add {_MDEV_GATE} to {_GATES} of the KubeVirt"
        )
        raise GpuOpsError(
            f"NVIDIA's operator makes the mediated devices of {first_few(concerned)}, and KubeVirt "
            f"{full_name(kubevirt)} makes and removes such devices, too. {remedy}.",
            reason="Unsupported",
        )


def refuse_two_providers(wanted: t.Iterable[PermittedDevice], plugins: t.Mapping[str, int], refusal: str) -> None:
    """Raise if both NVIDIA's device plugin and KubeVirt's would give out the devices that are wanted.

    ``plugins`` are the DaemonSets of NVIDIA's plugin with the number of their nodes; with a ``refusal`` unknown.
    """
    concerned = [str(entry) for entry in wanted if not entry.is_external]
    if not concerned:
        return
    if refusal:
        raise GpuOpsError(
            f"Whether NVIDIA's device plugin gives out {first_few(concerned)} is unknown, since this user may not list "
            "DaemonSets in all namespaces. Permit that, or set external_resource_provider: true.",
            reason="Forbidden",
        )
    if plugins:
        listed = [f"{name} on {count} nodes" for name, count in sorted(plugins.items())]
        raise GpuOpsError(
            f"NVIDIA's device plugin ({first_few(listed)}) gives out every NVIDIA device that vfio-pci has, and with "
            f"external_resource_provider: false KubeVirt would give out {first_few(concerned)}, too. Set it to true, "
            "or turn the plugin off (sandboxDevicePlugin.enabled: false in the ClusterPolicy).",
            reason="InUse",
        )


def refuse_in_use(change: PermittedChange, users: MachineUsers, is_allowed: bool) -> list[str]:
    """Raise if virtual machines ask for what would no longer be permitted, unless that is allowed; return warnings."""
    after = resources_of({**_others(change), **change.lists})
    gone = sorted({entry.resource for entry in change.removed} - after)
    found = {name: listed for name in gone if (listed := users.of(name))}
    begins = bool(change.added) and not restricts(change.kubevirt)
    locked_out = users.of_others(after) if begins else []
    if not (gone or begins):
        return []
    if users.unread and not is_allowed:
        raise GpuOpsError(
            f"Whether virtual machines need {first_few(gone) or 'devices that would no longer be permitted'} is "
            f"unknown, since this user may not list {first_few(users.unread)}. Permit that, or accept it with "
            "allow_in_use: true.",
            reason="Forbidden",
        )
    texts = [f"{name} is asked for by {first_few(listed)}" for name, listed in found.items()]
    if locked_out:
        texts.append(
            "KubeVirt permits every device until its first list of permitted devices, which leaves out those of "
            f"{first_few(locked_out)}"
        )
    if not texts:
        return []
    text = f"{'; '.join(texts)}. Running machines keep their devices, and cannot start again or move."
    if not is_allowed:
        raise GpuOpsError(
            f"{text} Change these machines, permit their devices, too, or accept it with allow_in_use: true.",
            reason="InUse",
            users={**found, **({"not_listed": locked_out} if locked_out else {})},
        )
    return [text]


def _others(change: PermittedChange) -> Json:
    """Return the lists that a call never changes."""
    lists = configuration_of(change.kubevirt).get("permittedHostDevices") or {}
    return {name: items for name, items in lists.items() if name not in DEVICE_LISTS.values()}


def other_declarers(kubevirt: Json, manager: str) -> list[str]:
    """Return who applies the lists of permitted devices from a manifest: its next write takes our entries out."""
    managers = [
        str(entry.get("manager"))
        for entry in kubevirt["metadata"].get("managedFields") or []
        if entry.get("operation") == "Apply"
        and entry.get("manager") != manager
        and _lists_in(entry.get("fieldsV1") or {}, "f:")
    ]
    try:
        applied = json.loads(annotations_of(kubevirt).get(_LAST_APPLIED) or "{}")
    except ValueError:
        applied = {}
    by_kubectl = isinstance(applied, dict) and bool(_lists_in(applied, ""))
    return [*managers, *(["kubectl apply"] if by_kubectl else [])]


def _lists_in(tree: t.Any, prefix: str) -> t.Any:
    for name in ("spec", "configuration", "permittedHostDevices"):
        tree = tree.get(f"{prefix}{name}") if isinstance(tree, dict) else None
    return tree


def _text(line: Minor) -> str:
    return f"v{line[0]}.{line[1]}"
