# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which of what the cluster wing reads from ResourceSlices and claims a diagnosis looks at."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import claimed_pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, View
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from tests.unit.fakes import claimed


def view(**kinds: list[Json]) -> View:
    return View(Evidence(objects=kinds))


def test_pools_are_those_of_nvidias_gpus_on_nodes() -> None:
    other, shared = claimed.slice_of(1), claimed.slice_of(2)
    other["spec"]["driver"] = "nic.example.com"
    del shared["spec"]["nodeName"]
    pools = claimed_pools.pools(view(resourceslices=[claimed.slice_of(0), other, shared]))
    assert {node: pool.gpus for node, pool in pools.items()} == {"gpu-0000": 2}


def test_what_is_unknown_has_no_pools_and_no_claims() -> None:
    assert claimed_pools.pools(view()) == {}
    assert claimed_pools.held(view()) == []


def test_claims_hold_devices_of_nvidias_drivers_unless_they_only_see_them() -> None:
    claims = [
        claimed.claim("a", "gpu-0000", "gpu-0", "gpu-1"),
        claimed.claim("b", "gpu-0000", "nic-0", driver="nic.example.com"),
        claimed.claim("c", "gpu-0000", "gpu-0", admin=True),
        claimed.pending("gpu.nvidia.com"),
    ]
    (held,) = claimed_pools.held(view(resourceclaims=claims))
    assert (held.name, held.driver, held.node) == ("default/a", "gpu.nvidia.com", "gpu-0000")
