# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The one judge of readiness: pods run the new revision on every node that should have them, and the GPUs can be allocated.

``status.state: ready`` alone proves nothing. The operator writes no observedGeneration; it calls a DaemonSet that schedules
no pod ready; it is ready with every node tainted, without Node Feature Discovery, just before it looks at an edit, and while
nodes are still cordoned by a driver upgrade. Each check below closes one of these windows. Everything here is pure.
"""

from __future__ import annotations

import calendar
import dataclasses
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.names import DEPLOY_PREFIX, UPGRADE_STATE
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.nodes import (
    format_taint,
    gpu_quantities,
    has_nfd_labels,
    is_gpu_node,
    is_ready,
    is_switched_off,
    matches,
    runs_containers,
    untolerated,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.objects import labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.operands import (
    DEVICE_PLUGIN,
    OPERANDS,
    Operand,
    belongs,
    enabled,
    image_of,
    operand_name,
    tolerations,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import (
    Observation,
    PodRow,
    Reason,
    Rollout,
    Verdict,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

SETTLE_S = 3
"""How old an edit must be before a `ready` can be about it: recordings show the operator answer an edit within 0.3 s."""

GRACE_S = 60
"""How long "no GPU node yet" may be the cluster still coming up: Node Feature Discovery labels a node within about a minute."""

RECONCILE_ERROR_S = 30
"""How long a ReconcileFailed may last before it counts: the operator passes through one for about a second and heals."""

CORRECTED_S = 10
"""How long after an edit an operand's failure may still be about the spec before it."""

CRASHES = 3
"""Restarts after which a crash loop is no longer bad luck: about a minute with the kubelet's back-off."""

NEVER_STARTS = {
    "ImagePullBackOff": "Check that the image and tag exist, that the node reaches the registry, and the pull secret.",
    "ErrImagePull": "Check that the image and tag exist, that the node reaches the registry, and the pull secret.",
    "InvalidImageName": "Correct the operand's repository, image and version.",
    "ErrImageNeverPull": "Set the operand's imagePullPolicy to IfNotPresent, or load the image on the node.",
    "CreateContainerConfigError": "Create the ConfigMap or Secret that the pod refers to.",
    "CreateContainerError": "See the pod's events on the node's container runtime.",
    "RunContainerError": "See the pod's events on the node's container runtime.",
}
Reasons = t.Iterator[Reason]


def judge(seen: Observation) -> Verdict:
    """Return the verdict on what was observed."""
    gpu_nodes = [node for node in seen.nodes if is_gpu_node(node) and runs_containers(node, seen.spec)]
    rollouts = list(_rollouts(seen, gpu_nodes))
    reasons = [*_policy_reasons(seen)]
    if seen.policy is not None:
        reasons += [
            *_node_reasons(seen, gpu_nodes),
            *_operand_reasons(seen, rollouts, gpu_nodes),
            *_upgrade_reasons(gpu_nodes),
        ]
        reasons += [*_gpu_reasons(seen, gpu_nodes), *_state_reasons(seen)]
    if seen.policy is not None and seen.now - last_write(seen.policy) < CORRECTED_S:
        reasons = [
            dataclasses.replace(reason, level="progressing") if reason.operand and reason.level == "failed" else reason
            for reason in reasons
        ]
    order = {"failed": 0, "progressing": 1, "note": 2}
    reasons.sort(key=lambda reason: order[reason.level])
    usable = sum(1 for node in gpu_nodes if is_ready(node) and any(gpu_quantities(node, "allocatable").values()))
    return _verdict(reasons, tuple(rollouts), usable, len(gpu_nodes))


def suspects(seen: Observation) -> list[Json]:
    """Return the DaemonSets whose pods are worth a look, because they are not where they should be."""
    return [item for item in seen.daemonsets if not _rolled_out(item) and operand_name(item)]


def _verdict(reasons: list[Reason], rollouts: tuple[Rollout, ...], usable: int, total: int) -> Verdict:
    blocking = [reason for reason in reasons if reason.level != "note"]
    if not blocking:
        message = f"The GPU stack is ready: {usable} of {total} GPU nodes have allocatable GPUs."
        return Verdict("ready", message, tuple(reasons), rollouts, usable, total)
    first = blocking[0]
    more = f" ({len(blocking) - 1} more)" if len(blocking) > 1 else ""
    message = f"{first.message}{more}" + (f" {first.remedy}" if first.remedy else "")
    return Verdict(
        "failed" if first.level == "failed" else "progressing", message, tuple(reasons), rollouts, usable, total
    )


# The ClusterPolicy itself


