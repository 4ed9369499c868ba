# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import GONE, PROVED, WAIT
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.action import Settings
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.mig_change import UNCHANGED_S, MigChange
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.mig_result import row_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.mig_nodes import LAYOUT, mig_node, mig_plan, mig_sight

NAME = "gpu-0000"
FEW = {"nvidia.com/gpu": "7"}

# The whole way through a change is tested in tests/unit/plugins/modules/test_mig_config.py, with an API server.


class FakeCluster:
    """A cluster whose answer to a patch may be an error."""

    def __init__(self, error: str = "") -> None:
        self.error, self.sent = error, list[dict[str, t.Any]]()

    def merge(self, path: str, body: dict[str, t.Any]) -> dict[str, t.Any]:
        self.sent.append(body)
        if self.error:
            raise GpuOpsError("It did not work.", reason=self.error)
        return mig_node()


class FakeReader:
    """What a change reads beside the nodes."""

    def last_error(self, node: str) -> str:
        return "it is in use"

    def managers(self) -> dict[str, str]:
        return {}


def change(error: str = "", **plan: t.Any) -> MigChange:
    made, parts = mig_plan(**plan), (t.cast("t.Any", FakeCluster(error)), t.cast("t.Any", FakeReader()))
    before = mig_sight(config="all-disabled", state="success")
    rows = {NAME: row_of(made, before)}
    work = MigChange(*parts, Settings(timeout_s=600.0, repair=False), {NAME: made}, {NAME: before}, rows)
    rows[NAME].step = "drain"
    work.begin(NAME, 0.0)
    return work


def failed(allocatable: dict[str, str] | None = None, **labels: str) -> dict[str, t.Any]:
    return mig_node(allocatable, config=LAYOUT, state="failed", **labels)


def after_label(work: MigChange) -> MigChange:
    """Return the work once the layout was asked for."""
    assert work.advance(NAME, mig_node(config="all-disabled", state="success"), 0.0) == WAIT
    assert NAME in work.touched and work.rows[NAME].step == "watch"
    return work


def test_a_failed_manager_proves_nothing_changed_only_if_the_node_offers_the_same() -> None:
    outcome = after_label(change()).advance(NAME, failed(), 1.0)
    assert (outcome.kind, outcome.is_unchanged) == ("failed", True)


def test_a_manager_that_failed_after_all_was_done_leaves_a_node_that_serves() -> None:
    done = failed({"nvidia.com/mig-1g.10gb": "56"}, **{"nvidia.com/mig-1g.10gb.count": "56"})
    outcome = after_label(change()).advance(NAME, done, 1.0)
    assert (outcome.kind, outcome.is_unchanged) == ("failed", True)


@pytest.mark.parametrize(
    "node",
    [
        failed({"nvidia.com/gpu": "7"}),
        failed({"nvidia.com/mig-1g.10gb": "56"}),
        failed(product="NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"),
        failed(**{"nvidia.com/mig-1g.10gb.count": "56"}),
    ],
)
def test_a_failed_manager_with_other_devices_gets_a_minute_and_then_the_node_is_unknown(node: dict[str, t.Any]) -> None:
    work = after_label(change())
    assert work.advance(NAME, node, 1.0) == WAIT
    assert "as they were" in work.rows[NAME].waits_for
    late = work.advance(NAME, node, 1.0 + UNCHANGED_S)
    assert (late.kind, late.is_unchanged) == ("failed", False)


@pytest.mark.parametrize(("error", "touched"), [("Forbidden", False), ("ServerError", True), ("NotFound", False)])
def test_a_node_is_touched_unless_the_api_server_has_refused_it(error: str, touched: bool) -> None:
    work, node = change(error), mig_node(config="all-disabled", state="success")
    if error == "NotFound":
        assert work.advance(NAME, node, 0.0).reason == GONE
    else:
        with pytest.raises(GpuOpsError):
            work.advance(NAME, node, 0.0)
    assert (NAME in work.touched) is touched


def test_a_proved_node_is_done_and_its_illness_is_what_it_lacks() -> None:
    work = change(todo="prove")
    labels = {"config": LAYOUT, "state": "success", "nvidia.com/mig-1g.10gb.count": "56"}
    node = mig_node({"nvidia.com/mig-1g.10gb": "56"}, **labels)
    assert work.rows[NAME].step == "prove" and work.advance(NAME, node, 0.0) == PROVED
    assert work.illness(NAME, node) == ""
    assert "55 of nvidia.com/mig-1g.10gb" in work.illness(NAME, mig_node({"nvidia.com/mig-1g.10gb": "55"}, **labels))


def test_only_a_change_that_was_asked_for_already_goes_on_without_a_drain() -> None:
    node = mig_node(config=LAYOUT, state="pending")
    assert change(todo="resume").is_under_way(NAME, node)
    assert not change(todo="resume").is_under_way(NAME, failed())
    assert not change(todo="change").is_under_way(NAME, node)


def test_a_failure_has_the_last_error_of_a_manager_that_failed() -> None:
    work = change()
    assert work.explain(NAME, "It broke.") == "It broke."
    work.rows[NAME].state = "failed"
    assert work.explain(NAME, "It broke.") == "It broke. It says: it is in use."


def test_the_progress_says_what_those_wait_for_that_do_not_begin() -> None:
    line = change().progress(0.0, "the next maintenance window (tue 22:00-23:00 (UTC))")
    assert line == wording(
        "0/1 nodes have their layout, 1 are changing; the others wait for the next maintenance window (tue 22:00-23:00 (UTC))"
    )
