# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_node import (
    DriverNode,
    PolicyDemands,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_pods import view
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import NOW, Json
from tests.unit.fakes.upgrades.drivers import NEW, OLD, driver_pod, validator_pod, waiting
from tests.unit.fakes.upgrades.sights import SET, lack, node, sight


def test_a_node_that_has_everything_lacks_nothing() -> None:
    assert sight().lacks(NOW) == [] and sight().waits_for(NOW) == ""


NOT_THERE = driver_pod("gpu-0000", NEW, **waiting("ErrImagePull", "not there"))
PAUSED = {"nvidia.com/gpu.deploy.dcgm": "paused-for-driver-upgrade"}


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        (
            wording("pod nvidia-driver-daemonset-gpu-0000-580.105.08 to be replaced, which has the driver before"),
            sight(driver_pod("gpu-0000", OLD)),
        ),
        (wording("a driver pod of DaemonSet nvidia-driver-daemonset"), DriverNode(node(), SET)),
        (
            wording(
                "pod nvidia-driver-daemonset-gpu-0000-595.91.07 to be ready (container nvidia-driver-ctr: not there)"
            ),
            sight(NOT_THERE),
        ),
        (
            wording("the operator to finish (state validation-required; the operator looks every two minutes)"),
            sight(made=node("validation-required")),
        ),
        (wording("its operands to come back (nvidia.com/gpu.deploy.dcgm is paused)"), sight(made=node(**PAUSED))),
        (
            wording("feature discovery to report driver 595.91.07 (it reports 580.105.08)"),
            sight(made=node(version=OLD)),
        ),
        (wording("feature discovery to report driver 595.91.07 (it reports no version)"), sight(made=node(version=""))),
        (wording("a validator pod: it has none"), sight(validators=())),
        (
            wording(
                "the operator to write other:1 into DaemonSet nvidia-driver-daemonset, which has nvcr.io/nvidia/driver:595.91.07-ubuntu24.04"
            ),
            sight(wanted_image="other:1"),
        ),
        (wording("the operator to give it the driver of NVIDIADriver b"), sight(wanted_source="NVIDIADriver b")),
    ],
)
def test_each_thing_that_is_missing_is_named(said: str, seen: DriverNode) -> None:
    assert seen.lacks(NOW)[0] == said


def test_a_pod_of_another_daemonset_or_of_none_is_outdated() -> None:
    orphan = driver_pod("gpu-0000", NEW)
    orphan["metadata"]["ownerReferences"] = []
    assert "to be replaced" in lack(pod=orphan)


def test_an_unready_kubelet_and_missing_gpus_are_named() -> None:
    down = node()
    down["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    assert lack(made=down) == wording("its kubelet to be Ready")
    empty = node()
    empty["status"]["allocatable"] = {"cpu": "64"}
    assert lack(made=empty) == wording("its GPUs to be allocatable")
    assert sight(made=empty, stack=PolicyDemands(has_plugin=False)).lacks(NOW) == []


def test_what_does_not_run_is_not_waited_for() -> None:
    nothing = PolicyDemands(validates=False, discovers=False, has_plugin=False)
    assert sight(made=node(version=OLD), validators=(), stack=nothing).lacks(NOW) == []


def test_a_revision_that_is_not_known_or_not_noticed_proves_nothing() -> None:
    unread = DriverNode(node(), dataclasses.replace(SET, revision=""), view(driver_pod("gpu-0000", NEW)))
    assert any("list controllerrevisions" in each for each in unread.lacks(NOW))
    late = DriverNode(node(), dataclasses.replace(SET, is_observed=False), view(driver_pod("gpu-0000", NEW)))
    assert "Kubernetes to notice" in late.lacks(NOW)[0]


def test_a_node_that_is_kept_back_waits_until_the_operator_has_acted() -> None:
    held = node()
    held["metadata"]["annotations"] = {"gpuops.nvidia/driver-rollout": "held 2026-01-01T00:00:00Z"}
    assert lack(made=held, has_acted=False) == wording("the operator to act on the change of the driver")
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
        ("upgrade-required", wording("the operator to begin (the operator looks every two minutes)")),
        ("cordon-required", wording("the operator to cordon it")),
        ("wait-for-jobs-required", wording("jobs to end")),
        ("pod-deletion-required", wording("pods with GPUs to leave")),
        ("drain-required", wording("pods to leave")),
        (
            "pod-restart-required",
            wording("pod nvidia-driver-daemonset-gpu-0000-580.105.08 to be replaced, which has the driver before"),
        ),
        ("uncordon-required", wording("the operator to uncordon it")),
    ],
)
def test_each_state_says_what_the_node_waits_for(state: str, said: str) -> None:
    seen = sight(driver_pod("gpu-0000", OLD), node(state))
    assert seen.waits_for(NOW) == said
    blocked = dataclasses.replace(seen, blocked="DaemonSet x has 1 pods for 2 nodes")
    assert blocked.waits_for(NOW) == wording(
        "the operator, which upgrades no node while DaemonSet x has 1 pods for 2 nodes"
    )