def _policy_reasons(seen: Observation) -> Reasons:
    if seen.policies is None:
        yield Reason(
            "failed",
            "CRDMissing",
            "The ClusterPolicy CRD is not installed.",
            "Apply the CRDs of the GPU Operator's chart first.",
        )
        return
    if seen.gpuclusters:
        yield Reason(
            "failed",
            "GPUClusterPresent",
            f"A GPUCluster ({name_of(seen.gpuclusters[0])}) exists beside the ClusterPolicy, and the operator serves neither.",
            "Delete one of the two.",
        )
    if seen.policy is None:
        yield Reason(
            "progressing",
            "NoClusterPolicy",
            f"There is no ClusterPolicy {seen.name}.",
            "Create it with gpuops.nvidia.clusterpolicy.",
        )
        return
    oldest = min(seen.policies, key=lambda item: (item["metadata"]["creationTimestamp"], name_of(item)))
    if oldest is not seen.policy:
        yield Reason(
            "failed",
            "NotInCharge",
            f"The operator ignores ClusterPolicy {seen.name}: {name_of(oldest)} is older, and only one is served.",
            f"Delete {seen.name}, or delete {name_of(oldest)} if its drivers may go.",
        )
    elif len(seen.policies) > 1:
        others = ", ".join(sorted(name_of(item) for item in seen.policies if item is not seen.policy))
        yield Reason(
            "note", "IgnoredClusterPolicy", f"The operator ignores another ClusterPolicy: {others}.", "Delete it."
        )
    yield from _operator_reasons(seen)


def _operator_reasons(seen: Observation) -> Reasons:
    if not seen.operators:
        yield Reason(
            "progressing",
            "OperatorMissing",
            f"There is no operator Deployment (pods with label app=gpu-operator) in namespace {seen.namespace}, so nobody acts on the ClusterPolicy.",
            "Install the GPU Operator's chart there, or name the right namespace.",
        )
    elif not any((item.get("status") or {}).get("availableReplicas") for item in seen.operators):
        yield Reason(
            "progressing",
            "OperatorNotAvailable",
            f"The operator Deployment {name_of(seen.operators[0])} has no available pod, so the ClusterPolicy's status is old.",
            f"See `kubectl -n {seen.namespace} describe deployment {name_of(seen.operators[0])}`.",
        )


def _state_reasons(seen: Observation) -> Reasons:
    """What the operator says of itself comes last: it names states, the checks before it name pods and nodes."""
    policy = seen.policy or {}
    status = policy.get("status") or {}
    error = next((c for c in status.get("conditions") or [] if c["type"] == "Error" and c["status"] == "True"), None)
    if error and error.get("reason") != "OperandNotReady":
        # An error from before the last edit may be about what that edit has corrected.
        old = seen.now - max(_timestamp(error.get("lastTransitionTime")), last_write(policy)) > RECONCILE_ERROR_S
        message = f"The operator cannot reconcile: {error.get('message') or error.get('reason')}."
        yield Reason(
            "failed" if old else "progressing", str(error.get("reason")), message, "Correct what the message names."
        )
    elif status.get("state") != "ready":
        said = (error or {}).get("message") or f"state is {status.get('state') or 'not set yet'}"
        yield Reason("progressing", "StateNotReady", f"The operator does not call the ClusterPolicy ready: {said}.")
    if seen.now - last_write(policy) < SETTLE_S:
        yield Reason(
            "progressing",
            "JustChanged",
            "The ClusterPolicy was changed a moment ago, and its status may be about the time before.",
        )


def last_write(policy: Json) -> float:
    """Return when the object was last changed other than by a status update, in seconds since the epoch."""
    writes = [
        _timestamp(entry.get("time"))
        for entry in policy["metadata"].get("managedFields") or []
        if entry.get("subresource") != "status"
    ]
    return max([*writes, _timestamp(policy["metadata"].get("creationTimestamp"))])


def _timestamp(text: str | None) -> float:
    return float(calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))) if text else 0.0


# Nodes


