# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Claims on the lab's nodes: what starts and ends with the DRA driver's plugin, and what goes wrong on request."""

from __future__ import annotations

import json
import time
import typing as t

import pytest

from lab.cluster import Lab, LabError, Options, faults
from lab.cluster.api import Api
from tests.support.labs import running_lab
from tests.support.waits import sees

pytestmark = [pytest.mark.wide, pytest.mark.slow("a stack comes, and its plugins go and come again")]

Json = dict[str, t.Any]
VALUES = (
    "--set=clusterPolicy.deployCR=false",
    "--set=gpuCluster.deployCR=true",
    "--set=driver.nvidiaDriverCRD.enabled=true",
)
GATED = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {"strategy": "TimeSlicing"}}
PLUGIN = "nvidia.com/gpu.deploy.dra-driver"
CLIQUE = "11111111-2222-3333-4444-555555555555.1"
DOMAIN = "resource.nvidia.com/computeDomain"


class Claims:
    """A lab with a GPUCluster, and what a test does there."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.api = Api(str(lab.kubeconfig))

    def start(self, name: str, parameters: Json | None = None) -> None:
        """Create a pod with a claim of its own."""
        devices: Json = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}
        if parameters:
            devices["config"] = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}]
        meta = {"name": name, "namespace": "default"}
        kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        claim = {**kind, "metadata": meta, "spec": {"devices": devices}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {
                "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
                "containers": [{"name": "c", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}],
                "tolerations": [{"operator": "Exists"}],
            },
        }
        for item in (claim, pod):
            self.lab.kubectl("create", "--filename=-", stdin=json.dumps(item))

    def pod(self, name: str) -> Json | None:
        return self.api.get(f"/api/v1/namespaces/default/pods/{name}")

    def node(self, name: str) -> Json:
        return self.api.get(f"/api/v1/nodes/{name}") or {}

    def runs(self, name: str) -> bool:
        return ((self.pod(name) or {}).get("status") or {}).get("phase") == "Running"

    def events(self, name: str) -> list[str]:
        found = self.api.list("/api/v1/namespaces/default/events", fieldSelector=f"involvedObject.name={name}")
        return [item["message"] for item in found if item["reason"] == "FailedPrepareDynamicResources"]

    def slices(self, node: str, driver: str = "gpu.nvidia.com") -> list[Json]:
        items = self.api.list("/apis/resource.k8s.io/v1/resourceslices")
        mine = [item["spec"] for item in items if item["spec"].get("nodeName") == node]
        return [spec for spec in mine if spec["driver"] == driver]

    def devices(self, node: str) -> list[str]:
        return sorted(device["name"] for spec in self.slices(node) for device in spec.get("devices") or [])

    def set_plugin(self, node: str, value: str) -> None:
        self.lab.kubectl("label", "node", node, f"{PLUGIN}={value}", "--overwrite")

    def has_plugin(self, node: str) -> bool:
        query = {"labelSelector": "app=nvidia-dra-driver-kubelet-plugin", "fieldSelector": f"spec.nodeName={node}"}
        pods = self.api.list("/api/v1/pods", **query)
        return any(pod["status"].get("phase") == "Running" for pod in pods)

    def said(self) -> str:
        """Return what the plugins have said; nothing while one of them is being replaced."""
        plugins = ("--selector=app=nvidia-dra-driver-kubelet-plugin", "--container=gpus")
        try:
            return self.lab.kubectl("logs", "--namespace=gpu-operator", *plugins)
        except LabError:
            return ""

    def set_gates(self, **gates: bool) -> None:
        body = {"spec": {"draDriver": {"featureGates": gates or None}}}
        self.lab.kubectl("patch", "gpucluster", "gpu-cluster", "--type=merge", f"--patch={json.dumps(body)}")
        wanted = (self.api.get("/apis/nvidia.com/v1alpha1/gpuclusters/gpu-cluster") or {})["spec"]["draDriver"]
        sees(lambda: self.gates() == wanted.get("featureGates", {}), 10)

    def gates(self) -> Json:
        """Return the gates that the DaemonSet of the plugin has."""
        item = self.api.get("/apis/apps/v1/namespaces/gpu-operator/daemonsets/nvidia-dra-driver-kubelet-plugin") or {}
        env = item["spec"]["template"]["spec"]["containers"][0]["env"]
        texts = [entry["value"] for entry in env if entry["name"] == "FEATURE_GATES"]
        pairs = [pair.split("=") for text in texts for pair in text.split(",")]
        return {name: value == "true" for name, value in pairs}

    def roll_out(self) -> None:
        """Wait until every plugin has the newest gates."""
        plugin = "daemonset/nvidia-dra-driver-kubelet-plugin"
        self.lab.kubectl("rollout", "status", plugin, "--namespace=gpu-operator", "--timeout=60s")

    def is_ready(self) -> bool:
        item = self.api.get("/apis/nvidia.com/v1alpha1/gpuclusters/gpu-cluster") or {}
        return (item.get("status") or {}).get("state") == "ready"


@pytest.fixture(scope="module")
def claims() -> t.Iterator[Claims]:
    with running_lab("claims", Options(nodes=2, upgrade_tick=3, wipe_delay=2)) as lab:
        lab.deploy(*VALUES, of="gpucluster/gpu-cluster")
        yield Claims(lab)


@pytest.fixture(autouse=True)
def _cleared(claims: Claims) -> t.Iterator[None]:
    yield
    claims.lab.kubectl("delete", "pod", "--all", "--namespace=default", "--force", "--grace-period=0")
    claims.lab.kubectl("delete", "resourceclaim", "--all", "--namespace=default")
    faults.clear(claims.lab)
    claims.set_gates()
    claims.roll_out()
    sees(claims.is_ready, 30)


def test_a_pod_starts_and_ends_with_the_plugin(claims: Claims) -> None:
    claims.start("mine")
    sees(lambda: claims.runs("mine"), 20)
    node = (claims.pod("mine") or {})["spec"]["nodeName"]
    claims.set_plugin(node, "paused")
    sees(lambda: not claims.has_plugin(node), 20)
    claims.lab.kubectl("delete", "pod", "mine", "--namespace=default", "--wait=false")
    sees(lambda: claims.slices(node) == [], 20)
    assert claims.pod("mine"), "nobody takes the claim back"
    claims.set_plugin(node, "true")
    sees(lambda: claims.pod("mine") is None, 20)
    sees(lambda: len(claims.devices(node)) == 8, 20)


def test_a_pod_waits_for_parameters_that_the_driver_can_apply(claims: Claims) -> None:
    claims.start("gated", GATED)
    sees(lambda: bool(claims.events("gated")), 20)
    assert '"TimeSlicing" is selected as the GPU sharing strategy' in claims.events("gated")[0]
    status = (claims.pod("gated") or {})["status"]
    assert status["phase"] == "Pending"
    assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "ContainerCreating"
    claims.set_gates(TimeSlicingSettings=True)
    sees(lambda: claims.runs("gated"), 30)


def test_a_changed_layout_is_published_when_the_plugin_starts(claims: Claims) -> None:
    layout = json.dumps([{"1g.10gb": 7}, {}, *[None] * 6])
    claims.lab.kubectl("annotate", "node", "gpu-0000", f"lab.gpuops.nvidia/mig={layout}")
    time.sleep(3)
    assert len(claims.devices("gpu-0000")) == 8
    claims.set_plugin("gpu-0000", "paused")
    sees(lambda: not claims.has_plugin("gpu-0000"), 20)
    claims.set_plugin("gpu-0000", "true")
    sees(lambda: len(claims.devices("gpu-0000")) == 13, 20)
    claims.lab.kubectl("annotate", "node", "gpu-0000", "lab.gpuops.nvidia/mig-")


def test_slices_that_are_incomplete_or_stale(claims: Claims) -> None:
    faults.slices(claims.lab, "gpu-0001", "incomplete")
    sees(lambda: [spec["pool"]["resourceSliceCount"] for spec in claims.slices("gpu-0001")] == [2], 10)
    faults.slices(claims.lab, "gpu-0001", "stale")
    sees(lambda: len({spec["pool"]["generation"] for spec in claims.slices("gpu-0001")}) == 2, 10)
    assert faults.active(claims.lab) == ["node gpu-0001: slices stale"]
    faults.clear(claims.lab)
    sees(lambda: [spec["pool"]["resourceSliceCount"] for spec in claims.slices("gpu-0001")] == [1], 10)


def test_gates_decide_about_health_and_may_crash_the_driver(claims: Claims) -> None:
    claims.set_gates(NVMLDeviceHealthCheck=True)
    claims.roll_out()
    faults.xid(claims.lab, "gpu-0000", 79)
    faults.lost_gpu(claims.lab, "gpu-0001")

    def taints(node: str) -> set[str]:
        devices = [device for spec in claims.slices(node) for device in spec["devices"]]
        return {f"{item['key']}={item.get('value', '')}" for device in devices for item in device.get("taints") or []}

    sees(lambda: taints("gpu-0000") == {"gpu.nvidia.com/xid=79"}, 20)
    sees(lambda: taints("gpu-0001") == {"gpu.nvidia.com/gpu-lost="}, 20)
    claims.set_gates(DynamicMIG=True)
    sees(lambda: "DynamicMIG is currently mutually exclusive" in claims.said(), 20)
    sees(lambda: not claims.is_ready(), 20)


def test_a_driver_is_not_replaced_under_a_claim(claims: Claims) -> None:
    claims.start("busy")
    sees(lambda: claims.runs("busy"), 20)
    node = (claims.pod("busy") or {})["spec"]["nodeName"]
    body = {"spec": {"version": "595.99.01", "upgradePolicy": {"autoUpgrade": False}}}
    claims.lab.kubectl("patch", "nvidiadriver", "default", "--type=merge", f"--patch={json.dumps(body)}")
    drivers = ("--namespace=gpu-operator", "--selector=app.kubernetes.io/component=nvidia-driver")
    claims.lab.kubectl("delete", "pod", *drivers, "--wait=false")

    def versions() -> dict[str, str]:
        items = {name: claims.slices(name) for name in ("gpu-0000", "gpu-0001")}
        return {
            name: specs[0]["devices"][0]["attributes"]["driverVersion"]["version"]
            for name, specs in items.items()
            if specs
        }

    # The manager evicts the pod itself if the operator does not upgrade drivers. A bare one it may not evict.
    free = next(name for name in ("gpu-0000", "gpu-0001") if name != node)
    sees(lambda: versions().get(free) == "595.99.1", 60)
    assert versions().get(node) != "595.99.1" and claims.runs("busy")
    claims.lab.kubectl("delete", "pod", "busy", "--namespace=default")
    sees(lambda: versions().get(node) == "595.99.1", 60)


def test_a_compute_domain_comes_and_goes(claims: Claims) -> None:
    for name in ("gpu-0000", "gpu-0001"):
        claims.lab.kubectl("annotate", "node", name, f"lab.gpuops.nvidia/clique={CLIQUE}", "--overwrite")
    domain = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": "cd", "namespace": "default"},
        "spec": {"numNodes": 1, "channel": {"resourceClaimTemplate": {"name": "channel"}}},
    }
    refused = {**domain, "metadata": {"name": "any", "namespace": "default"}, "spec": {**domain["spec"], "numNodes": 0}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "rank-0", "namespace": "default"},
        "spec": {
            "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "channel"}],
            "containers": [{"name": "c", "image": "busybox", "resources": {"claims": [{"name": "c"}]}}],
            "tolerations": [{"operator": "Exists"}],
        },
    }
    for item in (refused, domain, pod):
        claims.lab.kubectl("create", "--filename=-", stdin=json.dumps(item))
    sees(lambda: claims.runs("rank-0"), 30)
    path = "/apis/resource.nvidia.com/v1beta1"
    [clique] = claims.api.list(f"{path}/computedomaincliques")
    node = (claims.pod("rank-0") or {})["spec"]["nodeName"]
    assert [daemon["nodeName"] for daemon in clique["daemons"]] == [node] and clique["metadata"]["name"].endswith(
        CLIQUE
    )
    status = (claims.api.get(f"{path}/namespaces/default/computedomains/cd") or {})["status"]
    assert (status["status"], status["nodes"][0]["cliqueID"]) == ("Ready", CLIQUE)
    ignored = claims.api.get(f"{path}/namespaces/default/computedomains/any") or {}
    assert "finalizers" not in ignored["metadata"], "the CRD refuses what the controller writes"
    claims.lab.kubectl("delete", "computedomain", "any", "--namespace=default")
    claims.lab.kubectl("delete", "pod", "rank-0", "--namespace=default")
    sees(lambda: DOMAIN not in claims.node(node)["metadata"]["labels"], 20)
    scale = ("scale", "deployment/nvidia-dra-driver-controller", "--namespace=gpu-operator")
    claims.lab.kubectl(*scale, "--replicas=0")
    pods = ("/api/v1/namespaces/gpu-operator/pods", "app=nvidia-dra-driver-controller")
    sees(lambda: claims.api.list(pods[0], labelSelector=pods[1]) == [], 20)
    claims.lab.kubectl("delete", "computedomain", "cd", "--namespace=default", "--wait=false")
    domain_path = f"{path}/namespaces/default/computedomains/cd"
    time.sleep(3)
    assert claims.api.get(domain_path), "without its controller nobody removes the finalizer"
    claims.lab.kubectl(*scale, "--replicas=1")
    sees(lambda: claims.api.get(domain_path) is None, 30)
    assert claims.api.list("/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates") == []


def test_the_operands_claims_go_before_the_plugin(claims: Claims) -> None:
    present = json.loads(claims.lab.kubectl("get", "gpucluster", "gpu-cluster", "--output=json"))
    claims.lab.kubectl("delete", "gpucluster", "gpu-cluster")
    left = claims.api.list("/api/v1/namespaces/gpu-operator/pods", labelSelector="app=nvidia-operator-validator")
    assert left == [], "the validator could give its claim back"
    labels = claims.node("gpu-0000")["metadata"]["labels"]
    assert labels[PLUGIN] == "true", "the operator leaves its labels behind"
    sees(lambda: claims.slices("gpu-0000") == [], 20)
    again = {**present, "metadata": {"name": "gpu-cluster"}, "status": None}
    claims.lab.kubectl("create", "--filename=-", stdin=json.dumps(again))
