# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes an upgrade divides."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade import unapplied_layouts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade.conditions import UpgradeView
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import NODES, FakeApi
from tests.unit.fakes.mig_nodes import CONFIG, LAYOUT, STATE
from tests.unit.fakes.stack import NAMESPACE, Json

POLICY: Json = {"migManager": {"enabled": True}}


def looked(api: FakeApi, state: str, **fields: t.Any) -> list[t.Any]:
    """Return the findings about an upgrade of a cluster with a node in this state."""
    api.lists[NODES][0]["metadata"]["labels"] |= {CONFIG: LAYOUT, STATE: state}
    sight = UpgradeView(**{"before": (26, 3, 2), "after": (26, 3, 3), "values": {}, "policy": POLICY, **fields})
    return unapplied_layouts.findings(Cluster(api.connection), sight, NAMESPACE)


def test_a_node_whose_last_run_failed_is_named_with_the_remedy(api: FakeApi) -> None:
    [found] = looked(api, "failed")
    assert (found.check, found.level, found.nodes, found.count) == ("mig_layouts", "warning", ("gpu-0000",), 1)
    assert found.message == wording(
        "The upgrade starts the MIG managers again, and they divide the GPUs of gpu-0000 (all-1g.10gb, state failed), whoever uses them."
    )
    assert "playbook mig" in found.remedy and "operator_allow_disruption" in found.remedy


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"after": (26, 3, 2)}, id="the same release"),
        pytest.param({"policy": {}}, id="no ClusterPolicy"),
        pytest.param({"policy": {"migManager": {"enabled": False}}}, id="no MIG managers"),
        pytest.param({"policy": {**POLICY, "daemonsets": {"updateStrategy": "OnDelete"}}}, id="updates wait"),
    ],
)
def test_where_no_manager_starts_nothing_is_divided(api: FakeApi, fields: dict[str, t.Any]) -> None:
    assert looked(api, "failed", **fields) == [] and api.log == []


def test_a_successful_run_counts_for_the_layouts_that_stay(api: FakeApi) -> None:
    assert looked(api, "success") == []
    other = {"migManager": {"config": {"name": "other"}}}
    assert [each.check for each in looked(api, "success", values=other)] == ["mig_layouts"]
    assert looked(api, "success", values=other, policy={"migManager": {"config": {"name": "other"}}}) == []
