# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from datetime import UTC, datetime

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import plan as core
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.plan import INITIAL, MARK
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules.node_maintenance import OPTIONS

from tests.unit.stack import node, workload

DEFAULTS: dict[str, t.Any] = {name: option.get("default") for name, option in OPTIONS.items()} | {
    "state": "drained",
    "purpose": "reboot",
}
NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC).timestamp()


def options(**changes: t.Any) -> dict[str, t.Any]:
    return {**DEFAULTS, **changes}


def held(number: int = 0, *, cordoned: bool = True, initially: str | None = "false", **purposes: str) -> dict:
    made = node(number)
    notes = {MARK + purpose: stamp for purpose, stamp in purposes.items()} | ({INITIAL: initially} if initially else {})
    made["metadata"] |= {"annotations": notes, "resourceVersion": "7"}
    made["spec"] = {"unschedulable": True} if cordoned else {}
    return made


def changes(patch: dict | None) -> tuple[dict, dict]:
    """A patch's annotations and spec."""
    assert patch and patch["metadata"]["resourceVersion"] == "7"
    return patch["metadata"]["annotations"], patch.get("spec", {})


# ---- taking and giving back -----------------------------------------------------------------------------------------------------


def test_taking_a_node_cordons_it_and_remembers_that_it_was_not() -> None:
    patch = core.take(held(cordoned=False, initially=None), "reboot", "me")
    assert changes(patch) == ({MARK + "reboot": "me", INITIAL: "false"}, {"unschedulable": True})


def test_a_node_that_was_cordoned_before_is_remembered_as_such() -> None:
    assert changes(core.take(held(initially=None), "reboot", "me"))[0][INITIAL] == "true"


def test_a_node_that_is_held_for_the_purpose_needs_nothing() -> None:
    assert core.take(held(reboot="earlier"), "reboot", "me") is None


def test_a_second_purpose_keeps_what_the_first_remembered() -> None:
    for initially in ("true", "false"):
        assert INITIAL not in changes(core.take(held(repair="earlier", initially=initially), "reboot", "me"))[0]


def test_a_cordon_that_was_lifted_meanwhile_comes_back_for_the_maintenance_only() -> None:
    annotations, spec = changes(core.take(held(reboot="earlier", initially="true", cordoned=False), "reboot", "me"))
    assert (annotations, spec) == ({MARK + "reboot": "me", INITIAL: "false"}, {"unschedulable": True})


def test_a_left_over_memory_without_a_purpose_counts_for_nothing() -> None:
    assert changes(core.take(held(cordoned=False, initially="true"), "reboot", "me"))[0][INITIAL] == "false"


def test_the_last_purpose_gives_the_node_back_as_it_was() -> None:
    assert changes(core.release(held(reboot="x"), "reboot")) == (
        {MARK + "reboot": None, INITIAL: None},
        {"unschedulable": None},
    )
    assert changes(core.release(held(reboot="x", initially="true"), "reboot")) == (
        {MARK + "reboot": None, INITIAL: None},
        {},
    )


def test_a_purpose_that_is_not_the_last_leaves_the_cordon() -> None:
    assert changes(core.release(held(reboot="x", repair="y"), "reboot")) == ({MARK + "reboot": None}, {})


def test_a_node_that_is_not_held_for_the_purpose_is_left_alone() -> None:
    assert core.release(held(initially=None), "reboot") is None
    assert core.release(held(repair="y"), "reboot") is None


def test_after_a_patch_a_node_is_what_the_patch_says() -> None:
    before = held(cordoned=False, initially=None)
    taken = core.after(before, core.take(before, "reboot", "me"))
    assert core.hold_of(taken) == core.Hold(True, ("reboot",), False)
    assert core.hold_of(core.after(before, None)) == core.Hold(False, (), False)
    given = core.after(held(reboot="x"), core.release(held(reboot="x"), "reboot"))
    assert core.hold_of(given) == core.Hold(False, (), False) and given["metadata"]["annotations"] == {}


def test_only_what_this_run_took_is_undone() -> None:
    mine = core.plan(([held(cordoned=False, initially=None)], {}), options(), "me")[0]
    assert mine.undo(held(reboot="me")) == core.release(held(reboot="me"), "reboot")
    assert mine.undo(held(reboot="somebody else")) is None and mine.undo(node()) is None


# ---- which nodes ----------------------------------------------------------------------------------------------------------------


def names(nodes: list[dict]) -> list[str]:
    return [item["metadata"]["name"] for item in nodes]


def test_nodes_by_name_once_each_and_in_their_order() -> None:
    assert names(core.select([node(0), node(1), node(2)], options(nodes=["gpu-0002", "gpu-0000", "gpu-0002"]))) == [
        "gpu-0002",
        "gpu-0000",
    ]
    assert core.select([node(0)], options(nodes=[])) == []


def test_a_node_that_is_not_there_is_named_with_the_option() -> None:
    with pytest.raises(GpuOpsError, match=r"^The cluster has no node gone, gpu-9. Correct the option nodes\.$"):
        core.select([node(0)], options(nodes=["gone", "gpu-0000", "gpu-9"]))


