# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import driver_steps
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_pods import PodView, view

from tests.unit.fakes import stack
from tests.unit.fakes.stack import NOW
from tests.unit.fakes.upgrades.drivers import NEW, driver_pod, waiting
from tests.unit.fakes.upgrades.sights import node, sight


def test_a_crash_loop_is_final_after_some_restarts_and_minutes() -> None:
    looping = PodView("p", "u", "n", "nvidia-driver-daemonset", NEW, waiting="CrashLoopBackOff", restarts=3)
    assert looping.is_hopeless(180) and not looping.is_hopeless(179)
    assert not dataclasses.replace(looping, restarts=2).is_hopeless(1000)


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
    track = driver_steps.DriverTrack(NOW, NOW, seen.marks)
    assert driver_steps.follow(track, seen, NOW + 1259).moved == NOW + 1259
    assert driver_steps.follow(track, seen, NOW + 1261).moved == NOW
    assert "builds its driver (for 04:10)" in seen.waits_for(NOW + 250)
    container["restartCount"] = 1
    assert view(pod).builds == (0.0, 0.0), "nothing says that another try goes better"


def test_a_pod_is_known_by_its_uid() -> None:
    pod = driver_pod("gpu-0000", NEW)
    pod["metadata"]["uid"] = "1-2-3"
    assert view(pod).uid == "1-2-3"
    del pod["metadata"]["uid"]
    assert view(pod).uid == ""


def test_what_a_pod_waits_for_is_said_in_words() -> None:
    ending = driver_pod("gpu-0000", NEW)
    ending["metadata"]["deletionTimestamp"] = stack.LONG_AGO
    assert view(ending).trouble(NOW) == f"pod {ending['metadata']['name']} to end"
    refused = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}
    unscheduled = {"phase": "Pending", "containerStatuses": [], "conditions": [refused]}
    assert "to be ready (0/3 nodes)" in view(driver_pod("gpu-0000", NEW, **unscheduled)).trouble(NOW)
    assert view(driver_pod("gpu-0000", NEW, **waiting("PodInitializing"))).waiting == ""


def test_a_pod_that_has_failed_is_not_ready() -> None:
    ready = {"containerStatuses": [{"name": "nvidia-driver-ctr", "ready": True}]}
    assert view(driver_pod("gpu-0000", NEW, phase="Running", **ready)).is_ready
    assert not view(driver_pod("gpu-0000", NEW, phase="Failed", **ready)).is_ready


def test_a_driver_without_a_startup_probe_is_not_seen_to_build() -> None:
    running = {"name": "nvidia-driver-ctr", "ready": False, "state": {"running": {"startedAt": "2027-01-15T08:00:00Z"}}}
    assert view(driver_pod("gpu-0000", NEW, containerStatuses=[running])).builds == (0.0, 0.0)
    waits = {"name": "nvidia-driver-ctr", "ready": False, "state": {"waiting": {"reason": "ContainerCreating"}}}
    pod = driver_pod("gpu-0000", NEW, containerStatuses=[waits])
    pod["spec"]["containers"][0]["startupProbe"] = {"failureThreshold": 120}
    assert view(pod).builds == (0.0, 0.0)
