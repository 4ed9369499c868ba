# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import sets, steps
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.pods import PodView, view
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.sets import Deletion, DriverSet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.sight import Sight, Stack

from tests.unit.fakes import stack
from tests.unit.fakes.stack import NOW, Json
from tests.unit.fakes.upgrades.drivers import NEW, OLD, STATE, driver_pod, validator_pod, waiting

SET = DriverSet("nvidia-driver-daemonset", revision=NEW, image=f"nvcr.io/nvidia/driver:{NEW}-ubuntu24.04", desired=1)


def node(state: str = "upgrade-done", version: str = NEW, **labels: str) -> Json:
    made = stack.node()
    made["metadata"]["labels"] |= {STATE: state, "nvidia.com/cuda.driver-version.full": version, **labels}
    return made


def sight(pod: Json | None = None, made: Json | None = None, **fields: t.Any) -> Sight:
    """Return a node that has its driver, with some changes."""
    views: dict[str, t.Any] = {
        "pod": view(pod or driver_pod("gpu-0000", NEW)),
        "validators": (view(validator_pod("gpu-0000")),),
    }
    return Sight(made or node(), SET, **{**views, **fields})


def lack(**fields: t.Any) -> str:
    return next(iter(sight(**fields).lacks(NOW)), "")


# ---- the proof


def test_a_node_that_has_everything_lacks_nothing() -> None:
    assert sight().lacks(NOW) == [] and sight().waits_for(NOW) == ""


NOT_THERE = driver_pod("gpu-0000", NEW, **waiting("ErrImagePull", "not there"))
PAUSED = {"nvidia.com/gpu.deploy.dcgm": "paused-for-driver-upgrade"}


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("to be replaced, which has the driver before", sight(driver_pod("gpu-0000", OLD))),
        ("a driver pod of DaemonSet nvidia-driver-daemonset", Sight(node(), SET)),
        ("to be ready (container nvidia-driver-ctr: not there)", sight(NOT_THERE)),
        ("the operator to finish (state validation-required", sight(made=node("validation-required"))),
        ("nvidia.com/gpu.deploy.dcgm is paused", sight(made=node(**PAUSED))),
        ("feature discovery to report driver 595.91.07 (it reports 580.105.08)", sight(made=node(version=OLD))),
        ("(it reports no version)", sight(made=node(version=""))),
        ("a validator pod: it has none", sight(validators=())),
        ("the operator to write other:1 into DaemonSet nvidia-driver-daemonset", sight(wanted_image="other:1")),
    ],
)
def test_each_thing_that_is_missing_is_named(said: str, seen: Sight) -> None:
    assert said in seen.lacks(NOW)[0]


def test_a_pod_of_another_daemonset_or_of_none_is_outdated() -> None:
    orphan = driver_pod("gpu-0000", NEW)
    orphan["metadata"]["ownerReferences"] = []
    assert "to be replaced" in lack(pod=orphan)


def test_an_unready_kubelet_and_missing_gpus_are_named() -> None:
    down = node()
    down["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    assert lack(made=down) == "its kubelet to be Ready"
    empty = node()
    empty["status"]["allocatable"] = {"cpu": "64"}
    assert lack(made=empty) == "its GPUs to be allocatable"
    assert sight(made=empty, stack=Stack(has_plugin=False)).lacks(NOW) == []


def test_what_does_not_run_is_not_waited_for() -> None:
    nothing = Stack(validates=False, discovers=False, has_plugin=False)
    assert sight(made=node(version=OLD), validators=(), stack=nothing).lacks(NOW) == []


def test_a_revision_that_is_not_known_or_not_noticed_proves_nothing() -> None:
    unread = Sight(node(), dataclasses.replace(SET, revision=""), view(driver_pod("gpu-0000", NEW)))
    assert any("list controllerrevisions" in each for each in unread.lacks(NOW))
    late = Sight(node(), dataclasses.replace(SET, is_observed=False), view(driver_pod("gpu-0000", NEW)))
    assert "Kubernetes to notice" in late.lacks(NOW)[0]


def test_a_node_that_is_kept_back_waits_until_the_operator_has_acted() -> None:
    held = node()
    held["metadata"]["annotations"] = {"gpuops.nvidia/driver-rollout": "held 2026-01-01T00:00:00Z"}
    assert lack(made=held, has_acted=False) == "the operator to act on the change of the driver"
    assert sight(has_acted=False).lacks(NOW) == [], "nothing was changed for this node"


def test_a_cordon_of_ours_must_be_lifted_and_one_of_others_need_not() -> None:
    for note, expected in (
        ("turn 2026-01-01T00:00:00Z", "its cordon to be lifted"),
        ("turn 2026-01-01T00:00:00Z found cordoned", ""),
    ):
        cordoned = node()
        cordoned["metadata"]["annotations"] = {"gpuops.nvidia/driver-rollout": note}
        cordoned["spec"] = {"unschedulable": True}
        assert lack(made=cordoned) == expected


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("upgrade-required", "the operator to begin"),
        ("cordon-required", "the operator to cordon it"),
        ("wait-for-jobs-required", "jobs to end"),
        ("pod-deletion-required", "pods with GPUs to leave"),
        ("drain-required", "pods to leave"),
        ("pod-restart-required", "to be replaced"),
        ("uncordon-required", "the operator to uncordon it"),
    ],
)
def test_each_state_says_what_the_node_waits_for(state: str, said: str) -> None:
    seen = sight(driver_pod("gpu-0000", OLD), node(state))
    assert said in seen.waits_for(NOW)
    blocked = dataclasses.replace(seen, blocked="DaemonSet x has 1 pods for 2 nodes")
    assert blocked.waits_for(NOW) == "the operator, which upgrades no node while DaemonSet x has 1 pods for 2 nodes"


