# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims import claim_checks, claim_objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims.device_selection import Count
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims.driver_gates import DriverGates
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

KINDS = claim_objects.ClaimKinds("v1")
MPS = {"sharing": {"strategy": "MPS"}}


def a_class(name: str = "large", **fields: t.Any) -> dict[str, t.Any]:
    return claim_objects.classes(KINDS, [{"name": name, "type": "gpu", **fields}])[0]


def template(**fields: t.Any) -> dict[str, t.Any]:
    defaults = {"name": "one", "namespaces": ["research"], "device_class": "large", "count": 1}
    return claim_objects.templates(
        KINDS, [{**defaults, "all": False, "admin_access": False, **fields}], {"large": "gpu"}
    )[0]


def test_a_class_that_nobody_has_is_named_with_those_that_there_are() -> None:
    claim_checks.refuse_unknown_classes("templates", {"research/one": {"large"}}, {"large"})
    with pytest.raises(GpuOpsError) as error:
        claim_checks.refuse_unknown_classes("templates", {"research/one": {"lagre"}}, {"large", "gpu.nvidia.com"})
    assert error.value.reason == "NotFound"
    assert error.value.msg == wording(
        "research/one in templates names the class lagre, which the cluster does not have (it has gpu.nvidia.com, large). Declare it in classes, or correct the name."
    )
    with pytest.raises(GpuOpsError, match=r"\(it has none\)"):
        claim_checks.refuse_unknown_classes("templates", {"research/one": {"large"}}, set())


def test_an_extended_resource_of_another_class_is_refused() -> None:
    mine = a_class(extended_resource="nvidia.com/gpu")
    claim_checks.refuse_shared_extended_resources(
        [mine, a_class("plain")], [mine, a_class("b", extended_resource="x.y/z")]
    )
    with pytest.raises(GpuOpsError) as error:
        claim_checks.refuse_shared_extended_resources([mine], [a_class("theirs", extended_resource="nvidia.com/gpu")])
    assert error.value.reason == "Conflict"
    assert error.value.msg == wording(
        "The class large has the extended_resource nvidia.com/gpu, which DeviceClass theirs has too. Kubernetes would use one of them only: choose another name."
    )


def test_a_gate_that_is_off_is_named_with_its_field() -> None:
    off = DriverGates({}, "GPUCluster gpu-cluster", "spec.draDriver.featureGates")
    with pytest.raises(GpuOpsError) as error:
        claim_checks.refuse_closed_gates([a_class(), template(config=MPS)], off)
    assert error.value.reason == "DriverRefused"
    assert error.value.msg == wording(
        "ResourceClaimTemplate research/one has a config that needs the driver's feature gate MPSSupport, which is off: a pod would stay in ContainerCreating. Set MPSSupport: true in spec.draDriver.featureGates of GPUCluster gpu-cluster, or change config."
    )
    assert claim_checks.refuse_closed_gates([template(config=MPS)], off._replace(gates={"MPSSupport": True})) == []
    assert claim_checks.refuse_closed_gates([a_class(config={"sharing": None})], off) == []
    with pytest.raises(GpuOpsError) as error:
        claim_checks.refuse_closed_gates([template(capacity={"memory": "10Gi"})], off)
    assert error.value.msg == wording(
        "ResourceClaimTemplate research/one has a capacity that needs the driver's feature gate ConsumableShares, which is off: a claim would get a whole device. Set ConsumableShares: true in spec.draDriver.featureGates of GPUCluster gpu-cluster, or change capacity."
    )


def test_mps_beside_consumable_shares_is_said() -> None:
    both = DriverGates({"MPSSupport": True, "ConsumableShares": True}, "GPUCluster gpu-cluster")
    assert claim_checks.refuse_closed_gates([template(config=MPS)], both) == wording(
        [
            "ResourceClaimTemplate research/one has a config with MPS, which the driver refuses while its consumable shares are in use (ConsumableShares)."
        ]
    )
    assert claim_checks.refuse_closed_gates([template(capacity={"memory": "10Gi"})], both) == []


def test_gates_that_are_unknown_are_said_and_refuse_nothing() -> None:
    unknown = DriverGates({}, unknown="The daemonsets are forbidden.")
    assert claim_checks.refuse_closed_gates([template(config=MPS), a_class()], unknown) == wording(
        [
            "ResourceClaimTemplate research/one has a config that needs the driver's feature gate MPSSupport. Whether that is on is unknown: The daemonsets are forbidden."
        ]
    )


def test_parameters_without_effect_are_said() -> None:
    slices = a_class(type="mig", config={"sharing": {"strategy": "TimeSlicing"}})
    on = DriverGates({"TimeSlicingSettings": True}, "GPUCluster gpu-cluster")
    assert claim_checks.refuse_closed_gates([slices], on) == wording(
        [
            "DeviceClass large: sharing.strategy TimeSlicing has no effect on MIG devices: time slices are set on whole GPUs only."
        ]
    )


