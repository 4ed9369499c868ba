# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A lab whose nodes are multiplied without simulated life."""

from __future__ import annotations

import json
import time
import typing as t

import pytest

from lab import cli
from lab.cluster import Lab, LabError, Options
from lab.cluster.api import Api, Json
from lab.cluster.nodes import bulk
from tests.support.labs import running_lab


@pytest.fixture(scope="module")
def lab() -> t.Iterator[Lab]:
    with running_lab("bulk", Options(nodes=1, pods="instant")) as lab:
        lab.deploy()
        wait_for_operands(Api(str(lab.kubeconfig)))
        given = cli.parser().parse_args(["cluster", "multiply", "--name", lab.name, "30"])
        assert given.run(given) == 0
        yield lab


def wait_for_operands(api: Api) -> None:
    """Wait until the node has the pods of all DaemonSets, which are what is copied."""
    deadline = time.monotonic() + 60
    while len(api.list("/api/v1/pods", labelSelector="controller-revision-hash")) < 8:
        assert time.monotonic() < deadline, "The node never got its eight pods."
        time.sleep(0.2)


@pytest.fixture(scope="module")
def api(lab: Lab) -> Api:
    return Api(str(lab.kubeconfig))


def size(item: Json) -> int:
    return len(json.dumps(item, separators=(",", ":")))


def test_the_nodes_are_as_large_as_real_ones_and_differ(api: Api) -> None:
    nodes = api.list("/api/v1/nodes", resourceVersion=0)
    assert [node["metadata"]["name"] for node in nodes] == [f"gpu-{number:04d}" for number in range(30)]
    assert len({node["metadata"]["uid"] for node in nodes}) == 30
    assert [node for node in nodes if not 21_000 < size(node) < 24_000] == []
    last = nodes[-1]
    assert last["metadata"]["labels"]["kubernetes.io/hostname"] == "gpu-0029"
    assert len(last["status"]["images"]) == 50
    assert {"kubelet", "nfd-master"} <= {entry["manager"] for entry in last["metadata"]["managedFields"]}
    assert last["status"]["allocatable"]["nvidia.com/gpu"] == "8"


def test_every_node_has_its_pods(api: Api) -> None:
    pods = api.list("/api/v1/namespaces/gpu-operator/pods", resourceVersion=0)
    assert len({pod["metadata"]["uid"] for pod in pods}) == len(pods)
    mine = [pod for pod in pods if pod["spec"]["nodeName"] == "gpu-0029"]
    assert sorted(pod["metadata"]["name"] for pod in mine) == [
        "gpu-feature-discovery-00029",
        "gpu-operator-node-feature-discovery-worker-00029",
        "nvidia-container-toolkit-daemonset-00029",
        "nvidia-dcgm-exporter-00029",
        "nvidia-device-plugin-daemonset-00029",
        "nvidia-driver-daemonset-00029",
        "nvidia-mig-manager-00029",
        "nvidia-operator-validator-00029",
    ]
    for daemonset in api.list("/apis/apps/v1/namespaces/gpu-operator/daemonsets"):
        number = len([pod for pod in pods if pod["metadata"]["labels"].get("app") == daemonset["metadata"]["name"]])
        if number:
            assert (number, daemonset["status"]["numberReady"]) == (30, 30)


def test_nothing_reacts_any_more(lab: Lab) -> None:
    assert lab.status().running == ("etcd", "kube-apiserver")


def test_a_number_that_makes_no_sense(lab: Lab) -> None:
    with pytest.raises(LabError, match="more than 30 and at most 10000"):
        bulk.multiply(lab, 30)


@pytest.mark.wide
def test_slices_and_claims_are_copied_with_their_nodes_and_pods() -> None:
    with running_lab("bulk-claims", Options(nodes=1, pods="instant")) as lab:
        values = ("clusterPolicy.deployCR=false", "gpuCluster.deployCR=true", "driver.nvidiaDriverCRD.enabled=true")
        lab.deploy(*(f"--set={value}" for value in values), of="gpucluster/gpu-cluster")
        bulk.multiply(lab, 20)
        api = Api(str(lab.kubeconfig))
        slices = api.list("/apis/resource.k8s.io/v1/resourceslices")
        assert sorted({item["spec"]["nodeName"] for item in slices}) == [f"gpu-{number:04d}" for number in range(20)]
        assert all(item["spec"]["pool"]["name"] == item["spec"]["nodeName"] for item in slices)
        nodes = {item["metadata"]["uid"]: item["metadata"]["name"] for item in api.list("/api/v1/nodes")}
        assert all(nodes[item["metadata"]["ownerReferences"][0]["uid"]] == item["spec"]["nodeName"] for item in slices)
        pods = {item["metadata"]["uid"]: item for item in api.list("/api/v1/pods")}
        claims = api.list("/apis/resource.k8s.io/v1/resourceclaims")
        assert len(claims) == 2 * 20
        for claim in claims:
            pod = pods[claim["status"]["reservedFor"][0]["uid"]]
            assert pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"] == claim["metadata"]["name"]
            results = claim["status"]["allocation"]["devices"]["results"]
            assert {result["pool"] for result in results} == {pod["spec"]["nodeName"]}
