# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.layout_request import (
    LayoutWish,
    request_of,
    wishes_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.modules.mig_config import SPEC
from inline_snapshot import snapshot as wording

GIVEN: dict[str, t.Any] = {name: option.get("default") for name, option in SPEC.options.items()}


def wished(**options: t.Any) -> tuple[LayoutWish, ...]:
    return wishes_of({**GIVEN, **options})


def refused(**options: t.Any) -> str:
    """Return the message with which these options are refused."""
    with pytest.raises(GpuOpsError) as error:
        wished(**options)
    assert error.value.reason == "Invalid"
    return error.value.msg


def test_one_layout_is_a_wish_of_one() -> None:
    assert wished(layout="x", nodes=["b", "a", "b"]) == (LayoutWish("x", nodes=("b", "a")),)
    assert wished(layout="x", node_selector={"gpu": True, "rack": 7}) == (
        LayoutWish("x", selector={"gpu": "true", "rack": "7"}),
    )
    assert wished(layout="x", nodes=[]) == (LayoutWish("x", nodes=()),)


def test_each_layout_has_its_nodes() -> None:
    listed = [{"layout": "x", "nodes": ["a"]}, {"layout": "y", "node_selector": {}}]
    assert wished(layouts=listed) == (LayoutWish("x", nodes=("a",)), LayoutWish("y", selector={}))


def test_absent_means_whole_gpus() -> None:
    assert wished(state="absent", nodes=["a"]) == (LayoutWish("all-disabled", nodes=("a",), is_end=True),)
    assert wished(state="absent") == (LayoutWish("all-disabled", is_end=True),)
    both = [{"layout": "x", "nodes": ["a"]}, {"layout": "y", "nodes": ["b"]}]
    assert [wish.layout for wish in wished(state="absent", layouts=both)] == ["all-disabled"] * 2
    assert refused(state="absent", layout="x", nodes=["a"]) == wording(
        "state=absent takes the layout away: leave out layout."
    )


def test_a_choice_that_makes_no_sense_is_refused() -> None:
    assert refused(nodes=["a"]) == wording("layout is missing: name it for each selector, or set state=absent.")
    neither = refused(layouts=[{"layout": "x"}])
    assert neither == wording("Give either nodes or node_selector for the layout x.")
    assert refused(layouts=[{"layout": "x", "nodes": [], "node_selector": {}}]) == neither


def test_a_request_has_what_the_options_say() -> None:
    chosen = {"layout": "x", "nodes": ["a"], "state": "absent"}
    given = {"policy_name": "p", "namespace": "n", "allow_reboot": True, "timeout": 9, "repair": False, "verify": True}
    made = request_of({**GIVEN, **chosen, "layout": None, **given, "workload": {"image": "i"}, "evict": "all"})
    assert (made.policy_name, made.namespace, made.removes, made.allows_reboot) == ("p", "n", True, True)
    assert (made.timeout_s, made.repairs, made.verifies, made.workload) == (9, False, True, {"image": "i"})
    maintenance = made.rollout.maintenance
    assert (maintenance.purpose, maintenance.evicts_all, maintenance.permits.disruption) == ("mig", True, False)
    assert maintenance.timeout_s == SPEC.options["drain_timeout"]["default"], "a drain has a time of its own"


def test_a_number_that_cannot_be_meant_is_refused_before_anything_is_read() -> None:
    with pytest.raises(GpuOpsError, match="soak is -1"):
        request_of({**GIVEN, "layout": "x", "nodes": ["a"], "soak": -1})
