# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reasons why the ClusterPolicy, its operator and its status keep a stack from being ready."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Refusal, Verdict
from inline_snapshot import snapshot as wording

from tests.unit.fakes.claimed import GPUCLUSTER, claimed, offered, slice_of
from tests.unit.fakes.judged import codes, edited, stamp, troubled, verdict
from tests.unit.fakes.stack import LONG_AGO, Json, Stack, policy, progress, ready


def test_no_crd() -> None:
    found = verdict(ready(), policies=None)
    assert found.state == "failed" and codes(found) == ["CRDMissing"]


def test_no_clusterpolicy() -> None:
    found = verdict(ready(), policies=[])
    assert found.state == "progressing" and codes(found) == ["NoClusterPolicy"]


def test_a_gpucluster_beside_it() -> None:
    found = verdict(ready(), gpuclusters=[{"metadata": {"name": "gpu-cluster"}}])
    assert found.state == "failed" and "gpu-cluster" in found.message


# A GPUCluster. What the operator reports of it was recorded from NVIDIA's operator v26.7.0.


def of_gpucluster(gpucluster: Json | None = None, **changes: t.Any) -> Verdict:
    """Return the verdict on two nodes whose GPUs are claimed."""
    facts = {"gpuclusters": [gpucluster or GPUCLUSTER], "offered": offered(slice_of(0), slice_of(1))}
    return verdict(claimed(2), **{**facts, **changes})


def not_ready(reason: str, message: str) -> Json:
    conditions = [
        {"type": "Ready", "status": "False", "reason": "Error", "message": ""},
        {"type": "Error", "status": "True", "reason": reason, "message": message},
    ]
    return {**GPUCLUSTER, "status": {"namespace": "gpu-operator", "state": "notReady", "conditions": conditions}}


def test_a_gpucluster_that_the_operator_reports_as_ready() -> None:
    found = of_gpucluster()
    assert (found.state, codes(found)) == ("ready", [])
    assert (found.nodes_ready, found.nodes_total) == (2, 2)


def test_operands_of_a_clusterpolicy_are_not_missed_beside_a_gpucluster() -> None:
    found = of_gpucluster()
    states = {rollout.operand: rollout.state for rollout in found.operands}
    assert {name for name, state in states.items() if state != "disabled"} == {"dra-driver", "dra-validator"}


def test_the_tolerations_of_a_gpucluster_count() -> None:
    taint = {"key": "team", "value": "ml", "effect": "NoSchedule"}
    stack = claimed(1)
    stack.nodes[0]["spec"] = {"taints": [taint]}
    facts: Json = {"nodes": stack.nodes, "offered": offered(slice_of(0))}
    assert "NodesTainted" in codes(of_gpucluster(**facts))
    tolerant = {**GPUCLUSTER, "spec": {"daemonsets": {"tolerations": [{"operator": "Exists"}]}}}
    assert "NodesTainted" not in codes(of_gpucluster(tolerant, **facts))


def test_a_gpucluster_whose_operands_do_not_run_yet() -> None:
    found = of_gpucluster(not_ready("OperandNotReady", "Waiting for operand pods to be ready"))
    assert (found.state, codes(found)) == ("progressing", ["StateNotReady"])
    words = wording("The operator does not report the GPUCluster as ready: Waiting for operand pods to be ready.")
    assert found.message == words


def test_a_gpucluster_that_the_operator_cannot_reconcile() -> None:
    broken = not_ready("ReconcileFailed", "Error syncing state state-dra-driver: no image")
    assert of_gpucluster(broken).state == "progressing"
    found = of_gpucluster(broken, error_lasts_s=31.0)
    assert (found.state, codes(found)) == ("failed", ["ReconcileFailed"])


def test_a_gpucluster_whose_gpus_nobody_offers() -> None:
    found = of_gpucluster(offered=offered(slice_of(0)))
    assert (found.state, codes(found)) == ("progressing", ["NoAllocatableGPUs"])
    assert (found.nodes_ready, found.nodes_total) == (1, 2)


def test_a_gpucluster_whose_nvidiadriver_is_not_ready() -> None:
    driver = {"metadata": {"name": "default"}, "spec": {"default": True}, "status": {"state": "notReady"}}
    found = of_gpucluster(nvidiadrivers=[driver])
    assert found.state == "progressing" and "DriverNotReady" in codes(found)


def test_a_gpucluster_without_an_operator() -> None:
    assert codes(of_gpucluster(operators=[])) == ["OperatorMissing"]


