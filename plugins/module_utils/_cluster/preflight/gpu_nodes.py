# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which nodes have GPUs, and what keeps operands away from them: taints, and states that need manual intervention."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import driver_annotations
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight import versions
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.check_input import Intent, Snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding, about
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def check_gpu_nodes(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    """Count the nodes that carry a GPU."""
    check, found = "gpu_nodes", snapshot.gpu_nodes
    if not snapshot.nodes:
        yield ClusterFinding(check, "failure", "The cluster has no nodes.", "Add nodes first.")
    elif found:
        message = f"{len(found)} of {len(snapshot.nodes)} nodes carry an NVIDIA GPU."
        yield ClusterFinding(check, "ok", message, **about(found))
    elif snapshot.nfd_ran:
        message = "Node Feature Discovery has labelled the nodes, and its labels show no NVIDIA GPU on any of them."
        remedy = (
            "Check with lspci that the hosts see the GPUs. If you installed Node Feature Discovery, check that it "
            f"writes the label {names.NFD_GPU_LABELS[0]} "
            "(sources.pci.deviceLabelFields: [vendor], and 02, 03 in deviceClassWhitelist)."
        )
        yield ClusterFinding(check, "warning", message, remedy)
    else:
        yield _not_known(check, versions.differences(snapshot, intent))


def _not_known(check: str, differences: t.Sequence[str]) -> ClusterFinding:
    """Return what it means that the GPU nodes are not known yet.

    If nodes differ in what one operator cannot serve, the installation would stop half way.
    """
    message = "The GPU nodes are not known before Node Feature Discovery has run"
    if not differences:
        return ClusterFinding(check, "ok", f"{message}.")
    message += f", and the nodes have different {' and '.join(differences)}, which one ClusterPolicy cannot serve."
    remedy = (
        "If the GPU nodes are alike, say so with preflight_tolerate: [gpu_nodes]: they are checked again once they are "
        "known. Otherwise use one container runtime, and NVIDIADriver (driver.nvidiaDriverCRD.enabled) or drivers on "
        "the hosts."
    )
    return ClusterFinding(check, "failure", message, remedy)


def check_taints(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    """Find nodes with taints that the operands do not tolerate. The operator reports `ready` even then."""
    candidates = snapshot.candidates
    tolerations = operands.tolerations({"tolerations": intent.value("daemonsets.tolerations", [])})
    blocked = {name_of(node): nodes.untolerated(node, tolerations) for node in candidates}
    kept_off = [node for node in candidates if blocked[name_of(node)]]
    if not kept_off:
        yield ClusterFinding("taints", "ok", "The operands tolerate the taints of all GPU nodes.")
        return
    keys = sorted({taint["key"] for taints in blocked.values() for taint in taints})
    on_every_node = len(kept_off) == len(candidates)
    which = "Every GPU node has" if on_every_node else f"{len(kept_off)} GPU nodes have"
    message = f"{which} a taint that the operands do not tolerate ({', '.join(keys)})."
    remedy = (
        "Add a toleration to daemonsets.tolerations, which replaces the default list, "
        "and to node-feature-discovery.worker.tolerations; or remove the taint."
    )
    yield ClusterFinding("taints", "failure" if on_every_node else "warning", message, remedy, **about(kept_off))


# ---- states of nodes ----------------------------------------------------------------------------------------------


def _is_not_ready(node: Json, dummy: Intent) -> bool:
    return not nodes.is_ready(node)


def _is_cordoned(node: Json, dummy: Intent) -> bool:
    return nodes.is_cordoned(node)


def _has_failed_upgrade(node: Json, dummy: Intent) -> bool:
    return labels_of(node).get(names.UPGRADE_STATE) == names.UPGRADE_FAILED


def _has_stale_pause(node: Json, dummy: Intent) -> bool:
    labels = labels_of(node)
    paused = any(key.startswith(names.DEPLOY_PREFIX) and names.PAUSED in value for key, value in labels.items())
    upgrade_ended = labels.get(names.UPGRADE_STATE, "") in names.UPGRADE_ENDED
    mig_changing = labels.get(names.MIG_STATE) in names.MIG_CHANGING
    return paused and upgrade_ended and not mig_changing


def _would_stay_cordoned(node: Json, dummy: Intent) -> bool:
    return driver_annotations.would_stay_cordoned(node)


def _is_switched_off(node: Json, dummy: Intent) -> bool:
    return operands.are_switched_off(node)


def _has_own_driver(node: Json, intent: Intent) -> bool:
    return intent.manages_driver and labels_of(node).get(operands.DRIVER.deploy_label) == names.PRE_INSTALLED


_NODE_STATES: tuple[tuple[t.Callable[[Json, Intent], bool], str, str], ...] = (
    (
        _is_not_ready,
        "not Ready.",
        "Repair or remove them: they also use up driver.upgradePolicy.maxUnavailable.",
    ),
    (
        _is_cordoned,
        "cordoned.",
        "Uncordon them unless this is intended: they use up maxUnavailable and are upgraded first.",
    ),
    (
        _has_failed_upgrade,
        f"in state {names.UPGRADE_FAILED}, which holds an upgrade slot.",
        "Remove the cause, then run gpuops.nvidia.upgrade_driver with driver_container_state=recovered.",
    ),
    (
        _has_stale_pause,
        "paused by an interrupted driver or MIG change.",
        f"Set their paused {names.DEPLOY_PREFIX}* labels to true.",
    ),
    (
        _would_stay_cordoned,
        f"with a stale annotation {names.UPGRADE_FOUND_CORDONED}, which a driver upgrade has left.",
        "Call gpuops.nvidia.driver_container with state: recovered, or remove the annotation: with it, the operator "
        "leaves a node cordoned after its next driver upgrade.",
    ),
    (
        _is_switched_off,
        "excluded by a label.",
        f"Remove the label {names.OPERANDS_SWITCH}=false to run operands there.",
    ),
    (
        _has_own_driver,
        "with a pre-installed driver, so the operator's driver does not run there.",
        "Set driver.enabled to false if all nodes are like this.",
    ),
)
"""For each state: a test, the rest of a message that starts with "2 GPU nodes", and the remedy."""


def check_node_state(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    """Find nodes in a state that needs manual intervention, for example after an interrupted job."""
    clean = True
    for is_in_state, state, remedy in _NODE_STATES:
        found = [node for node in snapshot.gpu_nodes if is_in_state(node, intent)]
        if found:
            clean = False
            message = f"{len(found)} GPU node{'s' if len(found) > 1 else ''} {state}"
            yield ClusterFinding("node_state", "warning", message, remedy, **about(found))
    if clean:
        yield ClusterFinding("node_state", "ok", "No GPU node is paused, cordoned, failed or NotReady.")