def _node_reasons(seen: Observation, gpu_nodes: list[Json]) -> Reasons:
    late = seen.now - last_write(seen.policy or {}) > GRACE_S
    level: t.Literal["failed", "progressing"] = "failed" if late else "progressing"
    if not gpu_nodes:
        yield _no_gpu_node(seen, level)
        return
    off = [node for node in gpu_nodes if is_switched_off(node)]
    if off:
        every = len(off) == len(gpu_nodes)
        yield _about(
            level if every else "note",
            "OperandsSwitchedOff",
            off,
            gpu_nodes,
            "label nvidia.com/gpu.deploy.operands=false keeps the operands away",
        )
    accepted = tolerations(seen.spec.get("daemonsets"))
    tainted = [node for node in gpu_nodes if untolerated(node, accepted)]
    if tainted:
        taint = format_taint(untolerated(tainted[0], accepted)[0])
        every = len(tainted) == len(gpu_nodes)
        what = f"taint {taint} is not tolerated by the operands"
        yield _about(
            level if every else "note",
            "NodesTainted",
            tainted,
            gpu_nodes,
            what,
            "Add a toleration to daemonsets.tolerations, or remove the taint.",
        )
    down = [node for node in gpu_nodes if not is_ready(node)]
    if down:
        yield _about(
            "progressing",
            "NodesNotReady",
            down,
            gpu_nodes,
            "the kubelet does not report Ready",
            "See `kubectl describe node`.",
        )


def _no_gpu_node(seen: Observation, level: t.Literal["failed", "progressing"]) -> Reason:
    if any(has_nfd_labels(node) for node in seen.nodes):
        return Reason(
            level,
            "NoGPUNodes",
            f"None of {len(seen.nodes)} nodes has an NVIDIA GPU (no label feature.node.kubernetes.io/pci-10de.present=true).",
            "Add a GPU node, or check with `lspci -d 10de:` that its GPU is on the bus.",
        )
    return Reason(
        level,
        "NoNFDLabels",
        f"None of {len(seen.nodes)} nodes carries a label of Node Feature Discovery, so the operator sees no GPU.",
        "Enable it in the chart (nfd.enabled: true), or repair the Node Feature Discovery that is installed.",
    )


def _about(
    level: t.Literal["failed", "progressing", "note"],
    code: str,
    nodes: list[Json],
    of: list[Json],
    what: str,
    remedy: str = "",
    operand: str | None = None,
) -> Reason:
    """Make a reason about some of the GPU nodes, with one example by name."""
    example = name_of(nodes[0])
    message = f"{len(nodes)} of {len(of)} GPU nodes ({example}{', ...' if len(nodes) > 1 else ''}): {what}."
    return Reason(level, code, message, remedy, operand=operand, node=example, count=len(nodes), total=len(of))


# Operands


def _rollouts(seen: Observation, gpu_nodes: list[Json]) -> t.Iterator[Rollout]:
    for operand in OPERANDS:
        mine = [item for item in seen.daemonsets if operand_name(item) == operand.name]
        for item in mine:
            yield _rollout(seen, operand, item, gpu_nodes)
        if not mine:
            wanted = enabled(operand, seen.spec) and seen.policy is not None
            yield Rollout(
                operand.name, None, "progressing" if wanted else "disabled", expected=len(gpu_nodes) if wanted else 0
            )


def _rollout(seen: Observation, operand: Operand, item: Json, gpu_nodes: list[Json]) -> Rollout:
    template, status = item["spec"]["template"]["spec"], item.get("status") or {}
    expected = sum(
        1
        for node in gpu_nodes
        if matches(template.get("nodeSelector"), node) and not untolerated(node, template.get("tolerations") or [])
    )
    desired = int(status.get("desiredNumberScheduled", 0))
    broken = any(_never_starts(row) for row in seen.troubled.get(name_of(item), ()))
    fine = _rolled_out(item) and desired == expected
    return Rollout(
        operand=operand.name,
        daemonset=name_of(item),
        state="failed" if broken else "ready" if fine else "progressing",
        expected=expected,
        desired=desired,
        updated=int(status.get("updatedNumberScheduled", 0)),
        available=int(status.get("numberAvailable", 0)),
        images=tuple(
            container["image"] for container in template["containers"] if container["name"] == operand.container
        ),
    )


def _rolled_out(item: Json) -> bool:
    """Tell whether all of a DaemonSet's pods are there, of the newest revision and available (also for OnDelete)."""
    status = item.get("status") or {}
    desired = status.get("desiredNumberScheduled", 0)
    seen_by_controller = status.get("observedGeneration", 0) >= item["metadata"].get("generation", 0)
    # updatedNumberScheduled counts pods of the newest revision whatever the update strategy is.
    return bool(
        seen_by_controller and status.get("updatedNumberScheduled", 0) == desired == status.get("numberAvailable", 0)
    )