def test_a_gpucluster_that_was_just_edited_may_still_correct_itself() -> None:
    broken = not_ready("ReconcileFailed", "no image")
    broken = {**broken, "metadata": {**broken["metadata"], "creationTimestamp": stamp(5)}}
    assert of_gpucluster(broken, error_lasts_s=31.0).state == "progressing"


def test_an_older_clusterpolicy_is_in_charge() -> None:
    stack = ready()
    stack.policies.append(policy("older"))
    stack.policies[0]["metadata"]["creationTimestamp"] = stamp(60)
    found = verdict(stack)
    assert found.state == "failed" and found.reasons[0].code == "NotInCharge"
    assert found.message == wording(
        "The operator ignores ClusterPolicy cluster-policy: it serves only one, and that is older. Delete cluster-policy, or delete older if its drivers may be removed."
    )


def test_the_one_with_a_status_is_in_charge_whatever_its_age() -> None:
    """An operator before v26.7 serves the first one that it has looked at."""
    stack = ready()
    stack.policies.append(policy("older") | {"status": {}})
    stack.policies[0]["metadata"]["creationTimestamp"] = stamp(60)
    assert codes(verdict(stack)) == ["IgnoredClusterPolicy"]
    stack.policies[0]["status"], stack.policies[1]["status"] = {}, {"state": "ready"}
    assert verdict(stack).reasons[0].code == "NotInCharge"


def test_a_younger_clusterpolicy_is_ignored() -> None:
    stack = ready()
    stack.policies.append(policy("zzz"))
    found = verdict(stack)
    assert found.state == "ready" and codes(found) == ["IgnoredClusterPolicy"]


def test_no_operator_acts_on_it() -> None:
    found = verdict(ready(), operators=[])
    assert found.state == "progressing" and codes(found) == ["OperatorMissing"]


@pytest.mark.parametrize("status", [{}, {"availableReplicas": 0}])
def test_an_operator_without_a_pod(status: Json) -> None:
    found = verdict(ready(), operators=[{"metadata": {"name": "op"}, "status": status}])
    assert found.state == "progressing" and codes(found) == ["OperatorNotAvailable"]
    assert found.message == wording(
        "The operator Deployment op has no available pod, so the ClusterPolicy's status is stale. See `kubectl -n gpu-operator describe deployment op`."
    )


STUCK = {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "availableReplicas": 1, "unavailableReplicas": 1}


def not_updated(**facts: t.Any) -> Verdict:
    """Return the verdict while the operator's old pod runs, since its new one does not start."""
    stack = ready()
    stack.operators[0]["metadata"]["generation"] = 2
    stack.operators[0]["status"] = STUCK
    return verdict(stack, **facts)


def test_a_new_version_of_the_operator_that_has_not_started() -> None:
    found = not_updated()
    assert (found.state, codes(found)) == ("progressing", ["OperatorNotUpdated"])
    assert found.message == wording(
        "The operator Deployment gpu-operator does not run its newest version, and the old one still acts. See `kubectl -n gpu-operator describe deployment gpu-operator`."
    )


@pytest.mark.parametrize(
    ("message", "stuck_s", "state"),
    [("x: not found", 30, "failed"), ("429 Too Many Requests", 30, "progressing"), ("429 Too Many", 180, "failed")],
)
def test_the_operators_pod_says_why(message: str, stuck_s: float, state: str) -> None:
    rows = troubled("gpu-operator", "ImagePullBackOff", message=message, stuck_s=stuck_s)
    found = not_updated(others=rows)
    assert found.state == state
    assert "still acts: pod gpu-operator-abcd1 is ImagePullBackOff (container x: because)." in found.message


@pytest.mark.parametrize(("seen_s", "state"), [(59, "progressing"), (60, "failed")])
def test_the_operators_pod_is_refused(seen_s: float, state: str) -> None:
    refusal = Refusal('pods "x" is forbidden: exceeded quota', 3, seen_s)
    found = not_updated(refusals={"gpu-operator": refusal}, waited_s=100)
    assert found.state == state and "exceeded quota" in found.message


def discovery(*numbers: int) -> Json:
    return {
        "metadata": {
            "name": "nfd-worker",
            "labels": {"app.kubernetes.io/name": "node-feature-discovery", "role": "worker"},
        },
        "status": progress(*numbers),
    }


def test_node_feature_discovery_that_has_not_started() -> None:
    stack = ready(0)
    stack.nodes.append({"metadata": {"name": "n"}})
    rows = troubled("nfd-worker", "ErrImagePull", message="429", stuck_s=10)
    found = verdict(stack, daemonsets=[discovery(4, 4, 4, 1)], others=rows)
    assert found.state == "progressing" and found.reasons[0].code == "DiscoveryNotReady"
    assert found.message == wording(
        "Node Feature Discovery is not ready, so no GPU node is known: 1 of 4 pods of DaemonSet nfd-worker are available: pod nfd-worker-abcd1 is ErrImagePull (container x: because). (1 more) See `kubectl -n gpu-operator describe daemonset nfd-worker`."
    )
    rows = troubled("nfd-worker", "ErrImagePull", message="x: not found")
    assert verdict(stack, daemonsets=[discovery(4, 4, 1, 1)], others=rows).state == "failed"