def test_nodes_by_label() -> None:
    other = node(1)
    other["metadata"]["labels"]["rack"] = "7"
    assert names(core.select([node(0), other], options(node_selector={"rack": 7}))) == ["gpu-0001"]
    with pytest.raises(GpuOpsError, match=r"No node has the labels \{'rack': '8'\}. Correct the option node_selector"):
        core.select([node(0), other], options(node_selector={"rack": 8}))


def test_without_a_choice_it_is_the_nodes_that_are_held_for_the_purpose() -> None:
    nodes = [held(0, reboot="x"), held(1, repair="x"), node(2)]
    assert names(core.select(nodes, options(state="restored"))) == ["gpu-0000"]


@pytest.mark.parametrize(
    ("state", "fine"),
    [("upgrade-required", True), ("upgrade-failed", True), ("upgrade-done", True), ("drain-required", False)],
)
def test_a_node_that_the_operator_works_on_is_refused(state: str, fine: bool) -> None:
    busy = node(0)
    busy["metadata"]["labels"]["nvidia.com/gpu-driver-upgrade-state"] = state
    core.check_nodes([busy], [busy], options(state="restored"))
    if fine:
        core.check_nodes([busy], [busy], options())
    else:
        with pytest.raises(GpuOpsError, match=r"driver upgrade is at work on gpu-0000 \(drain-required\).*Wait until"):
            core.check_nodes([busy], [busy], options())


def test_no_more_nodes_in_maintenance_than_permitted() -> None:
    nodes = [held(0, repair="x"), node(1), node(2), node(3)]
    core.check_nodes(nodes, nodes[1:3], options(max_in_maintenance=3))
    core.check_nodes(nodes, nodes[:1], options(max_in_maintenance=1))
    core.check_nodes([held(0, reboot="x"), held(1, reboot="x")], [held(1, reboot="x")], options(max_in_maintenance=1))
    with pytest.raises(
        GpuOpsError,
        match=r"^4 nodes would be in maintenance at once; 1 of them already are \(gpu-0000\), and max_in_maintenance is 3",
    ):
        core.check_nodes(nodes, nodes[1:], options(max_in_maintenance=3))
    with pytest.raises(GpuOpsError, match=r"^3 nodes would be in maintenance at once, and max_in_maintenance is 2"):
        core.check_nodes(nodes[1:], nodes[1:], options(max_in_maintenance=2))


@pytest.mark.parametrize("purpose", ["", "Reboot", "a/b", "-a", "a-", "a" * 41])
def test_a_purpose_must_fit_into_an_annotation(purpose: str) -> None:
    with pytest.raises(GpuOpsError, match=r"^purpose must be"):
        core.check_options(options(purpose=purpose))


def test_options_that_make_sense() -> None:
    core.check_options(options(purpose="a" * 40, grace_period=0))
    with pytest.raises(GpuOpsError, match="grace_period must be at least 0"):
        core.check_options(options(grace_period=-1))


# ---- which pods -----------------------------------------------------------------------------------------------------------------


def test_pods_that_a_drain_is_about() -> None:
    assert core.is_movable(workload("a"))
    assert not core.is_movable(workload("a", controller="DaemonSet"))
    assert not core.is_movable(workload("a", annotations={"kubernetes.io/config.mirror": "hash"}))
    assert not core.is_movable(workload("a") | {"status": {"phase": "Succeeded"}})
    assert not core.is_movable(workload("a") | {"status": {"phase": "Failed"}})


def test_pods_that_need_a_permission() -> None:
    bare = workload("bare", controller="")
    owned = workload("owned", controller="")
    owned["metadata"]["ownerReferences"] = [{"kind": "ClusterPolicy", "name": "x"}]
    data = workload("data")
    data["spec"]["volumes"] = [{"name": "cache", "emptyDir": {}}, {"name": "config", "configMap": {}}]
    assert core.obstacles([bare, owned, data, workload("fine")], options()) == [
        "default/bare on gpu-0000 has no controller that would start it again elsewhere (force permits it)",
        "default/owned on gpu-0000 has no controller that would start it again elsewhere (force permits it)",
        "default/data on gpu-0000 would lose its emptyDir data in cache (delete_emptydir_data permits it)",
    ]
    assert core.obstacles([bare, data], options(force=True, delete_emptydir_data=True)) == []
    assert core.obstacles([workload("going", controller="", deletionTimestamp="2026-11-21T10:00:00Z")], options()) == []


def test_the_plan_stops_at_obstacles_and_names_a_few() -> None:
    pods = [workload(f"bare-{number}", controller="") for number in range(7)]
    with pytest.raises(
        GpuOpsError, match=r"^Pods are in the way: default/bare-0 .*default/bare-4 on .*; and 2 more\. Permit it"
    ) as caught:
        core.plan(([node(0)], {"gpu-0000": pods}), options(), "me")
    assert caught.value.reason == "PodsInTheWay" and "bare-5" not in caught.value.msg


