# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims import claim_objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

KINDS = claim_objects.ClaimKinds("v1")
LABELS = {"app.kubernetes.io/name": "gpu-claims", "app.kubernetes.io/managed-by": "gpuops.nvidia"}
SLICES = {"sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}}


def device_class(**fields: t.Any) -> dict[str, t.Any]:
    return {"name": "large", "type": "gpu", **fields}


def claim(**fields: t.Any) -> dict[str, t.Any]:
    defaults = {"count": 1, "all": False, "admin_access": False}
    return {"name": "one", "namespaces": ["research"], "device_class": "large", **defaults, **fields}


def quota(**fields: t.Any) -> dict[str, t.Any]:
    return {"namespace": "research", "name": "gpu-claims", "devices": None, "claims": None, **fields}


def refusal(make: t.Callable[[], t.Any]) -> str:
    with pytest.raises(GpuOpsError) as error:
        make()
    assert error.value.reason == "Invalid"
    return error.value.msg


def test_a_class_has_what_it_selects_its_resource_and_its_parameters() -> None:
    made = claim_objects.classes(
        KINDS, [device_class(extended_resource="nvidia.com/gpu", config=SLICES, cel=["true"])]
    )[0]
    assert (made["apiVersion"], made["kind"], made["metadata"]) == (
        "resource.k8s.io/v1",
        "DeviceClass",
        {"name": "large", "labels": LABELS},
    )
    assert [each["cel"]["expression"] for each in made["spec"]["selectors"]][1:] == ["true"]
    assert made["spec"]["extendedResourceName"] == "nvidia.com/gpu"
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", **SLICES}
    assert made["spec"]["config"] == [{"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}]
    assert claim_objects.parameters_in(made) == [parameters]
    plain = claim_objects.classes(KINDS, [device_class()])[0]
    assert plain["spec"].keys() == {"selectors"} and claim_objects.parameters_in(plain) == []


def test_a_template_has_its_claim_in_each_namespace() -> None:
    wish = claim(
        namespaces=["a", "b"],
        count=2,
        cel=["true"],
        match_attributes=["resource.kubernetes.io/pcieRoot"],
        capacity={"memory": "10Gi", "shares": 1},
        config=SLICES,
        admin_access=True,
    )
    made = claim_objects.templates(KINDS, [wish], {"large": "gpu"})
    assert [item["metadata"] for item in made] == [
        {"name": "one", "namespace": name, "labels": LABELS} for name in "ab"
    ]
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", **SLICES}
    assert made[0]["spec"]["spec"] == {
        "devices": {
            "requests": [
                {
                    "name": "gpu",
                    "exactly": {
                        "deviceClassName": "large",
                        "allocationMode": "ExactCount",
                        "count": 2,
                        "selectors": [{"cel": {"expression": "true"}}],
                        "adminAccess": True,
                        "capacity": {"requests": {"memory": "10Gi", "shares": "1"}},
                    },
                }
            ],
            "constraints": [{"requests": ["gpu"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}],
            "config": [{"requests": ["gpu"], "opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}],
        }
    }
    assert claim_objects.parameters_in(made[0]) == [parameters] and claim_objects.has_admin_access(made[0])
    assert claim_objects.classes_in(made[0]) == {"large"}


def test_the_oldest_version_has_the_fields_of_a_request_in_the_request() -> None:
    made = claim_objects.claims(claim_objects.ClaimKinds("v1beta1"), [claim(all=True)], {})[0]
    assert (made["apiVersion"], made["kind"]) == ("resource.k8s.io/v1beta1", "ResourceClaim")
    request = {"name": "gpu", "deviceClassName": "large", "allocationMode": "All"}
    assert made["spec"] == {"devices": {"requests": [request]}}
    assert claim_objects.classes_in(made) == {"large"} and not claim_objects.has_admin_access(made)
    newer = claim_objects.claims(claim_objects.ClaimKinds("v1beta2"), [claim()], {})[0]
    assert newer["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1


def test_the_classes_of_alternatives_are_found() -> None:
    alternatives = [{"name": "a", "deviceClassName": "one"}, {"name": "b", "deviceClassName": "two"}]
    spec = {"devices": {"requests": [{"name": "gpu", "firstAvailable": alternatives}]}}
    assert claim_objects.classes_in({"spec": spec}) == {"one", "two"}
    assert claim_objects.classes_in({"spec": {"spec": {"devices": {}}}}) == set()


def test_a_quota_counts_devices_of_classes_and_claims() -> None:
    made = claim_objects.quotas([quota(devices={"large": 4, "gpu.nvidia.com": "0"}, claims=8)])[0]
    assert made["metadata"] == {"name": "gpu-claims", "namespace": "research", "labels": LABELS}
    assert made["spec"]["hard"] == {
        "large.deviceclass.resource.k8s.io/devices": "4",
        "gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "0",
        "count/resourceclaims.resource.k8s.io": "8",
    }
    assert claim_objects.quotas([quota(claims=0)])[0]["spec"]["hard"] == {"count/resourceclaims.resource.k8s.io": "0"}


def test_each_refusal_names_the_entry_the_field_and_the_remedy() -> None:
    mig = {"large": "mig"}
    makers: list[t.Callable[[], t.Any]] = [
        lambda: claim_objects.classes(KINDS, [device_class(name="gpu.nvidia.com")]),
        lambda: claim_objects.classes(KINDS, [device_class(), device_class()]),
        lambda: claim_objects.classes(KINDS, [device_class(name=name, extended_resource="x.y/z") for name in "ab"]),
        lambda: claim_objects.classes(KINDS, [device_class(config={"sharing": {"strategy": "mps"}})]),
        lambda: claim_objects.templates(KINDS, [claim(config={**SLICES, "kind": "GpuConfig"})], mig),
        lambda: claim_objects.templates(KINDS, [claim(config=SLICES)], {}),
        lambda: claim_objects.templates(KINDS, [claim(namespaces=[])], {}),
        lambda: claim_objects.claims(KINDS, [claim(namespaces=[])], {}),
        lambda: claim_objects.claims(KINDS, [claim(count=0)], {}),
        lambda: claim_objects.claims(KINDS, [claim(), claim()], {}),
        lambda: claim_objects.quotas([quota()]),
        lambda: claim_objects.quotas([quota(devices={"large": "many"})]),
        lambda: claim_objects.quotas([quota(claims=-1)]),
    ]
    assert [refusal(maker) for maker in makers] == wording(
        [
            "The class gpu.nvidia.com is NVIDIA's own, and its operator keeps it. Choose another name.",
            "classes has large twice. Merge the entries, or name one differently.",
            "Several classes have the extended_resource x.y/z, and Kubernetes would use one of them only. Give it to one class.",
            "The class large has a config that the driver would refuse: sharing.strategy is 'mps': write one of TimeSlicing, MPS.",
            "The template one has a config that the driver would refuse: kind is GpuConfig, which the driver does not apply to devices of type mig: write MigDeviceConfig.",
            "The template one has a config that the driver would refuse: kind is None: write one of GpuConfig, MigDeviceConfig, VfioDeviceConfig.",
            "The template one has no namespace. Give namespaces.",
            "The claim one has no namespace. Give namespaces.",
            "The claim one has count: 0. Give 1 or more, or all: true.",
            "claims has research/one twice. Merge the entries, or name one differently.",
            "The quota of namespace research has no limit. Give devices, for example {gpu.nvidia.com: 4}, or claims.",
            "large in devices is 'many': give a whole number, 0 or more.",
            "claims is -1: give a whole number, 0 or more.",
        ]
    )


def test_an_index_in_parameters_is_one_of_the_devices_of_the_claim() -> None:
    limits = {"sharing": {"strategy": "MPS", "mpsConfig": {"defaultPerDevicePinnedMemoryLimit": {"1": "1Gi"}}}}
    types = {"large": "gpu"}
    assert claim_objects.claims(KINDS, [claim(count=2, config=limits)], types)
    assert claim_objects.claims(KINDS, [claim(all=True, config=limits)], types)
    assert "device 1" in refusal(lambda: claim_objects.claims(KINDS, [claim(config=limits)], types))
