# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the operator has acted on an edit, also on one that changes no image."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import edits
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Leader, Marks, Reason
from inline_snapshot import snapshot as wording

from tests.unit.fakes.judged import edited, observed, stamp, verdict
from tests.unit.fakes.stack import NOW, Json, Stack, operator, ready

EXPORTER = "nvidia-dcgm-exporter"
HASH = "nvidia.com/last-applied-hash"


def written(stack: Stack, seconds_ago: float, owner: str = "uid-of-cluster-policy") -> Stack:
    """Let the operator have written one DaemonSet's spec then. Its controller has written the status since."""
    stack.daemonsets[EXPORTER]["metadata"] |= {
        "ownerReferences": [{"uid": owner}],
        "managedFields": [
            {"manager": "gpu-operator", "time": stamp(seconds_ago), "fieldsV1": {"f:spec": {}}},
            {"manager": "kube-controller-manager", "time": stamp(0), "subresource": "status"},
        ],
    }
    return stack


def about(stack: Stack, **facts: t.Any) -> list[Reason]:
    """Return what a wait still has to wait for."""
    return [reason for reason in verdict(stack, waits=True, **facts).reasons if reason.level != "note"]


@pytest.mark.parametrize(("age_s", "state"), [(2, "progressing"), (3, "ready"), (59, "ready"), (60, "ready")])
def test_a_single_look_only_mentions_an_edit_without_a_trace(age_s: float, state: str) -> None:
    """A wait that has compared with before may just have found it done."""
    found = verdict(edited(ready(), age_s))
    assert found.state == state
    assert [reason.code for reason in found.reasons] == ["JustChanged"] * (age_s < 60)


@pytest.mark.parametrize(
    ("age_s", "written_s", "codes"),
    [
        (2, 1, ["JustChanged"]),  # the operator may still be writing the other DaemonSets
        (3, 1, []),
        (20, 20, []),
        (20, 21, ["JustChanged"]),
        (59, 100, ["JustChanged"]),
        (60, 100, []),
    ],
)
def test_a_daemonset_shows_that_the_operator_has_acted(age_s: float, written_s: float, codes: list[str]) -> None:
    assert [reason.code for reason in about(written(edited(ready(), age_s), written_s))] == codes


def test_the_message_says_how_long_it_takes() -> None:
    (reason,) = about(edited(ready(), 20))
    assert reason.level == "progressing"
    assert reason.message == (
        wording(
            "The ClusterPolicy was changed 20 s ago, and no DaemonSet has changed since: the operator has not acted yet, "
            "or the change concerns no operand. It counts as done after 60 s."
        )
    )


def test_a_daemonset_of_somebody_else_shows_nothing() -> None:
    assert [reason.code for reason in about(written(edited(ready(), 20), 5, owner="other"))] == ["JustChanged"]


def marked(stack: Stack, **hashes: str) -> Marks:
    """Give the DaemonSets hashes, and return what they and the ClusterPolicy had before an edit."""
    for name, item in stack.daemonsets.items():
        item["metadata"]["annotations"] = {HASH: hashes.get(name.replace("-", "_"), "1")}
    return edits.marks(stack.policies[0], list(stack.daemonsets.values()))


def test_what_is_marked() -> None:
    stack = ready()
    stack.policies[0]["metadata"]["generation"] = 7
    marks = marked(stack, nvidia_dcgm="2")
    assert (marks.generation, marks.hashes["nvidia-dcgm"], marks.hashes[EXPORTER]) == (7, "2", "1")
    assert edits.marks(None, []) == Marks(0, {})


def after_edit(stack: Stack) -> Stack:
    stack.policies[0]["metadata"]["generation"] = 2
    return edited(stack, 20)


def test_another_hash_than_before_shows_that_the_operator_has_acted() -> None:
    stack = ready()
    before = marked(stack)
    assert [reason.code for reason in about(after_edit(stack), before=before)] == ["JustChanged"]
    marked(stack, nvidia_dcgm_exporter="2")
    assert about(stack, before=before) == []


def test_a_daemonset_that_is_gone_shows_that_the_operator_has_acted() -> None:
    stack = ready(dcgmExporter={"enabled": False})
    before = marked(stack)
    del stack.daemonsets[EXPORTER]
    assert about(after_edit(stack), before=before) == []


def test_an_apply_that_changed_only_owners_is_no_edit() -> None:
    """The API server raises the generation with the spec only."""
    stack = ready()
    stack.policies[0]["metadata"]["generation"] = 2
    before = marked(stack)
    assert about(after_edit(stack), before=before) == []


# The operator's lease


@pytest.mark.parametrize(
    ("age_s", "acquired_s", "renewed_s", "codes"),
    [
        (100, 500, 1, []),
        (100, 30, 1, ["JustChanged"]),  # it took over 30 s ago, 70 s after the edit
        (100, 60, 1, []),
        (130, 30, 1, []),  # the operator before it had two minutes for the edit
        (50, 500, 1, ["JustChanged"]),
        (100, 500, 101, ["OperatorSilent"]),
        (100, 500, 99, []),
        (9000, 99000, 9001, ["OperatorSilent"]),
        (20, 500, 29, ["JustChanged"]),  # its clock may be wrong by some seconds
    ],
)
def test_the_operator_must_be_alive_after_the_edit(
    age_s: float, acquired_s: float, renewed_s: float, codes: list[str]
) -> None:
    leader = Leader(NOW - acquired_s, NOW - renewed_s)
    assert [reason.code for reason in about(edited(ready(), age_s), leader=leader)] == codes


def test_a_silent_operator_is_named() -> None:
    (reason,) = about(edited(ready(), 100), leader=Leader(NOW - 500, NOW - 300))
    assert reason.level == "progressing" and "53822513.nvidia.com 300 s ago" in reason.message
    assert reason.remedy == wording("See the log of the operator's pod in namespace gpu-operator.")


def test_a_lease() -> None:
    spec = {"acquireTime": "1970-01-01T00:01:00.123456Z", "renewTime": "1970-01-01T00:02:00.123456Z"}
    assert edits.leader({"spec": spec}) == Leader(60, 120)
    assert edits.leader({"spec": {"holderIdentity": ""}}) is None


@pytest.mark.parametrize(
    ("container", "elects"),
    [
        ({"args": ["--leader-elect", "--zap-log-level=info"]}, True),
        ({"command": ["gpu-operator", "--leader-elect=true"]}, True),
        ({"args": ["--leader-elect=false"]}, False),
        ({"args": ["--leader-elect-namespace=x"]}, False),
        ({}, False),
    ],
)
def test_which_operator_holds_a_lease(container: Json, elects: bool) -> None:
    deployment = operator()
    assert not edits.elects_leader([deployment])
    deployment["spec"]["template"]["spec"] = {"containers": [container]}
    assert edits.elects_leader([deployment]) is elects


def test_without_an_edit_there_is_nothing_to_see() -> None:
    assert edits.has_acted(observed(ready(), policies=[], before=Marks(0, {})))
