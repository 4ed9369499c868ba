# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Workloads that get their GPUs by claims."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import smoke_claims, smoke_test
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.smoke_claims import SmokeClaims
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.smoke_test import SmokeTestRun
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.workload import WorkloadVerdict
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.fakes.claimed import claim, gpu, mig, offered, slice_of
from tests.unit.plugins.module_utils._cluster.proof.test_smoke_test import FakeCluster
from tests.unit.plugins.module_utils._cluster.proof.workloads import options, pod

ONE, OTHER = "GPU-11111111-2222-3333-4444-555555555555", "GPU-99999999-2222-3333-4444-555555555555"
OFFERED = offered(slice_of(0, gpu(0, uuid=ONE), mig(1, 0)))
SERVED = {"resources": [{"name": "resourceclaimtemplates"}]}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    monkeypatch.setattr(smoke_test, "WORKLOAD_POLL_S", 0.001)
    made = FakeCluster(**{"gpu-0000": {"status": pod("Succeeded", terminated={"exitCode": 0})["status"]}})
    made.served = SERVED
    return made


def run(cluster: FakeCluster, resource: str = "gpu.nvidia.com", **given: t.Any) -> WorkloadVerdict:
    [verdict] = SmokeTestRun(cluster, options(**given), OFFERED).test({"gpu-0000": resource})
    return verdict


def hold(cluster: FakeCluster, device: str) -> None:
    """Let the pod have a claim with a device."""
    status = cluster.play["gpu-0000"]["status"]  # type: ignore[index, call-overload]
    status["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "made"}]
    item = claim("made", "gpu-0000", device)
    item["metadata"]["namespace"] = "gpu-operator"
    cluster.claims = [item]


def test_the_pod_has_a_claim_instead_of_a_resource(cluster: FakeCluster) -> None:
    assert run(cluster, count=2).passed
    [body], spec = cluster.bodies, cluster.bodies[0]["spec"]
    template = spec["resourceClaims"][0]["resourceClaimTemplateName"]
    assert spec["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": template}]
    assert spec["containers"][0]["resources"] == {"claims": [{"name": "gpu"}]}
    assert template.startswith("gpu-smoke-test-") and cluster.templates == {}, "it is deleted at the end"
    assert body["metadata"]["labels"]["gpuops.nvidia/run"] in template


def test_the_template_asks_for_the_devices_and_marks_the_claims(cluster: FakeCluster) -> None:
    kept: list[dict] = []
    cluster.on_poll = lambda: kept.extend(cluster.templates.values())
    run(cluster, count=2)
    made = kept[0]
    assert (made["apiVersion"], made["kind"]) == ("resource.k8s.io/v1", "ResourceClaimTemplate")
    exactly = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 2}
    assert made["spec"]["spec"] == {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    assert made["spec"]["metadata"]["labels"] == made["metadata"]["labels"]
    assert "gpuops.nvidia/expires" in made["metadata"]["annotations"]


def test_the_verdict_names_the_device(cluster: FakeCluster) -> None:
    hold(cluster, "gpu-0")
    verdict = run(cluster)
    whole = {"name": "gpu-0", "type": "gpu", "uuid": ONE, "profile": None, "parent_uuid": None}
    assert (verdict.passed, verdict.resource, verdict.devices) == (True, "gpu.nvidia.com", (whole,))


@pytest.mark.parametrize(("seen", "passed"), [(ONE, True), (OTHER, False), ("", True)])
def test_a_workload_that_sees_another_gpu_fails(cluster: FakeCluster, seen: str, passed: bool) -> None:
    hold(cluster, "gpu-0")
    cluster.logs["pod-0"] = f"GPU 0: NVIDIA H100 (UUID: {seen})\n"
    verdict = run(cluster)
    assert verdict.passed is passed and (OTHER in verdict.reason) is not passed


def test_a_template_of_a_killed_run_is_deleted(cluster: FakeCluster) -> None:
    own = {"app.kubernetes.io/name": "gpu-smoke-test", "app.kubernetes.io/managed-by": "gpuops.nvidia"}
    for name, expires in (("old", "1"), ("new", "9000000000")):
        metadata = {"name": name, "labels": own, "annotations": {"gpuops.nvidia/expires": expires}}
        cluster.templates[name] = {"metadata": metadata}
    run(cluster)
    assert list(cluster.templates) == ["new"]


def test_without_claims_no_template_is_looked_for(cluster: FakeCluster) -> None:
    cluster.served = None
    assert run(cluster, "nvidia.com/gpu").passed
    with pytest.raises(GpuOpsError):
        SmokeTestRun(cluster, options(), OFFERED).test({"gpu-0000": "gpu.nvidia.com"})


def test_the_shape_of_v1beta1() -> None:
    class Old(FakeCluster):
        def get(self, path: str, query: dict | None = None) -> dict | None:
            return SERVED if path.endswith("v1beta1") else None

        def create(self, path: str, body: dict) -> dict:
            self.bodies.append(body)
            return body

    old = Old()
    SmokeClaims(old, "x", 1, OFFERED).template("gpu.nvidia.com", "name", {"labels": {}})
    [request] = old.bodies[0]["spec"]["spec"]["devices"]["requests"]
    assert request == {
        "name": "gpu",
        "deviceClassName": "gpu.nvidia.com",
        "allocationMode": "ExactCount",
        "count": 1,
    }


def test_what_is_compared_with_a_log() -> None:
    part = "MIG-11111111-aaaa-3333-4444-555555555555"
    device = {"uuid": part, "parent_uuid": ONE}
    assert smoke_claims.contradiction(f"GPU 0: ({ONE})\n  MIG 1g.10gb ({part})", [device]) == ""
    assert OTHER in smoke_claims.contradiction(f"GPU 0: ({OTHER})", [device])
    assert smoke_claims.contradiction(f"GPU 0: ({OTHER})", []) == "", "what is not known cannot differ"
    assert smoke_claims.contradiction(f"GPU 0: ({OTHER})", [{"uuid": None, "parent_uuid": None}]) == ""


@pytest.mark.parametrize(("name", "found"), [("gpu.nvidia.com", True), ("nvidia.com/gpu", False), (None, False)])
def test_a_class_has_no_slash(name: str | None, found: bool) -> None:
    assert smoke_claims.is_class(name) is found