def test_node_feature_discovery_that_works_is_no_reason() -> None:
    stack = ready(0)
    stack.nodes.append({"metadata": {"name": "n"}})
    assert "DiscoveryNotReady" not in codes(verdict(stack, daemonsets=[discovery(4, 4, 4, 4)]))
    # Some other node of the cluster does not matter if there are GPU nodes.
    busy = ready(2)
    assert verdict(busy, daemonsets=[*busy.daemonsets.values(), discovery(4, 4, 4, 3)]).state == "ready"


@pytest.mark.parametrize(("age", "state"), [(1, "progressing"), (59, "progressing"), (60, "ready")])
def test_ready_does_not_count_right_after_an_edit(age: float, state: str) -> None:
    assert verdict(edited(ready(), age), waits=True).state == state


def set_error(stack: Stack, why: str, message: str, since: str) -> Stack:
    stack.policies[0]["status"] = {
        "state": "notReady",
        "conditions": [
            {"type": "Error", "status": "True", "reason": why, "message": message, "lastTransitionTime": since}
        ],
    }
    return stack


@pytest.mark.parametrize(("lasts_s", "state"), [(0, "progressing"), (29, "progressing"), (30, "failed")])
def test_an_operator_that_cannot_reconcile_may_recover_for_a_while(lasts_s: float, state: str) -> None:
    stack = set_error(ready(), "ReconcileFailed", "Failed to reconcile state-driver: no image", LONG_AGO)
    found = verdict(stack, error_lasts_s=lasts_s)
    assert found.state == state and "no image" in found.message


def test_an_edit_may_correct_an_earlier_error() -> None:
    stack = edited(set_error(ready(), "ReconcileFailed", "Failed to reconcile state-driver: no image", LONG_AGO), 20)
    assert verdict(stack, error_lasts_s=300).state == "progressing"
    assert verdict(edited(stack, 40), error_lasts_s=300).state == "failed"


def test_operands_that_the_operator_reports_as_not_ready() -> None:
    found = verdict(set_error(ready(), "OperandNotReady", "states not ready: [state-driver]", LONG_AGO))
    assert found.state == "progressing" and "states not ready: [state-driver]" in found.message


def test_no_status_yet() -> None:
    stack = ready()
    del stack.policies[0]["status"]
    assert "not set yet" in verdict(stack).message


# Nodes that keep their driver. The operator counts their pods as not ready, in each of its lines.


def holding(message: str, held: int = 3) -> Verdict:
    """Return the verdict on three nodes with old driver pods, of which ``held`` are kept out of upgrades."""
    stack = ready(3)
    for node in stack.nodes[:held]:
        node["metadata"]["labels"]["nvidia.com/gpu-driver-upgrade.skip"] = "true"
    stack.daemonsets["nvidia-driver-daemonset"]["status"].update(progress(3, 3, 0, 3))
    conditions = [{"type": "Error", "status": "True", "reason": "OperandNotReady", "message": message}]
    stack.policies[0]["status"] |= {"state": "notReady", "conditions": conditions}
    outdated = {"nvidia-driver-daemonset": frozenset(node["metadata"]["name"] for node in stack.nodes)}
    return verdict(stack, outdated=outdated)


@pytest.mark.parametrize("mark", [",", ";"])
def test_a_held_driver_does_not_keep_the_stack_from_being_ready(mark: str) -> None:
    found = holding(f"ClusterPolicy is not ready{mark} states not ready: [state-driver]")
    assert found.state == "ready" and codes(found) == ["StateNotReady"]
    assert found.reasons[0].level == "note"
    assert found.reasons[0].message.endswith("that keep their driver.")


def test_a_held_driver_explains_no_other_operand() -> None:
    found = holding("ClusterPolicy is not ready; states not ready: [state-driver state-dcgm]")
    assert found.state == "progressing" and "keep their driver" not in found.message


def test_an_old_driver_pod_on_a_node_that_is_not_held_is_no_hold() -> None:
    found = holding("ClusterPolicy is not ready; states not ready: [state-driver]", held=2)
    assert found.state == "failed" and codes(found) == ["PodsOutdated", "StateNotReady"]
    assert found.reasons[1].level == "progressing"
