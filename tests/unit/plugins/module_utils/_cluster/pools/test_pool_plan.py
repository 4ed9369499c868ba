# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import rollout_call
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools import pool_plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_plan import PoolMember, member_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_request import NodePool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pools.pool_steps import StepRow

from tests.unit.fakes.stack import node

LAYOUT = StepRow("all-1g.10gb", changed=True, interrupts=True)
QUIET = StepRow("web", changed=True)
NOTHING = StepRow("")


def member(is_held: bool = False, **steps: StepRow) -> PoolMember:
    found = node()
    found["metadata"]["annotations"] = (
        {"gpuops.nvidia/maintenance.pool": "2026-01-01T00:00:00Z here 1"} if is_held else {}
    )
    return member_of(found, NodePool("one"), steps)


def test_what_is_to_be_done_with_a_node() -> None:
    seen = {
        "nothing": member(),
        "right": member(mig=NOTHING),
        "quiet": member(sharing=QUIET),
        "layout": member(mig=LAYOUT, sharing=QUIET),
        "held": member(is_held=True),
        "blocked": member(mig=StepRow("all-1g.10gb", waits_for="a pod")),
    }
    assert {name: (each.step, each.is_due, each.interrupts) for name, each in seen.items()} == {
        "nothing": ("nothing", False, False),
        "right": ("nothing", False, False),
        "quiet": ("waiting", True, False),
        "layout": ("waiting", True, True),
        "held": ("waiting", True, True),
        "blocked": ("nothing", False, False),
    }
    assert seen["blocked"].waits_for == "a pod"


def test_the_result_of_a_node() -> None:
    made = member(mig=LAYOUT, sharing=QUIET)
    made.evicted.add("default/b")
    made.held.evicted = ["default/a"]
    row = made.as_result()
    assert (row["pool"], row["changes"], row["drained"], row["state"]) == (
        "one",
        {"mig": "all-1g.10gb", "sharing": "web"},
        True,
        "pending",
    )
    assert row["evicted"] == ["default/a", "default/b"] and row["resources_before"] == {"nvidia.com/gpu": 8}
    made.step = "steps"
    assert made.as_result()["state"] == "changing"
    gone = member_of(node(), None, {})
    assert (gone.as_result()["pool"], gone.as_result()["state"]) == ("", "unchanged")


def test_what_is_said_of_nodes_without_a_change() -> None:
    lacks = member(mig=StepRow("", degraded="one GPU is unhealthy."))
    assert (lacks.state, lacks.degraded) == ("degraded", "one GPU is unhealthy")
    blocked = member(mig=StepRow("x", waits_for="a pod"))
    said = pool_plan.warnings_of([lacks, blocked, member()])
    assert [text.startswith(pool_plan.DEGRADED) for text in said] == [True, False]
    assert "a pod" in said[1] and "gpu-0000" in said[1]


def test_the_report_and_the_difference() -> None:
    changed = member(mig=LAYOUT)
    changed.changed, changed.pods = True, ["default/train"]
    assert rollout_call.report([changed, member()])["summary"] == {"nodes": 2, "changed": 1, "failed": 0, "evicted": 0}
    before: dict[str, t.Any] = {"resources": {"nvidia.com/gpu": 8}, "pods": ["default/train"]}
    assert pool_plan.diff([changed]) == {
        "before": {"gpu-0000": before},
        "after": {"gpu-0000": {"pods": [], "mig": "all-1g.10gb"}},
    }
