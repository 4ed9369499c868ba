# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import device_reader
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.api import FakeApi, refusal
from tests.unit.fakes.claimed import SLICES, gpu, slice_of, taint

RULES = "/apis/resource.k8s.io/v1/devicetaintrules"


def test_a_cluster_without_the_api_offers_nothing(api: FakeApi) -> None:
    assert device_reader.read(Cluster(api.connection)) == device_reader.NO_DEVICES
    assert not device_reader.NO_DEVICES.can_claim("gpu-0000")


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_the_newest_served_version_is_read(api: FakeApi, version: str) -> None:
    api.lists[SLICES.replace("v1", version)] = [slice_of(0)]
    assert device_reader.read(Cluster(api.connection)).can_claim("gpu-0000")


def test_the_served_versions_are_asked_for_once(api: FakeApi) -> None:
    api.lists |= {SLICES: [slice_of(0)], RULES: []}
    reader = device_reader.DeviceReader(Cluster(api.connection))
    assert reader.read() == reader.read()
    asked = [path for dummy, path, dummy in api.log]
    assert asked.count(SLICES) == asked.count(RULES) == asked.count("/apis/resource.k8s.io/v1") == 2


def test_rules_are_read_only_if_there_are_devices(api: FakeApi) -> None:
    api.lists |= {SLICES: [], RULES: []}
    assert device_reader.read(Cluster(api.connection)) == device_reader.NO_DEVICES
    assert ("GET", RULES) not in [entry[:2] for entry in api.log]
    api.lists[SLICES] = [slice_of(0)]
    selected = {"deviceSelector": {}, "taint": {"key": "k", "effect": "NoExecute"}}
    api.lists[RULES] = [{"metadata": {"name": "r"}, "spec": selected}]
    assert not device_reader.read(Cluster(api.connection)).can_claim("gpu-0000")
    api.answer = lambda method, path: refusal(403, "forbidden") if path == RULES else None
    assert device_reader.read(Cluster(api.connection)).can_claim("gpu-0000")


def test_what_claims_can_get(api: FakeApi) -> None:
    lost = {**gpu(0), "taints": [taint()]}
    api.lists[SLICES] = [slice_of(0, lost), slice_of(1, lost, gpu(1)), slice_of(2, total=2)]
    found = device_reader.read(Cluster(api.connection))
    assert [name for name in sorted(found.by_node) if found.can_claim(name)] == ["gpu-0001"]
    assert not found.can_claim("gpu-0009")


def test_a_refusal_is_no_absence(api: FakeApi) -> None:
    api.lists[SLICES] = [slice_of(0)]
    api.answer = lambda method, path: refusal(403, "forbidden") if path == SLICES else None
    assert "forbidden" in device_reader.read(Cluster(api.connection)).refusal


def test_other_errors_are_errors(api: FakeApi) -> None:
    api.lists[SLICES] = [slice_of(0)]
    api.answer = lambda method, path: refusal(422, "no") if path == SLICES else None
    with pytest.raises(GpuOpsError):
        device_reader.read(Cluster(api.connection))