def test_the_operators_next_look_is_a_reason_to_wait() -> None:
    assert "the operator to continue" in sight(made=node("pod-restart-required")).waits_for(NOW)
    assert "notice that its validator" in sight(made=node("validation-required")).waits_for(NOW)
    none = sight(made=node("validation-required"), validators=())
    assert none.waits_for(NOW) == wording("a validator pod: it has none")


TURN = node("upgrade-required")
TURN["metadata"]["annotations"] = {"gpuops.nvidia/driver-rollout": "turn 2026-01-01T00:00:00Z"}
OLD_POD, NEW_POD = driver_pod("gpu-0000", OLD), driver_pod("gpu-0000", NEW)


@pytest.mark.parametrize(
    ("expected", "pod", "made"),
    [
        (True, OLD_POD, node()),
        (True, OLD_POD, node("")),
        (False, NEW_POD, node()),
        (True, OLD_POD, TURN),
        (False, OLD_POD, node("upgrade-required")),
        (True, NEW_POD, node("pod-restart-required")),
        (False, OLD_POD, node("pod-restart-required")),
        (False, NOT_THERE, node("pod-restart-required")),
        (True, NEW_POD, node("upgrade-failed")),
        (True, NEW_POD, node("validation-required")),
        (False, NEW_POD, node("drain-required")),
    ],
)
def test_it_is_seen_when_the_operator_need_only_look(expected: bool, pod: Json, made: Json) -> None:
    assert sight(pod, made).awaits_look is expected
    assert not sight(pod, made, blocked="a node is down").awaits_look
    manual = dataclasses.replace(sight(pod, made), driver=dataclasses.replace(SET, automatic=False))
    assert not manual.awaits_look


def test_a_look_of_the_operator_does_not_help_where_something_else_is_missing() -> None:
    orphan = driver_pod("gpu-0000", OLD)
    orphan["metadata"]["ownerReferences"] = []
    assert not sight(orphan).awaits_look, "the operator passes over it"
    assert not sight(orphan).is_orphaned, "no NVIDIADriver has the node"
    assert not DriverNode(node("pod-restart-required"), SET).awaits_look
    ending = driver_pod("gpu-0000", NEW)
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not sight(ending, node("pod-restart-required")).awaits_look
    unwell = view(validator_pod("gpu-0000", phase="Pending"))
    assert not sight(made=node("validation-required"), validators=(unwell,)).awaits_look
    assert not sight(made=node("validation-required"), validators=()).awaits_look
    unread = dataclasses.replace(sight(OLD_POD), driver=dataclasses.replace(SET, revision=""))
    assert not unread.awaits_look


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


def test_a_pod_that_the_clusterpolicy_has_left_behind_waits_for_the_mark_of_its_node() -> None:
    orphan = driver_pod("gpu-0000", OLD)
    orphan["metadata"]["ownerReferences"] = []
    handed_over = {"nvidia.com/gpu-operator.driver.owner": "default"}
    seen = sight(orphan, node(**handed_over))
    assert seen.is_orphaned and seen.awaits_look
    assert not sight(OLD_POD, node(**handed_over)).is_orphaned
    unready = {**orphan, "status": NOT_THERE["status"]}
    assert sight(unready, node(**handed_over)).is_orphaned, "it keeps the new pod away, too"
    ending = {**orphan, "metadata": {**orphan["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert not sight(ending, node(**handed_over)).is_orphaned
    assert not DriverNode(node(**handed_over), SET).is_orphaned
