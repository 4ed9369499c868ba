# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import pods

Json = dict[str, t.Any]


def test_how_many_gpus_a_pod_holds() -> None:
    def container(number: str, field: str = "limits") -> Json:
        return {"resources": {field: {"nvidia.com/gpu": number, "cpu": "1"}}}

    assert pods.requested_gpus({"containers": [container("1"), container("2"), {}]}) == {"nvidia.com/gpu": 3}
    assert pods.requested_gpus({"containers": [container("1")], "initContainers": [container("4")]}) == {
        "nvidia.com/gpu": 4
    }
    assert pods.requested_gpus({"containers": [container("0"), container("1", "requests")]}) == {"nvidia.com/gpu": 1}
    share = {"resources": {"limits": {"nvidia.com/gpu.shared": "3"}}}
    assert pods.requested_gpus({"containers": [container("2")], "initContainers": [share]}) == {
        "nvidia.com/gpu": 2,
        "nvidia.com/gpu.shared": 3,
    }
    assert pods.requested_gpus({}) == {}


@pytest.mark.parametrize(
    ("init", "containers", "gpus"),
    [
        ([("2", True)], ["1"], 3),
        ([("1", True), ("1", True)], [], 2),
        ([("1", True), ("4", False)], ["1"], 5),
        ([("4", False), ("1", True)], ["1"], 4),
        ([("2", False), ("1", True)], ["2"], 3),
        ([("1", True), ("1", False)], ["3"], 4),
    ],
)
def test_sidecars_hold_gpus_beside_the_containers(
    init: list[tuple[str, bool]], containers: list[str], gpus: int
) -> None:
    """Kubernetes adds up sidecars, and an init container has the sidecars that were started before it beside it."""

    def container(number: str, always: bool = False) -> Json:
        policy = {"restartPolicy": "Always"} if always else {}
        return {"resources": {"limits": {"nvidia.com/gpu": number}}, **policy}

    spec = {
        "initContainers": [container(*each) for each in init],
        "containers": [container(each) for each in containers],
    }
    assert pods.requested_gpus(spec) == {"nvidia.com/gpu": gpus}


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
        "failed to fetch anonymous token: unexpected status from GET request to https://nvcr.io/proxy_auth: "
        "401 Unauthorized",
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


UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
ALL, OWN = "/api/v1/pods", "/api/v1/namespaces/ns/pods"


class FakeCluster:
    """The pods of all namespaces but the operator's, and its own pods and DaemonSets. ``claims`` are by API version."""

    def __init__(self, listed: t.Sequence[Json] = (), claims: dict[str, list[Json]] | None = None) -> None:
        self.pods: dict[tuple[str, str], list[Json]] = {(ALL, ""): list(listed)}
        self.daemonsets: list[Json] = []
        self.claims = claims or {}
        self.reads: list[str] = []

    def pages(self, path: str, fieldSelector: str = "", labelSelector: str = "") -> t.Iterator[Json]:  # noqa: N803
        if path.startswith("/apis/resource.k8s.io/"):
            yield from self.claims[path.split("/")[3]]
            return
        assert fieldSelector == {ALL: f"metadata.namespace!=ns,{UNFINISHED}", OWN: UNFINISHED}[path]
        yield from self.pods.get((path, labelSelector), [])

    def list(self, path: str) -> list[Json]:
        assert path == "/apis/apps/v1/namespaces/ns/daemonsets"
        return self.daemonsets

    def get(self, path: str) -> Json | None:
        version = path.removeprefix("/apis/resource.k8s.io/")
        self.reads.append(version)
        return {"resources": [{"name": "resourceclaims"}]} if version in self.claims else None


def pod(name: str, gpus: str = "0", node: str | None = "gpu-0", **spec: t.Any) -> Json:
    containers = [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]
    return {
        "metadata": {"namespace": "default", "name": name},
        "spec": {"containers": containers, "nodeName": node, **spec},
    }


def owned(item: Json, kind: str = "ClusterPolicy", group: str = "nvidia.com/v1") -> Json:
    item["metadata"]["ownerReferences"] = [{"apiVersion": group, "kind": kind, "name": "x"}]
    return item


def daemonset(template: Json, app: str) -> Json:
    spec = {"template": {"spec": template["spec"]}, "selector": {"matchLabels": {"app": app}}}
    return {"metadata": {"name": app}, "spec": spec}


def found(cluster: FakeCluster) -> dict[str, Json]:
    return {item.name: dict(item.gpus) for item in pods.gpu_pods(cluster, "ns")}


def test_gpu_pods_are_those_that_hold_a_gpu_on_a_node() -> None:
    cluster = FakeCluster([pod("train", "2"), pod("web"), pod("pending", "1", None)])
    assert pods.gpu_pods(cluster, "ns") == [
        pods.GpuPod("default", "train", "gpu-0", {"nvidia.com/gpu": 2}, is_bare=True)
    ]
    assert cluster.reads == []


