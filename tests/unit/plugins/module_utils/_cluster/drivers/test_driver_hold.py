# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes keep their driver. tests/unit/plugins/modules/test_driver_hold.py runs the whole module."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers import driver_hold
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import driver_annotations
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes import stack
from tests.unit.fakes.stack import NOW, Json
from tests.unit.fakes.upgrades.drivers import SKIP, STATE


def node(name: str, state: str = "upgrade-done", skip: bool = False, note: str = "") -> Json:
    made = stack.node()
    made["metadata"]["name"] = name
    made["metadata"]["resourceVersion"] = "7"
    made["metadata"]["annotations"] = {driver_annotations.NOTE: str(driver_annotations.Note(note, NOW))} if note else {}
    made["metadata"]["labels"] |= {STATE: state, **({SKIP: "true"} if skip else {})}
    return made


def test_every_node_with_a_driver_is_kept_and_a_users_label_stays() -> None:
    plan = driver_hold.plan_hold([node("b"), node("a"), node("c", skip=True)], {"b", "elsewhere"}, NOW)
    assert (plan.hold, plan.held, plan.outdated, plan.users) == (("a", "b"), ("a", "b", "c"), ("b",), ("c",))
    assert plan.as_result()["changed"]
    assert plan.as_result()["diff"] == {"before": {"held": ["c"]}, "after": {"held": ["a", "b", "c"]}}


def test_a_node_that_is_kept_already_is_no_change() -> None:
    plan = driver_hold.plan_hold([node("a", skip=True, note="held")], (), NOW)
    assert (plan.hold, plan.held, plan.as_result()["changed"]) == ((), ("a",), False)


@pytest.mark.parametrize("state", ["cordon-required", "pod-restart-required", "upgrade-failed"])
def test_a_node_in_its_upgrade_comes_too_late(state: str) -> None:
    late = [node("a"), node("b", state)]
    if state == "upgrade-failed":
        assert driver_hold.under_way(late) == []
        return
    with pytest.raises(GpuOpsError, match=rf"replacing the driver of b \({state}\)") as e:
        driver_hold.plan_hold(late, (), NOW)
    assert e.value.reason == "NodesBusy" and e.value.details["nodes"] == ["b"]


def test_nodes_with_a_current_driver_are_let_go_and_the_others_only_with_permission() -> None:
    listed = [node("a", skip=True, note="held"), node("b", skip=True, note="held"), node("c", skip=True)]
    plan = driver_hold.plan_release(listed, {"b"}, everything=False)
    assert (plan.release, plan.held, plan.outdated, plan.users) == (("a",), ("b", "c"), ("b",), ("c",))
    assert driver_hold.plan_release(listed, {"b"}, everything=True).release == ("a", "b")