def test_access_for_administrators_needs_the_label_of_the_namespace() -> None:
    item = template(admin_access=True)
    labelled = {"metadata": {"name": "research", "labels": {"resource.kubernetes.io/admin-access": "true"}}}
    claim_checks.refuse_admin_access([item], {"research": labelled})
    claim_checks.refuse_admin_access([item], {"research": None})  # a missing namespace is named elsewhere
    plain = {"metadata": {"name": "research", "labels": {"resource.kubernetes.io/admin-access": "false"}}}
    claim_checks.refuse_admin_access([template()], {"research": plain})
    with pytest.raises(GpuOpsError) as error:
        claim_checks.refuse_admin_access([item], {"research": plain})
    assert error.value.reason == "Forbidden"
    assert error.value.msg == wording(
        "ResourceClaimTemplate research/one has admin_access, and namespace research lacks the label resource.kubernetes.io/admin-access=true. It lets everybody who may create claims there see devices of all others: set it with `kubectl label namespace research resource.kubernetes.io/admin-access=true`, or leave admin_access out."
    )


def test_a_field_that_the_api_server_drops_is_named_with_its_gate() -> None:
    wanted = a_class(extended_resource="nvidia.com/gpu")["spec"]
    claim_checks.refuse_dropped_fields("DeviceClass large", wanted, wanted)
    claim_checks.refuse_dropped_fields("DeviceClass large", None, None)
    claim_checks.refuse_dropped_fields("DeviceClass large", {"selectors": []}, {})
    with pytest.raises(GpuOpsError) as error:
        claim_checks.refuse_dropped_fields("DeviceClass large", wanted, {"selectors": wanted["selectors"]})
    assert error.value.reason == "KubernetesVersion"
    assert error.value.msg == wording(
        "DeviceClass large has extended_resource, and this cluster drops extendedResourceName: its feature gate DRAExtendedResource is off. Kubernetes 1.36 has it on. Turn it on in the API server, the controller manager, the scheduler and the kubelets, or leave extended_resource out."
    )
    inside = template(admin_access=True)["spec"]
    kept = template()["spec"]
    with pytest.raises(GpuOpsError, match="DRAAdminAccess"):
        claim_checks.refuse_dropped_fields("ResourceClaimTemplate research/one", inside, kept)


def refused(field: str, message: str) -> GpuOpsError:
    return GpuOpsError(
        "The API refused it.", reason="Invalid", causes=[{"field": "x"}, {"field": field, "message": message}]
    )


def test_an_expression_that_kubernetes_refuses_is_named_by_its_place_in_the_options() -> None:
    compiled = 'Invalid value: "x": compilation failed: ERROR: <input>:1:20: Syntax error\n | x\n | ^'
    first = claim_checks.refused_cel(a_class(), refused("spec.selectors[1].cel.expression", compiled))
    assert first.msg == wording(
        "DeviceClass large has an expression that Kubernetes refuses: Syntax error (at character 20). Correct cel[0]."
    )
    assert first.reason == "Invalid"
    inside = refused(
        "spec.spec.devices.requests[0].exactly.selectors[1].cel.expression", 'Invalid value: "x": not bool'
    )
    assert claim_checks.refused_cel(template(), inside).msg == wording(
        'ResourceClaimTemplate research/one has an expression that Kubernetes refuses: Invalid value: "x": not bool. Correct cel[1].'
    )
    other = refused("spec.config[0]", "Required value")
    assert claim_checks.refused_cel(a_class(), other) is other
    bare = GpuOpsError("The API server is away.", reason="Unreachable")
    assert claim_checks.refused_cel(a_class(), bare) is bare


def test_a_claim_for_more_than_a_node_has_is_said() -> None:
    counts = {"large": Count(32, 0, 64, 8)}
    assert claim_checks.more_than_a_node_has([template(count=9)], counts) == wording(
        [
            "ResourceClaimTemplate research/one asks for 9 devices of class large, and no node has more than 8: its pods would wait."
        ]
    )
    fits = [template(count=8), template(all=True), template(device_class="other", count=9)]
    assert claim_checks.more_than_a_node_has(fits, counts) == []
    assert len(claim_checks.more_than_a_node_has([template(all=True)], {"large": Count(0, 0, 64, 0)})) == 1


def test_a_resource_that_a_device_plugin_offers_too_is_said() -> None:
    node = {"metadata": {"name": "gpu-0001"}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}
    idle = {"metadata": {"name": "gpu-0002"}, "status": {"allocatable": {"nvidia.com/gpu": "0"}}}
    mine = a_class(extended_resource="nvidia.com/gpu")
    assert claim_checks.offered_twice([mine], [node, idle, {"metadata": {"name": "cpu"}}]) == wording(
        [
            "DeviceClass large has the extended_resource nvidia.com/gpu, which a device plugin offers on gpu-0001. Pods get it there from the device plugin, and elsewhere by the class. Let no node have both a device plugin and the DRA driver: they would give out the same GPU."
        ]
    )
    assert claim_checks.offered_twice([mine], [idle]) == []
    assert claim_checks.offered_twice([a_class()], [node]) == []
