# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drains that are killed, interrupted or cut off from the API can be resumed, and undone by anyone."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import typing as t

import pytest

from lab.cluster import Lab, LabError, faults
from tests.support.ansible import Playbook, kill_all, on
from tests.support.labs import running_lab

pytestmark = pytest.mark.slow("drains have to wait for pods that stay")

MODULE = "gpuops.nvidia.node_maintenance"
KEEP = "lab.gpuops.nvidia/keep"
DRAIN: dict[str, t.Any] = {
    "state": "drained",
    "nodes": ["gpu-0000"],
    "evict": "all",
    "purpose": "reboot",
    "timeout": 60,
}


@pytest.fixture(scope="module")
def own_lab() -> t.Iterator[Lab]:
    """A lab without the operator stack, for maintenance of its nodes."""
    with running_lab("maintenance") as lab:
        yield lab


@pytest.fixture
def stuck(own_lab: Lab) -> t.Iterator[Lab]:
    """Run a pod on gpu-0000 that does not end until the test releases it."""
    start(own_lab)
    yield own_lab
    own_lab.kubectl("delete", "deployment", "stuck", "--cascade=foreground", "--wait=false")
    until(lambda: release(own_lab) == 0)
    assert on(own_lab).module(MODULE, state="restored", purpose="reboot").status == 0


def start(lab: Lab) -> None:
    """Start a pod on gpu-0000 that a finalizer keeps from ending."""
    pod = {
        "nodeSelector": {"kubernetes.io/hostname": "gpu-0000"},
        "containers": [{"name": "main", "image": "example.com/main"}],
    }
    template = {"metadata": {"labels": {"app": "stuck"}, "finalizers": [KEEP]}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "stuck"}}, "template": template}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "stuck", "namespace": "default"},
        "spec": spec,
    }
    lab.kubectl("create", "--filename=-", stdin=json.dumps(body))
    lab.kubectl("rollout", "status", "deployment/stuck", "--timeout=60s")


def release(lab: Lab) -> int:
    """Let the pods end, and return how many there were."""
    pods = lab.kubectl("get", "pods", "--selector=app=stuck", "--output=name").split()
    for pod in pods:
        with contextlib.suppress(LabError):  # The pod has just ended.
            lab.kubectl("patch", pod, "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    return len(pods)


def state(lab: Lab) -> tuple[bool, list[str]]:
    """Return whether gpu-0000 is cordoned, and the collection's annotations on it."""
    node = json.loads(lab.kubectl("get", "node", "gpu-0000", "--output=json"))
    own = [key for key in node["metadata"]["annotations"] if key.startswith("gpuops.nvidia/")]
    return bool(node["spec"].get("unschedulable")), sorted(own)


FREE: tuple[bool, list[str]] = (False, [])
HELD = (True, ["gpuops.nvidia/initial-state.unschedulable", "gpuops.nvidia/maintenance.reboot"])


def draining(ansible: Playbook, lab: Lab, **options: t.Any) -> subprocess.Popen[str]:
    """Start a drain, and return when the pod is being deleted."""
    process = ansible.command(["ansible", "localhost", "--module-name", MODULE, "--args", json.dumps(DRAIN | options)])
    told = ["get", "pods", "--selector=app=stuck", "--output=jsonpath={.items[*].metadata.deletionTimestamp}"]
    until(lambda: bool(lab.kubectl(*told)), process)
    assert state(lab) == HELD
    return process


def until(condition: t.Callable[[], bool], process: subprocess.Popen[str] | None = None, timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert process is None or process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"The condition was not met within {timeout:.0f} s."
        time.sleep(0.2)


def test_a_run_that_was_killed_is_resumed_and_undone(stuck: Lab) -> None:
    ansible = on(stuck)
    kill_all(draining(ansible, stuck))
    time.sleep(2)
    assert state(stuck) == HELD, "No process was left to put the node back."
    release(stuck)
    resumed = ansible.module(MODULE, **DRAIN)
    assert resumed.status == 0, resumed.output
    assert state(stuck) == HELD
    undone = ansible.module(MODULE, state="restored", purpose="reboot")
    assert undone.status == 0 and "gpu-0000" in undone.output, undone.output
    assert state(stuck) == FREE


@pytest.mark.wide
def test_a_run_that_was_killed_is_undone_at_once(stuck: Lab) -> None:
    """Knowing the purpose is enough, and the pod still ends."""
    ansible = on(stuck)
    kill_all(draining(ansible, stuck))
    assert ansible.module(MODULE, state="restored", purpose="other").status == 0
    assert state(stuck) == HELD, "The node is held for another purpose."
    assert ansible.module(MODULE, state="restored", purpose="reboot").status == 0
    assert state(stuck) == FREE


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.wide)])
def test_an_interrupted_run_puts_the_node_back(stuck: Lab, number: int) -> None:
    """As in a terminal, the signal goes to the playbook's process group, and Ansible passes it on."""
    process = draining(on(stuck), stuck)
    os.killpg(process.pid, number)
    output = process.communicate(timeout=60)[0]
    assert process.returncode != 0 and "Traceback" not in output, output
    until(lambda: state(stuck) == FREE, timeout=20)