def _operand_reasons(seen: Observation, rollouts: list[Rollout], gpu_nodes: list[Json]) -> Reasons:
    if not gpu_nodes:
        return
    by_name = {name_of(item): item for item in seen.daemonsets}
    for operand in OPERANDS:
        mine = [rollout for rollout in rollouts if rollout.operand == operand.name]
        wanted = enabled(operand, seen.spec)
        for rollout in mine:
            if rollout.daemonset is None:
                yield from _missing(operand, rollout, seen)
            elif not wanted and belongs(operand, rollout.daemonset):
                message = f"{operand.name} is switched off, but DaemonSet {rollout.daemonset} is still there."
                yield Reason("progressing", "OperandNotRemoved", message, operand=operand.name)
            else:
                yield from _rollout_reasons(seen, operand, rollout, by_name[rollout.daemonset])
    yield from _label_reasons(gpu_nodes, seen.spec)


def _missing(operand: Operand, rollout: Rollout, seen: Observation) -> Reasons:
    if rollout.state != "disabled":
        yield Reason(
            "progressing",
            "OperandMissing",
            f"{operand.name}: the operator has not made DaemonSet {operand.daemonset} yet.",
            operand=operand.name,
        )
    elif operand.key == "driver" and (seen.spec.get("driver") or {}).get("useNvidiaDriverCRD"):
        yield Reason(
            "progressing",
            "NoNVIDIADriver",
            "driver.useNvidiaDriverCRD is true, but no NVIDIADriver has a driver DaemonSet, so no node gets a driver.",
            "Create an NVIDIADriver, for example with default: true.",
            operand=operand.name,
        )


def _rollout_reasons(seen: Observation, operand: Operand, rollout: Rollout, item: Json) -> Reasons:
    image = image_of(seen.spec.get(operand.key) or {}) if belongs(operand, name_of(item)) else None
    if image and rollout.images and not _runs(rollout.images[0], image, operand):
        message = f"{operand.name}: the operator still runs {rollout.images[0]} instead of {image}, it has not acted on the change yet."
        yield Reason("progressing", "OldImage", message, operand=operand.name)
    rows = seen.troubled.get(name_of(item), ())
    if rollout.state != "ready" and rows:
        yield from _pod_reasons(operand, rollout, rows)
    elif rollout.desired != rollout.expected:
        message = f"{operand.name}: {rollout.desired} pods are scheduled for {rollout.expected} nodes, the DaemonSet controller is behind."
        yield Reason(
            "progressing", "NotScheduled", message, operand=operand.name, count=rollout.desired, total=rollout.expected
        )
    elif rollout.state != "ready":
        yield _outdated(seen, operand, rollout, item)


def _runs(image: str, wanted: str, operand: Operand) -> bool:
    # The operator adds the node's operating system to the driver's tag (and its kernel, when precompiled).
    return image == wanted or (operand.key == "driver" and image.startswith(wanted + "-"))


def _outdated(seen: Observation, operand: Operand, rollout: Rollout, item: Json) -> Reason:
    behind = rollout.updated < rollout.desired
    done = rollout.updated if behind else rollout.available
    message = f"{operand.name}: {done} of {rollout.expected} nodes run {'the new revision' if behind else 'an available pod'}."
    # Pods that are still to be made are behind too, but nobody has to delete anything for them.
    old = int((item.get("status") or {}).get("currentNumberScheduled", 0)) > rollout.updated
    manual = old and item["spec"]["updateStrategy"]["type"] == "OnDelete" and not _replaces_pods(operand, seen.spec)
    if manual:
        remedy = "These pods are replaced only when somebody deletes them: set driver.upgradePolicy.autoUpgrade, or delete them node by node."
        if operand.key != "driver":
            remedy = "Set daemonsets.updateStrategy to RollingUpdate, or delete the pods node by node."
        return Reason(
            "failed", "PodsOutdated", message, remedy, operand=operand.name, count=done, total=rollout.expected
        )
    return Reason("progressing", "RollingOut", message, operand=operand.name, count=done, total=rollout.expected)


def _replaces_pods(operand: Operand, spec: Json) -> bool:
    """Tell whether the operator deletes outdated OnDelete pods by itself: only its upgrade controller does, for the driver."""
    policy = (spec.get("driver") or {}).get("upgradePolicy") or {}
    return operand.key == "driver" and (
        bool(policy.get("autoUpgrade")) or bool((spec.get("driver") or {}).get("useNvidiaDriverCRD"))
    )


def _never_starts(row: PodRow) -> bool:
    if not row.current:
        return False
    status = row.status.removeprefix("Init:")
    return status in NEVER_STARTS or (status == "CrashLoopBackOff" and row.restarts >= CRASHES)


