# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims import driver_gates

from tests.unit.fakes.api import GPUCLUSTERS, FakeApi, refusal

ALL_DAEMONSETS = "/apis/apps/v1/daemonsets"


def plugin(
    *env: dict[str, t.Any], name: str = "nvidia-dra-driver-gpu-kubelet-plugin", **metadata: t.Any
) -> dict[str, t.Any]:
    pod = {"containers": [{"name": "compute-domains"}, {"name": "gpus", "env": list(env)}]}
    return {"metadata": {"namespace": "dra", "name": name, **metadata}, "spec": {"template": {"spec": pod}}}


def read(api: FakeApi, *daemonsets: dict[str, t.Any]) -> driver_gates.DriverGates:
    api.lists[ALL_DAEMONSETS] = list(daemonsets)
    return driver_gates.read(Cluster(api.connection))


def test_the_gates_of_a_gpucluster_are_in_its_spec(api: FakeApi) -> None:
    spec = {"draDriver": {"featureGates": {"MPSSupport": True, "DynamicMIG": False}}}
    api.lists[GPUCLUSTERS] = [{"metadata": {"name": "gpu-cluster"}, "spec": spec}]
    found = read(api)
    assert (found.owner, found.field, found.unknown) == ("GPUCluster gpu-cluster", "spec.draDriver.featureGates", "")
    assert [found.is_on(gate) for gate in ("MPSSupport", "DynamicMIG", "TimeSlicingSettings")] == [True, False, False]
    api.lists[GPUCLUSTERS] = [{"metadata": {"name": "gpu-cluster"}, "spec": {}}]
    assert not read(api).is_on("MPSSupport") and read(api).unknown == ""


def test_all_gates_at_once_leave_out_those_that_are_named() -> None:
    found = driver_gates.DriverGates({"AllAlpha": True, "MPSSupport": False})
    assert found.is_on("TimeSlicingSettings") and not found.is_on("MPSSupport")


def test_the_gates_of_a_driver_from_its_own_chart_are_in_its_plugin(api: FakeApi) -> None:
    found = read(api, plugin({"name": "FEATURE_GATES", "value": "MPSSupport=true,DynamicMIG=false, AllAlpha=True"}))
    assert found.owner == "DaemonSet dra/nvidia-dra-driver-gpu-kubelet-plugin"
    assert found.gates == {"MPSSupport": True, "DynamicMIG": False, "AllAlpha": True}
    assert read(api, plugin()).gates == {} and read(api, plugin()).unknown == ""


def test_a_plugin_of_a_gpucluster_that_cannot_be_read_names_that(api: FakeApi) -> None:
    owner = {"kind": "GPUCluster", "name": "gpu-cluster"}
    found = read(api, plugin(ownerReferences=[{"kind": "Other", "name": "x"}, owner]))
    assert (found.owner, found.field) == ("GPUCluster gpu-cluster", "spec.draDriver.featureGates")


def test_gates_that_nothing_shows_are_unknown(api: FakeApi) -> None:
    assert "neither a GPUCluster nor" in read(api).unknown
    elsewhere = {"name": "FEATURE_GATES", "valueFrom": {"configMapKeyRef": {"name": "gates"}}}
    assert "comes from another object" in read(api, plugin(elsewhere)).unknown
    assert "neither a GPUCluster nor" in read(api, plugin(name="other")).unknown
    api.answer = lambda method, path: refusal(403, "gpuclusters is forbidden", "Forbidden")
    assert "gpuclusters is forbidden" in read(api).unknown
