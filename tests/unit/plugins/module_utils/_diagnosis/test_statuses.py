# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import statuses
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def pod(**status: object) -> Json:
    return {"metadata": {"name": "a", "namespace": "gpu-operator"}, "spec": {"nodeName": "gpu-1"}, "status": status}


def texts(**status: object) -> list[str]:
    return [line.text for line in statuses.of_pods([pod(**status)])]


def test_what_containers_wait_for_and_how_they_ended() -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    done = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    found = texts(
        initContainerStatuses=[{"name": "init", "state": done}],
        containerStatuses=[{"name": "main", "state": waiting, "lastState": ended}],
    )
    assert found == ["CrashLoopBackOff: back-off", "OOMKilled, exit code 137: "]


def test_a_line_says_where_it_stands() -> None:
    container = {"name": "main", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}
    (line,) = statuses.of_pods([pod(containerStatuses=[container])])
    source = "status of pod gpu-operator/a, container main"
    assert line == TextLine("ErrImagePull: no", "event", source, "gpu-1", "pod gpu-operator/a")


def test_a_pod_that_was_rejected_or_cannot_be_placed() -> None:
    unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/4 nodes"}
    assert texts(reason="UnexpectedAdmissionError", message="lost", conditions=[unplaced]) == [
        "UnexpectedAdmissionError: lost",
        "Unschedulable: 0/4 nodes",
    ]


def test_a_pod_without_a_status_says_nothing() -> None:
    assert list(statuses.of_pods([{"metadata": {"name": "a"}}])) == []
    assert texts(conditions=[{"type": "Ready", "status": "False"}], containerStatuses=[{"name": "a"}]) == []


def test_messages_of_the_verdict() -> None:
    given: list[Json] = [
        {"code": "A", "message": "one", "pod": "x", "node": "gpu-1"},
        {"code": "B", "message": "two", "operand": "driver"},
        {"code": "C", "message": "three"},
    ]
    assert [(line.text, line.object, line.node) for line in statuses.of_reasons(given)] == [
        ("one", "pod x", "gpu-1"),
        ("two", "operand driver", ""),
        ("three", "", ""),
    ]


@pytest.mark.parametrize(
    ("current", "state", "left"),
    [
        pytest.param(2, "progressing", ["pod g/x"], id="all-pods-exist"),
        pytest.param(1, "progressing", ["daemonset g/d", "pod g/x"], id="still-refused"),
        pytest.param(1, "ready", ["daemonset g/d"], id="pod-is-well"),
    ],
)
def test_events_that_are_over_are_left_out(current: int, state: str, left: list[str]) -> None:
    others = ["pod g/troubled", "pod user/x", "node n"]
    lines = [TextLine("Failed: x", "event", object=name) for name in ("daemonset g/d", "pod g/x", *others)]
    logs = [TextLine("Failed: x", "pod", object="pod g/x")]
    status = {"desiredNumberScheduled": 2, "currentNumberScheduled": current}
    daemonsets = [{"metadata": {"name": "d", "namespace": "g"}, "status": status}]
    pods = [{"metadata": {"name": "troubled", "namespace": "g"}}]
    stack = {"namespace": "g", "verdict": {"state": state}}
    found = statuses.without_past([*lines, *logs], pods, stack, daemonsets)
    assert [line.object for line in found] == [*left, *others, "pod g/x"]


def test_events_of_a_daemonset_that_wants_no_pods_are_not_over() -> None:
    event = TextLine("Failed: x", "event", object="daemonset g/d")
    for status in ({}, {"desiredNumberScheduled": 0, "currentNumberScheduled": 0}, {"currentNumberScheduled": 0}):
        daemonset = {"metadata": {"name": "d", "namespace": "g"}, "status": status}
        assert statuses.without_past([event], [], {"verdict": {"state": "progressing"}}, [daemonset]) == [event]
