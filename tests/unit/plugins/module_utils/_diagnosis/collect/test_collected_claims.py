# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is read of a cluster with a DRA driver, and that nothing is read of one without."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import claimed_pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import collected_claims, diagnose
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect.evidence import collect
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect.reader import GapReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, View
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from tests.unit.fakes import claimed
from tests.unit.fakes.api import FakeApi, Reply, refusal
from tests.unit.fakes.stack import NAMESPACE

ALL_DAEMONSETS, ALL_EVENTS = "/apis/apps/v1/daemonsets", "/api/v1/events"
RESOURCE, CHART = "/apis/resource.k8s.io/v1", "dra"
PODS = f"/api/v1/namespaces/{CHART}/pods"
DOMAINS = "/apis/resource.nvidia.com/v1beta1/computedomains"
NAME = "nvidia-dra-driver-gpu-kubelet-plugin"


def daemonset(namespace: str = CHART, containers: t.Iterable[str] = ("compute-domains", "gpus")) -> Json:
    """Return the DaemonSet of the plugin."""
    template = {"spec": {"containers": [{"name": name, "image": "a"} for name in containers]}}
    spec = {"selector": {"matchLabels": {"part": "kubelet-plugin"}}, "template": template}
    return {"metadata": {"name": NAME, "namespace": namespace}, "spec": spec, "status": {}}


