# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import driver_steps
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_node import DriverNode
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.sets import Deletion
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import driver_annotations
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import NOW, Json
from tests.unit.fakes.upgrades.drivers import NEW, OLD, SKIP, driver_pod, waiting
from tests.unit.fakes.upgrades.sights import SET, node, sight


def verdict(
    seen: DriverNode, still_s: float = 0.0, timeout_s: float = 600.0, troubled: float | None = None
) -> driver_steps.StepVerdict:
    track = driver_steps.DriverTrack(NOW - 1000, NOW - still_s, seen.marks, troubled)
    return driver_steps.decide(seen, track, timeout_s, NOW)


def test_a_node_that_lacks_nothing_is_done() -> None:
    assert verdict(sight()).kind == "done"


def test_a_node_fails_when_the_operator_gives_up_or_nothing_moves() -> None:
    assert verdict(sight(driver_pod("gpu-0000", OLD), node("upgrade-failed"))).reason == wording(
        "The operator gave its upgrade up."
    )
    waits = sight(driver_pod("gpu-0000", OLD), node("pod-deletion-required"))
    assert verdict(waits, 599).kind == "wait"
    assert verdict(waits, 600).reason == wording(
        "It made no progress for 600 s. It waited for pods with GPUs to leave."
    )


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


def test_a_trouble_is_counted_from_its_beginning_and_forgotten_at_its_end() -> None:
    broken = sight(driver_pod("gpu-0000", NEW, **waiting("ErrImagePull", "busy")), node("pod-restart-required"))
    track = driver_steps.follow(driver_steps.DriverTrack(NOW, NOW), broken, NOW)
    assert driver_steps.follow(track, broken, NOW + 50).troubled == NOW
    assert driver_steps.follow(track, sight(made=node("pod-restart-required")), NOW + 60).troubled is None


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
    assert driver_steps.illness(sight(), NOW) == ""
    assert driver_steps.illness(sight(validators=()), NOW) == wording("a validator pod: it has none")


def test_what_stands_in_the_way_is_added_to_what_is_waited_for() -> None:
    seen = sight(driver_pod("gpu-0000", OLD), node("pod-deletion-required"))
    track = driver_steps.DriverTrack(NOW, NOW, seen.marks)
    plain, detailed = (driver_steps.decide(seen, track, 600.0, NOW, detail).waits_for for detail in ("", "PDB app/one"))
    assert detailed == f"{plain}: PDB app/one" and not plain.endswith(": ")


def test_a_node_is_kept_back_from_the_operator_and_freed_where_hands_do_the_work() -> None:
    pod = driver_pod("gpu-0000", OLD)
    fresh, kept = sight(pod, node("")), sight(pod, node("", **{SKIP: "true"}))
    assert driver_steps.is_kept_back(fresh, starts=False) and driver_steps.is_kept_back(kept, starts=True)
    assert not driver_steps.is_kept_back(kept, starts=False)
    assert not driver_steps.is_kept_back(sight(pod, node("upgrade-failed")), starts=True)
    by_hand = dataclasses.replace(SET, automatic=False)
    noted = driver_annotations.hold_patch(node(""), NOW)
    assert noted is not None
    held = {"metadata": {**node("")["metadata"], **noted["metadata"]}, "spec": {}}
    left = dataclasses.replace(sight(pod, held), driver=by_hand)
    assert driver_steps.is_kept_back(left, starts=True) and not driver_steps.is_kept_back(left, starts=False)
    assert not driver_steps.is_kept_back(dataclasses.replace(fresh, driver=by_hand), starts=True)
