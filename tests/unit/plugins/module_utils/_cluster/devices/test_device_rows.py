# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import device_rows
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_claims
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import Offer

from tests.unit.fakes.claimed import claim, gpu, mig, offered, slice_of, taint
from tests.unit.fakes.stack import Json


def held_by(*claims: Json) -> device_rows.Holders:
    return device_rows.holders(filter(None, map(device_claims.allocated, claims)))


def test_a_node_without_a_pool_has_no_rows() -> None:
    assert (device_rows.rows(None, None), device_rows.offers(None, {})) == ([], [])


def test_several_claims_can_have_one_device() -> None:
    [pool] = offered(slice_of(0, gpu(0), gpu(1))).pools
    shared = held_by(claim("a", "gpu-0000", "gpu-0"), claim("b", "gpu-0000", "gpu-0"))
    assert [[each["name"] for each in row["claims"]] for row in device_rows.rows(pool, shared)] == [["a", "b"], []]
    assert [number for dummy, number in device_rows.offers(pool, shared)] == [1]


def test_a_claim_of_another_node_has_another_device() -> None:
    [pool] = offered(slice_of(0)).pools
    assert [number for dummy, number in device_rows.offers(pool, held_by(claim("a", "gpu-0001", "gpu-0")))] == [0]


def test_what_can_be_claimed_of_each_kind() -> None:
    lost = {**gpu(1), "taints": [taint()]}
    [pool] = offered(slice_of(0, gpu(0), lost, mig(2, 0), mig(2, 1), mig(2, 4, "3g.40gb"))).pools
    whole = Offer("gpu.nvidia.com", None, devices=2, replicas=1, expected=2, allocatable=1)
    small = Offer("mig.nvidia.com", "1g.10gb", devices=2, replicas=1, expected=2, allocatable=2)
    large = Offer("mig.nvidia.com", "3g.40gb", devices=1, replicas=1, expected=1, allocatable=1)
    assert device_rows.offers(pool, None) == [(whole, None), (small, None), (large, None)]


def test_an_incomplete_pool_gives_nothing() -> None:
    [pool] = offered(slice_of(0, total=2)).pools
    [(offer, held)] = device_rows.offers(pool, {})
    assert (offer.expected, offer.allocatable, held) == (2, 0, 0)


def test_a_device_of_an_unknown_kind_is_shown_and_not_counted() -> None:
    [pool] = offered(slice_of(0, {"name": "x"})).pools
    assert [row["name"] for row in device_rows.rows(pool, None)] == ["x"] and device_rows.offers(pool, None) == []
