# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a stack is ready, the order of the reasons if it is not, and what holds for every stack."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import judge
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.tolerance import Tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import (
    Leader,
    Marks,
    Observation,
    Refusal,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.operands import OPERANDS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot as wording

from tests.unit.fakes.judged import (
    edited,
    observed,
    roll,
    row,
    set_labels,
    troubled,
    verdict,
)
from tests.unit.fakes.stack import DEPLOYED, NOW, Json, Stack, cpu_node, daemonset, progress, ready

DRIVER = "nvidia-driver-daemonset"
EXPORTER = "nvidia-dcgm-exporter"


def test_ready() -> None:
    found = verdict(ready(3))
    assert (found.state, found.reasons, found.nodes_ready, found.nodes_total) == ("ready", (), 3, 3)
    assert found.message == wording("The GPU stack is ready: 3 of 3 GPU nodes have allocatable GPUs.")
    states = {rollout.operand: rollout.state for rollout in found.operands}
    assert states.pop("node-status-exporter") == "disabled" and set(states.values()) == {"ready"}


def test_nodes_without_gpus_do_not_count() -> None:
    stack = ready(2)
    stack.nodes.append(cpu_node())
    assert verdict(stack).nodes_total == 2 and verdict(stack).state == "ready"


def test_nodes_for_virtual_machines_do_not_count() -> None:
    stack = ready(2, sandboxWorkloads={"enabled": True})
    stack.nodes[1]["metadata"]["labels"] = {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.workload.config": "vm-passthrough",
    }
    for item in stack.daemonsets.values():
        item["status"].update(progress(1, 1, 1, 1))
    assert verdict(stack).state == "ready" and verdict(stack).nodes_total == 1


def test_a_host_driver_needs_no_driver_pod() -> None:
    stack = set_labels(ready(2), 2, **{"nvidia.com__gpu.deploy.driver": "pre-installed"})
    stack.daemonsets[DRIVER]["status"].update(progress(0, 0, 0, 0))
    assert verdict(stack).state == "ready"


def test_other_daemonsets_do_not_count() -> None:
    stack = ready()
    other = daemonset(OPERANDS[0], 2)
    other["metadata"]["name"] = "node-feature-discovery-worker"
    other["status"].update(progress(2, 2, 0, 0))
    assert verdict(stack, daemonsets=[*stack.daemonsets.values(), other]).state == "ready"


def test_a_failure_right_after_an_edit_may_be_about_the_spec_before() -> None:
    stack = roll(ready(2), DRIVER, 2, 2, 1, 1)
    for age, state in ((5, "progressing"), (10, "failed")):
        assert verdict(edited(stack, age), troubled=troubled(DRIVER, "ImagePullBackOff")).state == state


def test_a_cause_comes_before_its_consequences() -> None:
    stack = ready(2)
    waits = {}
    for name in stack.daemonsets:
        roll(stack, name, 2, 2, 2, 0)
        waits.update(troubled(name, "Init:0/1" if name != DRIVER else "Running"))
    found = verdict(stack, troubled=waits)
    assert found.reasons[0].operand == "driver" and "more)" in found.message
    # A problem that cannot resolve itself comes first, whatever its position.
    rows = tuple(row(EXPORTER, number, "ImagePullBackOff") for number in range(2))
    found = verdict(stack, troubled=waits | {EXPORTER: rows})
    assert found.state == "failed" and found.reasons[0].operand == "dcgm-exporter"


def test_the_usual_taint_of_gpu_nodes_is_tolerated() -> None:
    stack = ready(2)
    for node in stack.nodes:
        node["spec"]["taints"] = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    found = verdict(stack)
    assert (found.state, found.reasons) == ("ready", ())


def test_a_tainted_node_without_gpus_keeps_nobody_waiting() -> None:
    stack = ready(2)
    stack.nodes[1]["spec"]["taints"] = [TAINT]
    stack.nodes[1]["status"]["allocatable"] = {}
    for item in stack.daemonsets.values():
        item["status"].update(progress(1, 1, 1, 1))
    found = verdict(stack)
    assert (found.state, [item.code for item in found.reasons]) == ("ready", ["NodesTainted"])


def test_without_a_device_plugin_its_label_says_nothing() -> None:
    stack = set_labels(
        ready(2, devicePlugin={"enabled": False}), 1, **{"nvidia.com__gpu.deploy.device-plugin": "false"}
    )
    del stack.daemonsets["nvidia-device-plugin-daemonset"]
    found = verdict(stack)
    assert (found.state, found.reasons) == ("ready", ())


# What holds for every stack

quick = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
counts = st.integers(0, 4)
ages = st.sampled_from([0.0, 2.0, 9.0, 29.0, 31.0, 59.0, 61.0, 179.0, 181.0, 4000.0])
messages = st.sampled_from(
    ["", "429 Too Many Requests", "x: not found", "manifest unknown", "invalid reference format"]
)
statuses = st.sampled_from(
    [
        "Pending",
        "Running",
        "Terminating",
        "Init:0/1",
        "ContainerCreating",
        "ErrImagePull",
        "Init:ImagePullBackOff",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "CrashLoopBackOff",
        "Error",
    ]
)
TAINT = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}


