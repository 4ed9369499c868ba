# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig import host_layout
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.claimed import gpu, mig, offered, slice_of
from tests.unit.fakes.stack import Json

WHOLE: Json = {"uuid": "GPU-0", "mig": {"mode": False, "pending": False, "instances": []}}
DIVIDED: Json = {
    "uuid": "GPU-1",
    "mig": {
        "mode": True,
        "pending": True,
        "instances": [{"uuid": "MIG-1-0", "profile": "1g.10gb"}, {"uuid": "MIG-1-1", "profile": "1g.10gb"}],
    },
}
HAS = [("GPU-0", ""), ("MIG-1-0", "1g.10gb"), ("MIG-1-1", "1g.10gb")]


def test_a_gpu_counts_whole_or_by_its_instances() -> None:
    empty = {**DIVIDED, "mig": {**DIVIDED["mig"], "instances": []}}
    assert host_layout.devices_of("n", [WHOLE, DIVIDED]) == HAS
    assert host_layout.devices_of("n", [empty, {"uuid": "GPU-T4", "mig": None}]) == [("GPU-T4", "")]
    assert host_layout.counted(HAS) == {"1g.10gb": 2, "gpu": 1}


def test_a_gpu_that_waits_for_a_reset_is_no_basis() -> None:
    waits = {**WHOLE, "mig": {**WHOLE["mig"], "pending": True}}
    with pytest.raises(GpuOpsError) as error:
        host_layout.devices_of("gpu-0000", [waits])
    assert (error.value.reason, error.value.msg) == (
        "NotReady",
        wording("gpu-0000: the GPU GPU-0 takes its new MIG mode with a reset. Reset it or reboot the host."),
    )


def test_slices_are_compared_by_uuid() -> None:
    [pool] = offered(slice_of(0, gpu(0), mig(1, 0), mig(1, 1))).pools
    assert host_layout.differs(pool, HAS) == ""
    other = [*HAS[:2], ("MIG-new", "1g.10gb")]
    assert host_layout.differs(pool, other) == "lacks 1 x 1g.10gb and offers 1 x 1g.10gb, which are gone"
    assert host_layout.differs(pool, HAS[:1]) == "offers 2 x 1g.10gb, which are gone"
    assert host_layout.differs(pool, [*HAS, ("", "3g.40gb")]) == "lacks 1 x 3g.40gb"


def test_an_instance_with_another_profile_is_another_device() -> None:
    [pool] = offered(slice_of(0, mig(1, 0))).pools
    assert "lacks 1 x 2g.20gb" in host_layout.differs(pool, [("MIG-1-0", "2g.20gb")])


def test_only_a_complete_generation_counts() -> None:
    [pool] = offered(slice_of(0, gpu(0), mig(1, 0), mig(1, 1), total=2)).pools
    assert host_layout.differs(pool, HAS) == "1 of the 2 slices of generation 1 are missing"
    [pool] = offered(slice_of(0, gpu(0), mig(1, 0), mig(1, 1)), slice_of(0, gpu(0), gpu(1), generation=2)).pools
    assert "lacks 2 x 1g.10gb" in host_layout.differs(pool, HAS)


def test_a_node_without_slices_lacks_all_it_has() -> None:
    assert host_layout.differs(None, HAS) == "no ResourceSlice of gpu.nvidia.com"
    assert host_layout.differs(None, []) == ""


def test_passthrough_offers_the_same_gpu_again() -> None:
    [pool] = offered(slice_of(0, gpu(0), gpu(9, type="vfio"))).pools
    assert host_layout.offered_by(pool) == HAS[:1] and host_layout.offered_by(None) == []
