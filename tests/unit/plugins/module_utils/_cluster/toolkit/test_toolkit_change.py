# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import PROVED, WAIT
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.toolkit import toolkit_plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.toolkit.toolkit_change import (
    ToolkitChange,
    is_ready,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import Json, node

NAME, BEGAN = "gpu-0000", 1000.0
TOOLKIT, VALIDATOR = "nvidia-container-toolkit-daemonset", "nvidia-operator-validator"

# The whole way through a rollout is tested in test_toolkit_rollout.py.


def pod(app: str, uid: str, revision: str = "new", ready: bool = True) -> Json:
    return {
        "metadata": {"name": f"{app}-{uid}", "uid": uid, "labels": {"app": app, "controller-revision-hash": revision}},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


class FakeCluster:
    """The pods of one node. What is deleted is gone."""

    def __init__(self, *pods: Json) -> None:
        self.pods, self.deleted, self.error = list(pods), list[str](), ""

    def get(self, path: str, query: Json) -> Json:
        assert query["fieldSelector"] == f"spec.nodeName={NAME}"
        return {"items": list(self.pods)}

    def delete(self, path: str, uid: str) -> bool:
        if self.error:
            raise GpuOpsError("no", reason=self.error)
        self.deleted.append(uid)
        self.pods = [pod for pod in self.pods if pod["metadata"]["uid"] != uid]
        return True


def change(cluster: FakeCluster) -> ToolkitChange:
    rows = toolkit_plan.rows_of({NAME: node()}, [NAME], [NAME])
    work = ToolkitChange(t.cast("t.Any", cluster), "gpu-operator", "new", rows, 60.0)
    work.begin(NAME, BEGAN)
    return work


def test_a_new_toolkit_is_proved_by_a_validator_that_started_after_it() -> None:
    cluster = FakeCluster(pod(TOOLKIT, "t1", "old"), pod(VALIDATOR, "v1"))
    work = change(cluster)
    assert work.advance(NAME, node(), BEGAN + 1.0) == WAIT and cluster.deleted == ["t1"]
    assert work.rows[NAME].waits_for == wording("a pod of the toolkit to start")
    cluster.pods.append(pod(TOOLKIT, "t2", ready=False))
    assert work.advance(NAME, node(), BEGAN + 2.0) == WAIT and work.rows[NAME].waits_for == wording(
        "a pod of the toolkit to be ready"
    )
    cluster.pods[-1] = pod(TOOLKIT, "t2")
    assert work.advance(NAME, node(), BEGAN + 3.0) == WAIT and cluster.deleted == ["t1", "v1"]
    assert work.rows[NAME].waits_for == wording("a pod of the validator to start")
    cluster.pods.append(pod(VALIDATOR, "v2"))
    assert work.advance(NAME, node(), BEGAN + 4.0) == PROVED
    assert work.rows[NAME].changed and NAME in work.touched


def test_the_validator_of_before_is_no_proof_even_of_a_toolkit_that_is_new() -> None:
    """As after a run that was killed between the two pods."""
    cluster = FakeCluster(pod(TOOLKIT, "t2"), pod(VALIDATOR, "v1"))
    assert change(cluster).advance(NAME, node(), BEGAN + 1.0) == WAIT and cluster.deleted == ["v1"]


def test_a_pod_that_is_ending_is_neither_deleted_again_nor_a_proof() -> None:
    ending = pod(TOOLKIT, "t1", "old")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster = FakeCluster(ending)
    assert change(cluster).advance(NAME, node(), BEGAN + 1.0) == WAIT and cluster.deleted == []
    assert not is_ready(ending)


def test_a_node_that_offers_less_than_before_is_not_proved() -> None:
    cluster = FakeCluster(pod(TOOLKIT, "t2"))
    work = change(cluster)
    work.advance(NAME, node(), BEGAN + 1.0)
    cluster.pods.append(pod(VALIDATOR, "v2"))
    less = node()
    less["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    assert work.advance(NAME, less, BEGAN + 2.0) == WAIT
    outcome = work.advance(NAME, less, BEGAN + 61.0)
    assert (outcome.kind, outcome.reason) == (
        "failed",
        wording("It has waited 61 s for the node to offer what it did: the node offers 0 instead of 8 nvidia.com/gpu."),
    )
    assert work.illness(NAME, less) and not work.illness(NAME, node())


@pytest.mark.parametrize(("restarts", "now", "kind"), [(2, 60.0, "wait"), (3, 5.0, "failed"), (0, 61.0, "failed")])
def test_a_validator_that_crashes_or_stays_away_fails_the_node(restarts: int, now: float, kind: str) -> None:
    cluster = FakeCluster(pod(TOOLKIT, "t2"))
    work = change(cluster)
    work.advance(NAME, node(), BEGAN + 1.0)
    crashing = pod(VALIDATOR, "v2", ready=False)
    ended = {"exitCode": 1, "message": "no runtime for nvidia is configured"}
    status = {"name": "toolkit-validation", "restartCount": restarts, "state": {}, "lastState": {"terminated": ended}}
    crashing["status"]["initContainerStatuses"] = [status]
    cluster.pods.append(crashing)
    outcome = work.advance(NAME, node(), BEGAN + now)
    assert outcome.kind == kind
    if kind == "failed":
        assert "no runtime" in outcome.reason and not outcome.is_unchanged


@pytest.mark.parametrize(("error", "raises"), [("Conflict", False), ("Forbidden", True)])
def test_a_pod_that_is_another_one_by_now_is_looked_at_again(error: str, raises: bool) -> None:
    cluster = FakeCluster(pod(TOOLKIT, "t1", "old"))
    cluster.error, work = error, change(cluster)
    if raises:
        with pytest.raises(GpuOpsError):
            work.advance(NAME, node(), BEGAN + 1.0)
    else:
        assert work.advance(NAME, node(), BEGAN + 1.0) == WAIT and not work.rows[NAME].changed


def test_no_node_is_drained_and_the_progress_names_the_first_that_waits() -> None:
    work = change(FakeCluster())
    assert work.is_under_way(NAME, node())
    work.consult([NAME])
    work.describe(NAME, node())
    work.advance(NAME, node(), BEGAN)
    assert work.progress(BEGAN + 65.0, "") == wording(
        "0/1 nodes have the toolkit's new settings; gpu-0000: a pod of the toolkit to start (for 01:05)"
    )
    assert work.progress(BEGAN + 65.0, "the next maintenance window").endswith(
        "the others wait for the next maintenance window"
    )
    work.rows[NAME].step = "waiting"
    assert work.progress(BEGAN + 65.0, "") == wording(
        "0/1 nodes have the toolkit's new settings; gpu-0000: a pod of the toolkit to start (for 01:05)"
    )
    work.rows[NAME].step = "done"
    assert work.progress(BEGAN + 65.0, "") == wording("1/1 nodes have the toolkit's new settings")
