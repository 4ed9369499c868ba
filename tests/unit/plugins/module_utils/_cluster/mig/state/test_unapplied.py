# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes a MIG manager divides when it starts again."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state import hosts, unapplied
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.parted import LayoutEntry

from tests.unit.fakes.mig_nodes import DIVIDED, LAYOUT, mig_node

MIXED = {"nvidia.com/mig.strategy": "mixed"}
SEVEN, WHOLE = (LayoutEntry(None, True, {"1g.10gb": 7}),), (LayoutEntry(None, False),)
OFFERED = {"nvidia.com/mig-1g.10gb": "56"}


@pytest.mark.parametrize("state", [None, "failed", "pending", "rebooting"])
def test_a_layout_whose_last_run_was_not_successful_is_applied(state: str | None) -> None:
    host = hosts.host_of(mig_node(config=LAYOUT, state=state))
    assert unapplied.divides(host, SEVEN) and unapplied.divides(host, None)


def test_success_speaks_for_the_layout_that_the_run_has_seen() -> None:
    host = hosts.host_of(mig_node(config=LAYOUT, state="success"))
    assert not unapplied.divides(host, SEVEN) and not unapplied.divides(host, None)
    assert unapplied.divides(host, SEVEN, is_same=False) and unapplied.divides(host, None, is_same=False)


@pytest.mark.parametrize("is_same", [True, False])
@pytest.mark.parametrize("state", ["failed", "success"])
def test_a_layout_that_the_node_offers_already_is_left_alone(state: str, is_same: bool) -> None:
    divided = hosts.host_of(mig_node(OFFERED, config=LAYOUT, state=state, **DIVIDED, **MIXED))
    whole = hosts.host_of(mig_node(config="whole", state=state, **MIXED))
    assert not unapplied.divides(divided, SEVEN, is_same) and not unapplied.divides(whole, WHOLE, is_same)


@pytest.mark.parametrize(
    ("allocatable", "labels"),
    [
        ({}, DIVIDED),
        (OFFERED, {"nvidia.com/mig-1g.10gb.count": "55"}),
        (OFFERED, {**DIVIDED, "count": None}),
        (OFFERED, {}),
    ],
)
def test_a_layout_is_there_only_if_labels_and_resources_say_so(
    allocatable: dict[str, str], labels: dict[str, str | None]
) -> None:
    node = mig_node(allocatable, **{"config": LAYOUT, "state": "failed", **MIXED, **labels})
    assert unapplied.divides(hosts.host_of(node), SEVEN)


def test_a_layout_for_other_gpus_proves_nothing() -> None:
    host = hosts.host_of(mig_node(config="other", state="failed", **MIXED))
    assert unapplied.divides(host, (LayoutEntry((), True, {"1g.10gb": 7}),))


@pytest.mark.parametrize("is_same", [True, False])
def test_without_a_label_nothing_is_applied(is_same: bool) -> None:
    for config in (None, ""):
        host = hosts.host_of(mig_node(config=config, state="failed"))
        assert not unapplied.divides(host, None, is_same) and not unapplied.divides(host, SEVEN, is_same)


def test_two_files_mean_the_same_if_they_divide_the_gpus_alike() -> None:
    host = hosts.host_of(mig_node(config=LAYOUT))
    each = tuple(LayoutEntry((index,), True, {"1g.10gb": 7}) for index in range(8))
    assert unapplied.is_same(host, SEVEN, each) and not unapplied.is_same(host, SEVEN, WHOLE)
    assert not unapplied.is_same(host, None, SEVEN) and not unapplied.is_same(host, SEVEN, None)
    assert not unapplied.is_same(host, None, None)


def test_a_node_is_named_with_its_layout_and_its_state() -> None:
    named = [unapplied.described(hosts.host_of(mig_node(config="a", state=state))) for state in ("failed", None)]
    assert named == ["gpu-0000 (a, state failed)", "gpu-0000 (a, state unknown)"]
