# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The faults of the operator, and of others who write the ClusterPolicy."""

from __future__ import annotations

import json
import time
import typing as t

import pytest

from lab.cluster import Lab, faults
from tests.support.labs import running_lab

pytestmark = [pytest.mark.wide, pytest.mark.slow("managers heal objects at their pace")]


@pytest.fixture(scope="module")
def lab() -> t.Iterator[Lab]:
    with running_lab("managers") as lab:
        lab.deploy()
        yield lab


@pytest.fixture(autouse=True)
def cleared(lab: Lab) -> t.Iterator[None]:
    yield
    faults.clear(lab)
    assert faults.active(lab) == []


def policy(lab: Lab, name: str = "cluster-policy") -> dict[str, t.Any]:
    found: dict[str, t.Any] = json.loads(lab.kubectl("get", "clusterpolicy", name, "--output=json"))
    return found


def test_an_operator_that_never_starts(lab: Lab) -> None:
    faults.stuck_operator(lab)
    deadline = time.monotonic() + 30
    path = "--output=jsonpath={.items[*].status.containerStatuses[*].state.waiting.reason}"
    where = ("--namespace=gpu-operator", "pods", "--selector=app=gpu-operator")
    while lab.kubectl("get", *where, path) != "ImagePullBackOff":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    status = json.loads(lab.kubectl("get", "--namespace=gpu-operator", "deployment/gpu-operator", "--output=json"))[
        "status"
    ]
    assert (status["replicas"], status["updatedReplicas"], status["availableReplicas"]) == (2, 1, 1)
    assert faults.active(lab) == ["operand gpu-operator: fault image-pull-backoff"]
    faults.clear(lab)
    lab.kubectl("rollout", "status", "--namespace=gpu-operator", "deployment/gpu-operator", "--timeout=60s")


def test_a_second_policy(lab: Lab) -> None:
    faults.second_policy(lab)
    assert faults.active(lab) == ["second ClusterPolicy another-policy"]
    assert policy(lab, "another-policy")["spec"] == policy(lab)["spec"]


def test_an_edit_by_another_manager(lab: Lab) -> None:
    faults.edit_policy(lab, {"driver": {"rdma": {"enabled": True}}})
    found = policy(lab)
    assert found["spec"]["driver"]["rdma"]["enabled"] is True
    managers = {
        (entry["manager"], entry["operation"])
        for entry in json.loads(
            lab.kubectl("get", "clusterpolicy", "cluster-policy", "--show-managed-fields", "--output=json")
        )["metadata"]["managedFields"]
    }
    assert ("kubectl-edit", "Update") in managers


def test_a_manager_that_heals_its_fields(lab: Lab) -> None:
    with faults.argocd(lab, {"devicePlugin": {"version": "v0.19.0"}}) as healed:
        assert policy(lab)["spec"]["devicePlugin"]["version"] == "v0.19.0"
        faults.edit_policy(lab, {"devicePlugin": {"version": "v0.18.0"}})
        assert healed.wait(30)
        assert policy(lab)["spec"]["devicePlugin"]["version"] == "v0.19.0"
    faults.edit_policy(lab, {"devicePlugin": {"version": "v0.18.0"}})
    time.sleep(1)
    assert policy(lab)["spec"]["devicePlugin"]["version"] == "v0.18.0"
