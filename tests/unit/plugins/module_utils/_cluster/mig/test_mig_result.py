# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.mig_result import (
    Row,
    failure,
    progress,
    report,
    row_of,
)
from inline_snapshot import snapshot as wording

from tests.unit.fakes.mig_nodes import mig_plan, mig_sight


def row(name: str, step: str, waits_for: str = "", since: float = 0.0, **fields: object) -> Row:
    made = Row(name, "all-1g.10gb", "change", step=step, waits_for=waits_for, since=since)
    for key, value in fields.items():
        setattr(made, key, value)
    return made


def test_the_progress_names_the_node_that_has_waited_longest() -> None:
    rows = [
        row("a", "done"), row("b", "watch", "the MIG manager (pending)", 100.0), row("c", "drain", "its pods", 160.0),
        row("d", "failed", failed=True), row("e", "waiting"), Row("f", "x", "nothing", step="done"),
    ]  # fmt: skip
    assert progress(rows, 183.0) == (
        "1/5 nodes have their layout, 2 are changing, 1 failed; b waits for the MIG manager (pending) (for 01:23)"
    )
    assert progress([row("a", "done")], 0.0) == "1/1 nodes have their layout, 0 are changing"
    waiting = [row("a", "waiting", "kured", 0.0)]
    assert progress(waiting, 5.0) == "0/1 nodes have their layout, 0 are changing; a waits for kured (for 00:05)"


def test_a_wait_counts_from_its_beginning() -> None:
    made = row("a", "watch")
    for waits_for, now in (("x", 1.0), ("x", 2.0), ("y", 3.0)):
        made.wait(waits_for, now)
    assert (made.waits_for, made.since) == ("y", 3.0)


def test_the_report_counts() -> None:
    failed = row("b", "drain")
    failed.fail("It broke.")
    failed.keep("mig")
    done = row("a", "done", changed=True, repaired=["x was set back"])
    done.held.evicted = ["default/b", "default/a", "default/a"]
    made = report([done, failed, row("c", "waiting")])
    assert made["summary"] == {"nodes": 3, "changed": 1, "failed": 1, "waiting": 1, "evicted": 2, "repaired": 1}
    assert made["changed"] is True and made["nodes"][0]["evicted"] == ["default/a", "default/b"]
    assert made["nodes"][1]["reason"] == wording("It broke. It stays cordoned for the purpose mig.")


def test_a_failure_names_the_nodes_that_are_not_as_they_should_be() -> None:
    rows = [row("a", "done"), row("b", "failed", failed=True), row("c", "done", degraded="ill"), row("d", "waiting")]
    made = failure(rows)
    assert [each["node"] for each in made["nodes"]] == ["b", "c", "d"] and made["summary"] == report(rows)["summary"]


def test_a_row_begins_with_the_plan() -> None:
    made = row_of(mig_plan(), mig_sight(state="success"))
    assert (made.before, made.after) == ({"nvidia.com/gpu": 8}, {"nvidia.com/mig-1g.10gb": 56})
    assert (made.step, made.state) == ("waiting", "success")
    done = row_of(mig_plan(todo="nothing"), mig_sight())
    assert done.step == "done" and done.after == {"nvidia.com/gpu": 8}