def test_a_pod_that_does_not_end_is_named_and_the_node_put_back(stuck: Lab) -> None:
    run = on(stuck).module(MODULE, **DRAIN | {"timeout": 4, "grace_period": 1})
    assert run.status == 2 and "default/stuck-" in run.message and f"finalizers {KEEP} hold it" in run.message, (
        run.output
    )
    assert "put back" in run.message and state(stuck) == FREE


@pytest.mark.wide
def test_a_long_drain_shows_its_progress(stuck: Lab) -> None:
    """The result is the same with and without progress output."""
    run = on(stuck).module(MODULE, **DRAIN | {"timeout": 20, "grace_period": 1})
    assert run.status == 2 and re.search(
        r"^  \[00:\d\d\] 0/1 nodes drained; gpu-0000: 1 pod left$", run.output, re.MULTILINE
    ), run.output
    assert f"finalizers {KEEP} hold it" in run.message and state(stuck) == FREE
    check = ["ansible", "localhost", "--check", "--module-name", MODULE, "--args", json.dumps(DRAIN)]
    predicted = on(stuck).command(check)
    assert "nodes drained" not in on(stuck).finish(predicted, 60).output


@pytest.mark.wide
def test_a_drain_in_the_background(stuck: Lab) -> None:
    """With async and poll, as in AWX for a task that takes longer than a connection may last."""
    ansible = on(stuck)
    options = json.dumps(DRAIN | {"timeout": 5, "grace_period": 1})
    command = ["ansible", "localhost", "--background", "60", "--poll", "2", "--module-name", MODULE, "--args", options]
    run = ansible.finish(ansible.command(command), 120)
    assert run.status == 2 and f"finalizers {KEEP} hold it" in run.output and state(stuck) == FREE, run.output


@pytest.mark.wide
def test_an_api_that_dies_during_a_drain() -> None:
    """The run names the nodes that it could not put back, and a later run puts them back."""
    with running_lab("noapi") as lab:
        start(lab)
        ansible = on(lab)
        process = draining(ansible, lab, timeout=10)
        lab.component("kube-apiserver").kill()
        run = ansible.finish(process, 120)
        lab.component("kube-apiserver").restart()
        assert run.status == 2 and "Traceback" not in run.output, run.output
        assert "Kubernetes API" in run.message, run.message
        assert "stay in maintenance: gpu-0000" in run.message and "state=restored" in run.message
        until(lambda: answers(lab))
        assert state(lab) == HELD
        undone = ansible.module(MODULE, state="restored", purpose="reboot")
        assert undone.status == 0, undone.output
        assert state(lab) == FREE


def answers(lab: Lab) -> bool:
    """Return whether the API server answers."""
    try:
        return bool(lab.kubectl("get", "nodes", "--output=name"))
    except LabError:
        return False


@pytest.mark.wide
def test_two_purposes_hold_a_node_together(own_lab: Lab) -> None:
    ansible = on(own_lab)
    for purpose in ("reboot", "repair"):
        assert ansible.module(MODULE, state="cordoned", nodes=["gpu-0000"], purpose=purpose).status == 0
    assert ansible.module(MODULE, state="restored", purpose="reboot").status == 0
    assert state(own_lab) == (True, ["gpuops.nvidia/initial-state.unschedulable", "gpuops.nvidia/maintenance.repair"])
    assert ansible.module(MODULE, state="restored", purpose="repair").status == 0
    assert state(own_lab) == FREE


