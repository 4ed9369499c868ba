# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Driver upgrades that do not go on, each with what holds it up.

Source: the operator's upgrade library, NVIDIA/k8s-operator-libs ``pkg/upgrade``, and kubectl's ``pkg/drain``.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import (
    names,
    nodes,
    objects,
    operands,
    upgrades,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.upgrade_leftovers import UNDER_WAY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Pattern, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_LIBRARY = "https://github.com/NVIDIA/k8s-operator-libs/blob/main/pkg/upgrade/"
_DRAIN = "https://github.com/kubernetes/kubectl/blob/master/pkg/drain/"
_DOCS = "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-driver-upgrades.html"

_STUCK = frozenset(
    {"DriverUpgradeFailed", "DriverUpgrade", "RollingOut", "StateNotReady", "NodesCordoned", "OperandsPaused"}
    | {"FleetDriftDriver"}
)
_RETRY = f"Then run `kubectl label node <node> {names.UPGRADE_STATE}={names.UPGRADE_REQUIRED} --overwrite`."
_VALIDATOR_LABEL = names.DEPLOY_PREFIX + operands.VALIDATOR.name

# What the operator and its drain say

_UNMANAGED = pattern(
    r"cannot delete Pods (?:that )?declare no controller \(use --force to override\): (?P<pods>[^\"\]]{1,300})",
    "declare no controller",
)
_LOCAL = pattern(
    r"cannot delete Pods with local storage \(use --delete-emptydir-data to override\): (?P<pods>[^\"\]]{1,300})",
    "pods with local storage",
)
_BUDGET = pattern(
    r"Cannot evict pod as it would violate the pod's disruption budget"
    r"|error when evicting pods?/\\?\"[\w.-]+\\?\" -n \\?\"[\w.-]+\\?\": global timeout reached",
    "evict",
)
_DRAINED = pattern(r"Failed to (?:drain|cordon) the node, (?P<why>.{1,300})", "failed to ", "event", "pod")
_NO_SPEC = pattern(r"pod deletion spec should not be empty", "pod deletion spec should not be empty")
_UNSCHEDULED = pattern(
    r"driver DaemonSet should not have Unscheduled pods", "driver daemonset should not have unscheduled pods"
)
_TIMEOUT = pattern(r"Timeout exceeded for validation", "timeout exceeded for validation")
_IN_USE = (
    pattern(
        r"Could not unload NVIDIA driver kernel modules, driver is in use", "driver kernel modules, driver is in u"
    ),
    pattern(r"failed to unload driver: resource temporarily unavailable", "failed to unload driver: resource"),
    pattern(r"pod\(s\) still hold GPU resource claims", "still hold gpu resource claims"),
)
_NAMED = re.compile(r"\"?\bnode\"?[:=] ?\\?\"(?P<node>[\w.-]+)")
"""The node that a line of the operator's log is about."""


def _said(*patterns: Pattern) -> matches.Check:
    """Return a check for words about a node. The operator's log names it; the node of its pod does not.

    Of a node whose upgrade has ended, they are of the past: the API server keeps an event for an hour.
    """

    def check(view: View) -> t.Iterator[Sighting]:
        for hit in (hit for each in patterns for hit in view.hits(each)):
            found, named = matches.sighting(hit), _NAMED.search(hit.line.text)
            is_operator = "/gpu-operator-" in found.object
            node = named["node"] if named else "" if is_operator else found.node
            if node in view.rows and (view.rows[node].get("upgrade_state") or "") in names.UPGRADE_FINISHED:
                continue
            values = {name: text.strip(" .") for name, text in found.values.items() if name in ("pods", "why")}
            yield Sighting(node, "" if is_operator else found.object, found.quotes, "certain", values)

    return check


# What the nodes and the policy say


def _not_validated(view: View) -> t.Iterator[Sighting]:
    """Yield what the operator says once, in a log that grows quickly, and the nodes that show the same.

    An upgrade that fails earlier leaves the operands of its node running.
    """
    told = set[str]()
    for found in _said(_TIMEOUT)(view):
        told.add(found.node)
        yield found
    for row in _at(view, names.UPGRADE_FAILED):
        waiting = row.get("waiting_for") or {}
        if row["name"] not in told and operands.VALIDATOR.name in waiting and operands.DRIVER.name not in waiting:
            validator = f"{operands.VALIDATOR.name}: {waiting[operands.VALIDATOR.name]}"
            text = f"{names.UPGRADE_STATE}={names.UPGRADE_FAILED}, {validator}"
            quote = matches.fact(text, "the node and its pods", row["name"])
            yield Sighting(row["name"], "", quote, "likely")


def _in_the_way(said: Pattern, trait: str, permission: str) -> matches.Check:
    """Return a check for GPU pods that the operator may not delete, on nodes whose upgrade has failed.

    The operator says so once, in its log. While a node waits, that log grows by 10,000 lines in 10 minutes, so what the
    node has is looked at as well.
    """

    def check(view: View) -> t.Iterator[Sighting]:
        told = set[str]()
        for found in _said(said)(view):
            told.add(found.node)
            yield found
        for row in _at(view, names.UPGRADE_FAILED):
            deletion = _policy_of(view, row["name"]).get("podDeletion") or {}
            pods = [each for each in view.listed("gpupods") or [] if each["node"] == row["name"] and each.get(trait)]
            if pods and row["name"] not in told and not deletion.get(permission):
                text = f"{names.UPGRADE_STATE}={names.UPGRADE_FAILED}, podDeletion.{permission} is not set"
                values = {"pods": first_few([f"{each['namespace']}/{each['name']}" for each in pods])}
                quote = matches.fact(text, "the node and its upgrade policy", row["name"])
                yield Sighting(row["name"], "", quote, "likely", values)

    return check


def _policy_of(view: View, node: str) -> Json:
    """Return the upgrade policy of a node's driver: the ClusterPolicy's, or that of the node's NVIDIADriver."""
    policy = _policy(view)
    if policy is not None:
        return policy
    owner = objects.labels_of(view.nodes.get(node) or {"metadata": {}}).get(names.DRIVER_OWNER)
    drivers = [each for each in view.listed("nvidiadrivers") or [] if objects.name_of(each) == owner]
    return (drivers[0].get("spec") or {}).get("upgradePolicy") or {} if drivers else {}


def _policy(view: View) -> Json | None:
    """Return the upgrade policy of a driver that the ClusterPolicy manages, or None if it manages none."""
    driver = view.evidence.spec.get("driver") or {}
    return None if not driver or operands.delegates_driver(view.evidence.spec) else driver.get("upgradePolicy") or {}


def _at(view: View, *states: str) -> list[Json]:
    return [row for row in view.rows.values() if row.get("upgrade_state") in states]


def _no_spec(view: View) -> t.Iterator[Sighting]:
    policy, waiting = _policy(view), _at(view, names.UPGRADE_PODS)
    if policy is not None and policy.get("podDeletion") is None:
        for row in waiting:
            text = f"{names.UPGRADE_STATE}={names.UPGRADE_PODS}, driver.upgradePolicy.podDeletion: null"
            yield Sighting(row["name"], "", matches.fact(text, "the node and the ClusterPolicy", row["name"]))
    elif not waiting:
        yield from _said(_NO_SPEC)(view)


def _unscheduled(view: View) -> t.Iterator[Sighting]:
    """Yield what the operator says of missing pods, if pods are missing: it says so in each installation, too."""
    found = [each for each in view.listed("daemonsets") or [] if operands.operand_name(each) == operands.DRIVER.name]
    if not found or any(map(_lacks_pods, found)):
        yield from _said(_UNSCHEDULED)(view)


def _lacks_pods(daemonset: Json) -> bool:
    """Return whether the operator counts other pods than the nodes that should have one."""
    counts = daemonset.get("status") or {}
    wanted, now = counts.get("desiredNumberScheduled") or 0, counts.get("currentNumberScheduled") or 0
    return bool(wanted != now or counts.get("numberMisscheduled"))


def _waits_for_jobs(view: View) -> t.Iterator[Sighting]:
    wait = (_policy(view) or {}).get("waitForCompletion") or {}
    for row in _at(view, names.UPGRADE_JOBS):
        limit = wait.get("timeoutSeconds") or 0
        values = {
            "selector": str(wait.get("podSelector") or "unknown"),
            "limit": f"after {limit} s it continues without them" if limit else "it waits without a limit",
        }
        text = f"{names.UPGRADE_STATE}={names.UPGRADE_JOBS}"
        yield Sighting(row["name"], "", matches.fact(text, "labels of the node", row["name"]), "certain", values)


def _no_validator(view: View) -> t.Iterator[Sighting]:
    label = _VALIDATOR_LABEL
    for row in _at(view, names.UPGRADE_VALIDATION):
        value = objects.labels_of(view.nodes.get(row["name"]) or {"metadata": {}}).get(label)
        if value not in (None, "true"):
            quote = matches.fact(f"{label}={value}", "labels of the node", row["name"])
            yield Sighting(row["name"], "", quote, "certain", {"label": f"{label}={value}"})


def _stopped(view: View) -> t.Iterator[Sighting]:
    """Yield the nodes that wait for their turn while stuck nodes hold all turns."""
    policy, members = _policy(view), [_member(view, row) for row in view.rows.values()]
    waiting = [each.name for each in members if each.waits]
    if policy is None or not policy.get("autoUpgrade") or not waiting:
        return
    found = upgrades.standstill(members, policy)
    if found is None:
        return
    text = f"{names.UPGRADE_STATE}={names.UPGRADE_REQUIRED}"
    for name in waiting:
        yield Sighting(name, "", matches.fact(text, "labels of the node", name), "certain", {"why": found.text})


def _member(view: View, row: Json) -> upgrades.UpgradeMember:
    node = view.nodes.get(row["name"])
    is_skipped = node is not None and nodes.skips_upgrades(node)
    return upgrades.UpgradeMember(
        row["name"], row.get("upgrade_state") or "", row["cordoned"], row["ready"], is_skipped
    )


RULES = (
    Rule(
        code="UpgradeNeedsForce",
        title="A pod without a controller holds up a driver upgrade",
        severity="failure",
        cause="The operator does not delete {pods}, because no controller would create the pods again.",
        remedy="Delete these pods yourself, or set driver.upgradePolicy.podDeletion.force: true in the ClusterPolicy, "
        "which lets the operator delete such pods for good. " + _RETRY,
        sources=(f"{_DRAIN}filters.go", _DOCS),
        check=_in_the_way(_UNMANAGED, "is_bare", "force"),
        patterns=(_UNMANAGED,),
        explains=_STUCK | {"UpgradeDrainFailed"},
        unlike={"OperandsLeftPaused": UNDER_WAY},
    ),
    Rule(
        code="UpgradeKeepsLocalData",
        title="A pod with local data holds up a driver upgrade",
        severity="failure",
        cause="The operator does not delete {pods}, because they would lose the data in their emptyDir volumes.",
        remedy="Delete these pods when their data may be lost, or set "
        "driver.upgradePolicy.podDeletion.deleteEmptyDir: true in the ClusterPolicy. " + _RETRY,
        sources=(f"{_DRAIN}filters.go", "https://github.com/NVIDIA/gpu-operator/issues/454"),
        check=_in_the_way(_LOCAL, "keeps_data", "deleteEmptyDir"),
        patterns=(_LOCAL,),
        explains=_STUCK | {"UpgradeDrainFailed"},
        unlike={"OperandsLeftPaused": UNDER_WAY},
    ),
    Rule(
        code="UpgradeHeldByBudget",
        title="A disruption budget holds up a driver upgrade",
        severity="failure",
        cause="A PodDisruptionBudget did not let a pod of the node be evicted before the operator's time limit.",
        remedy="See `kubectl get poddisruptionbudgets -A` for ALLOWED DISRUPTIONS 0. Give that workload one more "
        "replica, or raise maxUnavailable of its budget. " + _RETRY,
        sources=(f"{_DRAIN}drain.go", "https://kubernetes.io/docs/tasks/run-application/configure-pdb/"),
        check=_said(_BUDGET),
        patterns=(_BUDGET,),
        explains=_STUCK | {"UpgradeDrainFailed"},
    ),
    Rule(
        code="UpgradeDrainFailed",
        title="The node of a driver upgrade could not be drained",
        severity="failure",
        cause="The operator could not take the node out of service: {why}.",
        remedy="Remove the obstacle that the message names. `kubectl drain <node> --ignore-daemonsets "
        "--dry-run=server` shows whether another one is left. " + _RETRY,
        sources=(f"{_LIBRARY}drain_manager.go",),
        check=_said(_DRAINED),
        patterns=(_DRAINED,),
        explains=_STUCK,
        unlike={"OperandsLeftPaused": UNDER_WAY},
    ),
    Rule(
        code="UpgradeSpecMissing",
        title="The upgrade policy lacks podDeletion",
        severity="failure",
        cause="driver.upgradePolicy.podDeletion is not set in the ClusterPolicy. So each driver upgrade stops before "
        "it deletes the GPU pods, and the node stays cordoned.",
        remedy="Set driver.upgradePolicy.podDeletion.force: false in the ClusterPolicy; the other defaults then apply. "
        "In Helm values (operator_values) the field is called driver.upgradePolicy.gpuPodDeletion.",
        sources=(f"{_LIBRARY}pod_manager.go",),
        check=_no_spec,
        patterns=(_NO_SPEC,),
        explains=_STUCK,
    ),
    Rule(
        code="UpgradeWaitsForJobs",
        title="A driver upgrade waits for jobs to end",
        severity="warning",
        cause="The upgrade waits for the pods on this node that have the labels {selector}, and {limit}.",
        remedy="Wait, or delete these pods, or set a limit in driver.upgradePolicy.waitForCompletion.timeoutSeconds.",
        sources=(f"{_LIBRARY}pod_manager.go", _DOCS),
        check=_waits_for_jobs,
        explains=_STUCK,
    ),
    Rule(
        code="UpgradeBlockedByUnscheduled",
        title="One node without a driver pod stops all driver upgrades",
        severity="failure",
        cause="A driver DaemonSet has fewer pods than it should have. Until it has them all, the operator begins no "
        "driver upgrade anywhere.",
        remedy="Find the node without a driver pod (`kubectl get pods -o wide`, and the DaemonSet's events), and "
        f"repair it. To leave it out, label it {operands.DRIVER.deploy_label}=false.",
        sources=(f"{_LIBRARY}upgrade_state.go",),
        check=_unscheduled,
        patterns=(_UNSCHEDULED,),
        explains=_STUCK,
    ),
    Rule(
        code="UpgradeValidationTimeout",
        title="A new driver was not validated in time",
        severity="failure",
        cause="After the driver's upgrade, the validator's pod was not ready within 10 minutes.",
        remedy="See why the pod nvidia-operator-validator of this node is not ready (`kubectl describe pod`, and the "
        "logs of its init containers). The upgrade ends by itself once it is ready.",
        sources=(f"{_LIBRARY}validation_manager.go",),
        check=_not_validated,
        patterns=(_TIMEOUT,),
        explains=_STUCK,
    ),
    Rule(
        code="UpgradeWithoutValidator",
        title="A driver upgrade waits for a validator that cannot run there",
        severity="failure",
        cause="The upgrade waits without a limit for the validator's pod, and the label {label} keeps that pod off the "
        "node.",
        remedy=f"Run `kubectl label node <node> {_VALIDATOR_LABEL}=true --overwrite`.",
        sources=(f"{_LIBRARY}validation_manager.go",),
        check=_no_validator,
        explains=_STUCK,
    ),
    Rule(
        code="UpgradeFleetStopped",
        title="Nodes that are out of service stop the driver upgrade of all others",
        severity="warning",
        cause="The operator begins no further upgrade: {why}.",
        remedy="Repair or uncordon these nodes, or raise the limit in driver.upgradePolicy of the ClusterPolicy.",
        sources=(f"{_LIBRARY}common_manager.go", _DOCS),
        check=_stopped,
        explains=frozenset({"DriverUpgrade", "StateNotReady"}),
    ),
    Rule(
        code="DriverStillInUse",
        title="The old driver cannot be unloaded, because it is in use",
        severity="failure",
        cause="A process of the host, or a pod that uses GPUs without asking for them, still uses the old driver. So "
        "the new driver's pod cannot replace it.",
        remedy="Drain the node, and stop what `nvidia-smi` and `fuser -v /dev/nvidia*` show on the host. For the next "
        "upgrade use playbooks/upgrade_driver.yml, which drains nodes before it changes their driver.",
        sources=(
            "https://github.com/NVIDIA/k8s-driver-manager/blob/main/cmd/driver-manager/main.go",
            "https://github.com/NVIDIA/gpu-operator/issues/2570",
        ),
        check=matches.of_operands(*_IN_USE),
        patterns=_IN_USE,
        explains=_STUCK | {"OperandWaiting", "NoAllocatableGPUs"},
        unlike={"OperandsLeftPaused": UNDER_WAY},
    ),
)
