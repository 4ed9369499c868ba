# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_reader import WantedDrivers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_result import RolloutResult
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_rollout import DriverRollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import driver_annotations
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes import stack
from tests.unit.fakes.upgrades.drivers import NEW, NODES, OLD, SKIP, STATE, DriverCluster, asked, driver_pod
from tests.unit.fakes.upgrades.drivers import waiting as pod_waits
from tests.unit.fakes.upgrades.rollouts import IMAGE_GONE, ONE, TWO, ZERO, failure, nothing_is_left, roll

pytestmark = pytest.mark.usefixtures("no_pauses")


def steps(result: RolloutResult) -> dict[str, str]:
    return {row.node: row.step for row in result.rows}


# ---- the way through


def test_every_node_gets_its_driver_one_after_the_other_and_nothing_is_left() -> None:
    cluster = DriverCluster(4)
    result = roll(cluster)
    assert result.finished and result.changed and set(cluster.versions.values()) == {NEW}
    assert cluster.most_cordoned == 1 and nothing_is_left(cluster)
    summary = result.as_result()["summary"]
    assert summary["upgraded"] == 4 and summary["failed"] == 0 and summary["kept_back"] == 0
    row = result.as_result()["nodes"][0]
    assert (row["before"], row["after"], row["state"]) == (OLD, NEW, "upgrade-done") and row["seconds"] > 0


def test_an_operator_that_looks_rarely_is_called_when_there_is_something_to_see() -> None:
    cluster = DriverCluster(4)
    cluster.tick = 120
    assert roll(cluster).finished and nothing_is_left(cluster) and cluster.most_cordoned == 1
    assert cluster.clock < stack.NOW + 120, "alone, it takes two minutes or more for each node"
    assert all(cluster.label(name, STATE) == "upgrade-done" for name in cluster.items)


def test_each_node_costs_three_writes_and_no_read_of_its_own() -> None:
    cluster = DriverCluster(4)
    assert roll(cluster, max_unavailable="4").finished
    assert sorted(cluster.log) == sorted(("merge", name) for name in cluster.items for dummy in range(3)), cluster.log


class Changing(DriverCluster):
    """A cluster in which somebody is faster than the write that gives the first node its turn."""

    def __init__(self, change: t.Callable[[DriverCluster], None]) -> None:
        super().__init__(2)
        self._change: t.Callable[[DriverCluster], None] | None = change

    def merge(self, path: str, body: dict[str, t.Any]) -> dict[str, t.Any]:
        note = (body["metadata"].get("annotations") or {}).get(driver_annotations.NOTE) or ""
        if self._change and path.endswith(ZERO) and note.startswith("turn"):
            change, self._change = self._change, None
            change(self)
        return super().merge(path, body)


def test_a_node_that_was_paused_in_the_meantime_gets_no_turn() -> None:
    def pause(now: DriverCluster) -> None:
        now.merge(
            f"{NODES}/{ZERO}", {"metadata": {"annotations": {driver_annotations.NOTE: "paused 2026-01-01T00:00:00Z"}}}
        )

    cluster = Changing(pause)
    result = roll(cluster, max_unavailable="2")
    assert steps(result) == {ZERO: "waiting", ONE: "done"} and cluster.versions == {ZERO: OLD, ONE: NEW}


def test_a_node_that_is_deleted_in_the_meantime_is_left_out() -> None:
    result = roll(Changing(lambda now: now.items.__delitem__(ZERO)), max_unavailable="2")
    assert steps(result) == {ZERO: "left out", ONE: "done"}


def test_a_signal_while_nodes_get_their_turn_does_not_hide_that_they_have_it() -> None:
    def end(now: DriverCluster) -> None:
        now.items[ONE]["metadata"]["annotations"][driver_annotations.NOTE] = "turn 2026-01-01T00:00:00Z"
        now.items[ONE]["metadata"]["labels"].pop(SKIP, None)  # that thread may have been first
        now.items[ONE]["metadata"]["resourceVersion"] += "0"
        raise KeyboardInterrupt

    error = failure(Changing(end), max_unavailable="2")
    assert error.reason == "Interrupted" and error.msg == wording(
        "The call was interrupted. The upgrade of gpu-0001 continues without this call. 1 node does not get the driver until this runs again (gpu-0000): the label nvidia.com/gpu-driver-upgrade.skip keeps them from it. Run it again to continue where this call ended."
    )