def test_the_operators_next_look_is_a_reason_to_wait() -> None:
    assert "the operator to go on" in sight(made=node("pod-restart-required")).waits_for(NOW)
    assert "notice that its validator runs" in sight(made=node("validation-required")).waits_for(NOW)
    none = sight(made=node("validation-required"), validators=())
    assert none.waits_for(NOW) == "a validator pod: it has none"


@pytest.mark.parametrize(
    ("keeps", "state", "pod"),
    [
        (True, "upgrade-failed", driver_pod("gpu-0000", OLD)),
        (True, "wait-for-jobs-required", driver_pod("gpu-0000", OLD)),
        (False, "upgrade-failed", driver_pod("gpu-0000", NEW)),
        (False, "upgrade-failed", driver_pod("gpu-0000", OLD, phase="Pending")),
        (False, "pod-deletion-required", driver_pod("gpu-0000", OLD)),  # the operator still evicts
        (False, "pod-restart-required", driver_pod("gpu-0000", OLD)),
    ],
)
def test_a_node_can_be_put_back_while_its_old_driver_runs_untouched(keeps: bool, state: str, pod: Json) -> None:
    assert sight(pod, node(state)).keeps_old_driver is keeps


# ---- versions and policies


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("nvcr.io/nvidia/driver:595.91.07-ubuntu24.04", "595.91.07"),
        ("127.0.0.1:5000/nvidia/driver:595.91.07-rhel9", "595.91.07"),
        ("nvcr.io/nvidia/driver:580-6.8.0-31-generic-ubuntu24.04", "580"),
        ("nvcr.io/nvidia/driver@sha256:abc", ""),
        ("nvcr.io/nvidia/driver:latest", ""),
        ("", ""),
    ],
)
def test_the_version_comes_from_the_image(image: str, version: str) -> None:
    assert dataclasses.replace(SET, image=image).version == version


def test_a_branch_has_every_version_of_it_and_a_digest_any() -> None:
    branch, digest = dataclasses.replace(SET, image="d:595-6.8.0-x"), dataclasses.replace(SET, image="d@sha256:1")
    assert branch.has_version(NEW) and not branch.has_version("5951.1") and digest.has_version(OLD)
    assert SET.has_version(NEW) and not SET.has_version(OLD)


def test_older_releases_report_the_version_in_parts() -> None:
    parts = {
        f"nvidia.com/cuda.driver.{name}": value for name, value in (("major", "595"), ("minor", "91"), ("rev", "07"))
    }
    labelled = {"metadata": {"name": "x", "labels": parts}}
    assert sets.reported_version(labelled) == "595.91.07"
    assert sets.reported_version({"metadata": {"name": "x"}}) == ""


def test_the_upgrade_policy_says_which_pods_may_go() -> None:
    blocks = {"podDeletion": {"force": True, "deleteEmptyDir": True}, "drain": {"enable": True}}
    policy = {"driver": {"upgradePolicy": {**blocks, "waitForCompletion": {"podSelector": "job=yes"}}}}
    assert sets.deletion_of(policy, None) == Deletion(True, True, True, True, "job=yes")
    assert sets.deletion_of({}, None) == Deletion(is_given=False)
    assert sets.deletion_of(policy, {"default": True}) == Deletion(), "an NVIDIADriver has the operator's defaults"
    assert sets.deletion_of(policy, {}).force, "before v26.7 the ClusterPolicy's policy governed NVIDIADrivers"


