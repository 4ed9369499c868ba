# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Reasons why the stack is not ready: the GPU nodes' number, taints, labels, driver upgrades, MIG changes and GPUs."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import marks
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.tolerance import JudgedScope, Tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import (
    Level,
    Observation,
    Reason,
    Reasons,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import (
    names,
    nodes,
    objects,
    operands,
    upgrades,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import profile_names
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

MARKED_S = 60
"""How long a wait continues while taints or a label keep the operands off every node: new nodes may have them."""

STANDSTILL_S = 300
"""How long a wait continues while nodes that are out hold up every driver upgrade: a reboot may take minutes."""

DISCOVERY_S = 300
"""How long a wait continues while no node has a label of Node Feature Discovery: its image has to be pulled."""


@dataclasses.dataclass(frozen=True)
class NodeFinding:
    """Something about some of the GPU nodes. Without nodes, the text is empty."""

    level: Level
    code: str
    found: list[Json]
    what: str
    remedy: str = ""
    operand: str | None = None

    def reason(self, total: int) -> Reason:
        """Return the reason, for a fleet of ``total`` GPU nodes."""
        found = tuple(objects.name_of(node) for node in self.found)
        message = f"{len(found)} of {total} GPU nodes ({first_few(found)}): {self.what}."
        return Reason(
            self.level,
            self.code,
            message,
            self.remedy,
            self.operand,
            node=found[0],
            count=len(found),
            total=total,
            nodes=found,
        )


Findings = t.Iterator[NodeFinding]


def reasons(findings: t.Iterable[NodeFinding], gpu_nodes: list[Json]) -> Reasons:
    """Yield a reason for each finding about any node."""
    yield from (finding.reason(len(gpu_nodes)) for finding in findings if finding.found)


def unready(observation: Observation, gpu_nodes: list[Json]) -> set[str]:
    """Return the names of the nodes that keep the stack from being ready, each by itself."""
    findings = (*about_nodes(observation, gpu_nodes), *about_state(observation, gpu_nodes))
    names_found = {objects.name_of(node) for finding in findings if finding.level != "note" for node in finding.found}
    in_trouble = {row.node for rows in observation.troubled.values() for row in rows}
    outdated = {name for found in observation.outdated.values() for name in found}
    return (names_found | in_trouble | outdated) & {objects.name_of(node) for node in gpu_nodes}


# How many nodes there are


_LEFT_OUT = {
    tolerance.VIRTUAL: (
        f"they are for virtual machines (label {names.WORKLOAD_CONFIG}, or sandboxWorkloads.defaultWorkload), "
        "so they offer no GPUs to containers"
    ),
    tolerance.NOT_SELECTED: "node_selector does not select them, so they are not judged",
    tolerance.EXCLUDED: "exclude_nodes names them, so they are not judged",
    tolerance.SWITCHED_OFF: f"label {names.OPERANDS_SWITCH}=false keeps the operands away",
    tolerance.TOLERATED: "they are not ready, and max_unready tolerates that",
}


def about_scope(observation: Observation, scope: JudgedScope, limits: Tolerance) -> Reasons:
    """Yield which GPU nodes are left out, and whether too few are left."""
    if observation.unreadable:
        kinds = " and ".join(observation.unreadable)
        message = f"This user may not list {kinds}, so whether they hold up the stack is unknown."
        yield Reason("note", "NotReadable", message, "Grant list on them to this user.")
    too_few: Level = "progressing" if len(scope.judged) < limits.min_nodes else "note"
    total = len(scope.judged) + len(scope.outside)
    if not total:
        yield _no_gpu_node(observation, too_few)
        return
    for code, found in scope.left_out.items():
        is_marked = code == tolerance.SWITCHED_OFF and too_few == "progressing"
        level: Level = "note" if scope.judged else _blocking(observation, MARKED_S) if is_marked else too_few
        yield NodeFinding(level, code, found, _LEFT_OUT[code]).reason(total)
    if too_few == "progressing":
        message = f"{len(scope.judged)} GPU nodes are left, but min_nodes is {limits.min_nodes}."
        remedy = "Add GPU nodes, repair those that are left out, or correct min_nodes."
        yield Reason(too_few, "TooFewNodes", message, remedy, count=len(scope.judged), total=limits.min_nodes)


def _blocking(observation: Observation, patience_s: float) -> Level:
    """Return the level of what somebody has to change: failed once a wait has seen it for long enough."""
    return "failed" if observation.waited_s > patience_s else "progressing"


def _no_gpu_node(observation: Observation, level: Level) -> Reason:
    all_nodes = observation.nodes
    if any(nodes.has_nfd_labels(node) for node in all_nodes):
        message = f"None of {len(all_nodes)} nodes has an NVIDIA GPU (no label {names.NFD_GPU_LABELS[0]}=true)."
        remedy = "Add a GPU node, or check with `lspci -d 10de:` that its GPU is on the bus."
        return Reason(level, "NoGPUNodes", message, remedy)
    return Reason(
        level if level == "note" else _blocking(observation, DISCOVERY_S),
        "NoNFDLabels",
        f"None of {len(all_nodes)} nodes carries a label of Node Feature Discovery, so the operator sees no GPU.",
        "Enable Node Feature Discovery in the chart (nfd.enabled: true), or repair the one that is installed.",
    )


# Which nodes cannot run operands or workloads


def about_nodes(observation: Observation, gpu_nodes: list[Json]) -> Findings:
    """Yield why nodes get no operands or no workloads: as a note, unless it concerns every node."""
    yield from _about_tainted(gpu_nodes, observation)
    down = [node for node in gpu_nodes if not nodes.is_ready(node)]
    what = "the kubelet does not report Ready"
    yield NodeFinding("progressing", "NodesNotReady", down, what, "See `kubectl describe node`.")
    cordoned = [node for node in gpu_nodes if nodes.is_cordoned(node)]
    level: Level = "progressing" if len(cordoned) == len(gpu_nodes) else "note"
    owners = sorted({holder.owner for node in cordoned for holder in marks.holders(node, {})})
    by = f" (with marks of {first_few(owners)})" if owners else ""
    what = f"cordoned{by}, so no new pod can use their GPUs"
    yield NodeFinding(level, "NodesCordoned", cordoned, what, "Uncordon them when the maintenance is over.")
    yield from _about_standstill(observation)


def _about_standstill(observation: Observation) -> Findings:
    """Yield the nodes that wait for their driver upgrade while others hold all places for good."""
    spec = observation.spec
    if operands.delegates_driver(spec) or not operands.replaces_driver_pods(spec):
        return
    policy = (spec.get("driver") or {}).get("upgradePolicy") or {}
    managed = list(filter(upgrades.is_managed, observation.nodes))
    members = [upgrades.member(node) for node in managed]
    found = upgrades.standstill(members, policy)
    if found:
        waiting = [node for node, each in zip(managed, members) if each.waits]
        level = _blocking(observation, STANDSTILL_S)
        what = f"their driver upgrade cannot begin: {found.text}"
        remedy = "Repair or uncordon the nodes that are out, or raise the limit in driver.upgradePolicy."
        yield NodeFinding(level, "DriverUpgradeBlocked", waiting, what, remedy, operands.DRIVER.name)


def _about_tainted(gpu_nodes: list[Json], observation: Observation) -> Findings:
    tolerations = operands.tolerations(observation.spec.get("daemonsets"))
    tainted = [node for node in gpu_nodes if nodes.untolerated(node, tolerations)]
    if tainted:
        taint = nodes.format_taint(nodes.untolerated(tainted[0], tolerations)[0])
        level = _blocking(observation, MARKED_S) if len(tainted) == len(gpu_nodes) else "note"
        what = f"taint {taint} is not tolerated by the operands"
        remedy = "Add a toleration to daemonsets.tolerations, or remove the taint."
        yield NodeFinding(level, "NodesTainted", tainted, what, remedy)


# What the labels say, and which GPUs the nodes offer


def about_state(observation: Observation, gpu_nodes: list[Json]) -> Findings:
    """Yield what the operator, its upgrades, the MIG manager and the device plugin report about the nodes."""
    spec = observation.spec
    yield from _about_labels(spec, gpu_nodes)
    yield from _about_upgrades(gpu_nodes, observation.upgrade_failures)
    if operands.enabled(operands.MIG_MANAGER, spec):
        yield from _about_mig(gpu_nodes)
    yield from _about_gpus(observation, gpu_nodes)


def _about_labels(spec: Json, gpu_nodes: list[Json]) -> Findings:
    unlabelled = [node for node in gpu_nodes if not nodes.has_deploy_labels(node)]
    what = "the operator has not labelled them for the operands yet"
    yield NodeFinding("progressing", "NodesNotLabelled", unlabelled, what)

    paused = [node for node in gpu_nodes if nodes.is_paused(node)]
    what = "operands are paused for a driver upgrade or a MIG change"
    remedy = f"If both have ended there, set the node's {names.DEPLOY_PREFIX}* labels back to true."
    yield NodeFinding("progressing", "OperandsPaused", paused, what, remedy)

    if operands.enabled(operands.DEVICE_PLUGIN, spec):
        label = operands.DEVICE_PLUGIN.deploy_label
        without = [node for node in gpu_nodes if objects.labels_of(node).get(label) == "false"]
        yield NodeFinding(
            "note", "DevicePluginSwitchedOff", without, f"label {label}=false keeps the device plugin away"
        )


def _about_upgrades(gpu_nodes: list[Json], failures: t.Mapping[str, str]) -> Findings:
    """Yield the driver upgrades that are in progress or have failed: the operator reports ready during them."""
    by_state: dict[str, list[Json]] = {}
    for node in gpu_nodes:
        state = nodes.upgrade_state(node)
        if state not in names.UPGRADE_FINISHED:
            by_state.setdefault("skipped" if nodes.skips_upgrades(node) else state, []).append(node)
    for state, found in by_state.items():
        if state == "skipped":
            what = f"label {names.UPGRADE_SKIP}=true keeps the driver that they run, and the upgrade leaves them out"
            yield NodeFinding("note", "UpgradeSkipped", found, what)
        elif state == names.UPGRADE_FAILED:
            yield _upgrade_failed(found, failures)
        else:
            what = f"the driver upgrade is at {state}"
            yield NodeFinding("progressing", "DriverUpgrade", found, what, operand=operands.DRIVER.name)


def _upgrade_failed(found: list[Json], failures: t.Mapping[str, str]) -> NodeFinding:
    """Return the finding about failed upgrades, with the operator's own words about one of them if there are any."""
    known = next((objects.name_of(node) for node in found if failures.get(objects.name_of(node))), None)
    cause = f". On {known}: {failures[known]}" if known else ""
    first = known or objects.name_of(found[0])
    look = "" if known else f" (see the log of the driver's pod on {first})"
    remedy = f"Remove the cause{look}, then run gpuops.nvidia.upgrade_driver with driver_container_state=recovered."
    what = f"the driver upgrade failed and the node stays cordoned{cause}"
    return NodeFinding("failed", "DriverUpgradeFailed", found, what, remedy, operands.DRIVER.name)


def _about_mig(gpu_nodes: list[Json]) -> Findings:
    def at(*states: str) -> list[Json]:
        return [node for node in gpu_nodes if objects.labels_of(node).get(names.MIG_STATE) in states]

    operand = operands.MIG_MANAGER.name
    failed, changing = at("failed"), at(*names.MIG_CHANGING)
    if failed:
        what = f"the MIG configuration {objects.labels_of(failed[0]).get(names.MIG_CONFIG, '')} could not be applied"
        remedy = (
            "See the log of the MIG manager's pod: most often a process holds the GPUs, or the configuration does not "
            f"exist for this GPU. Drain the node, remove its label {names.MIG_CONFIG}, and set it again."
        )
        yield NodeFinding("failed", "MIGFailed", failed, what, remedy, operand)
    yield NodeFinding("progressing", "MIGChange", changing, "a MIG change is under way", operand=operand)
    invalid = [
        node for node in gpu_nodes if objects.labels_of(node).get(names.GPU_PRODUCT, "").endswith("-MIG-INVALID")
    ]
    what = "their MIG devices do not fit the MIG strategy single, so they offer no GPUs"
    remedy = "Give all GPUs of such a node the same MIG devices, or set mig.strategy: mixed."
    yield NodeFinding("progressing", "MIGInvalid", invalid, what, remedy, operand)
    yield from _about_layouts(gpu_nodes, operand)


def _about_layouts(gpu_nodes: list[Json], operand: str) -> Findings:
    """Yield the nodes whose layout is not what their label says, although no change is under way."""
    ignored = [node for node in gpu_nodes if _is_ignored(node)]
    if ignored:
        what = f"label {names.MIG_CONFIG}={_layout(ignored[0])} has no effect, because no MIG manager runs there"
        remedy = f"Remove the label if these GPUs have no MIG, or wait for {names.MIG_CAPABLE}=true."
        yield NodeFinding("progressing", "MIGIgnored", ignored, what, remedy, operand)
    stale = [node for node in gpu_nodes if _is_stale(node)]
    if stale:
        found = " and ".join(sorted(filter(None, _profiles(stale[0])))) or "undivided GPUs"
        what = f"the layout {_layout(stale[0])} counts as applied, but {objects.name_of(stale[0])} offers {found}"
        remedy = f"If this lasts, remove the label {names.MIG_CONFIG}, and set it again, or run mig_config."
        yield NodeFinding("progressing", "MIGNotApplied", stale, what, remedy, operand)


def _is_ignored(node: Json) -> bool:
    """Return whether a node has a layout's label and no MIG manager."""
    is_wanted = _layout(node) not in ("", names.MIG_DISABLED)
    return is_wanted and not objects.labels_of(node).get(operands.MIG_MANAGER.deploy_label)


def _is_stale(node: Json) -> bool:
    """Return whether the MIG manager reports success for a layout that is not there."""
    return objects.labels_of(node).get(names.MIG_STATE) == "success" and _differs(node)


def _layout(node: Json) -> str:
    return objects.labels_of(node).get(names.MIG_CONFIG, "")


def _profiles(node: Json) -> set[str | None]:
    """Return the MIG profiles that a node offers; None stands for whole GPUs."""
    return {offer.profile for offer in nodes.gpu_offers(node) if offer.allocatable}


def _differs(node: Json) -> bool:
    """Return whether a node offers something else than a layout whose name says what all GPUs are divided into."""
    layout, offered = _layout(node), _profiles(node)
    if not offered or objects.labels_of(node).get(names.MIG_STRATEGY) not in ("single", "mixed"):
        return False
    if layout == names.MIG_DISABLED:
        return offered != {None}
    if not layout.startswith(profile_names.LAYOUT_PREFIX):
        return False
    profile = profile_names.parsed(profile_names.undotted(layout.removeprefix(profile_names.LAYOUT_PREFIX)))
    return profile is not None and offered != {profile.text}


def _about_gpus(observation: Observation, gpu_nodes: list[Json]) -> Findings:
    """Yield the nodes that offer no GPUs, or fewer than they have."""
    spec = observation.spec
    has_plugin = operands.enabled(operands.DEVICE_PLUGIN, spec)
    tolerations = operands.tolerations(spec.get("daemonsets"))
    serving = [node for node in gpu_nodes if not has_plugin or _has_device_plugin(node, tolerations)]
    yield _without_gpus(observation, serving, has_plugin)
    reduced = [node for node in serving if nodes.missing_gpus(node)]
    if reduced:
        what = f"{objects.name_of(reduced[0])} lacks {nodes.missing_gpus(reduced[0])} of its GPUs for pods"
        remedy = (
            "The device plugin reports them as unhealthy or does not see them: look for Xid errors in the kernel log, "
            "and see the log of the device plugin's pod."
        )
        yield NodeFinding("progressing", "UnhealthyGPUs", reduced, what, remedy, operands.DEVICE_PLUGIN.name)


def _without_gpus(observation: Observation, serving: list[Json], has_plugin: bool) -> NodeFinding:
    """Return the finding about nodes whose GPUs neither the device plugin nor claims give to pods."""
    empty = [node for node in serving if not nodes.has_allocatable_gpus(node)]
    pools = observation.offered.by_node
    missing = [node for node in empty if objects.name_of(node) not in pools]
    what = f"no {names.GPU_RESOURCE} or {names.MIG_RESOURCE_PREFIX}* is allocatable"
    remedy, operand = "See the log of the device plugin's pod on the node.", operands.DEVICE_PLUGIN
    if observation.gpucluster is not None:
        what, operand = f"no ResourceSlice of {names.DRA_DRIVER} offers their GPUs", operands.DRA_PLUGIN
        remedy = f"See the log of the container {operand.container} of {operand.daemonset} on the node."
    elif not has_plugin:
        what += f", and no ResourceSlice of {names.DRA_DRIVER} offers their GPUs"
        remedy = "Set devicePlugin.enabled: true, or install what shall offer the GPUs instead of the device plugin."
    return NodeFinding("progressing", "NoAllocatableGPUs", missing, what, remedy, operand.name)


def _has_device_plugin(node: Json, tolerations: t.Iterable[Json]) -> bool:
    is_deployed = objects.labels_of(node).get(operands.DEVICE_PLUGIN.deploy_label) == "true"
    return is_deployed and not nodes.untolerated(node, tolerations)