def test_a_node_whose_release_fails_is_let_go_at_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, refused = DriverCluster(2), list[str]()
    merge = cluster.merge

    def refuse_once(path: str, body: dict[str, t.Any]) -> dict[str, t.Any]:
        if not refused and (body["metadata"].get("annotations") or {"": ""}) == {driver_annotations.NOTE: None}:
            refused.append(path)
            raise GpuOpsError("The API server is busy.", reason="TooManyRequests")
        return merge(path, body)

    monkeypatch.setattr(cluster, "merge", refuse_once)
    assert roll(cluster, max_unavailable="2").finished and refused and nothing_is_left(cluster)


def test_a_second_run_finds_nothing_to_do_and_writes_nothing() -> None:
    cluster = DriverCluster(3)
    roll(cluster)
    cluster.log.clear()
    rollout = DriverRollout(cluster.typed, asked(), WantedDrivers(stack.NAMESPACE))
    result = rollout.roll()
    assert result.finished and not result.changed and cluster.log == []
    assert result.as_result()["summary"]["current"] == 3


def test_never_more_nodes_are_in_their_upgrade_than_permitted() -> None:
    cluster = DriverCluster(6)
    roll(cluster, max_unavailable="2")
    assert cluster.most_cordoned == 2


def test_the_operators_own_done_is_not_believed_while_the_pod_is_the_one_before() -> None:
    cluster = DriverCluster(2)
    cluster.operator_runs = False

    def wake(now: DriverCluster) -> None:
        now.operator_runs = now.clock > stack.NOW + 30

    cluster.before_look = wake
    result = roll(cluster)
    assert set(cluster.versions.values()) == {NEW} and result.finished


def test_an_operator_that_never_notices_ends_the_wait() -> None:
    cluster = DriverCluster(1)
    cluster.operator_runs = False
    error = failure(cluster, timeout=60)
    assert (
        error.msg
        == wording(
            "1 of 1 nodes failed, and max_failed allows 0. gpu-0000: It did not start: for 60 s it waited for the operator to notice that its driver is outdated (the operator looks every two minutes). 1 node does not get the driver until this runs again (gpu-0000): the label nvidia.com/gpu-driver-upgrade.skip keeps them from it."
        )
        and error.reason == "NodesFailed"
    )
    assert error.details["nodes"][0]["kept_back"]


def test_a_slow_build_of_the_driver_does_not_end_the_wait() -> None:
    cluster = DriverCluster(1)
    building = pod_waits("")
    container = {"name": "nvidia-driver-ctr", "ready": False, "restartCount": 0}
    started = {"running": {"startedAt": "2027-01-15T08:00:10Z"}}
    building["containerStatuses"] = [{**container, "state": started}]
    cluster.broken[ZERO] = {**building, "phase": "Running"}
    probe = {"initialDelaySeconds": 60, "periodSeconds": 10, "failureThreshold": 120}

    def build(now: DriverCluster) -> None:
        pod = now.pods.get(f"nvidia-driver-daemonset-{ZERO}-{NEW}")
        if pod is not None:
            pod["spec"]["containers"][0]["startupProbe"] = probe
        if pod is not None and now.clock > stack.NOW + 1000:
            now.broken.clear()
            now.pods[pod["metadata"]["name"]] = driver_pod(ZERO, NEW)

    cluster.before_look = build
    assert roll(cluster, timeout=300).finished and cluster.clock > stack.NOW + 1000


