# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pools of devices, read from ResourceSlices as the API has them."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import claimed_pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, View
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from tests.unit import claimed


def view(**kinds: list[Json]) -> View:
    return View(Evidence(objects=kinds))


def test_only_the_newest_generation_counts() -> None:
    old, new = (
        claimed.resource_slice(claimed.device(0)),
        claimed.resource_slice(claimed.device(1), generation=2, count=2),
    )
    for slices in ([old, new], [new, old]):
        (pool,) = claimed_pools.pools(view(resourceslices=slices)).values()
        assert [each.name for each in pool.devices] == ["gpu-1"]
        assert (pool.slices, pool.expected, pool.is_complete) == (1, 2, False)


def test_a_pool_has_all_its_slices() -> None:
    both = [claimed.resource_slice(claimed.device(number), count=2) for number in range(2)]
    (pool,) = claimed_pools.pools(view(resourceslices=both)).values()
    assert (pool.gpus, pool.is_complete, pool.is_divided) == (2, True, False)


def test_devices_of_the_older_api_and_of_other_drivers() -> None:
    older = {"name": "gpu-0", "basic": {**claimed.device(0), "taints": [{"key": "a"}]}}
    other = claimed.resource_slice(claimed.device(1), node="gpu-0001")
    other["spec"]["driver"] = "nic.example.com"
    shared = claimed.resource_slice(claimed.device(2))
    del shared["spec"]["nodeName"]
    pools = claimed_pools.pools(view(resourceslices=[claimed.resource_slice(older), other, shared]))
    assert list(pools) == [claimed.NODE]
    (device,) = pools[claimed.NODE].devices
    assert (device.kind, device.uuid, device.address) == ("gpu", "GPU-0", "0000:00:00.0")
    assert device.taints == ({"key": "a"},)


def test_a_gpu_and_its_mig_instances_are_one_gpu() -> None:
    devices = [claimed.device(0), claimed.mig(1, "1g.10gb"), claimed.mig(2, "1g.10gb"), claimed.device(3)]
    (pool,) = claimed_pools.pools(view(resourceslices=[claimed.resource_slice(*devices)])).values()
    assert pool.gpus == 2
    assert [each.profile for each in pool.devices] == ["", "1g.10gb", "1g.10gb", ""]


def test_what_is_unknown_has_no_pools_and_no_claims() -> None:
    assert claimed_pools.pools(view()) == {}
    assert claimed_pools.held(view()) == []


def test_claims_hold_devices_of_nvidias_drivers_unless_they_only_see_them() -> None:
    claims = [
        claimed.claim("a", deleted="2026-11-28T10:00:00Z"),
        claimed.claim("b", driver="nic.example.com"),
        claimed.claim("c", admin=True),
        claimed.pending("gpu.nvidia.com"),
    ]
    (held,) = claimed_pools.held(view(resourceclaims=claims))
    assert (held.name, held.node, held.pods, held.is_deleted_at) == ("team/a", claimed.NODE, 1, "2026-11-28T10:00:00Z")
