# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fake API server with what NVIDIA's DRA driver has for ComputeDomains, and the objects around them."""

from __future__ import annotations

import typing as t

from tests.unit.fakes.api import GPUCLUSTERS, NODES, FakeApi
from tests.unit.fakes.claims import pod

Json = dict[str, t.Any]

UID = "uid-of-cluster-policy"
"""The UID that the fake API server gives to everything."""
LABEL = "resource.nvidia.com/computeDomain"
DOMAINS = "/apis/resource.nvidia.com/v1beta1/namespaces/research/computedomains"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/research/resourceclaimtemplates"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/research/resourceclaims"
PODS = "/api/v1/namespaces/research/pods"
ALL_PODS = "/api/v1/pods"
ALL_DAEMONSETS = "/apis/apps/v1/daemonsets"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
RACK = "1a2b.1"
MARKS = {"app.kubernetes.io/name": "compute-domain", "app.kubernetes.io/managed-by": "gpuops.nvidia"}
JOB = {"name": "job", "namespace": "research"}
NEW = {**JOB, "num_nodes": 2, "channel": {"template": "channel"}}
OBJECT = f"{DOMAINS}/job"
"""A ComputeDomain by its name, what makes it, and where it is."""


def domain(*nodes: Json, finalizer: bool = True, **metadata: t.Any) -> Json:
    """Return a ComputeDomain that the module has made and its controller has accepted."""
    meta: Json = {"name": "job", "namespace": "research", "uid": UID, "resourceVersion": "1", "labels": MARKS}
    channel = {"resourceClaimTemplate": {"name": "channel"}, "allocationMode": "Single"}
    return {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {**meta, "finalizers": [LABEL] * finalizer, **metadata},
        "spec": {"numNodes": 2, "channel": channel},
        "status": {"status": "Ready", "nodes": list(nodes)},
    }


def status_of(name: str, state: str = "Ready", clique: str = RACK) -> Json:
    """Return what the status of a ComputeDomain says of a node."""
    return {"name": name, "ipAddress": "10.0.0.1", "cliqueID": clique, "index": 0, "status": state}


def template(uid: str = UID, name: str = "channel") -> Json:
    """Return the template of the workload."""
    return {"metadata": {"name": name, "namespace": "research", "labels": {LABEL: uid}}}


def claim(name: str = "rank-0-channel", uid: str = UID, pods: t.Sequence[str] = ("rank-0",), **status: t.Any) -> Json:
    """Return a claim for a channel, with what it was given."""
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainChannelConfig", "domainID": uid}
    config = [{"opaque": {"driver": "compute-domain.nvidia.com", "parameters": parameters}}]
    held = {"allocation": {"devices": {}}, "reservedFor": [{"resource": "pods", "name": each} for each in pods]}
    meta = {"name": name, "namespace": "research"}
    return {"metadata": meta, "spec": {"devices": {"config": config}}, "status": held | status}


def rank(number: int, node: str = "", phase: str = "Running") -> Json:
    """Return a pod of the workload."""
    return pod(f"rank-{number}", template="channel", phase=phase, nodeName=node)


def of_driver(name: str, node: str = "", is_ready: bool = True, **labels: str) -> Json:
    """Return a pod of the driver: the controller, or a daemon."""
    state = {"type": "Ready", "status": "True" if is_ready else "False"}
    container = {"name": "compute-domain", "image": "nvcr.io/nvidia/dra-driver-nvidia-gpu:v0.5.0", "env": []}
    return {
        "metadata": {"name": name, "namespace": "gpu-operator", "labels": labels},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"conditions": [state]},
    }


def controller(is_ready: bool = True) -> Json:
    """Return the controller as the operator deploys it."""
    return of_driver("nvidia-dra-driver-controller-0", is_ready=is_ready, app="nvidia-dra-driver-controller")


def daemon(node: str, is_ready: bool = True) -> Json:
    """Return the daemon of a node."""
    return of_driver(f"computedomain-daemon-{node}", node, is_ready, **{LABEL: UID})


def rack_node(number: int, clique: str = RACK, **labels: str) -> Json:
    """Return a node of a rack."""
    given = {"nvidia.com/gpu.clique": clique, **labels}
    return {"metadata": {"name": f"gpu-{number}", "labels": {key: text for key, text in given.items() if text}}}