def test_a_build_that_outlasts_its_probe_is_no_progress() -> None:
    cluster = DriverCluster(1)
    container = {
        "name": "nvidia-driver-ctr",
        "ready": False,
        "restartCount": 1,
        "state": {"running": {"startedAt": ""}},
    }
    cluster.broken[ZERO] = {"phase": "Running", "containerStatuses": [container]}
    error = failure(cluster, timeout=300)
    assert "made no progress for 300 s" in error.msg and "nvidia-driver-ctr is still running" in error.msg


# ---- canaries, waves and windows


def test_the_others_wait_for_the_canary_to_be_well_for_the_soak_time() -> None:
    cluster, begun = DriverCluster(3), dict[str, float]()

    def watch(now: DriverCluster) -> None:
        for name in now.cordoned:
            begun.setdefault(name, now.clock)

    cluster.before_look = watch
    result = roll(cluster, canary=[TWO], soak=120, max_unavailable="3")
    assert next(iter(begun)) == TWO and begun[ZERO] - begun[TWO] > 120 and begun[ONE] == begun[ZERO]
    assert result.finished and nothing_is_left(cluster)
    assert [row.wave for row in result.rows] == [2, 2, 1]


def test_a_canary_that_is_unwell_again_ends_the_rollout() -> None:
    cluster = DriverCluster(3)

    def break_it(now: DriverCluster) -> None:
        if now.note(ZERO) == "done" and now.clock > stack.NOW + 60:
            now.pods[f"nvidia-operator-validator-{ZERO}-1"]["status"]["containerStatuses"][0]["ready"] = False

    cluster.before_look = break_it
    error = failure(cluster, canary=1, soak=300, max_failed="1")
    assert error.msg.startswith(f"The canary {ZERO} failed") and error.msg == wording(
        "The canary gpu-0000 failed. gpu-0000: It had its driver, and is not well any more: it waits for pod nvidia-operator-validator-gpu-0000-1 to be ready. It waits for pod nvidia-operator-validator-gpu-0000-1 to be ready. 2 nodes do not get the driver until this runs again (gpu-0001, gpu-0002): the label nvidia.com/gpu-driver-upgrade.skip keeps them from it."
    )
    assert set(cluster.versions.values()) == {OLD, NEW} and cluster.label(ONE, SKIP) == "true"


def test_waves_follow_each_other() -> None:
    cluster, begun = DriverCluster(5), list[str]()

    def watch(now: DriverCluster) -> None:
        begun.extend(name for name in now.cordoned if name not in begun)
        assert len(now.cordoned) <= 3

    cluster.before_look = watch
    result = roll(cluster, canary=1, waves=["1", "3"], max_unavailable="5")
    assert [row.wave for row in result.rows] == [1, 2, 3, 3, 3] and begun[:2] == [ZERO, ONE]


def test_the_nodes_of_one_nvidiadriver_follow_those_of_another() -> None:
    cluster, together = DriverCluster(4), set[tuple[str, ...]]()
    owners = {ZERO: "a", ONE: "b", TWO: "a", "gpu-0003": "b"}
    for name, owner in owners.items():
        cluster.items[name]["metadata"]["labels"]["nvidia.com/gpu-operator.driver.owner"] = owner

    def watch(now: DriverCluster) -> None:
        together.add(tuple(sorted({owners[name] for name in now.cordoned})))

    cluster.before_look = watch
    result = roll(cluster, group_by="nvidia.com/gpu-operator.driver.owner", max_unavailable="2")
    assert result.finished and together == {(), ("a",), ("b",)} and cluster.most_cordoned == 2


def test_a_closed_window_begins_nothing_and_is_no_error() -> None:
    cluster = DriverCluster(2)
    result = roll(cluster, windows=["03:00-04:00"])  # the clock says 08:00
    assert not result.finished and steps(result) == {ZERO: "waiting", ONE: "waiting"}
    assert result.closing == wording(
        "2 nodes do not get the driver until this runs again (gpu-0000, gpu-0001): the label nvidia.com/gpu-driver-upgrade.skip keeps them from it."
    )
    assert set(cluster.versions.values()) == {OLD}


