# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import drivers_view
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.api import DEPLOYMENTS, NODES, POLICIES, FakeApi
from tests.unit.fakes.stack import cpu_node

DRIVERS = "/apis/nvidia.com/v1alpha1/nvidiadrivers"
GPUCLUSTERS = "/apis/nvidia.com/v1alpha1/gpuclusters"


def look(api: FakeApi, policy_name: str = "", namespace: str = "") -> drivers_view.DriversView:
    return drivers_view.look(Cluster(api.connection), policy_name, namespace)


def test_one_request_for_each_kind_shows_what_is_there(api: FakeApi) -> None:
    api.lists[NODES].append(cpu_node())
    api.lists[DRIVERS] = []
    containers = [{"name": "gpu-operator", "image": "nvcr.io/nvidia/gpu-operator:v26.3.3"}]
    api.lists[DEPLOYMENTS][0]["spec"]["template"]["spec"] = {"containers": containers}
    found = look(api)
    assert [item["metadata"]["name"] for item in found.gpu_nodes] == ["gpu-0000", "gpu-0001"]
    assert found.line == (26, 3) and found.delegates is False and found.serves_drivers is True
    assert [item["metadata"]["name"] for item in found.driver_daemonsets] == ["nvidia-driver-daemonset"]
    paths = [path for method, path, query in api.log]
    assert len(paths) == len(set(paths)), "each kind is read once"


def test_without_the_crd_of_nvidiadrivers_there_are_none(api: FakeApi) -> None:
    found = look(api)
    assert found.drivers == [] and found.serves_drivers is False and found.line is None


def test_nodes_for_virtual_machines_have_no_driver_containers(api: FakeApi) -> None:
    api.lists[POLICIES][0]["spec"]["sandboxWorkloads"] = {"enabled": True}
    api.lists[NODES][0]["metadata"]["labels"]["nvidia.com/gpu.workload.config"] = "vm-passthrough"
    assert [item["metadata"]["name"] for item in look(api).gpu_nodes] == ["gpu-0001"]


def test_a_gpucluster_leaves_drivers_to_nvidiadrivers(api: FakeApi) -> None:
    api.lists[POLICIES] = []
    api.lists[GPUCLUSTERS] = [{"metadata": {"name": "gpu-cluster"}}]
    found = look(api)
    assert found.delegates is True and found.gpucluster is not None and found.spec == {}


@pytest.mark.parametrize(
    ("policies", "gpuclusters", "name", "reason"),
    [
        (None, 0, "", "CRDMissing"),
        (0, 0, "", "NotFound"),
        (1, 0, "other", "NotFound"),
        (0, 1, "other", "NotFound"),
        (2, 0, "", "SecondClusterPolicy"),
        (1, 1, "", "GPUClusterPresent"),
    ],
)
def test_what_is_missing_or_too_much_is_told(
    api: FakeApi, policies: int | None, gpuclusters: int, name: str, reason: str
) -> None:
    only = api.lists.pop(POLICIES)[0]
    if policies is not None:
        api.lists[POLICIES] = [{**only, "metadata": {"name": f"policy-{number}"}} for number in range(policies)]
    api.lists[GPUCLUSTERS] = [{"metadata": {"name": "gpu-cluster"}}] * gpuclusters
    with pytest.raises(GpuOpsError) as caught:
        look(api, policy_name=name)
    assert caught.value.reason == reason
