# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes keep all others from their driver upgrade."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import upgrades
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.upgrades import UpgradeMember
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

STATE, DEPLOY = "nvidia.com/gpu-driver-upgrade-state", "nvidia.com/gpu.deploy.driver"
CORDONED, DOWN = {"is_cordoned": True}, {"is_ready": False}
FAILED, DONE, MOVING = ({"state": state} for state in ("upgrade-failed", "upgrade-done", "pod-restart-required"))


def fleet(*first: Json, total: int = 4) -> list[UpgradeMember]:
    """Return nodes of which the first are as given, and the others wait."""
    waiting: list[Json] = [{"state": "upgrade-required"}] * (total - len(first))
    return [UpgradeMember(f"gpu-{number}", **fields) for number, fields in enumerate((*first, *waiting))]


@pytest.mark.parametrize(
    ("first", "policy", "text"),
    [
        ([CORDONED], {}, "gpu-0 uses up maxUnavailable: 25%"),
        ([DOWN], {"maxUnavailable": "25%"}, "gpu-0 uses up maxUnavailable: 25%"),
        ([DOWN, CORDONED], {"maxUnavailable": 2}, "gpu-0, gpu-1 use up maxUnavailable: 2"),
        ([{**DONE, **CORDONED}], {"maxUnavailable": 1}, "gpu-0 uses up maxUnavailable: 1"),
        ([DOWN], {"maxUnavailable": "1%"}, "gpu-0 uses up maxUnavailable: 1%"),
        ([], {"maxUnavailable": 0}, "maxUnavailable: 0 allows none"),
        ([FAILED], {"maxUnavailable": 4}, "gpu-0 uses up maxParallelUpgrades: 1"),
        ([{**FAILED, **CORDONED}], {"maxParallelUpgrades": 0}, "gpu-0 uses up maxUnavailable: 25%"),
    ],
)
def test_nodes_that_nobody_puts_back_hold_all_places(first: list[Json], policy: Json, text: str) -> None:
    found = upgrades.standstill(fleet(*first), policy)
    assert found is not None and found.text == text


@pytest.mark.parametrize(
    ("first", "policy"),
    [
        ([], {}),
        ([DONE], {}),
        ([CORDONED], {"maxUnavailable": 2}),
        ([DOWN], {"maxUnavailable": "26%"}),
        ([FAILED], {"maxParallelUpgrades": 2, "maxUnavailable": 4}),
        ([FAILED], {"maxParallelUpgrades": 0, "maxUnavailable": 4}),
        ([{**MOVING, **CORDONED}], {}),
        ([{**MOVING, **CORDONED}, FAILED], {}),
        ([CORDONED], {"maxUnavailable": "some"}),
        ([FAILED], {"maxParallelUpgrades": "some", "maxUnavailable": 4}),
    ],
)
def test_a_place_is_free_or_will_be(first: list[Json], policy: Json) -> None:
    assert upgrades.standstill(fleet(*first), policy) is None


@pytest.mark.parametrize(
    ("fields", "waits"),
    [({}, True), ({"is_skipped": True}, False), (CORDONED, False), ({"state": ""}, False), (DOWN, True)],
)
def test_who_waits_for_a_place(fields: Json, waits: bool) -> None:
    assert UpgradeMember(**{"name": "gpu-0", "state": "upgrade-required", **fields}).waits is waits


def node(spec: Json | None = None, ready: str = "True", **labels: str) -> Json:
    metadata = {"name": "gpu-0", "labels": {key.replace("__", "/"): value for key, value in labels.items()}}
    return {
        "metadata": metadata,
        "spec": spec or {},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def test_a_node_as_a_member() -> None:
    assert upgrades.member(node()) == UpgradeMember("gpu-0")
    labels = {STATE: "upgrade-required", "nvidia.com/gpu-driver-upgrade.skip": "true"}
    found = upgrades.member(node({"unschedulable": True}, "Unknown", **labels))
    assert found == UpgradeMember("gpu-0", "upgrade-required", is_cordoned=True, is_ready=False, is_skipped=True)


@pytest.mark.parametrize(
    ("driver", "managed"),
    [("true", True), ("paused-for-driver-upgrade", True), ("false", False), ("pre-installed", False), (None, False)],
)
def test_whose_driver_the_operator_runs(driver: str | None, managed: bool) -> None:
    labels: dict[str, t.Any] = {"nvidia.com/gpu.present": "true", **({DEPLOY: driver} if driver else {})}
    assert upgrades.is_managed(node(**labels)) is managed
    assert not upgrades.is_managed(node(**{**labels, "nvidia.com/gpu.present": "false"}))