def test_a_closed_window_ends_the_call_also_if_later_waves_are_left() -> None:
    cluster = DriverCluster(4)
    result = roll(cluster, windows=["03:00-04:00"], canary=1, waves=["1"])  # the clock says 08:00
    assert not result.finished and not result.stop and set(steps(result).values()) == {"waiting"}


def test_a_window_that_closes_lets_the_nodes_that_have_begun_end() -> None:
    cluster = DriverCluster(4)
    cluster.clock = stack.NOW + 60 * 60 - 20
    result = roll(cluster, windows=["08:00-09:00"])
    done = [row for row in result.rows if row.step == "done"]
    assert 0 < len(done) < 4 and not result.finished and not cluster.cordoned
    assert all(row.waits_for.startswith("the next maintenance window") for row in result.rows if row not in done)
    cluster.clock = stack.NOW + 24 * 60 * 60
    assert roll(cluster, windows=["08:00-09:00"]).finished and nothing_is_left(cluster)


def test_a_paused_rollout_ends_after_the_nodes_that_have_begun_and_goes_on_when_it_is_asked_for_again() -> None:
    cluster = DriverCluster(3)

    def pause(now: DriverCluster) -> None:
        if now.note(ZERO) == "turn" and now.note(TWO) == "held":
            now.before_look = lambda later: None
            for name in (ONE, TWO):
                now.merge(
                    f"{NODES}/{name}", t.cast("t.Any", driver_annotations.pause_patch(now.items[name], now.clock))
                )

    cluster.before_look = pause
    result = roll(cluster)
    assert steps(result) == {ZERO: "done", ONE: "waiting", TWO: "waiting"} and not result.finished
    assert cluster.note(ONE) == "paused"
    again = DriverRollout(cluster.typed, asked(), WantedDrivers(stack.NAMESPACE)).roll()
    assert again.finished and nothing_is_left(cluster)


# ---- failures


def test_a_node_that_fails_before_its_driver_is_touched_serves_on_and_is_named_with_its_cause() -> None:
    cluster = DriverCluster(3)
    cluster.broken[ONE] = "pods"
    cluster.add(stack.workload("train", 1, controller=""))
    result = roll(cluster, max_failed="1")
    assert steps(result) == {ZERO: "done", ONE: "failed", TWO: "done"} and result.finished
    reason = result.failed[0].reason
    assert "default/train on gpu-0001 has no controller" in reason and "pod_deletion.force permits it" in reason
    assert reason == wording(
        "The operator gave its upgrade up. Pods are in the way: default/train on gpu-0001 has no controller that would start it again elsewhere (upgrade_policy.pod_deletion.force permits it). It serves with the driver before, and the label nvidia.com/gpu-driver-upgrade.skip keeps it from another try: remove the cause and run this again."
    )
    assert cluster.cordoned == [] and cluster.versions[ONE] == OLD
    assert (cluster.label(ONE, STATE), cluster.label(ONE, SKIP), cluster.note(ONE)) == (
        "upgrade-required",
        "true",
        "failed",
    )
    assert result.closing == wording(
        "1 node does not get the driver until this runs again (gpu-0001): the label nvidia.com/gpu-driver-upgrade.skip keeps them from it."
    )


def test_a_failed_node_is_tried_again_by_the_next_run() -> None:
    cluster = DriverCluster(2)
    cluster.broken[ONE] = "pods"
    failure(cluster)
    cluster.broken.clear()
    assert roll(cluster).finished and nothing_is_left(cluster) and cluster.versions[ONE] == NEW


def test_one_failure_ends_the_rollout_and_the_others_keep_their_driver() -> None:
    cluster = DriverCluster(4)
    cluster.broken[ZERO] = "pods"
    error = failure(cluster)
    assert list(cluster.versions.values()) == [OLD] * 4 and error.details["summary"]["waiting"] == 3
    assert "1 of 4 nodes failed, and max_failed allows 0" in error.msg


