# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a stack is ready, and the order of the reasons if it is not."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.operands import OPERANDS

from tests.unit.fakes.stack import cpu_node, daemonset, progress, ready
from tests.unit.plugins.module_utils._cluster.readiness.judged import edited, roll, row, set_labels, troubled, verdict

DRIVER = "nvidia-driver-daemonset"
EXPORTER = "nvidia-dcgm-exporter"


def test_ready() -> None:
    found = verdict(ready(3))
    assert (found.state, found.reasons, found.nodes_ready, found.nodes_total) == ("ready", (), 3, 3)
    assert found.message == "The GPU stack is ready: 3 of 3 GPU nodes have allocatable GPUs."
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
