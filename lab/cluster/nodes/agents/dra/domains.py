# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller of ComputeDomains and the daemons that it deploys, as in NVIDIA's DRA driver.

The objects, their names and the order of their removal are those of cmd/compute-domain-controller and
cmd/compute-domain-daemon in https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu at commit 95932046. Without a pod
of the controller nothing happens, also to a ComputeDomain that is being deleted.
"""

from __future__ import annotations

import threading
import typing as t

import urllib3

from lab.cluster.api import Api, ApiError, Json
from lab.cluster.nodes.agents.dra.slices import GROUP
from lab.cluster.nodes.agents.pods import is_ready, labels_of, path

CONTROLLER = "nvidia-dra-driver-controller"
KINDS = "/apis/resource.nvidia.com/v1beta1"
DOMAINS = f"{KINDS}/computedomains"
LABEL = "resource.nvidia.com/computeDomain"
"""The label of a node, and of everything that belongs to a ComputeDomain; also the finalizer of it all."""
CLIQUE = "nvidia.com/gpu.clique"
_POD_CLIQUE = f"{LABEL}.cliqueID"
_TARGET = f"{LABEL}Target"
_EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
_TICK_S = 1.0
_DRIVER = "compute-domain.nvidia.com"


class DomainController:
    """The controller, and what the daemons report to it."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def run(self, stop: threading.Event) -> None:
        """Look after the ComputeDomains until ``stop`` is set."""
        while not stop.wait(_TICK_S):
            try:
                self.tick()
            except (ApiError, urllib3.exceptions.HTTPError, OSError):
                continue  # The API server is down, or an object has changed in the meantime.

    def tick(self) -> None:
        """Do what is to be done for each ComputeDomain, if a pod of the controller is ready."""
        domains = self._api.list(DOMAINS)
        pods = self._api.list("/api/v1/pods", labelSelector=f"app={CONTROLLER}") if domains else []
        mine = next(filter(is_ready, pods), None)
        if mine is None:
            return
        namespace, image = mine["metadata"]["namespace"], mine["spec"]["containers"][0]["image"]
        for domain in domains:
            try:
                self._one(domain, namespace, image)
            except ApiError as error:
                print(f"ComputeDomain {domain['metadata']['name']}: {error}", flush=True)

    def _one(self, domain: Json, namespace: str, image: str) -> None:
        if domain["metadata"].get("deletionTimestamp"):
            self._remove(domain, namespace)
        else:
            self._deploy(domain, namespace, image)
            self._report(domain, namespace)

    def _deploy(self, domain: Json, namespace: str, image: str) -> None:
        meta, uid = domain["metadata"], domain["metadata"]["uid"]
        finalizers = meta.get("finalizers") or []
        if LABEL not in finalizers:
            held = {
                **domain,
                "metadata": {**meta, "finalizers": [*finalizers, LABEL]},
                "spec": _written(domain["spec"]),
            }
            self._api.request("PUT", _path(domain), held)
        name, channel = f"computedomain-daemon-{uid}", domain["spec"]["channel"]
        chosen = channel["resourceClaimTemplate"]["name"]
        self._ensure(_templates(namespace), template(name, uid, "Daemon", {}))
        self._ensure(f"/apis/apps/v1/namespaces/{namespace}/daemonsets", daemonset(name, uid, image))
        mode = {"allocationMode": channel.get("allocationMode", "Single")}
        self._ensure(_templates(meta["namespace"]), template(chosen, uid, "Workload", mode))

    def _ensure(self, collection: str, wanted: Json) -> None:
        if self._api.get(f"{collection}/{wanted['metadata']['name']}") is None:
            self._api.create(collection, wanted)

    # ---- removal ----------------------------------------------------------------------------------------------------

    def _remove(self, domain: Json, namespace: str) -> None:
        """Remove the workload's template, the DaemonSet and the labels of nodes, and give the ComputeDomain up."""
        meta, uid = domain["metadata"], domain["metadata"]["uid"]
        template = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
        self._drop(f"{_templates(meta['namespace'])}/{template}", uid)
        self._drop(f"/apis/apps/v1/namespaces/{namespace}/daemonsets/computedomain-daemon-{uid}", uid)
        self._drop(f"{_templates(namespace)}/computedomain-daemon-{uid}", uid)
        for node in self._api.list("/api/v1/nodes", labelSelector=f"{LABEL}={uid}"):
            self._api.merge(f"/api/v1/nodes/{node['metadata']['name']}", {"metadata": {"labels": {LABEL: None}}})
        self._give_up(_path(domain), domain)

    def _drop(self, path: str, uid: str) -> None:
        """Remove an object of a ComputeDomain. One with the same name that belongs to somebody else stays."""
        item = self._api.get(path)
        if item is not None and labels_of(item).get(LABEL) == uid:
            self._api.delete(path)
            self._give_up(path, self._api.get(path) or item)

    def _give_up(self, path: str, item: Json) -> None:
        """Remove the finalizer."""
        meta = item["metadata"]
        left = [name for name in meta.get("finalizers") or [] if name != LABEL]
        self._api.merge(path, {"metadata": {"finalizers": left}})

    # ---- daemons ----------------------------------------------------------------------------------------------------

    def _report(self, domain: Json, namespace: str) -> None:
        """Write what the daemons report: a list for each clique, and the nodes of the ComputeDomain."""
        uid, spec = domain["metadata"]["uid"], domain["spec"]
        pods = self._api.list(f"/api/v1/namespaces/{namespace}/pods", labelSelector=f"{LABEL}={uid}")
        running = [pod for pod in pods if (pod.get("status") or {}).get("podIP")]
        before = {item["name"]: item for item in (domain.get("status") or {}).get("nodes") or []}
        nodes: list[Json] = []
        for pod in sorted(running, key=lambda pod: str(pod["spec"]["nodeName"])):
            nodes.append(self._node(pod, nodes, before))
        for clique in sorted({node["cliqueID"] for node in nodes} - {""}):
            self._write_clique(uid, namespace, clique, nodes, running)
        is_complete = len(nodes) >= spec.get("numNodes", 0) and all(node["status"] == "Ready" for node in nodes)
        status = {"status": "Ready" if is_complete else "NotReady", "nodes": nodes}
        if status != {"nodes": [], **(domain.get("status") or {})}:
            self._api.merge(f"{_path(domain)}/status", {"status": status})

    def _node(self, pod: Json, others: list[Json], before: t.Mapping[str, Json]) -> Json:
        name = pod["spec"]["nodeName"]
        node = self._api.get(f"/api/v1/nodes/{name}")
        clique = labels_of(node).get(CLIQUE, "") if node else ""
        if _POD_CLIQUE not in labels_of(pod):
            self._api.merge(path(pod), {"metadata": {"labels": {_POD_CLIQUE: clique}}})
        taken = {item["index"] for item in (*others, *before.values()) if item["cliqueID"] == clique}
        free = next(number for number in range(len(taken) + 1) if number not in taken)
        known = before[name]["index"] if name in before and before[name]["cliqueID"] == clique else free
        state = "Ready" if is_ready(pod) else "NotReady"
        index = known if clique else -1
        return {"name": name, "ipAddress": pod["status"]["podIP"], "cliqueID": clique, "index": index, "status": state}

    def _write_clique(self, uid: str, namespace: str, clique: str, nodes: list[Json], pods: list[Json]) -> None:
        mine = [node for node in nodes if node["cliqueID"] == clique]
        daemons = [{"nodeName" if key == "name" else key: value for key, value in node.items()} for node in mine]
        names = {node["name"] for node in mine}
        owners = [
            {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
            for pod in pods
            if pod["spec"]["nodeName"] in names
        ]
        collection, name = f"{KINDS}/namespaces/{namespace}/computedomaincliques", f"{uid}.{clique}"
        metadata: Json = {"name": name, "labels": {LABEL: uid}, "ownerReferences": owners}
        wanted = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainClique", "metadata": metadata}
        present = self._api.get(f"{collection}/{name}")
        if present is None:
            self._api.create(collection, {**wanted, "daemons": daemons})
        elif present.get("daemons") != daemons:
            self._api.merge(f"{collection}/{name}", {"metadata": {"ownerReferences": owners}, "daemons": daemons})


def _written(spec: Json) -> Json:
    """Return a spec as the controller writes it: without a number of nodes that is 0.

    The CRD of the operator's chart v26.7.0 asks for the number, so it refuses the controller's first write then.
    """
    return {key: value for key, value in spec.items() if key != "numNodes" or value}


def template(name: str, uid: str, target: str, parameters: Json) -> Json:
    """Return the template of the claims of a ComputeDomain's workload, or of its daemons."""
    request, device_class, kind = {
        "Daemon": ("daemon", "compute-domain-daemon.nvidia.com", "ComputeDomainDaemonConfig"),
        "Workload": ("channel", "compute-domain-default-channel.nvidia.com", "ComputeDomainChannelConfig"),
    }[target]
    # The order is that of the API server, which keeps parameters as they are and refuses any other later.
    given = {**parameters, "apiVersion": "resource.nvidia.com/v1beta1", "domainID": uid, "kind": kind}
    devices = {
        "requests": [{"name": request, "exactly": {"deviceClassName": device_class}}],
        "config": [{"requests": [request], "opaque": {"driver": _DRIVER, "parameters": given}}],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "finalizers": [LABEL], "labels": {LABEL: uid, _TARGET: target}},
        "spec": {"spec": {"devices": devices}},
    }


def daemonset(name: str, uid: str, image: str) -> Json:
    """Return the DaemonSet of a ComputeDomain, whose pods go to the nodes that prepare a channel of it."""
    labels, claim = {LABEL: uid}, {"name": "compute-domain-daemon"}
    container = {"name": "compute-domain-daemon", "image": image, "resources": {"claims": [claim]}}
    pod = {
        "serviceAccountName": "compute-domain-daemon-service-account",
        "nodeSelector": labels,
        "tolerations": [{"operator": "Exists", "effect": effect} for effect in _EFFECTS],
        "resourceClaims": [{**claim, "resourceClaimTemplateName": name}],
        "containers": [container],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "finalizers": [LABEL], "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def _templates(namespace: str) -> str:
    return f"{GROUP}/namespaces/{namespace}/resourceclaimtemplates"


def _path(domain: Json) -> str:
    meta = domain["metadata"]
    return f"{KINDS}/namespaces/{meta['namespace']}/computedomains/{meta['name']}"