def test_a_new_driver_whose_image_does_not_exist_fails_at_once_and_stays_cordoned() -> None:
    cluster = DriverCluster(3)
    cluster.broken[ZERO] = IMAGE_GONE
    result = roll(cluster, max_failed="1", max_unavailable="2")
    row = result.rows[0]
    assert row.failed and row.unschedulable and "not found" in row.reason and cluster.clock < stack.NOW + 120
    assert cluster.cordoned == [ZERO] and f"{ZERO} stays cordoned" in result.closing
    assert steps(result) == {ZERO: "failed", ONE: "done", TWO: "done"}


def test_a_node_that_stays_cordoned_counts_as_unavailable() -> None:
    cluster = DriverCluster(2)
    cluster.broken[ZERO] = IMAGE_GONE
    error = failure(cluster, max_failed="1")
    assert "does not serve, so max_unavailable (1) leaves no room" in error.msg and cluster.versions[ONE] == OLD


def test_a_node_without_a_validator_pod_fails_instead_of_waiting_for_ever() -> None:
    cluster = DriverCluster(1)
    cluster.broken[ZERO] = "validator"
    error = failure(cluster, timeout=120)
    assert error.msg == wording(
        "1 of 1 nodes failed, and max_failed allows 0. gpu-0000: It made no progress for 120 s. It waited for a validator pod: it has none. It has no validator pod. gpu-0000 stays cordoned."
    )


def test_a_budget_that_blocks_for_ever_is_named() -> None:
    cluster = DriverCluster(1)
    cluster.broken[ZERO] = "stuck"
    cluster.add(stack.workload("train", 0))
    cluster.refused_evictions["train"] = "The disruption budget train needs 1 healthy pods and has 1 currently"
    error = failure(cluster, timeout=120)
    assert "PodDisruptionBudget default/train forbids its eviction" in error.msg


def test_a_policy_without_pod_deletion_is_named_at_once() -> None:
    cluster = DriverCluster(1, upgrade={"autoUpgrade": True})
    cluster.broken[ZERO] = "stuck"
    error = failure(cluster)
    assert "no podDeletion" in error.msg and cluster.clock < stack.NOW + 60


def test_a_node_that_is_down_is_not_begun_and_does_not_hold_the_others() -> None:
    cluster = DriverCluster(3)
    cluster.items[ZERO]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    result = roll(cluster, max_failed="1", timeout=60)
    assert steps(result) == {ZERO: "failed", ONE: "done", TWO: "done"}
    assert (
        result.rows[0].reason
        == wording(
            "It did not start: for 60 s it waited for its kubelet to be Ready. It serves with the driver before, and the label nvidia.com/gpu-driver-upgrade.skip keeps it from another try: remove the cause and run this again."
        )
        and result.rows[0].kept_back
    )


def test_a_node_whose_failure_heals_is_done_after_all() -> None:
    cluster = DriverCluster(3)
    cluster.broken[ZERO] = IMAGE_GONE

    def heal(now: DriverCluster) -> None:
        if now.note(ZERO) == "failed" and ZERO in now.broken:
            now.broken.clear()
            now.replace(ZERO, {})

    cluster.before_look = heal
    result = roll(cluster, max_failed="1", max_unavailable="2")
    assert steps(result)[ZERO] == "done" and result.rows[0].notes[0] == wording(
        'It came right after it had failed: Its new driver does not start. It waits for pod nvidia-driver-daemonset-gpu-0000-595.91.07 to be ready (container nvidia-driver-ctr: Back-off pulling image: "driver:595": not found).'
    )


# ---- others


def test_a_users_own_label_is_kept_and_the_node_left_out() -> None:
    cluster = DriverCluster(2)
    cluster.items[ZERO]["metadata"]["labels"][SKIP] = "true"
    result = roll(cluster)
    assert steps(result) == {ZERO: "left out", ONE: "done"} and cluster.label(ZERO, SKIP) == "true"
    assert cluster.versions[ZERO] == OLD and result.finished


