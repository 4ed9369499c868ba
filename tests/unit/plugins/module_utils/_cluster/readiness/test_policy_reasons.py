# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reasons why the ClusterPolicy, its operator and its status keep a stack from being ready."""

from __future__ import annotations

import pytest

from tests.unit.fakes.stack import LONG_AGO, Json, Stack, policy, ready
from tests.unit.plugins.module_utils._cluster.readiness.judged import codes, edited, stamp, verdict


def test_no_crd() -> None:
    found = verdict(ready(), policies=None)
    assert found.state == "failed" and codes(found) == ["CRDMissing"]


def test_no_clusterpolicy() -> None:
    found = verdict(ready(), policies=[])
    assert found.state == "progressing" and codes(found) == ["NoClusterPolicy"]


def test_a_gpucluster_beside_it() -> None:
    found = verdict(ready(), gpuclusters=[{"metadata": {"name": "gpu-cluster"}}])
    assert found.state == "failed" and "gpu-cluster" in found.message


def test_an_older_clusterpolicy_is_in_charge() -> None:
    stack = ready()
    stack.policies.append(policy("older"))
    stack.policies[0]["metadata"]["creationTimestamp"] = stamp(60)
    found = verdict(stack)
    assert found.state == "failed" and found.reasons[0].code == "NotInCharge" and "older" in found.message


def test_a_younger_clusterpolicy_is_ignored() -> None:
    stack = ready()
    stack.policies.append(policy("zzz"))
    found = verdict(stack)
    assert found.state == "ready" and codes(found) == ["IgnoredClusterPolicy"]


@pytest.mark.parametrize(
    ("operators", "code"), [([], "OperatorMissing"), ([{"metadata": {"name": "op"}}], "OperatorNotAvailable")]
)
def test_no_operator_acts_on_it(operators: list[Json], code: str) -> None:
    found = verdict(ready(), operators=operators)
    assert found.state == "progressing" and codes(found) == [code]


@pytest.mark.parametrize(("age", "state"), [(1, "progressing"), (5, "ready")])
def test_ready_does_not_count_right_after_an_edit(age: float, state: str) -> None:
    assert verdict(edited(ready(), age)).state == state


def set_error(stack: Stack, why: str, message: str, since: str) -> Stack:
    stack.policies[0]["status"] = {
        "state": "notReady",
        "conditions": [
            {"type": "Error", "status": "True", "reason": why, "message": message, "lastTransitionTime": since}
        ],
    }
    return stack


@pytest.mark.parametrize(("lasts_s", "state"), [(0, "progressing"), (29, "progressing"), (30, "failed")])
def test_an_operator_that_cannot_reconcile_may_recover_for_a_while(lasts_s: float, state: str) -> None:
    stack = set_error(ready(), "ReconcileFailed", "Failed to reconcile state-driver: no image", LONG_AGO)
    found = verdict(stack, error_lasts_s=lasts_s)
    assert found.state == state and "no image" in found.message


def test_an_edit_may_correct_an_earlier_error() -> None:
    stack = edited(set_error(ready(), "ReconcileFailed", "Failed to reconcile state-driver: no image", LONG_AGO), 20)
    assert verdict(stack, error_lasts_s=300).state == "progressing"
    assert verdict(edited(stack, 40), error_lasts_s=300).state == "failed"


def test_operands_that_the_operator_reports_as_not_ready() -> None:
    found = verdict(set_error(ready(), "OperandNotReady", "states not ready: [state-driver]", LONG_AGO))
    assert found.state == "progressing" and "states not ready: [state-driver]" in found.message


def test_no_status_yet() -> None:
    stack = ready()
    del stack.policies[0]["status"]
    assert "not set yet" in verdict(stack).message
