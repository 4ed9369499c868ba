# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.toolkit import toolkit_plan
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.toolkit.toolkit_plan import TOOLKIT_PURPOSE
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import LONG_AGO, Json, node

FLEET: dict[str, Json] = {f"gpu-{i:04}": node(i) for i in range(4)}


def held(number: int) -> Json:
    made = node(number)
    made["metadata"]["annotations"] = {f"gpuops.nvidia/maintenance.{TOOLKIT_PURPOSE}": f"x {LONG_AGO} run"}
    made["spec"]["unschedulable"] = True
    return made


def test_outdated_and_held_nodes_change_and_others_do_not() -> None:
    fleet = {**FLEET, "gpu-0002": held(2)}
    rows = toolkit_plan.rows_of(fleet, [*FLEET, "gone"], {"gpu-0001"})
    assert {row.name: row.step for row in rows} == {
        "gpu-0000": "nothing",
        "gpu-0001": "waiting",
        "gpu-0002": "waiting",
        "gpu-0003": "nothing",
    }
    members = toolkit_plan.members_of(rows, fleet)
    assert (members.names, members.held, members.halfway) == (
        ("gpu-0001", "gpu-0002"),
        frozenset({"gpu-0002"}),
        frozenset({"gpu-0002"}),
    )
    assert members.quiet == frozenset(), "A node without pods needs its proof before others, too."


def test_a_node_that_an_unfinished_rollout_was_done_with_counts_for_its_wave() -> None:
    done = node(0)
    done["metadata"]["annotations"] = {f"gpuops.nvidia/rollout-done.{TOOLKIT_PURPOSE}": LONG_AGO}
    fleet = {**FLEET, "gpu-0000": done}
    members = toolkit_plan.members_of(toolkit_plan.rows_of(fleet, fleet, {"gpu-0001"}), fleet)
    assert list(members.done) == ["gpu-0000"] and members.names == ("gpu-0001",)


def test_a_node_must_offer_what_it_did_and_be_ready() -> None:
    [row] = toolkit_plan.rows_of(FLEET, ["gpu-0000"], ["gpu-0000"])
    assert toolkit_plan.lacks(row, node()) == ""
    less = node()
    less["status"]["allocatable"]["nvidia.com/gpu"] = "7"
    assert toolkit_plan.lacks(row, less) == wording("the node offers 7 instead of 8 nvidia.com/gpu")
    row.offered = {"nvidia.com/gpu": 0, "nvidia.com/mig-1g.10gb": 1}
    none = node()
    none["status"]["allocatable"] = {"cpu": "64"}
    assert toolkit_plan.lacks(row, none) == wording("the node offers 0 instead of 1 nvidia.com/mig-1g.10gb")
    down = node()
    down["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    row.offered = {}
    assert toolkit_plan.lacks(row, down) == wording("the node is not Ready")


def test_a_failure_names_the_node_and_what_the_others_have() -> None:
    rows = toolkit_plan.rows_of(FLEET, FLEET, FLEET)
    rows[0].fail("It has waited 60 s for a pod of the validator to be ready.")
    error = toolkit_plan.failure(rows, "")
    assert error.reason == "NodesFailed"
    assert error.msg == wording(
        "The toolkit's new settings: gpu-0000: It has waited 60 s for a pod of the validator to be ready. gpu-0001, gpu-0002, gpu-0003 still have the former settings. Correct the settings if they are the cause, and run it again. It continues with the other nodes."
    )
    assert toolkit_plan.closing([]) == wording(
        "Correct the settings if they are the cause, and run it again. It continues with the other nodes."
    )
