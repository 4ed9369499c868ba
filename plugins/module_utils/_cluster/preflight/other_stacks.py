# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Software in the cluster that already does the work of the operator or of its operands."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import driver_chart, installed_by, nfd
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.installed_by import InstalledBy, ReleaseScope
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.check_input import Intent, Snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._findings import Level
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

# ---- Node Feature Discovery ---------------------------------------------------------------------------------------


def check_nfd(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    """Find a Node Feature Discovery that is not the operator's, several installations, or a missing one."""
    found = nfd.installations(snapshot.daemonsets)
    foreign = [worker for worker in found if not worker.belongs_to(intent.release_name, intent.namespace)]
    # What came with another's operator is not to be worked around: the whole installation is in the way.
    theirs = {item["metadata"]["namespace"] for item, dummy in _foreign_operators(snapshot, intent)}
    foreign = [worker for worker in foreign if worker.namespace not in theirs]
    wanted = intent.value("nfd.enabled", True)
    if foreign and wanted:
        message = (
            f"Node Feature Discovery is already running ({_listed(foreign)}), "
            "and a second one would fight over its labels."
        )
        yield ClusterFinding("nfd", "failure", message, "Set nfd.enabled to false.")
    elif len(found) > 1:
        message = f"Node Feature Discovery runs {len(found)} times ({_listed(found)})."
        yield ClusterFinding("nfd", "failure", message, "Keep only one of these installations.")
    elif foreign:
        yield ClusterFinding("nfd", "ok", f"Node Feature Discovery runs as {_listed(foreign)}.")
    elif found or wanted:
        yield ClusterFinding("nfd", "ok", "The operator's chart installs Node Feature Discovery.")
    else:
        yield _missing(snapshot)


def _missing(snapshot: Snapshot) -> ClusterFinding:
    remedy = "Set nfd.enabled to true."
    if snapshot.gpu_nodes:
        message = "Nodes carry labels of Node Feature Discovery, but it does not run, so the labels become stale."
        return ClusterFinding("nfd", "warning", message, remedy)
    message = "nfd.enabled is false and no Node Feature Discovery runs, so the GPU nodes would stay without labels."
    return ClusterFinding("nfd", "failure", message, remedy)


def _listed(found: list[nfd.Installation]) -> str:
    return first_few([str(worker) for worker in found])


# ---- operators and DaemonSets -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _OtherStack:
    """Software that does the work of an operand."""

    what: str
    words: tuple[str, ...]
    """Parts of the name or image of its DaemonSet."""
    value: str
    """The Helm value that turns our operand off."""
    level: Level = "failure"


_STACKS = (
    _OtherStack(
        "device plugin",
        ("nvidia-device-plugin", "k8s-device-plugin", "nvidia-gpu-device-plugin"),
        "devicePlugin.enabled",
    ),
    _OtherStack("driver installer", ("nvidia-driver-installer", "nvidia-gpu-driver-installer"), "driver.enabled"),
    _OtherStack("container toolkit", ("nvidia-container-toolkit",), "toolkit.enabled"),
    _OtherStack("DCGM exporter", ("dcgm-exporter",), "dcgmExporter.enabled", "warning"),
    _OtherStack("GPU feature discovery", ("gpu-feature-discovery",), "gfd.enabled"),
    _OtherStack("MIG manager", ("mig-manager",), "migManager.enabled"),
)


def check_other_stacks(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    """Find other software that manages the GPUs of the same nodes."""
    found = [
        *_other_operators(snapshot, intent),
        *_other_owners(snapshot, intent),
        *_other_daemonsets(snapshot, intent),
    ]
    yield from found
    if not found:
        yield ClusterFinding("other_stacks", "ok", "Only this stack manages the GPUs of this cluster.")


def _failure(message: str, remedy: str) -> ClusterFinding:
    return ClusterFinding("other_stacks", "failure", message, remedy)


def _other_operators(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    for item, owner in _foreign_operators(snapshot, intent):
        message = f"A GPU Operator of {owner.who} is installed: {full_name(item)} has {owner.proof}."
        yield _failure(message, installed_by.remedy(owner, "install", _scope(intent)))


def _foreign_operators(snapshot: Snapshot, intent: Intent) -> list[tuple[Json, InstalledBy]]:
    """Return the Deployments of GPU Operators that do not belong to the release, each with who has installed it."""
    found = [(item, installed_by.owner_of(item, "Deployment")) for item in snapshot.operators]
    return [(item, owner) for item, owner in found if not owner.is_release(_scope(intent))]


def _scope(intent: Intent) -> ReleaseScope:
    return ReleaseScope(intent.release_name, intent.namespace)


def _other_owners(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    """Find custom resources that the operator does not serve together."""
    policies, wants_gpucluster = snapshot.clusterpolicies, bool(intent.value("gpuCluster.deployCR", False))
    if len(policies) > 1:
        listed = first_few([full_name(item) for item in policies])
        message = f"There are several ClusterPolicies ({listed}); the operator silently ignores all but one."
        yield _failure(message, "Delete the others.")
    if snapshot.gpuclusters and not wants_gpucluster:
        message = "There is a GPUCluster, and the operator serves either a GPUCluster or a ClusterPolicy, not both."
        yield _failure(message, "Remove the stack first (operator_state: absent), or set gpuCluster.deployCR to true.")
    if policies and wants_gpucluster:
        message = "There is a ClusterPolicy, and the operator serves either a ClusterPolicy or a GPUCluster, not both."
        yield _failure(message, "Remove the stack first (operator_state: absent), or set gpuCluster.deployCR to false.")


def _other_daemonsets(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    active = [
        item for item in snapshot.daemonsets if driver_chart.is_active(item) and not driver_chart.is_operand(item)
    ]
    for stack in _STACKS:
        found = first_few([full_name(item) for item in active if driver_chart.mentions(item, stack.words)])
        if found and intent.value(stack.value, True):
            message = f"A {stack.what} that is not the operator's is already running ({found})."
            yield ClusterFinding("other_stacks", stack.level, message, f"Remove it, or set {stack.value} to false.")
    wants_gpucluster = bool(intent.value("gpuCluster.deployCR", False))
    for driver in driver_chart.separate_drivers(snapshot.daemonsets):
        message = f"NVIDIA's DRA driver runs independently of the operator ({driver}), and both allocate GPUs."
        if wants_gpucluster:
            yield _failure(message, driver.way_out)
        else:
            remedy = "Keep them on different nodes, or remove one of them."
            yield ClusterFinding("other_stacks", "warning", message, remedy)
