# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import pods

Json = dict[str, t.Any]


def test_how_many_gpus_a_pod_holds() -> None:
    def container(number: str, field: str = "limits") -> Json:
        return {"resources": {field: {"nvidia.com/gpu": number, "cpu": "1"}}}

    assert pods.requested_gpus({"containers": [container("1"), container("2"), {}]}) == {"nvidia.com/gpu": 3}
    assert pods.requested_gpus({"containers": [container("1")], "initContainers": [container("4")]}) == {
        "nvidia.com/gpu": 4
    }
    assert pods.requested_gpus({"containers": [container("0"), container("1", "requests")]}) == {"nvidia.com/gpu": 1}


@pytest.mark.parametrize(
    ("ready", "status", "running"),
    [("1/1", "Running", True), ("2/3", "Running", False), ("1/1", "Terminating", False), ("0/1", "Init:0/1", False)],
)
def test_a_running_pod_has_all_its_containers_ready(ready: str, status: str, running: bool) -> None:
    assert pods.is_running({"name": "x", "ready": ready, "status": status}) is running


# The wording of containerd 2.1, CRI-O 1.34 and Docker Hub.
NOT_FOUND = (
    'rpc error: code = NotFound desc = failed to pull and unpack image "nvcr.io/nvidia/driver:1": failed to resolve '
    'reference "nvcr.io/nvidia/driver:1": nvcr.io/nvidia/driver:1: not found'
)
THROTTLED = (
    'failed to pull and unpack image "docker.io/library/x:1": failed to copy: httpReadSeeker: failed open: unexpected '
    "status from GET request to https://registry-1.docker.io/v2/library/x/manifests/sha256:1: 429 Too Many Requests\n"
    "toomanyrequests: You have reached your unauthenticated pull rate limit."
)


@pytest.mark.parametrize(
    "message",
    [
        NOT_FOUND,
        "reading manifest 1 in nvcr.io/nvidia/driver: manifest unknown",
        "pull access denied, repository does not exist or may require authorization: server message: "
        "insufficient_scope: authorization failed",
        "failed to fetch anonymous token: unexpected status from GET request to https://nvcr.io/proxy_auth: 401 Unauthorized",
        "unexpected status from HEAD request to https://mirror.example.com/v2/x/manifests/1: 403 Forbidden",
        "unable to retrieve auth token: invalid username/password: unauthorized: authentication required",
        'Back-off pulling image "x": ErrImagePull: no match for platform in manifest: not found',
    ],
)
def test_a_pull_error_that_names_the_image_or_the_credentials_is_final_at_once(message: str) -> None:
    assert pods.never_starts("ErrImagePull", message, 0) and pods.never_starts("ImagePullBackOff", message, 0)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("ErrImagePull", THROTTLED),
        ("ErrImagePull", 'failed to pull "nvcr.io/nvidia/driver:580.403.401": connection reset by peer'),
        ("ErrImagePull", "dial tcp: lookup nvcr.io on 10.96.0.10:53: server misbehaving"),
        ("ErrImagePull", "unexpected status from GET request: 503 Service Unavailable"),
        ("ImagePullBackOff", 'Back-off pulling image "nvcr.io/nvidia/driver:1"'),
        ("CreateContainerError", "context deadline exceeded"),
        ("RunContainerError", "containerd: connection refused"),
        ("CreateContainerConfigError", 'secret "x" not found'),
    ],
)
def test_other_errors_are_final_once_they_have_lasted(state: str, message: str) -> None:
    assert not pods.never_starts(state, message, 179.9)
    assert pods.never_starts(state, message, 180)


@pytest.mark.parametrize("state", ["InvalidImageName", "ErrImageNeverPull"])
def test_an_image_name_and_a_pull_policy_do_not_heal(state: str) -> None:
    assert pods.never_starts(state, "", 0)


@pytest.mark.parametrize("state", ["ContainerCreating", "CrashLoopBackOff", "PodInitializing", ""])
def test_a_container_in_another_state_may_start(state: str) -> None:
    assert not pods.never_starts(state, NOT_FOUND, 10_000)


class FakeCluster:
    """The pods of all namespaces, and resource claims."""

    def __init__(self, listed: list[Json], claims: list[Json] | None = None) -> None:
        self.listed = listed
        self.claims = claims
        self.reads = 0

    def pages(self, path: str, **query: str) -> t.Iterator[Json]:
        assert path == "/api/v1/pods"
        assert query["fieldSelector"] == "metadata.namespace!=ns,status.phase!=Succeeded,status.phase!=Failed"
        yield from self.listed

    def get(self, path: str) -> Json | None:
        assert path == "/apis/resource.k8s.io/v1/resourceclaims"
        self.reads += 1
        return None if self.claims is None else {"items": self.claims}


def pod(name: str, gpus: str = "0", node: str | None = "gpu-0", **spec: t.Any) -> Json:
    containers = [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]
    return {
        "metadata": {"namespace": "default", "name": name},
        "spec": {"containers": containers, "nodeName": node, **spec},
    }


def test_gpu_pods_are_those_that_hold_a_gpu_on_a_node() -> None:
    cluster = FakeCluster([pod("train", "2"), pod("web"), pod("pending", "1", None)])
    assert pods.gpu_pods(cluster, "ns") == [pods.GpuPod("default", "train", "gpu-0", {"nvidia.com/gpu": 2})]


def claim(name: str, **result: t.Any) -> Json:
    allocation = {"devices": {"results": [result]}}
    return {"metadata": {"namespace": "default", "name": name}, "status": {"allocation": allocation}}


def test_a_claim_holds_a_gpu_unless_it_only_monitors() -> None:
    claims = [
        claim("gpu", driver=pods.DRA_DRIVER),
        claim("nic", driver="dra.net"),
        claim("admin", driver=pods.DRA_DRIVER, adminAccess=True),
    ]
    cluster = FakeCluster([], claims)
    holders = pods.GpuClaims(cluster)
    held = {
        name: holders.held_by(pod("x", resourceClaims=[{"name": "a", "resourceClaimName": name}]))
        for name in ("gpu", "nic", "admin")
    }
    assert held == {"gpu": True, "nic": False, "admin": False}
    assert cluster.reads == 1
    assert not holders.held_by(pod("x")) and cluster.reads == 1


def test_a_cluster_without_resource_claims_holds_none() -> None:
    named = pod("x", resourceClaims=[{"name": "a", "resourceClaimName": "gpu"}])
    assert not pods.GpuClaims(FakeCluster([])).held_by(named)
