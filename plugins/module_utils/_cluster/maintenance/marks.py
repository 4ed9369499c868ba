# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The marks with which other maintainers say that a node is theirs for now.

A node has one cordon and many maintainers. Each of them remembers in its own way whether it found the node cordoned,
and some do not remember it at all. So a cordon may be lifted only by the one that set it, and only if nobody else has
come to rely on it. This file knows what the others write; `hold` decides what that means for a node.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t
from datetime import datetime

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import (
    DEPLOY_PREFIX,
    DRIVER_PAUSED,
    UPGRADE_ENABLED,
    UPGRADE_FAILED,
    UPGRADE_FOUND_CORDONED,
    UPGRADE_IDLE,
    UPGRADE_STATE,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import (
    annotations_of,
    labels_of,
    name_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

NVSENTINEL_FOUND_CORDONED = "quarantineHealthEventCordonPreExisting"
NVSENTINEL_SWITCH = "k8saas.nvidia.com/ManagedByNVSentinel"
"""Label of a node. NVSentinel's rules leave a node alone while its value is ``false``."""

FOUND_CORDONED = (UPGRADE_FOUND_CORDONED, NVSENTINEL_FOUND_CORDONED)
"""Annotations of a node by which others remember that they found it cordoned, so that they will not uncordon it."""

KURED_LOCK = "weave.works/kured-node-lock"
"""Annotation of kured's DaemonSet with the nodes that reboot. Source: kured, cmd/kured/main.go, pkg/daemonsetlock."""

NODE_MAINTENANCE_FOUND_CORDONED = "maintenance.nvidia.com/node-initial-state.unschedulable"
_NODE_MAINTENANCE_AT_WORK = ("Scheduled", "Cordon", "WaitForPodCompletion", "Draining", "Ready", "RequestorFailed")
"""Reasons of a NodeMaintenance's condition Ready. Source: Mellanox/maintenance-operator, api/v1alpha1."""


@dataclasses.dataclass(frozen=True)
class Holder:
    """Another maintainer that has marked a node."""

    owner: str
    mark: str
    at_work: bool = True
    """Whether it changes the node at the moment, so that nobody else should."""
    needs_cordon: bool = True
    """Whether only the cordon keeps pods away. A taint of its own does that without the cordon."""
    lifts: bool = True
    """Whether it uncordons the node in the end."""

    def as_result(self) -> Json:
        """Return the part of a module's result."""
        return {"owner": self.owner, "mark": self.mark, "at_work": self.at_work}

    def __str__(self) -> str:
        return f"{self.owner} ({self.mark})"


OF_DRIVERS = ("gpu-operator", "k8s-driver-manager")
"""Who works on a node for its driver: the operator's upgrade, and the init container of a driver's pod."""

UNKNOWN = Holder("unknown", "cordon", at_work=False, lifts=False)
"""Whoever has cordoned a node without any mark."""

Elsewhere = t.Mapping[str, tuple[Holder, ...]]
"""The holders that are recorded in other objects than the node, by the node's name."""


# ---- marks on the node itself -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Mark:
    """A label, an annotation, a taint or a condition, and what it says about its owner."""

    owner: str
    kind: t.Literal["label", "annotation", "taint", "condition"]
    key: str
    """The whole key, or its beginning if it ends with an asterisk."""
    values: tuple[str, ...] = ()
    """Values that count; without them, every value does."""
    other_than: tuple[str, ...] = ()
    """Values that do not count."""
    at_work: bool = True
    needs_cordon: bool = True
    lifts: bool = True

    def found_on(self, node: Json) -> Holder | None:
        """Return the owner as a holder of this node, or None if the node does not have the mark."""
        entries = _entries(node, self.kind)
        for key in self._keys(entries):
            value = entries[key]
            if self._matches_value(value):
                shown = f"={value}" if value and len(value) < 40 else ""
                return Holder(self.owner, f"{self.kind} {key}{shown}", self.at_work, self.needs_cordon, self.lifts)
        return None

    def _keys(self, entries: t.Mapping[str, str]) -> list[str]:
        if self.key.endswith("*"):
            return [key for key in entries if key.startswith(self.key[:-1])]
        return [self.key] if self.key in entries else []

    def _matches_value(self, value: str) -> bool:
        return (not self.values or value in self.values) and value not in self.other_than


def _entries(node: Json, kind: str) -> t.Mapping[str, str]:
    if kind == "label":
        return labels_of(node)
    if kind == "annotation":
        return annotations_of(node)
    if kind == "condition":
        conditions = (node.get("status") or {}).get("conditions") or []
        return {condition["type"]: condition.get("status") or "" for condition in conditions}
    return {taint["key"]: taint.get("value") or "" for taint in (node.get("spec") or {}).get("taints") or []}


_HYPERPOD = ("Unschedulable", "UnschedulablePendingReplacement", "UnschedulablePendingReboot")

MARKS_OF_OTHERS = (
    # The operator's driver upgrade cordons a node and lifts the cordon, unless it noted that the node was cordoned.
    # Source: NVIDIA/k8s-operator-libs, pkg/upgrade (consts.go, common_manager.go, upgrade_inplace.go).
    _Mark("gpu-operator", "label", UPGRADE_STATE, other_than=UPGRADE_IDLE),
    _Mark("gpu-operator", "label", UPGRADE_STATE, values=(UPGRADE_FAILED,), at_work=False),
    # Writes only its marks on a node that is cordoned already, and then leaves the cordon. It takes anybody's uncordon
    # of such a node for a person's decision to end the quarantine.
    # Source: NVIDIA/NVSentinel, fault-quarantine/pkg (common, reconciler, informer), commons/pkg/statemanager.
    _Mark("nvsentinel", "annotation", "quarantineHealthEventIsCordoned", values=("True",), at_work=False),
    _Mark("nvsentinel", "label", "dgxc.nvidia.com/nvsentinel-state", values=("remediating",)),
    # Lifts the cordon whoever set it. Source: NVIDIA/nodewright, operator/internal/wrapper/node.go.
    _Mark("nodewright", "annotation", "skyhook.nvidia.com/cordon_*"),
    # Written when a reboot is due, which may be long before kured's lock permits it; it asks for nothing until then.
    # Source: kured, cmd/kured/main.go.
    _Mark("kured", "annotation", "weave.works/kured-reboot-in-progress", at_work=False, needs_cordon=False),
    # Lifts the cordon whoever set it. Source: medik8s/node-maintenance-operator, internal/controller/taint.go.
    _Mark("medik8s", "taint", "medik8s.io/drain"),
    # These never use the cordon, or their taint keeps pods away without it.
    # Sources: ROCm/gpu-operator, internal/controllers (upgrademgr.go, remediation_handler.go); karpenter,
    # pkg/apis/v1/taints.go; kubernetes/autoscaler, cluster-autoscaler/utils/taints/taints.go.
    _Mark("amd-gpu-operator", "taint", "amd-gpu-driver-upgrade", needs_cordon=False),
    _Mark("amd-gpu-operator", "taint", "amd-gpu-unhealthy", at_work=False, needs_cordon=False),
    _Mark("karpenter", "taint", "karpenter.sh/disrupted", needs_cordon=False),
    _Mark("cluster-autoscaler", "taint", "ToBeDeletedByClusterAutoscaler", needs_cordon=False),
    _Mark("cluster-autoscaler", "taint", "DeletionCandidateOfClusterAutoscaler", at_work=False, needs_cordon=False),
    # Its taint says that the node will be replaced in a rollout. Its drain leaves no mark but the cordon.
    # Source: kubernetes-sigs/cluster-api, api/core/v1beta2/common_types.go (NodeOutdatedRevisionTaint).
    _Mark("cluster-api", "taint", "node.cluster.x-k8s.io/outdated-revision", at_work=False, needs_cordon=False),
    # Keeps pods away until conditions of the node are met, and takes its taint away by itself.
    # Source: kubernetes-sigs/node-readiness-controller at e5ff8d1, api/v1alpha1/nodereadinessrule_types.go.
    _Mark("node-readiness-controller", "taint", "readiness.k8s.io/*", at_work=False, needs_cordon=False),
    # With node auto repair, EKS replaces or reboots the node 10 minutes after its GPUs have failed.
    # Source: aws/eks-node-monitoring-agent at 51af549, README.md.
    _Mark(
        "eks-node-monitoring",
        "condition",
        "AcceleratedHardwareReady",
        values=("False",),
        at_work=False,
        needs_cordon=False,
    ),
    # HyperPod tests the node, replaces it or reboots it, and keeps pods away with a taint of the same name.
    # Source: https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency.html (2026-11).
    _Mark("hyperpod", "label", "sagemaker.amazonaws.com/node-health-status", values=_HYPERPOD, needs_cordon=False),
)
"""What others write on a node. A person and ``kubectl cordon`` leave no mark but the cordon."""


def _driver_manager(node: Json) -> Holder | None:
    """Return k8s-driver-manager if it works on the node without the operator's upgrade.

    Then it cordons the node itself, and lifts the cordon whoever set it. Under an upgrade policy, it leaves both to the
    operator. Source: NVIDIA/k8s-driver-manager, cmd/driver-manager/main.go.
    """
    paused = [key for key, value in labels_of(node).items() if key.startswith(DEPLOY_PREFIX) and DRIVER_PAUSED in value]
    if not paused or annotations_of(node).get(UPGRADE_ENABLED) == "true":
        return None
    return Holder("k8s-driver-manager", f"label {paused[0]}={labels_of(node)[paused[0]]}")


# ---- marks in other objects ---------------------------------------------------------------------------------------


def elsewhere(daemonsets: t.Iterable[Json], maintenances: t.Iterable[Json], now: float) -> Elsewhere:
    """Return the holders that kured's lock and the objects of maintenance.nvidia.com name, by node."""
    found: dict[str, tuple[Holder, ...]] = {}
    for node, holder in [*_kured(daemonsets, now), *_node_maintenances(maintenances)]:
        found[node] = (*found.get(node, ()), holder)
    return found


def _kured(daemonsets: t.Iterable[Json], now: float) -> t.Iterator[tuple[str, Holder]]:
    """Yield the nodes for which kured has its lock. It drains and reboots them, and notes if they were cordoned."""
    for item in daemonsets:
        for lock in _locks(annotations_of(item).get(KURED_LOCK)):
            if lock.get("nodeID") and not _is_expired(lock, now):
                lifts = not (lock.get("metadata") or {}).get("unschedulable")
                yield lock["nodeID"], Holder("kured", f"lock on DaemonSet {name_of(item)}", lifts=lifts)


def _locks(text: str | None) -> list[Json]:
    """Return the locks in kured's annotation: one lock, or a list if several nodes may reboot at once."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return []
    found = value.get("locks", [value]) if isinstance(value, dict) else []
    return [lock for lock in found or [] if isinstance(lock, dict)]


def _is_expired(lock: Json, now: float) -> bool:
    """Return whether a lock's time to live (nanoseconds; 0 means forever) is over."""
    ttl_s = (lock.get("TTL") or 0) / 1e9
    try:
        return bool(ttl_s) and datetime.fromisoformat(lock["created"]).timestamp() + ttl_s < now
    except (KeyError, ValueError):
        return False


def _node_maintenances(maintenances: t.Iterable[Json]) -> t.Iterator[tuple[str, Holder]]:
    """Yield the nodes on which NVIDIA's maintenance operator works."""
    for item in maintenances:
        conditions = (item.get("status") or {}).get("conditions") or []
        reasons = {entry.get("reason") for entry in conditions if entry.get("type") == "Ready"}
        if reasons & set(_NODE_MAINTENANCE_AT_WORK):
            # It writes this annotation just before it cordons the node. Until then, it does not need our cordon.
            found_cordoned = annotations_of(item).get(NODE_MAINTENANCE_FOUND_CORDONED)
            mark = f"NodeMaintenance {name_of(item)} of {item['spec'].get('requestorID')}"
            yield (
                item["spec"]["nodeName"],
                Holder(
                    "maintenance-operator",
                    mark,
                    needs_cordon=found_cordoned is not None,
                    lifts=found_cordoned == "false",
                ),
            )


# ---- all of them --------------------------------------------------------------------------------------------------


def holders(node: Json, others: Elsewhere) -> list[Holder]:
    """Return the other maintainers that have marked a node."""
    on_node = [mark.found_on(node) for mark in MARKS_OF_OTHERS]
    return [holder for holder in (*on_node, _driver_manager(node), *others.get(name_of(node), ())) if holder]
