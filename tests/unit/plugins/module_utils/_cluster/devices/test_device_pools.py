# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import device_pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_pools import DevicePool, DeviceTaint

from tests.unit.fakes.claimed import gpu, mig, slice_of, taint
from tests.unit.fakes.stack import Json


def pools(*slices: Json, rules: tuple[Json, ...] = ()) -> list[DevicePool]:
    return device_pools.pools(map(device_pools.part_of, slices), rules)


def test_what_a_device_is() -> None:
    [pool] = pools(slice_of(0, gpu(0), mig(1, 2)))
    whole, part = pool.devices
    assert (pool.name, pool.node, pool.generation, pool.missing) == ("gpu-0000", "gpu-0000", 1, 0)
    assert whole.name == ("gpu.nvidia.com", "gpu-0000", "gpu-0")
    assert (whole.kind, whole.uuid, whole.product) == ("gpu", "GPU-0", "NVIDIA H100 80GB HBM3")
    assert (whole.profile, whole.parent_uuid, whole.memory_mib) == (None, None, 81559)
    assert whole.pci_address == "0000:00:00.0"
    assert (part.kind, part.profile, part.parent_uuid, part.memory_mib) == ("mig", "1g.10gb", "GPU-1", 9984)


def test_the_shape_of_v1beta1() -> None:
    """Kubernetes 1.32 has all but the name of a device in a block of its own."""
    new = {**gpu(0), "taints": [taint()]}
    old = {"name": new["name"], "basic": {key: value for key, value in new.items() if key != "name"}}
    assert pools(slice_of(0, old)) == pools(slice_of(0, new))


def test_what_a_driver_leaves_out_is_unknown() -> None:
    [pool] = pools(slice_of(0, {"name": "x"}))
    [device] = pool.devices
    assert (device.kind, device.uuid, device.memory_mib, device.is_kept_away) == (None, None, None, False)


def test_the_newest_generation_counts() -> None:
    [pool] = pools(slice_of(0, total=9), slice_of(0, gpu(7), generation=3, total=2))
    assert (pool.generation, pool.total, pool.missing) == (3, 2, 1)
    assert [device.name[2] for device in pool.devices] == ["gpu-7"]


def test_slices_of_one_pool_come_together() -> None:
    [pool] = pools(slice_of(0, gpu(0), total=2), slice_of(0, gpu(1), gpu(2), total=2))
    assert (pool.missing, len(pool.devices)) == (0, 3)


def test_a_gpu_and_its_mig_devices_are_one_gpu() -> None:
    [pool] = pools(slice_of(0, gpu(0), mig(0, 1), mig(0, 2), gpu(3), {"name": "x"}))
    assert (pool.gpus, pool.is_divided) == (2, False)


def test_devices_that_share_counters_are_more_than_can_exist() -> None:
    item = slice_of(0)
    item["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": {"memory-slice-0": {"value": "1"}}}]
    assert pools(item)[0].is_divided


def test_pools_of_nodes_are_apart() -> None:
    assert [pool.node for pool in pools(slice_of(1), slice_of(0))] == ["gpu-0000", "gpu-0001"]


def rule(selector: Json | None) -> Json:
    chosen = {} if selector is None else {"deviceSelector": selector}
    return {"metadata": {"name": "r"}, "spec": {"taint": {"key": "k", "effect": "NoSchedule"}, **chosen}}


@pytest.mark.parametrize(
    ("selector", "tainted"),
    [
        (None, []),
        ({}, ["gpu-0", "gpu-1"]),
        ({"device": "gpu-1"}, ["gpu-1"]),
        ({"driver": "gpu.nvidia.com", "pool": "gpu-0000", "device": "gpu-0"}, ["gpu-0"]),
        ({"driver": "dra.net"}, []),
        ({"pool": "gpu-0001"}, []),
    ],
)
def test_which_devices_a_rule_taints(selector: Json | None, tainted: list[str]) -> None:
    [pool] = pools(slice_of(0), rules=(rule(selector),))
    assert [device.name[2] for device in pool.devices if device.is_kept_away] == tainted
    assert {taint for device in pool.devices for taint in device.taints} <= {DeviceTaint("k", "", "NoSchedule", "r")}


def test_a_taint_as_text() -> None:
    assert [str(DeviceTaint("k", value, "None")) for value in ("", "79")] == ["k:None", "k=79:None"]
