# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.doc_fragments import eviction, node_rollout, progress
from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import option_specs, options
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

GIVEN: dict[str, t.Any] = {
    **{
        name: spec.get("default")
        for name, spec in option_specs.EVICTION.including(option_specs.NODE_ROLLOUT).options.items()
    },
    "progress_path": None,
    "timeout": 5,
    "drain_timeout": 7,
}


@pytest.mark.parametrize(
    ("fragment", "spec"),
    [(eviction, option_specs.EVICTION), (node_rollout, option_specs.NODE_ROLLOUT), (progress, waiting.PROGRESS)],
)
def test_the_fragments_describe_the_specs(fragment: t.Any, spec: ArgumentSpec) -> None:
    described = yaml.safe_load(fragment.ModuleDocFragment.DOCUMENTATION)["options"]
    stated = {
        name: {key: value for key, value in each.items() if key != "description"} for name, each in described.items()
    }
    assert stated == spec.options


def test_a_drain_takes_its_own_time() -> None:
    made = options.rollout_of(GIVEN, "some-purpose").maintenance
    assert (made.state, made.purpose, made.evicts_all, made.timeout_s) == ("drained", "some-purpose", False, 7)


def test_a_module_can_say_which_pods_must_go() -> None:
    assert options.rollout_of({**GIVEN, "evict": "all"}, "some-purpose").maintenance.evicts_all


def test_groups_count_only_where_they_are_asked_for() -> None:
    nodes = {name: {"metadata": {"labels": {"zone": zone}}} for name, zone in (("a", "x"), ("b", "y"))}
    assert options.rollout_of(GIVEN, "some-purpose").pace_of(nodes).wishes.groups is None
    grouped = options.rollout_of({**GIVEN, "group_by": "zone", "canary": 1, "max_failed": "2"}, "some-purpose")
    wishes = grouped.pace_of(nodes).wishes
    assert (wishes.groups, wishes.canary, wishes.sizes, wishes.max_out) == ({"a": "x", "b": "y"}, 1, "1", "2")
    assert (wishes.name("sizes"), wishes.name("members")) == ("max_unavailable", "nodes")
    assert grouped.pace.wishes.groups is None, "what the options say stays as it was read"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"soak": -1}, "soak is -1"),
        ({"lease": 0}, "lease is 0"),
        ({"timeout": 0}, "timeout is 0"),
        ({"drain_timeout": 0}, "drain_timeout is 0"),
        ({"waves": ["10%", "none"]}, "waves is 'none'"),
        ({"windows": ["at night"]}, "'at night' cannot be read"),
        ({"time_zone": "Mars/Base"}, "time_zone is 'Mars/Base'"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(GpuOpsError, match=said):
        options.rollout_of({**GIVEN, **wrong}, "some-purpose")


def test_the_pace_has_what_the_options_say() -> None:
    assert options.rollout_of(GIVEN, "some-purpose").pace.windows.open_for_s(0.0) == float("inf")
    given = {**GIVEN, "waves": ["1", "50%"], "soak": 60, "windows": ["22:00-04:00"], "canary": 2}
    pace = options.rollout_of(given, "some-purpose").pace
    assert (pace.waves, pace.soak_s, pace.wishes.canary) == (("1", "50%"), 60, 2)
    assert str(pace.windows) == "22:00-04:00 (UTC)"