def taint(node: Json) -> None:
    node["spec"]["taints"] = [TAINT]


def switch_off(node: Json) -> None:
    kept = {key: value for key, value in labels(node).items() if "gpu.deploy." not in key}
    node["metadata"]["labels"] = kept | {"nvidia.com/gpu.deploy.operands": "false"}


def labels(node: Json) -> dict[str, str]:
    return node["metadata"]["labels"]


NODE_TROUBLES: dict[str, t.Callable[[Json], t.Any]] = {
    "none": lambda node: None,
    "bare": lambda node: (node.pop("status"), node.pop("spec"), node["metadata"].pop("labels")),
    "down": lambda node: node["status"].update(conditions=[{"type": "Ready", "status": "Unknown"}]),
    "tainted": taint,
    "cordoned": lambda node: node["spec"].update(unschedulable=True),
    "off": switch_off,
    "unlabelled": lambda node: node["metadata"].update(
        labels={"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "many"}
    ),
    "no driver": lambda node: labels(node).update({"nvidia.com/gpu.deploy.driver": "pre-installed"}),
    "paused": lambda node: labels(node).update({"nvidia.com/gpu.deploy.dcgm": "paused-for-driver-upgrade"}),
    "no GPUs": lambda node: node["status"].update(allocatable={}),
    "few GPUs": lambda node: node["status"].update(allocatable={"nvidia.com/gpu": "1"}),
    "upgrading": lambda node: labels(node).update({"nvidia.com/gpu-driver-upgrade-state": "cordon-required"}),
    "failed": lambda node: labels(node).update({"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}),
    "MIG": lambda node: labels(node).update({"nvidia.com/mig.config.state": "failed"}),
}
SPECS: tuple[Json, ...] = (
    {},
    {"driver": {"useNvidiaDriverCRD": True}},
    {"driver": {"upgradePolicy": {"autoUpgrade": True}}},
    {"driver": {"repository": "nvcr.io/nvidia", "image": "driver", "version": "595.91.07"}},
    {"devicePlugin": {"enabled": False}},
    {"dcgmExporter": {"enabled": False}, "nodeStatusExporter": {"enabled": True}},
    {"sandboxWorkloads": {"enabled": True, "defaultWorkload": "vm-passthrough"}},
    {"daemonsets": None, "driver": None},
)
STATES: tuple[Json, ...] = (
    {},
    {"state": "notReady"},
    {"state": "ready"},
    {"state": "ready", "conditions": [{"type": "Error", "status": "True", "reason": "ReconcileFailed"}]},
    {"state": "notReady", "conditions": [{"type": "Error", "status": "True", "reason": "Other", "message": "m"}]},
)


@st.composite
def rows(draw: st.DrawFn, name: str) -> tuple[t.Any, ...]:
    """Return some pods of a controller that are in trouble."""
    return tuple(
        row(
            name,
            number,
            draw(statuses),
            draw(counts),
            current=draw(st.booleans()),
            message=draw(messages),
            cause=draw(messages),
            age_s=draw(ages),
            stuck_s=draw(ages),
        )
        for number in range(draw(st.integers(0, 3)))
    )


@st.composite
def stacks(draw: st.DrawFn) -> Stack:
    """Return a stack with any number of troubles."""
    stack = edited(ready(draw(counts), **draw(st.sampled_from(SPECS))), draw(ages))
    for node in stack.nodes:
        NODE_TROUBLES[draw(st.sampled_from(["none", "none", *NODE_TROUBLES]))](node)
    for name in sorted(stack.daemonsets):
        if draw(st.integers(0, 3)):
            continue
        item = stack.daemonsets[name]
        item["status"] = draw(st.just({}) | st.builds(progress, counts, counts, counts, counts))
        item["status"]["observedGeneration"] = draw(st.integers(0, 2))
        item["spec"]["updateStrategy"]["type"] = draw(st.sampled_from(["OnDelete", "RollingUpdate"]))
        if not draw(st.integers(0, 5)):
            del stack.daemonsets[name]
    stack.policies[0]["status"] = draw(st.sampled_from([*STATES, STATES[2], STATES[2]]))
    stack.operators[0]["status"] = draw(st.sampled_from([stack.operators[0]["status"], {}, {"availableReplicas": 1}]))
    return stack


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    """Return any observation, also of a cluster without a ClusterPolicy, and one that contradicts itself."""
    stack = draw(stacks())
    names = sorted(stack.daemonsets)
    return observed(
        stack,
        policies=draw(st.sampled_from([stack.policies, stack.policies, stack.policies, [], None])),
        operators=draw(st.sampled_from([stack.operators, stack.operators, []])),
        troubled={name: draw(rows(name)) for name in names if not draw(st.integers(0, 2))},
        others={"gpu-operator": draw(rows("gpu-operator"))},
        refusals={
            name: Refusal(draw(st.sampled_from(["x is forbidden: quota", "timeout"])), draw(ages), draw(ages))
            for name in ["gpu-operator", *names]
            if not draw(st.integers(0, 3))
        },
        outdated={name: frozenset({"gpu-0001"}) for name in names if not draw(st.integers(0, 3))},
        before=draw(st.none() | st.builds(Marks, st.integers(0, 1), st.just({}))),
        leader=draw(st.none() | st.builds(Leader, ages.map(lambda age: NOW - age), ages.map(lambda age: NOW - age))),
        waited_s=draw(ages),
        error_lasts_s=draw(ages),
    )


limits = st.builds(
    Tolerance,
    node_selector=st.sampled_from(["", "nvidia.com/gpu.present=true", "pool=none"]),
    exclude_nodes=st.sampled_from([(), ("gpu-0000",)]),
    max_unready=st.sampled_from(["0", "1", "50%", "100%"]),
    min_nodes=st.integers(0, 2),
)


@quick
@given(observations(), limits)
def test_every_observation_has_a_verdict(observation: Observation, tolerated: Tolerance) -> None:
    found = judge.judge(observation, tolerated)
    levels = {reason.level for reason in found.reasons}
    expected = "failed" if "failed" in levels else "progressing" if "progressing" in levels else "ready"
    assert found.state == expected
    assert [reason.level for reason in found.reasons] == sorted(
        (reason.level for reason in found.reasons), key=["failed", "progressing", "note"].index
    )
    for text in (found.message, *(reason.message for reason in found.reasons)):
        assert text and "None" not in text.replace("None of", "") and text.isprintable()
    json.dumps(found.as_result())


def wanted_on(stack: Stack, operand: str) -> int:
    """Return how many nodes should run an operand: by the labels that the operator sets, and the taints."""
    return sum(
        1
        for node in stack.nodes
        if node["metadata"].get("labels", {}).get(f"nvidia.com/gpu.deploy.{operand}") == "true"
        and not node["spec"].get("taints")
    )


COUNTERS = ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable")


@st.composite
def nearly_ready(draw: st.DrawFn) -> tuple[Stack, bool]:
    """Return a stack whose nodes may be out of service, and whether the pods of at most one operand are as wanted."""
    stack = ready(draw(st.integers(1, 4)))
    for node in stack.nodes[1:]:
        NODE_TROUBLES[draw(st.sampled_from(["none", "cordoned", "tainted", "off", "no driver"]))](node)
    for operand in DEPLOYED:
        wanted = wanted_on(stack, operand.name)
        stack.daemonsets[operand.daemonset]["status"].update(progress(wanted, wanted, wanted, wanted))
    operand = draw(st.sampled_from(DEPLOYED))
    item, wanted = stack.daemonsets[operand.daemonset], wanted_on(stack, operand.name)
    item["status"].update({key: draw(st.sampled_from([wanted, wanted, wanted - 1])) for key in COUNTERS})
    item["metadata"]["generation"] = draw(st.sampled_from([1, 1, 1, 2]))
    is_complete = all(item["status"][key] == wanted for key in COUNTERS) and item["metadata"]["generation"] == 1
    return stack, is_complete


@quick
@given(nearly_ready(), st.data())
def test_never_ready_while_a_wanted_pod_of_the_newest_revision_is_missing(
    generated: tuple[Stack, bool], data: st.DataObject
) -> None:
    stack, is_complete = generated
    pods = {name: data.draw(rows(name)) for name in data.draw(st.sets(st.sampled_from(sorted(stack.daemonsets))))}
    assert (verdict(stack).state == "ready") is is_complete
    assert is_complete or verdict(stack, troubled=pods).state != "ready"


@quick
@given(st.integers(1, 4), st.sampled_from(sorted(item.daemonset for item in DEPLOYED)), statuses, messages, st.data())
def test_a_single_young_pod_ends_no_wait(nodes: int, name: str, status: str, message: str, data: st.DataObject) -> None:
    stack = edited(ready(nodes), data.draw(ages))
    updated = data.draw(st.integers(1, nodes))
    roll(stack, name, nodes, nodes, updated, nodes - 1)
    stack.daemonsets[name]["spec"]["updateStrategy"]["type"] = "RollingUpdate"
    pod = row(
        name,
        0,
        status,
        data.draw(st.integers(0, 2)),
        message=message,
        age_s=data.draw(st.floats(0, 29)),
        stuck_s=data.draw(st.floats(0, 29)),
    )
    found = verdict(stack, troubled={name: (pod,)}, waited_s=data.draw(ages))
    assert found.state == "progressing"


def test_pods_on_nodes_that_are_left_out_are_not_looked_at() -> None:
    stack, broken = roll(ready(3), EXPORTER, 3, 3, 3, 2), troubled(EXPORTER, "ImagePullBackOff")

    def told(limits: Tolerance) -> str:
        return " ".join(reason.message for reason in verdict(stack, limits, troubled=broken).reasons)

    assert "ImagePullBackOff" in told(Tolerance())
    assert "ImagePullBackOff" not in told(Tolerance(exclude_nodes=("gpu-0001",)))
    assert "ImagePullBackOff" in told(Tolerance(exclude_nodes=("gpu-0002",)))
