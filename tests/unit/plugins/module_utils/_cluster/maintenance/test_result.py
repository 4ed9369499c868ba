# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.result import (
    NodeResult,
    failure,
    report,
)

from tests.unit.plugins.module_utils._cluster.maintenance.nodes import held


def test_a_result_says_how_the_node_is_held() -> None:
    result = NodeResult("gpu-0000")
    result.describe(held(reboot="x", repair="y"))
    assert result.unschedulable and result.purposes == ["reboot", "repair"]


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
