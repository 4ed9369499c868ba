# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""New settings of the toolkit reach one node after the other, each proved before the next one begins."""

from __future__ import annotations

import itertools
import json
import time
import typing as t

import pytest

from lab.cluster import Lab, faults
from tests.support.ansible import ROOT, SITE, Playbook, Run, kill_all

pytestmark = pytest.mark.slow("each node gets two new pods, one node after the other")

TOOLKIT, VALIDATOR = "nvidia-container-toolkit-daemonset", "nvidia-operator-validator"
MODULE = "gpuops.nvidia.clusterpolicy"
NODES = [f"gpu-{number:04}" for number in range(4)]


@pytest.fixture(scope="module")
def stack(lab: Lab, ansible: Playbook) -> None:
    """Bring the stack to readiness, with the ClusterPolicy of the role operator."""
    ansible.set_up("stack")


@pytest.fixture
def healed(stack: None, lab: Lab, ansible: Playbook) -> t.Iterator[None]:
    """Leave no fault, and no rollout that has not ended."""
    yield
    faults.clear(lab)
    ansible.module(MODULE, toolkit=env("end"), allow_disruption=True)


def env(value: str) -> dict[str, t.Any]:
    return {"env": [{"name": "RUNTIME_ARGS", "value": value}]}


def pods(lab: Lab, app: str) -> dict[str, tuple[str, str]]:
    """Return the moment of creation and the UID of an operand's pod, by node."""
    query = ("--namespace=gpu-operator", f"--selector=app={app}", "--output=json")
    return {
        item["spec"]["nodeName"]: (item["metadata"]["creationTimestamp"], item["metadata"]["uid"])
        for item in json.loads(lab.kubectl("get", "pods", *query))["items"]
        if not item["metadata"].get("deletionTimestamp")
    }


def strategy(lab: Lab) -> str:
    return lab.kubectl("get", "clusterpolicies", "--output=jsonpath={.items[0].spec.daemonsets.updateStrategy}")


def left(lab: Lab) -> str:
    """Return what a rollout has left on the ClusterPolicy and on the nodes."""
    notes = lab.kubectl("get", "clusterpolicies,nodes", "--output=jsonpath={.items[*].metadata.annotations}")
    cordoned = lab.kubectl("get", "nodes", "--output=jsonpath={.items[?(@.spec.unschedulable)].metadata.name}")
    return " ".join([*(word for word in notes.split('"') if "toolkit" in word), cordoned]).strip()


def works(run: Run) -> Run:
    assert run.status == 0 and "Traceback" not in run.output, run.output
    return run


@pytest.mark.usefixtures("healed")
def test_each_node_is_proved_before_the_next_one_begins(lab: Lab, ansible: Playbook) -> None:
    before = pods(lab, TOOLKIT)
    options = {"toolkit": env("first"), "allow_disruption": True}
    command = ["ansible", "localhost", "--check", "--module-name", MODULE, "--args", json.dumps(options)]
    check = works(ansible.finish(ansible.command(command), 120))
    assert check.output.count('"state": "pending"') == len(NODES) and pods(lab, TOOLKIT) == before
    run = works(ansible.module(MODULE, **options))
    toolkit, validator = pods(lab, TOOLKIT), pods(lab, VALIDATOR)
    assert sorted(toolkit) == sorted(validator) == NODES
    assert not {uid for dummy, uid in toolkit.values()} & {uid for dummy, uid in before.values()}
    order = sorted(NODES, key=lambda name: toolkit[name])
    for earlier, later in itertools.pairwise(order):
        assert toolkit[earlier][0] <= validator[earlier][0] <= toolkit[later][0], (toolkit, validator)
    assert run.output.count('"state": "done"') == len(NODES) and left(lab) == "" and strategy(lab) == "RollingUpdate"
    again = works(ansible.module(MODULE, **options))
    assert '"changed": false' in again.output and pods(lab, TOOLKIT) == toolkit


@pytest.mark.wide
@pytest.mark.usefixtures("healed")
def test_a_canary_that_is_not_proved_keeps_the_others_as_they_were(lab: Lab, ansible: Playbook) -> None:
    before = pods(lab, TOOLKIT)
    faults.operand(lab, VALIDATOR, "crash-loop", node="gpu-0002")
    wrong = {
        "operator_values": {"toolkit": env("wrong")},
        "operator_allow_disruption": True,
        "operator_toolkit_rollout": {"canary": ["gpu-0002"], "timeout": 20},
    }
    check = works(ansible.run(SITE, "--check", **wrong))
    assert check.changed > 0 and pods(lab, TOOLKIT) == before
    failed = ansible.run(SITE, **wrong)
    assert failed.status != 0 and "gpu-0002" in failed.message and "former settings" in failed.message, failed.output
    now = pods(lab, TOOLKIT)
    assert [name for name in NODES if now[name] != before[name]] == ["gpu-0002"]
    assert strategy(lab) == "OnDelete" and left(lab).endswith("gpu-0002")
    verdict = ansible.run(ROOT / "playbooks" / "verify.yml")
    assert verdict.status != 0 and "site.yml" in verdict.message, verdict.output
    faults.clear(lab)
    right = {**wrong, "operator_values": {"toolkit": env("right")}}
    works(ansible.run(SITE, **right))
    assert strategy(lab) == "RollingUpdate" and left(lab) == ""
    assert works(ansible.run(SITE, **right)).changed == 0


@pytest.mark.wide
@pytest.mark.parametrize("moment", ["restart", "validate"])
@pytest.mark.usefixtures("healed")
def test_a_run_that_is_killed_is_gone_on_with(lab: Lab, ansible: Playbook, moment: str) -> None:
    before = {app: pods(lab, app) for app in (TOOLKIT, VALIDATOR)}
    app = TOOLKIT if moment == "restart" else VALIDATOR
    options = {"toolkit": env(f"killed in {moment}"), "allow_disruption": True}
    process = ansible.plain.command(["ansible", "localhost", "--module-name", MODULE, "--args", json.dumps(options)])
    deadline = time.monotonic() + 60
    while not [name for name in NODES if pods(lab, app).get(name) not in (None, before[app][name])]:
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()
    kill_all(process)
    assert strategy(lab) == "OnDelete" and left(lab)
    works(ansible.module(MODULE, **options))
    now = pods(lab, TOOLKIT)
    assert all(now[name] != before[TOOLKIT][name] for name in NODES)
    assert strategy(lab) == "RollingUpdate" and left(lab) == ""
