# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_claims
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.device_claims import AllocatedClaim
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

Json = dict[str, t.Any]


class ServedClaims:
    """The API server with claims. ``claims`` are by API version."""

    def __init__(self, claims: dict[str, list[Json]]) -> None:
        self.claims = claims
        self.reads: list[str] = []

    def get(self, path: str) -> Json | None:
        version = path.removeprefix("/apis/resource.k8s.io/")
        return {"resources": [{"name": "resourceclaims"}]} if version in self.claims else None

    def pages(self, path: str) -> t.Iterator[Json]:
        self.reads.append(path.split("/")[3])
        yield from self.claims[self.reads[-1]]


def pod(*claims: str, **status: t.Any) -> Json:
    named = [{"name": "a", "resourceClaimName": name} for name in claims]
    return {"metadata": {"namespace": "default", "name": "x"}, "spec": {"resourceClaims": named}, "status": status}


def claim(name: str, *results: Json) -> Json:
    allocation = {"devices": {"results": list(results)}}
    return {"metadata": {"namespace": "default", "name": name}, "status": {"allocation": allocation}}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_a_claim_holds_a_gpu_unless_it_only_monitors(version: str) -> None:
    claims = [
        claim("gpu", {"driver": "gpu.nvidia.com"}),
        claim("nic", {"driver": "dra.net"}),
        claim("admin", {"driver": "gpu.nvidia.com", "adminAccess": True}),
    ]
    cluster = ServedClaims({version: claims})
    reader = device_claims.ClaimReader(cluster)
    held = {name: reader.holds_gpu(pod(name)) for name in ("gpu", "nic", "admin", "gone")}
    assert held == {"gpu": True, "nic": False, "admin": False, "gone": False}
    assert cluster.reads.count(version) == 2 and not reader.holds_gpu(pod()) and cluster.reads.count(version) == 2


def test_claims_that_no_known_version_shows_are_an_error() -> None:
    named = pod("gpu")
    cluster = ServedClaims({})
    with pytest.raises(GpuOpsError) as e:
        device_claims.ClaimReader(cluster).holds_gpu(named)
    assert e.value.reason == "ClaimsUnreadable"
    assert e.value.msg == wording(
        "Pods have resource claims, but the cluster serves none of v1, v1beta2, v1beta1 of resource.k8s.io, so the pods that hold a GPU are unknown. Use a version of this collection that supports this Kubernetes, or drain nodes with evict: all."
    )
    assert cluster.reads == []


def test_a_claim_that_vanishes_while_it_is_read_holds_nothing() -> None:
    reader = device_claims.ClaimReader(ServedClaims({"v1": [claim("other", {"driver": "gpu.nvidia.com"})]}))
    both = pod("gone", "other")
    assert reader.gpus_of(both) == {("default", "other"): 1}


def test_what_a_claim_has() -> None:
    gpu: Json = {"driver": "gpu.nvidia.com", "pool": "gpu-0", "device": "gpu-3"}
    item = claim("x", gpu, {**gpu, "device": "gpu-4", "adminAccess": True}, {**gpu, "driver": "dra.net"})
    item["status"]["reservedFor"] = [{"resource": "pods", "name": "train"}, {"resource": "jobs", "name": "other"}]
    item["metadata"]["deletionTimestamp"] = "2026-11-28T10:00:00Z"
    found = device_claims.allocated(item)
    assert found == AllocatedClaim(
        namespace="default",
        name="x",
        devices=(("gpu.nvidia.com", "gpu-0", "gpu-3"), ("dra.net", "gpu-0", "gpu-3")),
        monitored=(("gpu.nvidia.com", "gpu-0", "gpu-4"),),
        pods=("train",),
        users=2,
        deleted_at="2026-11-28T10:00:00Z",
    )
    assert found.gpus == 1
    assert device_claims.allocated(claim("empty")) is None
    assert device_claims.allocated({"metadata": {"namespace": "default", "name": "pending"}}) is None


def test_the_claims_of_a_pod() -> None:
    mapping = {"containerName": "c", "resourceName": "nvidia.com/gpu", "requestName": "r"}
    item = pod(
        "named",
        resourceClaimStatuses=[{"name": "b", "resourceClaimName": "made"}, {"name": "c"}],
        extendedResourceClaimStatus={"resourceClaimName": "extended", "requestMappings": [mapping]},
    )
    assert device_claims.claims_of(item) == {("default", "named"), ("default", "made"), ("default", "extended")}
    assert device_claims.extended_resources(item) == {"nvidia.com/gpu"}
    assert device_claims.claims_of(pod()) == device_claims.extended_resources(pod()) == set()


def test_a_version_counts_only_if_it_serves_the_kind() -> None:
    class DeviceTaintsOnly(ServedClaims):
        def get(self, path: str) -> Json | None:
            return {"resources": [{"name": "devicetaintrules"}]} if path.endswith("v1beta2") else None

    assert device_claims.served_version(DeviceTaintsOnly({}), "resourceclaims") is None


def test_a_user_without_discovery_knows_no_version() -> None:
    class Closed(ServedClaims):
        reason: t.Any = "Forbidden"

        def get(self, path: str) -> Json | None:
            raise GpuOpsError("no", reason=self.reason)

    closed = Closed({})
    assert device_claims.served_version(closed, "resourceclaims") is None
    closed.reason = "ServerError"
    with pytest.raises(GpuOpsError):
        device_claims.served_version(closed, "resourceclaims")
