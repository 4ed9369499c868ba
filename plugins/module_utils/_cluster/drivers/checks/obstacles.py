# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What will stand in the way of a driver's rollout: pods, budgets, nodes, operands, the policy of upgrades. Pure.

Source: the operator's upgrade library (``k8s-operator-libs/pkg/upgrade``) in the GPU Operator v26.7.0.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.declared_options import POLICY
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.pools import DriverSource
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import marks
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import (
    names,
    nodes,
    objects,
    operands,
    pods,
    upgrades,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding, about
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import EXAMPLES, first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Findings = t.Iterator[ClusterFinding]


@dataclasses.dataclass(frozen=True)
class RolloutScene:
    """What the rollout meets. ``nodes`` are those whose driver is replaced or started again."""

    nodes: t.Sequence[Json]
    gpu_nodes: t.Sequence[Json]
    source_of: t.Mapping[str, DriverSource]
    automatic: t.Mapping[str, bool]
    """Whether the operator itself replaces the driver of a node."""
    pods: t.Sequence[Json] | None
    """The GPU pods on the nodes, or None if this user may not list pods."""
    budgets: t.Sequence[Json] | None
    daemonsets: t.Sequence[Json]
    validated: t.Collection[str] | None
    """The nodes with a pod of the validator, or None if they are not known."""
    policy: Json = dataclasses.field(default_factory=dict)
    paced: bool = False
    """Whether this call paces the rollout. It cordons each node for its turn, which no limit of the operator stops."""

    def upgrade_policy(self, node: str) -> Json:
        """Return the policy by which the operator upgrades a node."""
        source = self.source_of[node]
        own = source.spec.get("upgradePolicy")
        if own is None and source.kind != POLICY and "default" not in source.spec:
            own = (self.policy.get("driver") or {}).get("upgradePolicy")
        return own or {}


def findings(scene: RolloutScene) -> Findings:
    """Yield everything that stands in the way."""
    if scene.nodes:
        yield from _upgrade_policies(scene)
        yield from _gpu_pods(scene)
        yield from _nodes(scene)
        yield from _limits(scene)
        yield from _operands(scene)
        yield from _validators(scene)


# ---- the policy of upgrades ---------------------------------------------------------------------------------------

_BLOCKS = ("waitForCompletion", "podDeletion", "drain")


def _upgrade_policies(scene: RolloutScene) -> Findings:
    found = False
    for source in dict.fromkeys(scene.source_of[objects.name_of(node)] for node in scene.nodes):
        policy = source.spec.get("upgradePolicy") or {}
        missing = [block for block in _BLOCKS if policy.get(block) is None]
        if source.kind == POLICY and policy.get("autoUpgrade") and missing:
            found = True
            message = f"{source}: upgradePolicy lacks {', '.join(missing)}, so an upgrade stops with a node cordoned."
            remedy = (
                f"Set {', '.join('upgrade_policy.' + _option(block) for block in missing)} ({{}} takes the defaults)."
            )
            yield ClusterFinding("upgrade_policy", "failure", message, remedy)
    if not found:
        yield ClusterFinding("upgrade_policy", "ok", "The policy of upgrades is complete.")


def _option(block: str) -> str:
    return {"waitForCompletion": "wait_for_completion", "podDeletion": "pod_deletion"}.get(block, block)


# ---- pods ---------------------------------------------------------------------------------------------------------


def _gpu_pods(scene: RolloutScene) -> Findings:
    if scene.pods is None:
        message = "This user may not list pods, so it is not known which GPU pods stand in the way."
        yield ClusterFinding("gpu_pods", "warning", message, "Grant this permission (ClusterRole gpuops-driver).")
        return
    problems = [problem for pod in scene.pods for problem in _of_pod(pod, scene)]
    for level in ("failure", "warning"):
        for remedy in dict.fromkeys(problem.remedy for problem in problems if problem.level == level):
            yield _together([problem for problem in problems if (problem.level, problem.remedy) == (level, remedy)])
    if scene.budgets is None:
        message = "This user may not list PodDisruptionBudgets, so it is not known which of them forbid evictions."
        yield ClusterFinding("gpu_pods", "warning", message, "Grant this permission (ClusterRole gpuops-driver).")
    if not problems and scene.budgets is not None:
        yield ClusterFinding("gpu_pods", "ok", f"The {len(scene.pods)} GPU pods can be evicted.")


class _Problem(t.NamedTuple):
    level: t.Literal["failure", "warning"]
    pod: str
    node: str
    what: str
    remedy: str


def _together(problems: t.Sequence[_Problem]) -> ClusterFinding:
    """Return one finding for all pods with the same remedy."""
    first = problems[0]
    pods = first_few([f"{problem.pod} on {problem.node}" for problem in problems])
    found = sorted({problem.node for problem in problems})
    message = f"{first.what}: {pods}."
    return ClusterFinding(
        "gpu_pods", first.level, message, first.remedy, nodes=tuple(found[:EXAMPLES]), count=len(found)
    )


def _of_pod(pod: Json, scene: RolloutScene) -> t.Iterator[_Problem]:
    name, node = objects.full_name(pod), str(pod["spec"]["nodeName"])
    if node not in scene.source_of or _is_ending(pod):
        return
    permits, how = _permissions(node, scene)
    if pods.is_bare(pod) and not permits["force"]:
        what = "GPU pods without a controller end the upgrade of their node at once, as upgrade-failed"
        yield _Problem("failure", name, node, what, f"Delete them, or set {how['force']}.")
    if pods.local_data(pod) and not permits["emptydir"]:
        what = "GPU pods with emptyDir volumes end the upgrade of their node at once, as upgrade-failed"
        yield _Problem("failure", name, node, what, f"Delete them, or set {how['emptydir']}.")
    if nodes.ignores_cordons(pod["spec"]) and not pods.is_bare(pod):
        what = (
            "GPU pods tolerate cordons, so their controllers may start them again on the node that they have to leave"
        )
        yield _Problem("warning", name, node, what, f"Let them not tolerate {nodes.CORDON['key']}, or scale them down.")
    yield from _of_budgets(pod, name, node, scene)


def _is_ending(pod: Json) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _permissions(node: str, scene: RolloutScene) -> tuple[dict[str, bool], dict[str, str]]:
    """Return which pods may be deleted on a node, and the options that would permit it."""
    policy = scene.upgrade_policy(node)
    deletion, drain = policy.get("podDeletion") or {}, policy.get("drain") or {}
    drains = bool(drain.get("enable"))
    permits = {
        "force": bool(deletion.get("force") or (drains and drain.get("force"))),
        "emptydir": bool(deletion.get("deleteEmptyDir") or (drains and drain.get("deleteEmptyDir"))),
    }
    return permits, {
        "force": "upgrade_policy.pod_deletion.force: true",
        "emptydir": "upgrade_policy.pod_deletion.deleteEmptyDir: true, after which their data is lost",
    }


def _of_budgets(pod: Json, name: str, node: str, scene: RolloutScene) -> t.Iterator[_Problem]:
    fitting = [item for item in scene.budgets or [] if _covers(item, pod)]
    if len(fitting) > 1:
        what = "GPU pods with more than one PodDisruptionBudget cannot be evicted"
        yield _Problem(
            "failure", name, node, what, f"Delete all but one ({first_few(sorted(map(objects.full_name, fitting)))})."
        )
        return
    for budget in fitting:
        status, called = budget.get("status") or {}, objects.full_name(budget)
        if int(status.get("disruptionsAllowed") or 0) > 0:
            continue
        if int(status.get("desiredHealthy") or 0) >= int(status.get("expectedPods") or 0):
            what = f"PodDisruptionBudget {called} always refuses to evict its GPU pods"
            yield _Problem("failure", name, node, what, f"Let {called} allow a disruption (maxUnavailable: 1).")
        else:
            what = f"PodDisruptionBudget {called} currently allows no eviction"
            yield _Problem("warning", name, node, what, f"Look at the pods of {called}: too few of them are healthy.")


def _covers(budget: Json, pod: Json) -> bool:
    if budget["metadata"].get("namespace") != pod["metadata"].get("namespace"):
        return False
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and nodes.fits_selector(selector, objects.labels_of(pod))


# ---- nodes --------------------------------------------------------------------------------------------------------


def _nodes(scene: RolloutScene) -> Findings:
    found = list(_states(scene))
    yield from found
    if not found:
        yield ClusterFinding(
            "nodes", "ok", "All nodes are Ready and schedulable, and no upgrade or pause was left behind."
        )


def _count(concerned: t.Sequence[Json]) -> str:
    return f"{len(concerned)} GPU node{'s' if len(concerned) > 1 else ''}"


def _is_down(node: Json) -> bool:
    return not nodes.is_ready(node)


def _is_cordoned(node: Json) -> bool:
    """Return whether somebody else than the operator's upgrade has cordoned the node."""
    return nodes.is_cordoned(node) and nodes.upgrade_state(node) in (*names.UPGRADE_FINISHED, names.UPGRADE_REQUIRED)


def _holders(node: Json) -> list[str]:
    """Return the maintainers at work on a node. The driver's own upgrade is not another maintainer."""
    found = (holder for holder in marks.holders(node, {}) if holder.at_work)
    return [str(holder) for holder in found if holder.owner not in marks.OF_DRIVERS]


def _has_failed(node: Json) -> bool:
    return nodes.upgrade_state(node) == names.UPGRADE_FAILED


def _is_stale(node: Json) -> bool:
    is_mig = objects.labels_of(node).get(names.MIG_STATE) in names.MIG_CHANGING
    return nodes.is_paused(node) and nodes.upgrade_state(node) in names.UPGRADE_ENDED and not is_mig


_Told = tuple[list[Json], str, str]
"""Nodes in one state, the rest of a message that starts with "2 GPU nodes", and the remedy."""


def _states(scene: RolloutScene) -> Findings:
    for told in (_out_of_service, _left_behind):
        for concerned, message, remedy in told(scene):
            if concerned:
                yield ClusterFinding("nodes", "warning", f"{_count(concerned)} {message}", remedy, **about(concerned))


def _out_of_service(scene: RolloutScene) -> t.Iterator[_Told]:
    yield _those(_is_down, scene), "not Ready: no driver can be replaced there.", "Repair or remove them."
    theirs = "They get the driver in their turn, and stay cordoned."
    operators = "The operator upgrades them first, whatever its limits, and leaves them cordoned."
    message = f"cordoned by others. {theirs if scene.paced else operators}"
    yield _those(_is_cordoned, scene), message, "Uncordon them unless this is intended."
    held = _those(_holders, scene)
    owners = first_few(sorted({holder for node in held for holder in _holders(node)}))
    yield held, f"in the hands of another maintainer: {owners}.", "Wait until it has finished."


def _left_behind(scene: RolloutScene) -> t.Iterator[_Told]:
    failed = f"in state {names.UPGRADE_FAILED}"
    failed += ". This call tries them again." if scene.paced else ", each of which holds a slot."
    again = "Remove the cause, then call this module with state: recovered."
    yield _those(_has_failed, scene), failed, "Remove the cause first." if scene.paced else again
    message = "paused by an interrupted driver or MIG change."
    yield _those(_is_stale, scene), message, "Call this module with state: recovered."


def _those(test: t.Callable[[Json], t.Any], scene: RolloutScene) -> list[Json]:
    return [node for node in scene.gpu_nodes if test(node)]


# ---- limits of the operator ---------------------------------------------------------------------------------------


def _limits(scene: RolloutScene) -> Findings:
    """Find limits that nodes which are out already use up, so that no other node ever begins."""
    found = [] if scene.paced else list(_used_up(scene))
    yield from found
    if not found:
        yield ClusterFinding("limits", "ok", "No limit of the upgrade policy keeps nodes from their upgrade.")


def _used_up(scene: RolloutScene) -> Findings:
    by_source: dict[DriverSource, list[Json]] = {}
    for node in scene.gpu_nodes:
        source = scene.source_of.get(objects.name_of(node))
        if source is not None and scene.automatic.get(objects.name_of(node), True):
            by_source.setdefault(source, []).append(node)
    for source, own in by_source.items():
        members = [upgrades.member(node) for node in own]
        found = upgrades.standstill(members, scene.upgrade_policy(objects.name_of(own[0])))
        # A node that is already cordoned continues without a place.
        if found and not all(each.is_cordoned for each in members):
            message = f"{source}: {found.text}, so no other node begins."
            remedy = (
                "Let this module pace the rollout (wait: true), which needs no place; repair or uncordon the nodes; or "
                "raise upgrade_policy.max_unavailable or max_parallel_upgrades."
            )
            out = [node for node in own if objects.name_of(node) in found.blockers]
            yield ClusterFinding("limits", "failure", message, remedy, **about(out))


# ---- operands -----------------------------------------------------------------------------------------------------


def _operands(scene: RolloutScene) -> Findings:
    short = [item for item in scene.daemonsets if _lacks_pods(item)]
    drivers = [item for item in short if operands.operand_name(item) == operands.DRIVER.name]
    others = [item for item in short if item not in drivers and operands.operand_name(item)]
    if drivers:
        message = (
            f"{first_few(list(map(_shortage, drivers)))}. The operator upgrades no node as long as pods are missing."
        )
        yield ClusterFinding(
            "operands", "failure", message, "Look at the DaemonSet's events: what keeps its pods from being made?"
        )
    if others:
        message = f"Operands are short of pods: {first_few(list(map(_shortage, others)))}."
        yield ClusterFinding("operands", "warning", message, "Look at the events of these DaemonSets.")
    strange = [item for item in scene.daemonsets if _has_strange_pods(item)]
    if strange:
        what = first_few([objects.name_of(item) for item in strange])
        message = (
            f"DaemonSet {what} has pods on nodes that no longer admit it, such as a node that is down. The operator "
            "upgrades no node as long as it has."
        )
        remedy = (
            "Repair or delete these nodes, or tolerate their taints (daemonsets.tolerations: [{operator: Exists}])."
        )
        yield ClusterFinding("operands", "failure", message, remedy)
    if not (short or strange):
        yield ClusterFinding("operands", "ok", "Every operand has a pod on each of its nodes.")


def _lacks_pods(daemonset: Json) -> bool:
    status = daemonset.get("status") or {}
    return int(status.get("desiredNumberScheduled") or 0) > int(status.get("currentNumberScheduled") or 0)


def _has_strange_pods(daemonset: Json) -> bool:
    """Return whether a driver's DaemonSet has more pods than nodes: the operator compares just these numbers.

    A node that is down has a taint with the effect NoSchedule, which pods of DaemonSets do not tolerate by themselves.
    Its pod stays, and the node no longer counts.
    """
    is_driver = operands.operand_name(daemonset) == operands.DRIVER.name
    return is_driver and int((daemonset.get("status") or {}).get("numberMisscheduled") or 0) > 0


def _shortage(daemonset: Json) -> str:
    status = daemonset.get("status") or {}
    now, wanted = (int(status.get(key) or 0) for key in ("currentNumberScheduled", "desiredNumberScheduled"))
    return f"DaemonSet {objects.name_of(daemonset)} has {now} of {wanted} pods"


def _validators(scene: RolloutScene) -> Findings:
    if scene.validated is None:
        message = "This user may not list the operands' pods, so missing validators are not known."
        yield ClusterFinding("validators", "warning", message, "Grant this permission (ClusterRole gpuops-driver).")
        return
    without = [
        node
        for node in scene.nodes
        if objects.name_of(node) not in scene.validated and scene.automatic.get(objects.name_of(node), True)
    ]
    if without:
        message = f"{_count(without)} without a validator pod: an upgrade would wait there without end."
        remedy = f"Check the DaemonSet nvidia-operator-validator and the label {names.DEPLOY_PREFIX}operator-validator."
        yield ClusterFinding("validators", "failure", message, remedy, **about(without))
    else:
        yield ClusterFinding("validators", "ok", "Each node has a validator pod.")
