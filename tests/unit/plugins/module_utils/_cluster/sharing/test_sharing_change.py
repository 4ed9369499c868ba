# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import GONE, PROVED, WAIT
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import config, sharing_plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.sharing_change import (
    SETTLE_S,
    SharingChange,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import node

NAME = "gpu-0000"
FOUR = config.of_document("x", {"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}})

# The whole way through a change is tested in tests/unit/plugins/modules/test_gpu_sharing.py, with an API server.


class FakeCluster:
    """A cluster whose answer to a patch may be an error."""

    def __init__(self, error: str) -> None:
        self.error = error

    def now(self) -> float:
        return 0.0

    def merge(self, path: str, body: dict[str, t.Any]) -> None:
        if self.error:
            raise GpuOpsError("It did not work.", reason=self.error)


def change(error: str = "", wanted: config.Configuration | None = FOUR) -> SharingChange:
    rows = sharing_plan.changes_of({NAME: ("k", wanted)}, {NAME: node()})
    work = SharingChange(t.cast("t.Any", FakeCluster(error)), t.cast("t.Any", None), rows, 60.0)
    work.begin(NAME, 0.0)
    return work


@pytest.mark.parametrize(("error", "touched"), [("Forbidden", False), ("ServerError", True), ("NotFound", False)])
def test_a_node_is_touched_unless_the_api_server_has_refused_it(error: str, touched: bool) -> None:
    work = change(error)
    if error == "NotFound":
        assert work.advance(NAME, node(), 0.0).reason == GONE
    else:
        with pytest.raises(GpuOpsError):
            work.advance(NAME, node(), 0.0)
    assert (NAME in work.touched) is touched


def test_a_node_that_has_changed_meanwhile_is_looked_at_again() -> None:
    work = change("Conflict")
    assert work.advance(NAME, node(), 0.0) == WAIT
    assert (work.rows[NAME].step, work.touched) == ("label", set())


def test_a_node_that_does_not_follow_fails_without_a_proof_that_nothing_changed() -> None:
    work = change()
    assert work.advance(NAME, node(), 0.0) == WAIT and work.rows[NAME].step == "watch"
    assert work.advance(NAME, node(), 60.0) == WAIT
    outcome = work.advance(NAME, node(), 61.0)
    assert (outcome.kind, outcome.is_unchanged) == ("failed", False) and outcome.reason.endswith("for 61 s.")


def test_a_change_that_nothing_shows_has_time_to_settle() -> None:
    work = change(wanted=config.PLAIN)
    assert work.advance(NAME, node(), 0.0) == WAIT
    assert work.advance(NAME, node(), SETTLE_S - 1.0) == WAIT
    assert work.advance(NAME, node(), SETTLE_S) == PROVED


def test_a_node_is_ill_if_it_lacks_its_configuration_again_or_is_not_ready() -> None:
    assert change(wanted=None).illness(NAME, node()) == ""
    assert "instead of time-slicing" in change().illness(NAME, node())
    down = node()
    down["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    assert change(wanted=None).illness(NAME, down) == wording("the node is not Ready")


def test_the_progress_says_what_those_wait_for_that_do_not_begin() -> None:
    line = change().progress(0.0, "the next maintenance window (tue 22:00-23:00 (UTC))")
    assert line == wording(
        "0/1 nodes share their GPUs as asked; gpu-0000: GPU Feature Discovery shows the strategy none instead of time-slicing (for 00:00); the others wait for the next maintenance window (tue 22:00-23:00 (UTC))"
    )
