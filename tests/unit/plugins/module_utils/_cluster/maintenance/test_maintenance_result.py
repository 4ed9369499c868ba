# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_result import (
    NodeResult,
    failure,
    report,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.marks import Holder

from tests.unit.plugins.module_utils._cluster.maintenance.nodes import held


def test_a_result_says_how_the_node_is_held() -> None:
    result = NodeResult("gpu-0000")
    result.describe(held(reboot="x", repair="y"), [])
    assert result.unschedulable and result.purposes == ["reboot", "repair"] and result.held_by == []


def test_a_result_names_the_others_that_hold_the_node() -> None:
    kured = Holder("kured", "lock on DaemonSet kured")
    karpenter = Holder("karpenter", "taint karpenter.sh/disrupted", needs_cordon=False)
    somebody = {"owner": "unknown", "mark": "cordon", "at_work": False}

    def owners(node: dict, *holders: Holder) -> list[str]:
        result = NodeResult("gpu-0000")
        result.describe(node, list(holders))
        assert result.held_by[-1:] in ([somebody], [holder.as_result() for holder in holders[-1:]])
        return [item["owner"] for item in result.held_by]

    assert owners(held(reboot="x"), kured) == ["kured"]
    assert owners(held(reboot="x", initially="true"), kured) == ["kured"]
    assert owners(held(reboot="x", initially="true")) == ["unknown"]
    assert owners(held(reboot="x", initially="true"), karpenter) == ["karpenter", "unknown"]
    assert owners(held(initially=None)) == ["unknown"] and owners(held(initially=None, cordoned=False)) == []


def test_a_note_is_made_once() -> None:
    result = NodeResult("gpu-0000")
    result.note("a")
    result.note("b")
    result.note("a")
    assert result.notes == ["a", "b"]


def test_the_report_counts_nodes_and_each_evicted_pod_once() -> None:
    results = [NodeResult("a", changed=True, evicted=["x/b", "x/a", "x/b"]), NodeResult("b")]
    results[1].fail("broken.")
    found = report(results)
    assert found["changed"] is True and found["nodes"][0]["evicted"] == ["x/a", "x/b"]
    assert found["summary"] == {"nodes": 2, "changed": 1, "failed": 1, "evicted": 2}
    assert report([])["changed"] is False


def test_a_failure_names_a_few_nodes_and_carries_the_report() -> None:
    results = [NodeResult(f"n{number}", failed=True, reason="broken.") for number in range(7)]
    error = failure([*results, NodeResult("fine")], "Run it again.")
    assert error.msg == ("n0: broken; n1: broken; n2: broken; n3: broken; n4: broken; and 2 more. Run it again.")
    assert error.reason == "NodesFailed" and error.details["summary"]["failed"] == 7