def on_another_machine(ansible: Playbook, **options: t.Any) -> subprocess.Popen[str]:
    """Start a call as from another machine: the name of the machine is all that tells them apart."""
    command = ["ansible", "localhost", "--module-name", MODULE, "--args", json.dumps(DRAIN | options)]
    return ansible.plain.command(["unshare", "--uts", "sh", "-c", 'hostname other && exec "$@"', "sh", *command])


@pytest.mark.wide
def test_a_second_machine_leaves_the_drain_of_the_first_alone(stuck: Lab) -> None:
    ansible = on(stuck)
    first = draining(ansible, stuck)
    second = ansible.finish(on_another_machine(ansible, timeout=1), 120)
    assert second.status == 2 and "HeldElsewhere" in second.output and "set take_over: true" in second.message, (
        second.output
    )
    assert first.poll() is None and state(stuck) == HELD
    release(stuck)
    run = ansible.finish(first, 60)
    assert run.status == 0 and state(stuck) == HELD, run.output
    taken = ansible.finish(on_another_machine(ansible, take_over=True), 120)
    assert taken.status == 0 and state(stuck) == HELD, taken.output


def test_a_second_run_on_the_same_machine_leaves_the_drain_of_the_first_alone(stuck: Lab) -> None:
    ansible = on(stuck)
    first = draining(ansible, stuck)
    second = ansible.module(MODULE, **DRAIN | {"timeout": 2})
    assert second.status == 2 and "HeldElsewhere" in second.output, second.output
    assert first.poll() is None and state(stuck) == HELD
    release(stuck)
    assert ansible.finish(first, 60).status == 0 and state(stuck) == HELD


def mark(lab: Lab, **metadata: t.Any) -> None:
    lab.kubectl("patch", "node", "gpu-0000", "--type=merge", f"--patch={json.dumps({'metadata': metadata})}")


@pytest.mark.wide
def test_a_quarantine_that_begins_during_maintenance_outlasts_it(own_lab: Lab) -> None:
    """NVSentinel only writes its marks on a node that is cordoned. Afterwards, the cordon is its own."""
    ansible = on(own_lab)
    options = {"state": "cordoned", "nodes": ["gpu-0000"], "purpose": "reboot", "pause_nvsentinel": True}
    assert ansible.module(MODULE, **options).status == 0
    found = "quarantineHealthEventCordonPreExisting"
    mark(own_lab, annotations={"quarantineHealthEventIsCordoned": "True", found: "True"})
    restored = ansible.module(MODULE, state="restored", purpose="reboot")
    assert restored.status == 0 and "It stays cordoned for nvsentinel" in restored.output, restored.output
    node = json.loads(own_lab.kubectl("get", "node", "gpu-0000", "--output=json"))
    assert state(own_lab) == (True, ["gpuops.nvidia/left-cordoned"]) and found not in node["metadata"]["annotations"]
    assert "k8saas.nvidia.com/ManagedByNVSentinel" not in node["metadata"]["labels"]
    # The cordon is as old as Kubernetes says, so a later one is not taken for it.
    assert re.fullmatch(r"nvsentinel 20\S+Z", node["metadata"]["annotations"]["gpuops.nvidia/left-cordoned"])
    mark(own_lab, annotations={"quarantineHealthEventIsCordoned": None})
    assert ansible.module(MODULE, state="restored", purpose="reboot").status == 0
    assert state(own_lab) == FREE


