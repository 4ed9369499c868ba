# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every fault has its effect where a user would see it, and ends when it is cleared."""

from __future__ import annotations

import json
import time
import typing as t

import pytest

from lab import cli
from lab.cluster import Lab, LabError, Options, faults
from tests.support.labs import running_lab

DAEMONSET = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "thing", "namespace": "default"},
    "spec": {
        "selector": {"matchLabels": {"app": "thing"}},
        "template": {
            "metadata": {"labels": {"app": "thing"}},
            "spec": {
                "initContainers": [{"name": "first", "image": "x"}],
                "containers": [{"name": "main", "image": "x"}],
            },
        },
    },
}


@pytest.fixture(scope="module")
def lab() -> t.Iterator[Lab]:
    """A lab with two nodes, a DaemonSet, and a process in place of the operator."""
    options = Options(nodes=2, operator="external", operator_command="sleep 1000", pods="live")
    with running_lab("faults", options) as lab:
        lab.kubectl("create", "-f", "-", stdin=json.dumps(DAEMONSET))
        lab.kubectl("rollout", "status", "daemonset/thing", "--timeout=60s")
        yield lab


@pytest.fixture(autouse=True)
def cleared(lab: Lab) -> t.Iterator[None]:
    yield
    faults.clear(lab)
    assert faults.active(lab) == []
    lab.kubectl("rollout", "status", "daemonset/thing", "--timeout=60s")


def until(lab: Lab, expected: str, *get: str) -> None:
    deadline = time.monotonic() + 30
    while (found := lab.kubectl("get", *get)) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("fault", "path", "reason"),
    [
        ("image-pull-backoff", "{.items[*].status.containerStatuses[*].state.waiting.reason}", "ImagePullBackOff"),
        ("crash-loop", "{.items[*].status.containerStatuses[*].state.waiting.reason}", "CrashLoopBackOff"),
        ("hang-init", "{.items[*].status.initContainerStatuses[*].state.running}", None),
    ],
)
def test_an_operand_on_one_node(lab: Lab, fault: str, path: str, reason: str | None) -> None:
    faults.operand(lab, "thing", fault, node="gpu-0001")
    assert faults.active(lab) == [f"operand thing on gpu-0001: fault {fault}"]
    until(lab, "1", "daemonset/thing", "--output=jsonpath={.status.numberUnavailable}")
    pods = ("pods", "--selector=app=thing", "--field-selector=spec.nodeName=gpu-0001", f"--output=jsonpath={path}")
    if reason:
        until(lab, reason, *pods)
    else:
        assert "startedAt" in lab.kubectl("get", *pods)


def run(*arguments: str) -> int:
    """Run a command in this process."""
    given = cli.parser().parse_args(["cluster", "fault", *arguments])
    return int(given.run(given))


def test_an_operand_on_all_nodes_by_command(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("operand", "thing", "hang-init", "--name", lab.name) == 0
    assert capsys.readouterr().out == "operand thing: fault hang-init\n"
    until(lab, "2", "daemonset/thing", "--output=jsonpath={.status.numberUnavailable}")
    assert run("--name", lab.name, "clear") == 0
    assert capsys.readouterr().out == "No fault is active.\n"


def test_a_node_by_command(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--name", lab.name, "node", "gpu-0001", "taint") == 0
    assert run("--name", lab.name, "list") == 0
    assert capsys.readouterr().out == "node gpu-0001: taint\n" * 2


def test_a_node_not_ready(lab: Lab) -> None:
    faults.node(lab, "gpu-0000", "not-ready")
    assert faults.active(lab) == ["node gpu-0000: not-ready"]
    until(lab, "False", "node/gpu-0000", '--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}')
    faults.clear(lab)
    until(lab, "True", "node/gpu-0000", '--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}')


def test_a_node_tainted(lab: Lab) -> None:
    faults.node(lab, "gpu-0000", "taint")
    until(lab, "1", "daemonset/thing", "--output=jsonpath={.status.desiredNumberScheduled}")
    faults.clear(lab)
    until(lab, "2", "daemonset/thing", "--output=jsonpath={.status.desiredNumberScheduled}")


def test_a_node_that_does_not_exist(lab: Lab) -> None:
    with pytest.raises(LabError, match="There is no node 'gpu-9999'"):
        faults.node(lab, "gpu-9999", "not-ready")
    with pytest.raises(LabError, match="There is no node 'gpu-9999'"):
        faults.operand(lab, "thing", "hang-init", node="gpu-9999")
    assert faults.active(lab) == []


def test_an_operand_that_does_not_exist(lab: Lab) -> None:
    with pytest.raises(LabError, match=r"No DaemonSet has pods with the label app=driver\. These labels exist: thing"):
        faults.operand(lab, "driver", "hang-init")
    assert faults.active(lab) == []


def test_the_operator_down(lab: Lab) -> None:
    faults.operator_down(lab)
    assert lab.status().died == ("operator",)
    faults.clear(lab)
    assert lab.status().phase == "up"


def test_slow_pods(lab: Lab) -> None:
    faults.slow(lab, "thing", 3600)
    deadline = time.monotonic() + 30
    while lab.kubectl("get", "daemonset/thing", "--output=jsonpath={.status.numberUnavailable}") != "2":
        assert time.monotonic() < deadline
        lab.kubectl("delete", "pods", "--selector=app=thing", "--wait=false")
        time.sleep(1)
    faults.clear(lab)
    lab.kubectl("delete", "pods", "--selector=app=thing", "--wait=false")
