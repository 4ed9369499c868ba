# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines.keep_permitted import keep
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.api import FakeApi
from tests.unit.fakes.kubevirt import CLUSTER_TYPES, KubeVirtApi, instance_type, kubevirt

A10 = {"pciVendorSelector": "10DE:2236", "resourceName": "nvidia.com/GA102GL_A10", "externalResourceProvider": True}
PLAIN = {"devices": None, "from_nodes": False, "state": "present", "purge": False, "allow_in_use": False}


@pytest.fixture
def cluster(api: FakeApi) -> KubeVirtApi:
    return KubeVirtApi(api)


def call(cluster: KubeVirtApi, **options: t.Any) -> tuple[dict[str, t.Any], list[str]]:
    return keep(Cluster(cluster.api.connection), {**PLAIN, **options})


def test_the_kubevirt_is_found_in_any_namespace_and_written_where_it_is(cluster: KubeVirtApi) -> None:
    result, warnings = call(cluster, devices=[{"pci_id": "10DE:2236"}])
    assert result["changed"] and warnings == [] and cluster.lists == {"pciHostDevices": [A10]}
    assert cluster.kubevirt["metadata"]["namespace"] == result["kubevirt"]["namespace"] == "kubevirt"


def test_an_instance_type_keeps_its_device(cluster: KubeVirtApi) -> None:
    cluster.kubevirt = kubevirt(A10, ours=[["pci", "10de:2236", "nvidia.com/GA102GL_A10"]])
    cluster.api.lists[CLUSTER_TYPES] = [instance_type("a10", "nvidia.com/GA102GL_A10")]
    with pytest.raises(GpuOpsError) as error:
        call(cluster, state="absent")
    assert error.value.details["users"] == {"nvidia.com/GA102GL_A10": ["VirtualMachineClusterInstancetype a10"]}


def test_the_nodes_are_read_once_and_the_rest_with_each_try(cluster: KubeVirtApi) -> None:
    def once() -> None:
        cluster.before_write = lambda: None
        cluster.kubevirt = {**kubevirt(), "metadata": {**kubevirt()["metadata"], "resourceVersion": "8"}}

    cluster.before_write = once
    call(cluster, devices=[{"pci_id": "10DE:2236"}])
    paths = [path for method, path, dummy in cluster.api.log if method == "GET"]
    assert paths.count("/api/v1/nodes") == 1 and paths.count(CLUSTER_TYPES) == 2