@pytest.mark.wide
def test_kured_that_found_our_cordon_keeps_it_until_it_has_finished(own_lab: Lab) -> None:
    ansible = on(own_lab)
    lock = json.dumps({"nodeID": "gpu-0000", "metadata": {"unschedulable": True}, "created": "2026-01-01T00:00:00Z"})
    container = {"name": "kured", "image": "example.com/kured"}
    labels = {"app": "kured"}
    pod = {"nodeSelector": {"none": "such"}, "containers": [container]}
    body = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "kured", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }
    own_lab.kubectl("create", "--filename=-", stdin=json.dumps(body))
    cordon = {"state": "cordoned", "nodes": ["gpu-0000"], "purpose": "reboot"}
    assert ansible.module(MODULE, **cordon).status == 0
    own_lab.kubectl("annotate", "daemonset", "kured", f"weave.works/kured-node-lock={lock}")
    assert "It stays cordoned for kured" in ansible.module(MODULE, state="restored", purpose="reboot").output
    refused = ansible.module(MODULE, **cordon)
    assert (
        refused.status == 2 and "NodesBusy" in refused.output and "kured (lock on DaemonSet kured)" in refused.message
    )
    own_lab.kubectl("delete", "daemonset", "kured")
    assert state(own_lab) == (True, ["gpuops.nvidia/left-cordoned"])
    assert ansible.module(MODULE, state="restored", purpose="reboot").status == 0
    assert state(own_lab) == FREE


def put(lab: Lab, item: dict[str, t.Any]) -> None:
    lab.kubectl("create", "--namespace=default", "--filename=-", stdin=json.dumps(item))


@pytest.mark.wide
def test_pods_of_daemonsets_and_of_the_kubelet_stay_in_a_drain(own_lab: Lab) -> None:
    """Their makers would start them again at once."""
    container = {"name": "main", "image": "example.com/main"}
    labels, where = {"app": "everywhere"}, {"kubernetes.io/hostname": "gpu-0000"}
    template = {"metadata": {"labels": labels}, "spec": {"nodeSelector": where, "containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    put(own_lab, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "everywhere"}, "spec": spec})
    annotations = {"kubernetes.io/config.mirror": "a1"}
    metadata = {"name": "static-gpu-0000", "annotations": annotations, "labels": {"app": "static"}}
    bare = {"nodeName": "gpu-0000", "containers": [container]}
    put(own_lab, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": bare})
    left = ("get", "pods", "--namespace=default", "--selector=app in (everywhere, static)", "--output=name")
    until(lambda: len(own_lab.kubectl(*left).split()) == 2)
    before = own_lab.kubectl(*left)
    ansible = on(own_lab)
    try:
        run = ansible.module(MODULE, **DRAIN | {"timeout": 20})
        assert run.status == 0 and own_lab.kubectl(*left) == before and state(own_lab) == HELD, run.output
    finally:
        assert ansible.module(MODULE, state="restored", purpose="reboot").status == 0
        own_lab.kubectl("delete", "daemonset/everywhere", "pod/static-gpu-0000", "--namespace=default", "--now")


@pytest.mark.wide
def test_a_node_that_somebody_uncordons_in_its_drain_is_cordoned_again(stuck: Lab) -> None:
    process = draining(on(stuck), stuck)
    stuck.kubectl("uncordon", "gpu-0000")
    until(lambda: state(stuck) == HELD, process, timeout=20)
    release(stuck)
    run = on(stuck).finish(process, 60)
    assert run.status == 0 and "uncordoned" in run.output and state(stuck) == HELD, run.output


@pytest.mark.wide
def test_a_node_that_goes_down_in_its_drain_is_named_and_put_back(stuck: Lab) -> None:
    process = draining(on(stuck), stuck, timeout=15, grace_period=1)
    faults.node(stuck, "gpu-0000", "not-ready")
    try:
        run = on(stuck).finish(process, 60)
    finally:
        faults.clear(stuck)
        stuck.kubectl("wait", "--for=condition=Ready", "node/gpu-0000", "--timeout=60s")
    assert run.status == 2 and "default/stuck-" in run.message and "gpu-0000" in run.message, run.output
    assert state(stuck) == FREE


@pytest.mark.wide
def test_a_node_that_is_deleted_in_its_drain_fails_alone() -> None:
    with running_lab("deleted") as lab:
        start(lab)
        process = draining(on(lab), lab, nodes=["gpu-0000", "gpu-0001"], timeout=30)
        lab.kubectl("delete", "node", "gpu-0000", "--wait=false")
        run = on(lab).finish(process, 90)
        assert "gpu-0000" in run.output and "deleted" in run.output and "Traceback" not in run.output, run.output
        restored = on(lab).module(MODULE, state="restored", purpose="reboot")
        assert restored.status == 0, restored.output
        found = json.loads(lab.kubectl("get", "node", "gpu-0001", "--output=json"))
        assert not found["spec"].get("unschedulable")
