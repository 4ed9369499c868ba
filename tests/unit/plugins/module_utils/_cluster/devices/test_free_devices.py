# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import device_pools, free_devices
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_claims

from tests.unit.fakes.claims import claim, device, resource_slice


def free(*slices: dict[str, t.Any], claims: t.Sequence[dict[str, t.Any]] = ()) -> list[str]:
    pools = device_pools.pools(map(device_pools.part_of, slices))
    held = [found for item in claims if (found := device_claims.allocated(item))]
    return sorted(f"{pool}/{name}" for dummy, pool, name in free_devices.free(pools, held))


def test_a_pool_of_which_a_slice_is_missing_has_no_free_device() -> None:
    assert free(resource_slice("a", device(0), count=2), resource_slice("b", device(0))) == ["b/gpu-0"]


def test_a_device_of_a_claim_is_taken_and_access_for_administrators_takes_nothing() -> None:
    slices = [resource_slice("a", device(0), device(1)), resource_slice("b", device(0))]
    watching = claim("watch", ("a", "gpu-1"))
    watching["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    elsewhere = claim("other", ("b", "gpu-0"))
    elsewhere["status"]["allocation"]["devices"]["results"][0]["driver"] = "net.example.com"
    assert free(*slices, claims=[claim("held", ("a", "gpu-0")), watching, elsewhere]) == ["a/gpu-1", "b/gpu-0"]


def test_a_device_that_many_claims_may_have_stays_free() -> None:
    shared = device(0, allowMultipleAllocations=True)
    assert free(resource_slice("a", shared), claims=[claim("held", ("a", "gpu-0"))]) == ["a/gpu-0"]


def test_a_taint_that_keeps_pods_away_takes_a_device_out_of_the_free_ones() -> None:
    lost = device(0, taints=[{"key": "gpu.nvidia.com/gpu-lost", "effect": "NoSchedule"}])
    watched = device(1, taints=[{"key": "gpu.nvidia.com/unmonitored", "effect": "None"}])
    assert free(resource_slice("a", lost, watched)) == ["a/gpu-1"]


def consuming(name: str, slices: int) -> dict[str, t.Any]:
    counters = [{"counterSet": "gpu-0-counters", "counters": {"memorySlices": {"value": str(slices)}}}]
    return {"name": name, "attributes": {"type": {"string": "mig"}}, "consumesCounters": counters}


def test_partitions_share_the_counters_of_their_gpu() -> None:
    shared = [{"name": "gpu-0-counters", "counters": {"memorySlices": {"value": "8"}}}]
    counters = resource_slice("a", count=2, sharedCounters=shared)
    partitions = resource_slice("a", consuming("gpu-0", 8), consuming("half", 4), consuming("most", 7), count=2)
    assert free(counters, partitions) == ["a/gpu-0", "a/half", "a/most"]
    held = claim("held", ("a", "half"))
    assert free(counters, partitions, claims=[held]) == []
    small = resource_slice("a", consuming("gpu-0", 8), consuming("half", 4), consuming("other-half", 4), count=2)
    assert free(counters, small, claims=[held]) == ["a/other-half"]


def test_a_partition_without_the_counters_of_its_gpu_is_not_free() -> None:
    assert free(resource_slice("a", consuming("half", 4)), claims=[claim("held", ("a", "half"))]) == []