def test_a_cordon_of_somebody_else_stays() -> None:
    cluster = DriverCluster(1)

    def cordon(now: DriverCluster) -> None:
        if now.label(ZERO, STATE) == "upgrade-required" and now.note(ZERO) == "held":
            now.items[ZERO]["spec"]["unschedulable"] = True

    cluster.before_look = cordon
    rollout = DriverRollout(cluster.typed, asked(), WantedDrivers(stack.NAMESPACE))
    rollout.hold([ZERO])
    rollout.roll()
    assert cluster.items[ZERO]["metadata"]["annotations"].get(
        "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
    )


def test_another_maintainer_at_work_is_waited_for() -> None:
    cluster = DriverCluster(1)
    cluster.items[ZERO]["spec"]["taints"] = [{"key": "medik8s.io/drain", "effect": "NoSchedule"}]
    cluster.daemonset["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
    error = failure(cluster, timeout=30)
    assert "medik8s" in error.msg and cluster.versions[ZERO] == OLD
    cluster.clock += 60
    assert roll(cluster, allow_shared=True).finished


def test_a_node_that_is_deleted_is_left_out() -> None:
    cluster = DriverCluster(2)

    def delete(now: DriverCluster) -> None:
        if now.clock > stack.NOW + 3 and ONE in now.items:
            del now.items[ONE]
            now.pods = {key: pod for key, pod in now.pods.items() if pod["spec"]["nodeName"] != ONE}
            now.daemonset["status"]["desiredNumberScheduled"] = 1

    cluster.before_look = delete
    assert steps(roll(cluster)) == {ZERO: "done", ONE: "left out"}


def test_a_daemonset_that_lacks_a_pod_is_what_the_operator_waits_for() -> None:
    cluster = DriverCluster(2)
    cluster.daemonset["status"]["desiredNumberScheduled"] = 3
    cluster.broken[ZERO] = "stuck"
    error = failure(cluster, timeout=60)
    assert "upgrades no node while DaemonSet nvidia-driver-daemonset has 2 pods for 3 nodes" in error.msg


def test_an_outage_of_the_api_in_the_middle_is_waited_out() -> None:
    cluster = DriverCluster(2)
    merge, cut = cluster.merge, list[str]()

    def fails(path: str, body: t.Any) -> t.Any:
        made = merge(path, body)  # the answer is lost, and the change is not
        if "turn" in str(body) and path not in cut:
            cut.append(path)
            raise GpuOpsError("The API server is away.", reason="Unreachable")
        return made

    cluster.merge = fails  # type: ignore[method-assign]
    assert roll(cluster).finished and len(cut) == 2 and nothing_is_left(cluster)


@pytest.mark.parametrize(
    "state",
    ["upgrade-required", "pod-deletion-required", "pod-restart-required", "validation-required", "uncordon-required"],
)
def test_a_run_that_died_at_any_state_is_gone_on_with(state: str) -> None:
    cluster = DriverCluster(2)

    def kill(now: DriverCluster) -> None:
        if now.label(ZERO, STATE) == state:
            raise GpuOpsError("killed", reason="Invalid")

    cluster.before_look = kill
    failure(cluster)
    cluster.before_look = lambda now: None
    assert roll(cluster).finished and nothing_is_left(cluster) and set(cluster.versions.values()) == {NEW}


def test_a_change_of_the_driver_in_the_middle_brings_upgraded_nodes_back_to_their_turn() -> None:
    cluster = DriverCluster(2)

    def change(now: DriverCluster) -> None:
        if now.note(ONE) == "turn" and ZERO not in seen:
            seen.append(ZERO)
            now.pods = {
                key: pod for key, pod in now.pods.items() if not key.startswith(f"nvidia-driver-daemonset-{ZERO}")
            }
            now.add(driver_pod(ZERO, OLD))

    seen: list[str] = []
    cluster.before_look = change
    result = roll(cluster)
    assert result.finished and set(cluster.versions.values()) == {NEW}
