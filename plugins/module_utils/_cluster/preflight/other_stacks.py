# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Software in the cluster that already does the work of the operator or of its operands."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import nfd
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.finding import Finding
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.snapshot import Intent, Snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import (
    annotations_of,
    full_name,
    labels_of,
    name_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._findings import Level
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

# ---- Node Feature Discovery ---------------------------------------------------------------------------------------


def check_nfd(snapshot: Snapshot, intent: Intent) -> t.Iterator[Finding]:
    """Find a Node Feature Discovery that is not the operator's, several installations, or none."""
    found = nfd.installations(snapshot.daemonsets)
    foreign = [worker for worker in found if not worker.belongs_to(intent.release_name, intent.namespace)]
    wanted = intent.value("nfd.enabled", True)
    if foreign and wanted:
        message = (
            f"Node Feature Discovery is already running ({_listed(foreign)}), "
            "and a second one would fight over its labels."
        )
        yield Finding("nfd", "failure", message, "Set nfd.enabled to false.")
    elif len(found) > 1:
        message = f"Node Feature Discovery runs {len(found)} times ({_listed(found)})."
        yield Finding("nfd", "failure", message, "Keep only one of these installations.")
    elif foreign:
        yield Finding("nfd", "ok", f"Node Feature Discovery runs as {_listed(foreign)}.")
    elif found or wanted:
        yield Finding("nfd", "ok", "The operator's chart installs Node Feature Discovery.")
    else:
        yield _missing(snapshot)


def _missing(snapshot: Snapshot) -> Finding:
    remedy = "Set nfd.enabled to true."
    if snapshot.gpu_nodes:
        message = "Nodes carry labels of Node Feature Discovery, but it does not run, so the labels become stale."
        return Finding("nfd", "warning", message, remedy)
    message = "nfd.enabled is false and no Node Feature Discovery runs, so nothing would label the GPU nodes."
    return Finding("nfd", "failure", message, remedy)


def _listed(found: list[nfd.Installation]) -> str:
    return ", ".join(str(worker) for worker in found)


# ---- operators and DaemonSets -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Stack:
    """Software that does the work of an operand."""

    what: str
    words: tuple[str, ...]
    """Parts of the name or image of its DaemonSet."""
    value: str
    """The Helm value that turns our operand off."""
    level: Level = "failure"


_STACKS = (
    _Stack(
        "device plugin",
        ("nvidia-device-plugin", "k8s-device-plugin", "nvidia-gpu-device-plugin"),
        "devicePlugin.enabled",
    ),
    _Stack("driver installer", ("nvidia-driver-installer", "nvidia-gpu-driver-installer"), "driver.enabled"),
    _Stack("container toolkit", ("nvidia-container-toolkit",), "toolkit.enabled"),
    _Stack("DCGM exporter", ("dcgm-exporter",), "dcgmExporter.enabled", "warning"),
    _Stack("GPU feature discovery", ("gpu-feature-discovery",), "gfd.enabled"),
    _Stack("MIG manager", ("mig-manager",), "migManager.enabled"),
)
_DRA_WORDS = ("k8s-dra-driver-gpu", "dra-driver-nvidia-gpu", "nvidia-dra-driver")
_OPERATOR_KINDS = ("ClusterPolicy", "NVIDIADriver", "GPUCluster")


def check_other_stacks(snapshot: Snapshot, intent: Intent) -> t.Iterator[Finding]:
    """Find other software that manages the GPUs of the same nodes."""
    found = [
        *_other_operators(snapshot, intent),
        *_other_owners(snapshot, intent),
        *_other_daemonsets(snapshot, intent),
    ]
    yield from found
    if not found:
        yield Finding("other_stacks", "ok", "Nothing else manages the GPUs of this cluster.")


def _failure(message: str, remedy: str) -> Finding:
    return Finding("other_stacks", "failure", message, remedy)


def _other_operators(snapshot: Snapshot, intent: Intent) -> t.Iterator[Finding]:
    of_olm = [full_name(item) for item in snapshot.operators if names.OLM_OWNER in labels_of(item)]
    if of_olm:
        message = f"The Operator Lifecycle Manager has installed a GPU Operator ({', '.join(of_olm)})."
        yield _failure(message, "Upgrade it with OLM, and change its ClusterPolicy with gpuops.nvidia.clusterpolicy.")
    others = [full_name(item) for item in snapshot.operators if not _is_ours(item, intent)]
    others = [name for name in others if name not in of_olm]
    if others:
        message = f"Another GPU Operator is installed ({', '.join(others)})."
        yield _failure(message, "Set namespace and release_name to its installation, or uninstall it.")


def _is_ours(deployment: Json, intent: Intent) -> bool:
    release = annotations_of(deployment).get(names.HELM_RELEASE, intent.release_name)
    return (deployment["metadata"]["namespace"], release) == (intent.namespace, intent.release_name)


def _other_owners(snapshot: Snapshot, intent: Intent) -> t.Iterator[Finding]:
    """Find custom resources that the operator does not serve together."""
    policies, wants_gpucluster = snapshot.clusterpolicies, bool(intent.value("gpuCluster.deployCR", False))
    if len(policies) > 1:
        listed = ", ".join(full_name(item) for item in policies)
        message = f"There are several ClusterPolicies ({listed}); the operator silently ignores all but one."
        yield _failure(message, "Delete the others.")
    if snapshot.gpuclusters and not wants_gpucluster:
        message = "There is a GPUCluster, and the operator serves either a GPUCluster or a ClusterPolicy, not both."
        yield _failure(message, "Remove the stack first (operator_state: absent), or set gpuCluster.deployCR to true.")
    if policies and wants_gpucluster:
        message = "There is a ClusterPolicy, and the operator serves either a ClusterPolicy or a GPUCluster, not both."
        yield _failure(message, "Remove the stack first (operator_state: absent), or set gpuCluster.deployCR to false.")


def _other_daemonsets(snapshot: Snapshot, intent: Intent) -> t.Iterator[Finding]:
    active = [item for item in snapshot.daemonsets if _is_active(item) and not _is_operand(item)]
    for stack in _STACKS:
        found = _mentioning(active, stack.words)
        if found and intent.value(stack.value, True):
            message = f"A {stack.what} that is not the operator's is already running ({found})."
            yield Finding("other_stacks", stack.level, message, f"Remove it, or set {stack.value} to false.")
    drivers = _mentioning(active, _DRA_WORDS)
    if drivers:
        message = f"NVIDIA's DRA driver runs independently of the operator ({drivers}), and both allocate GPUs."
        yield Finding("other_stacks", "warning", message, "Keep them on different nodes, or remove one of them.")


def _is_active(daemonset: Json) -> bool:
    """Return whether a DaemonSet runs on any node. Managed clouds turn their DaemonSets off by node labels."""
    return bool((daemonset.get("status") or {}).get("desiredNumberScheduled"))


def _is_operand(daemonset: Json) -> bool:
    return any(owner.get("kind") in _OPERATOR_KINDS for owner in daemonset["metadata"].get("ownerReferences") or [])


def _mentioning(daemonsets: list[Json], words: tuple[str, ...]) -> str:
    """Return the names of the DaemonSets whose name or image contains one of the words."""
    return ", ".join(
        full_name(item) for item in daemonsets if any(word in text for word in words for text in _texts(item))
    )


def _texts(daemonset: Json) -> list[str]:
    containers = daemonset["spec"]["template"]["spec"].get("containers") or []
    return [name_of(daemonset), *(container.get("image", "") for container in containers)]
