# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pods live as on a real kubelet, and `kubectl` shows it."""

from __future__ import annotations

import json
import time
import typing as t

import pytest

from lab.cluster import Lab, Options
from tests.support.labs import running_lab

Json = dict[str, t.Any]


@pytest.fixture(scope="module")
def lab() -> t.Iterator[Lab]:
    """A lab with one node and no operator."""
    with running_lab("pods", Options(nodes=1, operator="none")) as lab:
        yield lab


def start(
    lab: Lab,
    name: str,
    *,
    containers: list[Json] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: t.Any,
) -> None:
    containers = containers or [{"name": "main", "image": "registry.example.com/main:1"}]
    metadata = {
        "name": name,
        "namespace": "default",
        "annotations": {f"lab.gpuops.nvidia/{key}": value for key, value in (annotations or {}).items()},
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}
    lab.kubectl("create", "-f", "-", stdin=json.dumps(pod))


def get(lab: Lab, name: str) -> Json:
    found = lab.kubectl("get", "pod", name, "--namespace=default", "--ignore-not-found", "--output=json")
    return json.loads(found) if found else {}


def until(lab: Lab, name: str, condition: t.Callable[[Json], bool]) -> Json:
    deadline = time.monotonic() + 30
    while not condition(pod := get(lab, name)):
        assert time.monotonic() < deadline, pod.get("status", pod)
        time.sleep(0.1)
    return pod


def phase(pod: Json) -> str:
    return str(pod["status"]["phase"])


def waiting(pod: Json) -> str:
    first = (pod["status"].get("containerStatuses") or [{}])[0]
    return str((first.get("state", {}).get("waiting") or {}).get("reason", ""))


def test_init_containers_run_in_order_and_first(lab: Lab) -> None:
    start(lab, "ordered", initContainers=[{"name": name, "image": "x"} for name in ("first", "second", "third")])
    states: list[tuple[str, ...]] = []

    def watched(pod: Json) -> bool:
        now = tuple(
            next(iter(status["state"]))
            for status in [*pod["status"].get("initContainerStatuses", []), *pod["status"].get("containerStatuses", [])]
        )
        if now and (not states or states[-1] != now):
            states.append(now)
        return phase(pod) == "Running"

    pod = until(lab, "ordered", watched)
    order = [
        ("running", "waiting", "waiting", "waiting"),
        ("terminated", "running", "waiting", "waiting"),
        ("terminated", "terminated", "running", "waiting"),
        ("terminated", "terminated", "terminated", "waiting"),
        ("terminated", "terminated", "terminated", "running"),
    ]
    assert states == [state for state in order if state in states], "The states are out of order."
    assert states[-1] == order[-1]
    assert {condition["type"]: condition["status"] for condition in pod["status"]["conditions"]}["Ready"] == "True"
    assert all(status["state"]["terminated"]["exitCode"] == 0 for status in pod["status"]["initContainerStatuses"])


def test_a_delayed_start(lab: Lab) -> None:
    start(lab, "late", annotations={"start-delay": "3s"})
    assert waiting(until(lab, "late", lambda pod: bool(waiting(pod)))) == "ContainerCreating"
    pod = until(lab, "late", lambda pod: phase(pod) == "Running")
    assert pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] > pod["status"]["startTime"]


def test_an_image_that_does_not_exist(lab: Lab) -> None:
    start(lab, "pull", annotations={"fault": "image-pull-backoff"})
    pod = until(lab, "pull", lambda pod: waiting(pod) == "ImagePullBackOff")
    message = pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    assert "registry.example.com/main:1" in message and message.endswith("not found")
    query = ("--field-selector=involvedObject.name=pull,type=Warning", "--output=jsonpath={.items[*].message}")
    events = lab.kubectl("get", "events", "--namespace=default", *query)
    assert "Error: ErrImagePull" in events and "Error: ImagePullBackOff" in events


def test_a_crash_loop_counts_its_restarts(lab: Lab) -> None:
    start(lab, "crash", annotations={"fault": "crash-loop"})

    def looping(pod: Json) -> bool:
        return waiting(pod) == "CrashLoopBackOff" and pod["status"]["containerStatuses"][0]["restartCount"] > 1

    pod = until(lab, "crash", looping)
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1


def test_an_init_container_that_hangs(lab: Lab) -> None:
    start(lab, "hang", annotations={"fault": "hang-init"}, initContainers=[{"name": "first", "image": "x"}])
    until(lab, "hang", lambda pod: bool(pod["status"].get("initContainerStatuses")))
    time.sleep(1)
    pod = get(lab, "hang")
    assert phase(pod) == "Pending"
    assert "running" in pod["status"]["initContainerStatuses"][0]["state"]


@pytest.mark.parametrize(
    ("command", "end"),
    [(["sh", "-c", "exit 0"], "Succeeded"), (["sh", "-c", "exit 1"], "Failed"), (["false"], "Failed")],
)
def test_a_pod_that_completes(lab: Lab, command: list[str], end: str) -> None:
    name = "end-" + "-".join(command).replace(" ", "-").replace("--", "-")
    start(lab, name, containers=[{"name": "main", "image": "x", "command": command}], restartPolicy="Never")
    pod = until(lab, name, lambda pod: phase(pod) in ("Succeeded", "Failed"))
    assert phase(pod) == end
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == (0 if end == "Succeeded" else 1)


def test_a_pod_that_sleeps_keeps_running(lab: Lab) -> None:
    container = {"name": "main", "image": "x", "command": ["sleep", "infinity"]}
    start(lab, "sleeper", containers=[container], restartPolicy="Never")
    until(lab, "sleeper", lambda pod: phase(pod) == "Running")
    time.sleep(1)
    assert phase(get(lab, "sleeper")) == "Running"


def test_logs(lab: Lab) -> None:
    names = ("nvidia-cuda-validator", "anything")
    start(lab, "talker", containers=[{"name": name, "image": "x"} for name in names])
    until(lab, "talker", lambda pod: phase(pod) == "Running")
    log = lab.kubectl("logs", "talker", "--container=nvidia-cuda-validator")
    assert log == "cuda workload validation is successful\n"
    assert "simulated" in lab.kubectl("logs", "talker", "--container=anything")


def test_a_deleted_pod_is_removed(lab: Lab) -> None:
    start(lab, "gone")
    until(lab, "gone", lambda pod: phase(pod) == "Running")
    lab.kubectl("delete", "pod", "gone", "--wait=false")
    until(lab, "gone", lambda pod: not pod)


def test_a_finalizer_holds_a_pod(lab: Lab) -> None:
    start(lab, "held")
    until(lab, "held", lambda pod: phase(pod) == "Running")
    lab.kubectl("patch", "pod", "held", "--type=merge", '--patch={"metadata": {"finalizers": ["example.com/hold"]}}')
    lab.kubectl("delete", "pod", "held", "--wait=false")
    time.sleep(1)
    assert "deletionTimestamp" in get(lab, "held")["metadata"]
    lab.kubectl("patch", "pod", "held", "--type=merge", '--patch={"metadata": {"finalizers": null}}')
    until(lab, "held", lambda pod: not pod)