def test_what_keeps_a_drain_from_deleting_a_pod() -> None:
    """An owner that is no controller does not create the pod again."""
    train = pod("train", "1")
    train["metadata"]["ownerReferences"] = [{"kind": "Queue", "name": "x"}]
    train["spec"]["volumes"] = [{"name": "code", "configMap": {}}, {"name": "scratch", "emptyDir": {}}]
    assert pods.is_bare(train) and pods.local_data(train) == ["scratch"]
    train["metadata"]["ownerReferences"].append({"kind": "Job", "name": "x", "controller": True})
    del train["spec"]["volumes"][1]
    assert not pods.is_bare(train) and pods.local_data(train) == []


def test_gpu_pods_in_the_operators_namespace_are_found_and_operands_are_not() -> None:
    cluster = FakeCluster()
    validator = owned(pod("nvidia-device-plugin-validator", "1"))
    cluster.pods[OWN, "!pod-template-generation"] = [
        pod("job", "1"),
        owned(pod("deployed", "1"), group="apps/v1"),
        validator,
    ]
    cluster.daemonsets = [
        owned(daemonset(pod("operand", "1"), "operand")),
        daemonset(pod("monitor"), "monitor"),
        daemonset(pod("burn", "1"), "burn"),
        daemonset(pod("claimer", resourceClaims=[{"name": "x"}]), "claimer"),
    ]
    for app in ("operand", "monitor", "burn", "claimer"):
        cluster.pods[OWN, f"pod-template-generation,app={app}"] = [pod(f"{app}-1", "1")]
    assert list(found(cluster)) == ["job", "deployed", "burn-1", "claimer-1"]


def test_without_an_operator_all_pods_are_read() -> None:
    class AllPods(FakeCluster):
        def pages(self, path: str, **selectors: str) -> t.Iterator[Json]:
            assert (path, selectors) == (ALL, {"fieldSelector": UNFINISHED})
            yield pod("train", "1")

    assert [item.name for item in pods.gpu_pods(AllPods(), "")] == ["train"]


def test_devices_of_a_claim_count_once_and_every_pod_that_shares_it_is_found() -> None:
    shared = [{"name": "a", "resourceClaimName": "pair"}]
    listed = [
        pod("first", resourceClaims=shared),
        pod("second", "1", resourceClaims=shared),
        pod("third", resourceClaims=shared),
    ]
    two = [{"driver": "gpu.nvidia.com"}, {"driver": "gpu.nvidia.com"}]
    assert found(FakeCluster(listed, {"v1": [claim("pair", *two)]})) == {
        "first": {"gpu.nvidia.com": 2},
        "second": {"nvidia.com/gpu": 1},
        "third": {},
    }


def claim(name: str, *results: Json) -> Json:
    allocation = {"devices": {"results": list(results)}}
    return {"metadata": {"namespace": "default", "name": name}, "status": {"allocation": allocation}}


def test_an_extended_resource_that_the_scheduler_claimed_counts_once() -> None:
    """The same request is a claim where a DeviceClass offers it, and else the device plugin's."""
    mapping = {"containerName": "c", "resourceName": "nvidia.com/gpu", "requestName": "container-0-request-0"}
    by_claim, by_plugin = pod("by-claim", "1"), pod("by-plugin", "1")
    by_claim["status"] = {"extendedResourceClaimStatus": {"resourceClaimName": "x", "requestMappings": [mapping]}}
    cluster = FakeCluster([by_claim, by_plugin], {"v1": [claim("x", {"driver": "gpu.nvidia.com"})]})
    assert found(cluster) == {"by-claim": {"gpu.nvidia.com": 1}, "by-plugin": {"nvidia.com/gpu": 1}}


def test_a_daemonset_may_ask_for_the_resource_of_a_device_class() -> None:
    cluster = FakeCluster()
    template = pod("x")
    template["spec"]["containers"][0]["resources"]["limits"] = {f"{pods.CLASS_RESOURCE}gpu.nvidia.com": "1"}
    cluster.daemonsets = [daemonset(template, "burn")]
    claimed = pod("burn-1")
    claimed["status"] = {"extendedResourceClaimStatus": {"resourceClaimName": "x"}}
    cluster.pods[OWN, "pod-template-generation,app=burn"] = [claimed]
    cluster.claims = {"v1": [claim("x", {"driver": "gpu.nvidia.com"})]}
    assert found(cluster) == {"burn-1": {"gpu.nvidia.com": 1}}


def test_who_holds_gpus() -> None:
    cluster = FakeCluster(claims={"v1": [claim("x", {"driver": "gpu.nvidia.com"})]})
    claims = pod("claims", resourceClaims=[{"name": "a", "resourceClaimName": "x"}])
    holders = pods.GpuHolders(cluster)
    assert [item in holders for item in (pod("one", "1"), claims, pod("none"))] == [True, True, False]


def test_a_pod_without_gpus_asks_for_none() -> None:
    init = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
    assert pods.requested_gpus({"containers": [{}], "initContainers": [init]}) == {"nvidia.com/gpu": 2}
    share = {"resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}
    assert pods.requested_gpus({"containers": [share], "initContainers": [init]}) == {
        "nvidia.com/gpu": 2,
        "nvidia.com/mig-1g.10gb": 1,
    }
