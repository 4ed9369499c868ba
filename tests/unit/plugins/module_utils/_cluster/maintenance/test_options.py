# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.doc_fragments import eviction, node_rollout, progress
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import options
from ansible_collections.gpuops.nvidia.plugins.modules import node_maintenance

GIVEN: dict[str, t.Any] = {
    **{name: spec.get("default") for name, spec in {**options.EVICTION, **options.NODE_ROLLOUT}.items()},
    "progress_path": None,
    "timeout": 5,
    "drain_timeout": 7,
}


@pytest.mark.parametrize(
    ("fragment", "specs"),
    [(eviction, options.EVICTION), (node_rollout, options.NODE_ROLLOUT), (progress, waiting.PROGRESS)],
)
def test_the_fragments_describe_the_specs(fragment: t.Any, specs: dict[str, t.Any]) -> None:
    described = yaml.safe_load(fragment.ModuleDocFragment.DOCUMENTATION)["options"]
    stated = {
        name: {key: value for key, value in each.items() if key != "description"} for name, each in described.items()
    }
    assert stated == specs


def test_a_drain_takes_its_own_time_and_every_option_that_it_looks_at() -> None:
    given = options.drain_options(GIVEN, "some-purpose")
    assert (given["state"], given["purpose"], given["evict"], given["timeout"]) == ("drained", "some-purpose", "gpu", 7)
    of_a_call = {"nodes", "node_selector", "taint_reason", "parallel", "restore_on_failure"}
    assert set(node_maintenance.OPTIONS) - given.keys() == of_a_call


def test_a_module_can_say_which_pods_must_go() -> None:
    assert options.drain_options({**GIVEN, "evict": "all"}, "some-purpose")["evict"] == "all"


def test_groups_count_only_where_they_are_asked_for() -> None:
    groups = {"a": "x", "b": "y"}
    assert options.wishes_of(GIVEN, groups).groups is None
    wishes = options.wishes_of({**GIVEN, "group_by": "zone", "canary": 1, "max_failed": "2"}, groups)
    assert (wishes.groups, wishes.canary, wishes.sizes, wishes.max_out) == (groups, 1, "1", "2")
    assert (wishes.name("sizes"), wishes.name("members")) == ("max_unavailable", "nodes")