def pod(number: int = 0, ready: bool = True, namespace: str = CHART) -> Json:
    """Return a pod of the plugin whose container ``gpus`` is ready or not."""
    state = {"running": {}} if ready else {"terminated": {"exitCode": 1}}
    statuses = [
        {"name": "compute-domains", "ready": True, "state": {"running": {}}},
        {"name": "gpus", "ready": ready, "state": state},
    ]
    metadata = {"name": f"{NAME}-{number}", "namespace": namespace, "annotations": {"a": "b"}}
    spec = {"nodeName": f"gpu-000{number}", "containers": [{"name": "gpus"}, {"name": "compute-domains"}]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running", "containerStatuses": statuses}}


def failed(node: str) -> Json:
    """Return the kubelet's event about a claim that it could not prepare."""
    about = {"kind": "Pod", "namespace": "team", "name": "train"}
    message = "Failed to prepare dynamic resources: NodePrepareResources failed for ResourceClaim a: b"
    named = {"metadata": {"name": "train.1"}, "involvedObject": about, "source": {"host": node}}
    return {**named, "reason": collected_claims.PREPARE_FAILED, "message": message}


@pytest.fixture
def reader(api: FakeApi) -> GapReader:
    return GapReader(api.connection)


@pytest.fixture
def chart(api: FakeApi) -> FakeApi:
    """Add the DRA driver's chart to the cluster, with one pod."""
    api.lists[ALL_DAEMONSETS] = [*api.lists[ALL_DAEMONSETS], daemonset()]
    api.lists[f"{RESOURCE}/deviceclasses"] = [{"metadata": {"name": "gpu.nvidia.com", "managedFields": [{}]}}]
    api.lists[f"{RESOURCE}/resourceslices"] = [claimed.slice_of(0)]
    api.lists[f"{RESOURCE}/resourceclaims"] = [claimed.claim("gpu", "gpu-0000", "gpu-0")]
    api.lists |= {PODS: [pod()], ALL_EVENTS: [], DOMAINS: [claimed.domain()]}
    return api


def read(reader: GapReader, *daemonsets: Json, waiting: t.Sequence[Json] = ()) -> collected_claims.ClaimObjects:
    return collected_claims.read(reader, NAMESPACE, daemonsets, waiting)


def test_nothing_is_read_where_nothing_uses_claims(api: FakeApi, reader: GapReader) -> None:
    others = [daemonset(containers=["worker"]), {**daemonset(), "metadata": {"name": "a", "namespace": "b"}}]
    assert read(reader, *others, waiting=[{"metadata": {"name": "a"}, "spec": {}}]) == collected_claims.ClaimObjects()
    assert api.log == []


def test_each_kind_is_one_request(chart: FakeApi, reader: GapReader) -> None:
    found = read(reader, daemonset())
    assert {kind: len(items) for kind, items in found.kinds.items()} == {
        "deviceclasses": 1, "resourceslices": 1, "resourceclaims": 1, "computedomains": 1, "events": 0, "draplugins": 1,
    }  # fmt: skip
    assert [(path, query.get("fieldSelector") or query.get("labelSelector")) for dummy, path, query in chart.log] == [
        (f"{RESOURCE}/deviceclasses", None),
        (f"{RESOURCE}/resourceslices", "spec.driver=gpu.nvidia.com"),
        (f"{RESOURCE}/resourceclaims", None),
        (DOMAINS, None),
        (ALL_EVENTS, f"reason={collected_claims.PREPARE_FAILED}"),
        (PODS, "part=kubelet-plugin"),
    ]
    (plugin,) = found.kinds["draplugins"]
    assert (plugin["node"], plugin["ready"]) == ("gpu-0000", ["compute-domains", "gpus"])
    assert (found.pods, reader.gaps) == ((), [])


def test_only_parts_of_devices_and_claims_are_kept(chart: FakeApi, reader: GapReader) -> None:
    (item,) = chart.lists[f"{RESOURCE}/resourceslices"]
    item["spec"]["devices"][0] |= {"capacity": {"memory": {"value": "80Gi"}}, "taints": [claimed.taint()]}
    item["spec"]["devices"][0]["attributes"]["brand"] = {"string": "Nvidia"}
    (held,) = chart.lists[f"{RESOURCE}/resourceclaims"]
    held["spec"]["devices"]["config"] = [{"opaque": {"parameters": {"token": "s3cret"}}}]
    held["spec"]["devices"]["requests"] = [{"name": "gpu", "exactly": {"deviceClassName": "a", "count": 1}}]
    kinds = read(reader, daemonset()).kinds
    assert "s3cret" not in json.dumps(kinds) and "brand" not in json.dumps(kinds)
    (device, dummy) = kinds["resourceslices"][0]["spec"]["devices"]
    assert device["taints"] == [claimed.taint()] and "capacity" not in device
    (claim,) = kinds["resourceclaims"]
    assert claim["spec"]["devices"]["requests"] == [{"name": "gpu", "exactly": {"deviceClassName": "a"}}]
    view = View(Evidence(objects=kinds))
    assert [each.name for each in claimed_pools.held(view)] == ["default/gpu"]
    assert claimed_pools.pools(view)["gpu-0000"].gpus == 2


def test_an_older_cluster_serves_an_older_version(chart: FakeApi, reader: GapReader) -> None:
    for plural in ("deviceclasses", "resourceslices", "resourceclaims"):
        chart.lists[f"/apis/resource.k8s.io/v1beta1/{plural}"] = chart.lists.pop(f"{RESOURCE}/{plural}")
    kinds = read(reader, daemonset()).kinds
    assert len(kinds["resourceslices"]) == len(kinds["resourceclaims"]) == 1
    assert reader.gaps == []


def test_a_pod_that_waits_with_a_claim_is_reason_enough_to_look(api: FakeApi, reader: GapReader) -> None:
    found = read(reader, waiting=[{"metadata": {"name": "a"}, "spec": {"resourceClaims": [{"name": "gpu"}]}}])
    assert found.kinds == {"events": [], "draplugins": []}
    assert [gap.what for gap in reader.gaps] == []


def test_what_may_not_be_read_is_absent_and_a_gap(chart: FakeApi, reader: GapReader) -> None:
    refused = (PODS, f"{RESOURCE}/resourceslices", DOMAINS)
    chart.answer = lambda method, path: refusal(403, "no") if path.startswith(refused) else None
    kinds = read(reader, daemonset()).kinds
    assert sorted(kinds) == ["deviceclasses", "events", "resourceclaims"]
    assert {gap.what for gap in reader.gaps} == {"pods in dra", "resourceslices", "computedomains"}


def test_pods_that_are_not_ready_and_those_of_nodes_with_failures_are_read_whole(
    chart: FakeApi, reader: GapReader
) -> None:
    chart.lists[PODS] = [pod(number, ready=number != 1) for number in range(4)]
    chart.lists[ALL_EVENTS] = [failed("gpu-0002")]
    found = read(reader, daemonset())
    assert [item["metadata"]["name"] for item in found.pods] == [f"{NAME}-1", f"{NAME}-2"]


def test_of_many_pods_that_fail_alike_some_are_read(chart: FakeApi, reader: GapReader) -> None:
    chart.lists[PODS] = [pod(number, ready=False) for number in range(9)]
    assert len(read(reader, daemonset()).pods) == collected_claims.READ_PLUGINS


def test_the_operators_own_pods_are_read_with_its_other_ones(chart: FakeApi, reader: GapReader) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    chart.lists[path] = [pod(0, ready=False, namespace=NAMESPACE), pod(1, namespace=NAMESPACE)]
    chart.lists[ALL_EVENTS] = [failed("gpu-0001")]
    found = read(reader, daemonset(NAMESPACE))
    assert [item["metadata"]["name"] for item in found.pods] == [f"{NAME}-1"]


def test_the_evidence_has_the_log_of_a_plugin_of_another_namespace(chart: FakeApi, reader: GapReader) -> None:
    chart.lists[PODS] = [pod(ready=False)]
    chart.lists[ALL_EVENTS] = [failed("gpu-0001")]

    def answer(method: str, path: str) -> Reply | None:
        return (200, t.cast(Json, "Error: error creating driver")) if path.endswith("/log") else None

    chart.answer = answer
    options = {name: spec["default"] for name, spec in diagnose.SPEC.options.items()}
    evidence = collect(reader, options)
    said = [(line.source, line.node) for line in evidence.lines if line.kind == "pod"]
    source = f"pod {CHART}/{NAME}-0, container"
    assert said == [(f"{source} compute-domains", "gpu-0000"), (f"{source} gpus", "gpu-0000")]
    (event,) = (line for line in evidence.lines if collected_claims.PREPARE_FAILED in line.text)
    assert (event.node, event.object) == ("gpu-0001", "pod team/train")
    assert len(evidence.objects["resourceslices"]) == 1 and "events" in evidence.objects