def offered(number: int, version: str = "580.95.5") -> list[Json]:
    """Return the ResourceSlices of a node: its GPU, and its part in ComputeDomains."""
    gpu = {"name": "gpu-0", "attributes": {"driverVersion": {"version": version}}}
    parts = {"gpu.nvidia.com": [gpu], "compute-domain.nvidia.com": [{"name": "channel-0"}]}
    return [
        {"metadata": {"name": f"{number}"}, "spec": {"driver": each, "nodeName": f"gpu-{number}", "devices": devices}}
        for each, devices in parts.items()
    ]


def set_up(api: FakeApi, nodes: int = 2) -> None:
    """Give a cluster a rack with a driver that serves ComputeDomains."""
    on = {"draDriver": {"computeDomains": {"enabled": True}}}
    api.lists[GPUCLUSTERS] = [{"metadata": {"name": "gpu-cluster"}, "spec": on}]
    api.lists[NODES] = [rack_node(number) for number in range(nodes)]
    api.lists[SLICES] = [part for number in range(nodes) for part in offered(number)]
    api.lists[ALL_PODS] = [controller()]
    api.lists |= {DOMAINS: [], TEMPLATES: [], CLAIMS: [], PODS: [], ALL_DAEMONSETS: []}
    # What the group serves, and what is left of a ComputeDomain in the whole cluster.
    api.lists |= {f"/apis/resource.k8s.io/v1/{kind}": [] for kind in ("resourceclaims", "resourceclaimtemplates")}


# ---- troubles ---------------------------------------------------------------------------------------------------


def without_crd(api: FakeApi) -> None:
    del api.lists[DOMAINS]


def switched_off(api: FakeApi) -> None:
    api.lists[GPUCLUSTERS][0]["spec"] = {"draDriver": {}}


def without_controller(api: FakeApi) -> None:
    api.lists[ALL_PODS] = [daemon("gpu-0")]


def unready_controller(api: FakeApi) -> None:
    api.lists[ALL_PODS] = [controller(is_ready=False)]


def taken_template(api: FakeApi) -> None:
    api.lists[TEMPLATES] = [template("another")]


def taken_node(api: FakeApi) -> None:
    api.lists[NODES][1] = rack_node(1, **{LABEL: "another"})


def two_drivers(api: FakeApi) -> None:
    api.lists[SLICES] = [*offered(0), *offered(1, "590.1.1")]


def old_driver(api: FakeApi) -> None:
    api.lists[SLICES] = [*offered(0), *offered(1, "570.133.20")]


def without_plugin(api: FakeApi) -> None:
    api.lists[SLICES] = offered(0)


def two_cliques(api: FakeApi) -> None:
    api.lists[NODES][1] = rack_node(1, "1a2b.2")


def of_somebody_else(api: FakeApi) -> None:
    api.lists[DOMAINS] = [domain(labels={})]


def deleting(api: FakeApi) -> None:
    api.lists[DOMAINS] = [domain(deletionTimestamp="2026-01-01T00:00:00Z")]


def other_numbers(api: FakeApi) -> None:
    api.lists[DOMAINS] = [domain()]
    api.lists[DOMAINS][0]["spec"]["numNodes"] = 18


def accepts(api: FakeApi) -> None:
    """Let the controller accept a ComputeDomain as soon as it is read."""

    def answer(method: str, path: str) -> None:
        if (method, path) == ("GET", OBJECT) and api.lists[DOMAINS] and not api.lists[TEMPLATES]:
            api.lists[DOMAINS][0]["metadata"]["finalizers"] = [LABEL]
            api.lists[TEMPLATES] = [template()]

    api.answer = answer


def used(api: FakeApi) -> None:
    """Give the cluster a ComputeDomain with the pods of a job, whose daemons are ready."""
    nodes = ("gpu-0", "gpu-1")
    api.lists[DOMAINS] = [domain(*map(status_of, nodes))]
    api.lists[TEMPLATES], api.lists[PODS] = [template()], [rank(0, "gpu-0"), rank(1, "gpu-1")]
    api.lists[ALL_PODS] = [controller(), *map(daemon, nodes)]


def writes(api: FakeApi) -> list[tuple[str, bool]]:
    """Every write as its method, and whether it was a dry run."""
    return [(method, query.get("dryRun") == "All") for method, dummy, query in api.log if method != "GET"]