def test_a_plan_says_what_changes() -> None:
    going = workload("going", deletionTimestamp="2026-11-21T10:00:00Z")
    plan = core.plan(
        ([held(cordoned=False, initially=None)], {"gpu-0000": [workload("b"), going, workload("a")]}), options(), "me"
    )[0]
    assert plan.changed and [core.ref(pod) for pod in plan.evictions] == ["default/b", "default/a"]
    assert plan.facts(False) == {"unschedulable": False, "purposes": [], "pods": ["default/a", "default/b"]}
    assert plan.facts(True) == {"unschedulable": True, "purposes": ["reboot"], "pods": []}


def test_a_plan_for_what_is_done_is_empty() -> None:
    drained, restored = held(reboot="x"), held(cordoned=False, initially=None)
    assert not core.plan(([drained], {}), options(), "me")[0].changed
    assert not core.plan(([restored], {}), options(state="restored"), "me")[0].changed
    assert core.plan(([drained], {}), options(state="restored"), "me")[0].changed


# ---- what goes wrong ------------------------------------------------------------------------------------------------------------


def refusal(reason: str, msg: str = "no.") -> GpuOpsError:
    return GpuOpsError(msg, reason=reason)


def test_refusals_that_the_next_look_settles() -> None:
    assert core.judge_refusal(refusal("NotFound"), "default") is None
    assert core.judge_refusal(refusal("Conflict"), "default") is None
    assert (
        core.judge_refusal(
            GpuOpsError("no", reason="Forbidden", causes=[{"reason": "NamespaceTerminating"}]), "default"
        )
        is None
    )


def test_a_disruption_budget_is_named() -> None:
    cause = {
        "reason": "DisruptionBudget",
        "message": "The disruption budget web needs 2 healthy pods and has 2 currently",
    }
    said = core.judge_refusal(GpuOpsError("no", reason="TooManyRequests", causes=[cause]), "default")
    assert (
        said == "the PodDisruptionBudget default/web forbids its eviction: it needs 2 healthy pods and has 2 currently"
    )
    assert (
        core.judge_refusal(refusal("TooManyRequests", "The API server is busy."), "default") == "The API server is busy"
    )


def test_two_disruption_budgets_are_named() -> None:
    said = "The Kubernetes API failed on POST /x (500): This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    assert "more than one PodDisruptionBudget" in str(core.judge_refusal(refusal("ServerError", said), "default"))


@pytest.mark.parametrize("reason", ["Forbidden", "ServerError", "Unreachable"])
def test_other_refusals_are_errors(reason: str) -> None:
    with pytest.raises(GpuOpsError, match="no"):
        core.judge_refusal(refusal(reason), "default")


def ending(seconds_ago: float, **metadata: t.Any) -> dict:
    told = datetime.fromtimestamp(NOW - seconds_ago, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return workload("slow", deletionTimestamp=told, deletionGracePeriodSeconds=60, **metadata)


@pytest.mark.parametrize(
    ("pod", "refused", "why"),
    [
        pytest.param(workload("a"), "the budget forbids it", "the budget forbids it", id="refused"),
        pytest.param(workload("a"), None, "it came late, and was not evicted in time", id="late"),
        pytest.param(
            ending(-20),
            "old answer",
            "may take 20 s more of its grace period of 60 s: raise timeout, or set grace_period",
            id="grace",
        ),
        pytest.param(
            ending(5, finalizers=["example.com/keep"]),
            None,
            "did not within its grace period of 60 s: the finalizers example.com",
            id="finalizer",
        ),
        pytest.param(ending(5), None, "look at the kubelet of its node", id="kubelet"),
    ],
)
def test_why_a_pod_is_still_there(pod: dict, refused: str | None, why: str) -> None:
    assert why in core.why_left(pod, node(), refused, NOW)


def test_a_pod_that_tolerates_the_cordon_comes_back() -> None:
    pod = workload("a")
    pod["spec"]["tolerations"] = [{"operator": "Exists"}]
    assert "tolerates the cordon" in core.why_left(pod, node(), None, NOW)


def test_a_node_without_a_kubelet_ends_no_pod() -> None:
    down = node()
    down["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    assert "not Ready" in core.why_left(ending(5), down, None, NOW)
    assert "not Ready" in core.why_left(ending(5), None, None, NOW)


@pytest.mark.parametrize(
    ("left", "line"),
    [
        ({}, "12/50 nodes drained"),
        ({"gpu-0001": {}}, "12/50 nodes drained"),
        ({"gpu-0001": {"a/b": ""}}, "12/50 nodes drained; gpu-0001: 1 pod left"),
        (
            {
                "gpu-0001": {"a/b": ""},
                "gpu-0007": {
                    "default/db-0": "",
                    "default/web-0": "the PodDisruptionBudget default/web forbids its eviction",
                },
            },
            "12/50 nodes drained; gpu-0007: 2 pods left, default/web-0: the PodDisruptionBudget default/web forbids its eviction",
        ),
    ],
)
def test_progress_in_a_line(left: dict, line: str) -> None:
    assert core.progress(50, 12, left) == line
