# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims.keep_claims import keep
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import ALL_PODS, FakeApi
from tests.unit.fakes.claims import DraApi, claim, device, pod, resource_slice

CLASS = {"name": "large", "type": "gpu"}
CLAIM = {
    "name": "one",
    "namespaces": ["research"],
    "device_class": "large",
    "count": 1,
    "all": False,
    "admin_access": False,
}
QUOTA = {"namespace": "research", "name": "gpu-claims", "devices": {"large": 4}, "claims": None}
ALL = {"classes": [CLASS], "templates": [CLAIM], "claims": [{**CLAIM, "name": "shared"}], "quotas": [QUOTA]}
NONE: dict[str, t.Any] = {"classes": None, "templates": None, "claims": None, "quotas": None}
EMPTY: dict[str, t.Any] = {name: [] for name in NONE}


@pytest.fixture
def dra(api: FakeApi) -> DraApi:
    """A cluster with two nodes of one GPU, and NVIDIA's class for whole GPUs."""
    found = DraApi(api)
    api.lists[found.path("resourceslices")] = [resource_slice(name, device(0)) for name in ("a", "b")]
    expression = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
    vendor = {"metadata": {"name": "gpu.nvidia.com"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
    api.lists[found.path("deviceclasses")] = [vendor]
    return found


def call(dra: DraApi, check: bool = False, **options: t.Any) -> tuple[dict[str, t.Any], list[str]]:
    given = {**NONE, "unmatched": "fail", "allow_in_use": False, **options}
    return keep(Cluster(dra.api.connection, check), given)


def writes(dra: DraApi) -> list[str]:
    return [
        f"{method} {path.rpartition('/')[2]}"
        for method, path, query in dra.api.log
        if method != "GET" and query.get("dryRun") != "All"
    ]


def refusal(dra: DraApi, **options: t.Any) -> GpuOpsError:
    with pytest.raises(GpuOpsError) as error:
        call(dra, **options)
    assert writes(dra) == []
    return error.value


def test_nothing_is_written_if_nothing_is_given(dra: DraApi) -> None:
    result, warnings = call(dra)
    assert (result["changed"], result["objects"], result["classes"], warnings) == (False, [], [], [])
    assert writes(dra) == []


def test_what_asks_for_a_class_comes_after_it_and_goes_before_it(dra: DraApi) -> None:
    call(dra, **ALL)
    assert writes(dra) == ["PATCH large", "PATCH one", "PATCH shared", "PATCH gpu-claims"]
    dra.api.log.clear()
    call(dra, **EMPTY)
    assert writes(dra) == ["DELETE one", "DELETE shared", "DELETE gpu-claims", "DELETE large"]


def test_classes_say_what_they_select_and_what_of_it_is_free(dra: DraApi) -> None:
    dra.api.lists[dra.path("resourceclaims", "notebooks")] = [claim("held", ("a", "gpu-0"), namespace="notebooks")]
    dra.api.lists[dra.path("deviceclasses")].append({"metadata": {"name": "theirs"}, "spec": {"selectors": []}})
    wishes = {"classes": [CLASS, {**CLASS, "name": "free", "cel": ["true"]}]}
    templates = [{**CLAIM, "name": name, "device_class": name} for name in ("gpu.nvidia.com", "theirs")]
    result, warnings = call(dra, **wishes, templates=templates)
    assert result["classes"] == [
        {"name": "free", "devices": 2, "free": 1, "offered": 2, "exact": False},
        {"name": "gpu.nvidia.com", "devices": 2, "free": 1, "offered": 2, "exact": True},
        {"name": "large", "devices": 2, "free": 1, "offered": 2, "exact": True},
        {"name": "theirs", "devices": None, "free": None, "offered": 2, "exact": False},
    ]
    assert warnings == wording(
        ["The class free has cel, which only Kubernetes evaluates: it selects at most 2 of 2 devices."]
    )


def test_a_class_that_selects_nothing_is_refused_before_anything_is_written(dra: DraApi) -> None:
    empty = {**CLASS, "memory_min": "80Gi"}
    error = refusal(dra, classes=[empty])
    assert error.reason == "NotFound" and error.msg == wording(
        "The class large selects 0 of 2 devices: the largest of its type has 81559Mi of memory. Correct its fields, or expect such devices later with unmatched: warn."
    )
    dra.api.log.clear()
    result, warnings = call(dra, classes=[empty], unmatched="warn")
    assert result["changed"] and warnings == wording(
        [
            "The class large selects 0 of 2 devices: the largest of its type has 81559Mi of memory. Correct its fields if such devices should be there."
        ]
    )
    # What is there already stops no run, whatever has happened to the devices.
    assert not call(dra, classes=[empty])[0]["changed"]


def test_a_class_that_no_object_may_name_is_refused(dra: DraApi) -> None:
    assert refusal(dra, templates=[CLAIM]).reason == "NotFound"
    assert "quotas names the class large" in refusal(dra, quotas=[QUOTA]).msg
    call(dra, classes=[CLASS])
    dra.api.log.clear()
    assert "names the class large" in refusal(dra, classes=[], claims=[CLAIM]).msg


def test_a_template_that_changes_is_made_again_and_its_pods_are_named(dra: DraApi, immutable: None) -> None:
    call(dra, **ALL)
    dra.api.lists["/api/v1/namespaces/research/pods"] = [pod("train", template="one")]
    dra.api.lists[dra.path("resourceslices")] = [resource_slice("a", device(0), device(1))]
    dra.api.log.clear()
    result, warnings = call(dra, templates=[{**CLAIM, "count": 2}])
    assert writes(dra) == ["DELETE one", "PATCH one"]
    assert result["former_templates"] == {"research/one": ["research/train"]}
    assert warnings == wording(
        [
            "ResourceClaimTemplate research/one is removed and made again, because it cannot be changed. These pods keep the claims of the former one until they are made again: research/train."
        ]
    )
    dra.api.lists["/api/v1/namespaces/research/pods"] = []
    result, warnings = call(dra, templates=[CLAIM])
    assert (result["changed"], result["former_templates"], warnings) == (True, {}, [])


@pytest.fixture
def immutable(dra: DraApi) -> None:
    """The API server refuses to change templates and claims."""
    dra.refuses_changes = True


def test_a_claim_is_made_again_only_while_no_pod_uses_it(dra: DraApi, immutable: None) -> None:
    call(dra, **ALL)
    held = dra.all("resourceclaims")[0]
    held["status"] = {"reservedFor": [{"name": "notebook"}]}
    dra.api.log.clear()
    other = {**CLAIM, "name": "shared", "cel": ["true"]}
    error = refusal(dra, claims=[other], allow_in_use=True)
    assert (error.reason, error.details["users"]) == ("InUse", ["research/notebook"])
    assert error.msg == wording(
        "ResourceClaim research/shared is in use by research/notebook. A claim cannot be changed: end these pods first, or declare it under another name."
    )
    held["status"] = {}
    dra.api.log.clear()
    assert call(dra, claims=[other])[0]["changed"] and writes(dra) == ["DELETE shared", "PATCH shared"]


def test_what_is_in_use_goes_only_with_permission(dra: DraApi) -> None:
    call(dra, **ALL)
    dra.api.lists["/api/v1/namespaces/research/pods"] = [pod("train", template="one")]
    dra.api.log.clear()
    error = refusal(dra, templates=[])
    assert (error.reason, error.details["users"]) == ("InUse", ["research/train"])
    dra.all("resourceclaims")[0]["status"] = {"reservedFor": [{"name": "notebook"}]}
    assert refusal(dra, claims=[]).details["users"] == ["research/notebook"]
    dra.api.log.clear()
    result, dummy = call(dra, templates=[], claims=[], allow_in_use=True)
    assert result["removed"] == ["ResourceClaimTemplate research/one", "ResourceClaim research/shared"]


def test_a_class_goes_only_when_nothing_waits_for_it(dra: DraApi) -> None:
    call(dra, classes=[CLASS])
    dra.api.lists[dra.path("resourceclaims", "research")] = [claim("waits", class_name="large")]
    template = {
        "metadata": {"namespace": "notebooks", "name": "theirs"},
        "spec": {"spec": claim("x", class_name="large")["spec"]},
    }
    dra.api.lists[dra.path("resourceclaimtemplates", "notebooks")] = [template]
    asked = {"resources": {"requests": {"deviceclass.resource.kubernetes.io/large": "1"}}}
    dra.api.lists[ALL_PODS].extend([pod("old", phase="Pending", containers=[asked]), pod("runs", containers=[asked])])
    dra.api.log.clear()
    error = refusal(dra, classes=[])
    assert error.details["users"] == [
        "Pod research/old",
        "ResourceClaim research/waits",
        "ResourceClaimTemplate notebooks/theirs",
    ]
    assert error.msg == wording(
        "DeviceClass large is in use by Pod research/old, ResourceClaim research/waits, ResourceClaimTemplate notebooks/theirs. End or change these first, or let it go all the same with allow_in_use: true."
    )
    assert call(dra, classes=[], allow_in_use=True)[0]["removed"] == ["DeviceClass large"]


def test_templates_and_claims_that_go_in_the_same_call_hold_no_class(dra: DraApi) -> None:
    call(dra, **ALL)
    result, dummy = call(dra, **EMPTY)
    assert len(result["removed"]) == 4


def test_a_gate_a_label_and_a_namespace_that_are_missing_are_found_first(dra: DraApi) -> None:
    dra.api.lists["/apis/nvidia.com/v1alpha1/gpuclusters"] = [{"metadata": {"name": "gpu-cluster"}, "spec": {}}]
    mps = {**CLAIM, "device_class": "gpu.nvidia.com", "config": {"sharing": {"strategy": "MPS"}}}
    assert refusal(dra, templates=[mps]).reason == "DriverRefused"
    admin = {**CLAIM, "device_class": "gpu.nvidia.com", "admin_access": True}
    assert refusal(dra, templates=[admin]).reason == "Forbidden"
    dra.namespaces["research"] = {"resource.kubernetes.io/admin-access": "true"}
    assert call(dra, check=True, templates=[admin])[0]["changed"]
    nowhere = {**CLAIM, "device_class": "gpu.nvidia.com", "namespaces": ["nowhere"]}
    error = refusal(dra, templates=[nowhere])
    assert (error.reason, error.details["namespaces"]) == ("NotFound", ["nowhere"])
    assert error.msg == wording("There is no namespace nowhere. Correct namespaces, or make it first.")


def test_missing_slices_and_resources_of_device_plugins_are_said(dra: DraApi) -> None:
    dra.api.lists[dra.path("resourceslices")].append(resource_slice("c", device(0), count=2))
    dra.api.lists["/api/v1/nodes"][0]["status"]["allocatable"] = {"nvidia.com/gpu": "8"}
    warnings = call(dra, classes=[{**CLASS, "extended_resource": "nvidia.com/gpu"}])[1]
    assert warnings == wording(
        [
            "DeviceClass large has the extended_resource nvidia.com/gpu, which a device plugin offers on gpu-0000, gpu-0001. Pods get it there from the device plugin, and elsewhere by the class. Let no node have both a device plugin and the DRA driver: they would give out the same GPU.",
            "ResourceSlices of c are missing. Kubernetes gives out no device there until the driver has written all of them, and the counts leave these nodes out.",
        ]
    )


def test_more_devices_in_use_than_a_quota_permits_are_said(dra: DraApi) -> None:
    call(dra, **ALL)
    used = {"large.deviceclass.resource.k8s.io/devices": "9"}
    dra.api.lists[dra.path("resourcequotas", "research")][0]["status"] = {"used": used}
    assert call(dra, quotas=[QUOTA])[1] == wording(
        [
            "ResourceQuota research/gpu-claims: 9 of large.deviceclass.resource.k8s.io/devices in use, 4 permitted. Pods that run stay, and new claims are refused until enough have gone."
        ]
    )