# ---- verdicts


def verdict(
    seen: Sight, still_s: float = 0.0, timeout_s: float = 600.0, troubled: float | None = None
) -> steps.Verdict:
    track = steps.Track(NOW - 1000, NOW - still_s, seen.marks, troubled)
    return steps.decide(seen, track, timeout_s, NOW)


def test_a_node_that_lacks_nothing_is_done() -> None:
    assert verdict(sight()).kind == "done"


def test_a_node_fails_when_the_operator_gives_up_or_nothing_moves() -> None:
    assert (
        verdict(sight(driver_pod("gpu-0000", OLD), node("upgrade-failed"))).reason
        == "The operator gave its upgrade up."
    )
    waits = sight(driver_pod("gpu-0000", OLD), node("pod-deletion-required"))
    assert verdict(waits, 599).kind == "wait"
    assert "made no progress for 600 s. It waited for pods with GPUs to leave" in verdict(waits, 600).reason


def test_a_policy_without_pod_deletion_is_final() -> None:
    seen = sight(driver_pod("gpu-0000", OLD), node("pod-deletion-required"))
    without = dataclasses.replace(seen, driver=dataclasses.replace(SET, deletion=Deletion(is_given=False)))
    assert "has no podDeletion" in verdict(without).reason


@pytest.mark.parametrize(
    ("pod", "lasts_s", "fails"),
    [
        (waiting("ImagePullBackOff", "manifest unknown"), 0, True),
        (waiting("ImagePullBackOff", "429 Too Many Requests"), 100, False),
        (waiting("ImagePullBackOff", "429 Too Many Requests"), 200, True),
        (waiting("ContainerCreating"), 500, False),
    ],
)
def test_a_new_driver_that_never_starts_is_final(pod: Json, lasts_s: float, fails: bool) -> None:
    seen = sight(driver_pod("gpu-0000", NEW, **pod), node("pod-restart-required"))
    assert (verdict(seen, troubled=NOW - lasts_s).kind == "failed") is fails


def test_a_crash_loop_is_final_after_some_restarts_and_minutes() -> None:
    looping = PodView("p", "u", "n", "nvidia-driver-daemonset", NEW, waiting="CrashLoopBackOff", restarts=3)
    assert looping.is_hopeless(180) and not looping.is_hopeless(179)
    assert not dataclasses.replace(looping, restarts=2).is_hopeless(1000)


def test_a_trouble_is_counted_from_its_beginning_and_forgotten_at_its_end() -> None:
    broken = sight(driver_pod("gpu-0000", NEW, **waiting("ErrImagePull", "busy")), node("pod-restart-required"))
    track = steps.follow(steps.Track(NOW, NOW), broken, NOW)
    assert steps.follow(track, broken, NOW + 50).troubled == NOW
    assert steps.follow(track, sight(made=node("pod-restart-required")), NOW + 60).troubled is None


def test_a_build_is_progress_until_its_probe_gives_up() -> None:
    container = {
        "name": "nvidia-driver-ctr",
        "ready": False,
        "restartCount": 0,
        "state": {"running": {"startedAt": "2027-01-15T08:00:00Z"}},
    }
    pod = driver_pod("gpu-0000", NEW, containerStatuses=[container])
    pod["spec"]["containers"][0]["startupProbe"] = {"initialDelaySeconds": 60, "failureThreshold": 120}
    seen = sight(pod, node("pod-restart-required"))
    track = steps.Track(NOW, NOW, seen.marks)
    assert steps.follow(track, seen, NOW + 1259).moved == NOW + 1259
    assert steps.follow(track, seen, NOW + 1261).moved == NOW
    assert "builds its driver (for 04:10)" in seen.waits_for(NOW + 250)
    container["restartCount"] = 1
    assert view(pod).builds == (0.0, 0.0), "nothing says that another try goes better"


def test_a_restart_of_a_container_is_no_progress() -> None:
    once, twice = (
        sight(
            driver_pod(
                "gpu-0000",
                NEW,
                containerStatuses=[{"name": "nvidia-driver-ctr", "ready": False, "restartCount": number}],
            )
        )
        for number in (1, 2)
    )
    assert once.marks == twice.marks


def test_an_upgraded_node_is_well_or_says_what_it_lacks() -> None:
    assert steps.illness(sight(), NOW) == ""
    assert steps.illness(sight(validators=()), NOW) == "a validator pod: it has none"