def _pod_reasons(operand: Operand, rollout: Rollout, rows: tuple[PodRow, ...]) -> Reasons:
    """One reason for each kind of trouble, the hopeless kinds first."""
    kinds: dict[str, list[PodRow]] = {}
    for row in sorted(rows, key=lambda row: not _never_starts(row)):
        kinds.setdefault(row.status, []).append(row)
    for status, group in kinds.items():
        fatal, row = _never_starts(group[0]), _explained(group)
        where = f"pod {row.name}" + (f" on {row.node}" if row.node else "")
        message = (
            f"{operand.name}: {rollout.available} of {rollout.expected} nodes ready; {where} is {status}"
            + (f": {row.cause}" if row.cause else "")
            + "."
        )
        remedy = NEVER_STARTS.get(
            status.removeprefix("Init:"), f"See `kubectl logs {row.name} --all-containers`." if fatal else ""
        )
        code = status.removeprefix("Init:") if fatal else "PodsNotReady"
        yield Reason(
            "failed" if fatal else "progressing",
            code,
            message,
            remedy,
            operand.name,
            row.node or None,
            row.name,
            len(group),
            rollout.expected,
        )


def _explained(rows: list[PodRow]) -> PodRow:
    return next((row for row in rows if row.cause), rows[0])


def _label_reasons(gpu_nodes: list[Json], spec: Json) -> Reasons:
    """Nodes that the operator has not labelled yet, or that a broken upgrade or MIG change has left paused."""
    mine = [node for node in gpu_nodes if not is_switched_off(node)]
    unlabelled = [node for node in mine if not any(key.startswith(DEPLOY_PREFIX) for key in labels_of(node))]
    if unlabelled:
        yield _about(
            "progressing",
            "NodesNotLabelled",
            unlabelled,
            gpu_nodes,
            "the operator has not labelled them for the operands yet",
        )
    paused = [
        node
        for node in mine
        if any("paused-for-" in value for key, value in labels_of(node).items() if key.startswith(DEPLOY_PREFIX))
    ]
    if paused:
        remedy = (
            "If no driver upgrade or MIG change is running there, set its nvidia.com/gpu.deploy.* labels back to true."
        )
        yield _about(
            "progressing",
            "OperandsPaused",
            paused,
            gpu_nodes,
            "operands are paused for a driver upgrade or a MIG change",
            remedy,
        )
    refused = [node for node in mine if labels_of(node).get(DEPLOY_PREFIX + "device-plugin") == "false"]
    if refused and (spec.get("devicePlugin") or {}).get("enabled") is not False:
        yield _about(
            "note",
            "DevicePluginSwitchedOff",
            refused,
            gpu_nodes,
            "label nvidia.com/gpu.deploy.device-plugin=false keeps the device plugin away",
        )


# Driver upgrades and GPUs


def _upgrade_reasons(gpu_nodes: list[Json]) -> Reasons:
    under_way: dict[str, list[Json]] = {}
    for node in gpu_nodes:
        under_way.setdefault(labels_of(node).get(UPGRADE_STATE, ""), []).append(node)
    for state, nodes in under_way.items():
        if state in ("", "upgrade-done"):
            continue
        if state == "upgrade-failed":
            remedy = f"Remove the cause (see the events of node {name_of(nodes[0])}, reason GPUDriverUpgrade), then set its label {UPGRADE_STATE}=upgrade-required."
            yield _about(
                "failed",
                "DriverUpgradeFailed",
                nodes,
                gpu_nodes,
                "the driver upgrade failed and the node stays cordoned",
                remedy,
                "driver",
            )
        else:
            yield _about(
                "progressing", "DriverUpgrade", nodes, gpu_nodes, f"the driver upgrade is at {state}", operand="driver"
            )


def _gpu_reasons(seen: Observation, gpu_nodes: list[Json]) -> Reasons:
    if not enabled(DEVICE_PLUGIN, seen.spec):
        return
    accepted = tolerations(seen.spec.get("daemonsets"))
    serving = [
        node
        for node in gpu_nodes
        if labels_of(node).get(DEPLOY_PREFIX + "device-plugin") == "true" and not untolerated(node, accepted)
    ]
    empty = [node for node in serving if not any(gpu_quantities(node, "allocatable").values())]
    if empty:
        what = "no nvidia.com/gpu or nvidia.com/mig-* is allocatable"
        remedy = "See the log of the device plugin's pod there."
        yield _about("progressing", "NoAllocatableGPUs", empty, gpu_nodes, what, remedy, DEVICE_PLUGIN.name)
    short = [
        node
        for node in serving
        if node not in empty and gpu_quantities(node, "allocatable") != gpu_quantities(node, "capacity")
    ]
    if short:
        yield _about(
            "note",
            "UnhealthyGPUs",
            short,
            gpu_nodes,
            "fewer GPUs are allocatable than there are, the device plugin calls some unhealthy",
        )
