# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Thousands of nodes as large as real ones, with their operands' pods, written into etcd without simulated life.

A lab that has a ready stack on a few nodes is the pattern. `multiply` ends everything that would react, and writes
copies of what the API server stored for a node, its ResourceSlices, and its pods with their claims. The new names are
as long as those of the pattern, so they can be replaced in the API server's binary format.
"""

from __future__ import annotations

import base64
import concurrent.futures
import http.client
import json
import re
import time
import typing as t
import uuid

from lab.cluster.api import Api, Json
from lab.cluster.controlplane import components as controlplane
from lab.cluster.lab import Lab
from lab.cluster.nodes.agents.dra.slices import GROUP, SLICES
from lab.errors import LabError

Entry = tuple[str, bytes]
_REACTING = ("operator", "agents", "kwok", "kube-scheduler", "kube-controller-manager")
_BATCH_BYTES, _BATCH_KEYS = 1_000_000, 100
"""Limits of a transaction: etcd accepts 1.5 MB and 128 operations."""
_WRITERS = 4
MOST = 10_000
"""Node names have four digits."""
_IMAGES = 50
_FLAGS = 30
"""Labels of Node Feature Discovery about the processor."""
_FEATURES = "feature.node.kubernetes.io/"


def multiply(lab: Lab, nodes: int) -> int:
    """Bring a lab with a ready stack to a number of GPU nodes, and return the number of objects written."""
    api = Api(str(lab.kubeconfig))
    existing = [item["metadata"]["name"] for item in api.list("/api/v1/nodes")]
    if not len(existing) < nodes <= MOST:
        raise LabError(f"The number of nodes must be more than {len(existing)} and at most {MOST}.")
    pattern, pods = _pattern(api)
    for name in _REACTING:
        lab.remove_component(name)
    for name in existing:
        _enlarge(api, name)
    copies = _Copies(lab, pattern, pods, *_claimed(api, pattern, pods))
    names = [f"gpu-{number:04d}" for number in range(len(existing), nodes)]
    written = _write(lab, (entry for name in names[:-1] for entry in copies.of(name)))
    written += _write(lab, copies.of(names[-1]))
    _until_served(api, copies, names[-1])
    _count(api, pods, nodes)
    return written


def _pattern(api: Api) -> tuple[Json, list[Json]]:
    """Return a node with allocatable GPUs, as a resource or in a slice, and the pods of DaemonSets on it."""
    sliced = {item["spec"].get("nodeName") for item in api.list(SLICES)}
    for node in api.list("/api/v1/nodes"):
        counted = (node["status"].get("allocatable") or {}).get("nvidia.com/gpu", "0")
        if counted != "0" or node["metadata"]["name"] in sliced:
            pods = api.list("/api/v1/pods", fieldSelector=f"spec.nodeName={node['metadata']['name']}")
            return node, [pod for pod in pods if _daemonset(pod)]
    raise LabError("No node has allocatable GPUs: deploy the stack before the nodes are multiplied.")


def _claimed(api: Api, node: Json, pods: list[Json]) -> tuple[list[Json], list[Json]]:
    """Return the slices of a node, and the claims of its pods."""
    slices = [item for item in api.list(SLICES) if item["spec"].get("nodeName") == node["metadata"]["name"]]
    mine = {pod["metadata"]["uid"] for pod in pods}
    claims = api.list(f"{GROUP}/resourceclaims")
    return slices, [item for item in claims if mine & {owner["uid"] for owner in _owners(item)}]


def _owners(item: Json) -> list[Json]:
    return item["metadata"].get("ownerReferences") or []


def _daemonset(pod: Json) -> str:
    return next((str(owner["name"]) for owner in _owners(pod) if owner["kind"] == "DaemonSet"), "")


def _enlarge(api: Api, name: str) -> None:
    """Make a node as large as a real one, about 21 kB, by what NFD and the kubelet write."""
    labels = {f"{_FEATURES}cpu-cpuid.FEATURE{number:02d}": "true" for number in range(_FLAGS)}
    annotations = {
        "nfd.node.kubernetes.io/feature-labels": ",".join(key.removeprefix(_FEATURES) for key in labels),
        "csi.volume.kubernetes.io/nodeid": json.dumps({"csi.example.com": name}),
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }
    path, patch = f"/api/v1/nodes/{name}", "application/merge-patch+json"
    body: Json = {"metadata": {"labels": labels, "annotations": annotations}}
    api.request("PATCH", path, body, patch, fieldManager="nfd-master")
    images = [_image(number) for number in range(_IMAGES)]
    api.request("PATCH", f"{path}/status", {"status": {"images": images}}, patch, fieldManager="kubelet")


def _image(number: int) -> Json:
    repository = f"nvcr.io/nvidia/cloud-native/component-{number:02d}"
    digest = uuid.uuid5(uuid.NAMESPACE_URL, repository).hex * 2
    return {"names": [f"{repository}@sha256:{digest}", f"{repository}:v1.{number}.0"], "sizeBytes": 10**8 + number}


class _Copies:
    """Copies of a node and of what belongs to it, in the form in which the API server stores them."""

    def __init__(self, lab: Lab, node: Json, pods: list[Json], slices: list[Json], claims: list[Json]) -> None:
        self._node = node["metadata"]["name"]
        kinds = {"minions": [node], "resourceslices": slices, "resourceclaims": claims, "pods": pods}
        self._stored = [_key(kind, item) for kind, items in kinds.items() for item in items]
        self._values = [_get(lab, key) for key in self._stored]
        everything = [item["metadata"] for items in kinds.values() for item in items]
        self._uids = [meta["uid"] for meta in everything]
        self._pods = [item["metadata"]["name"] for item in pods]
        self._others = [item["metadata"]["name"] for item in (*slices, *claims)]
        # The name of a claim contains that of its pod, and the name of a slice that of its node.
        words = sorted([*self._uids, *(meta["name"] for meta in everything)], key=len, reverse=True)
        self._words = re.compile("|".join(map(re.escape, words)).encode())

    def of(self, node: str) -> t.Iterator[Entry]:
        """Yield the objects of another node."""
        pods = {name: _numbered(name, node) for name in self._pods}
        new = {**pods, self._node: node, **{uid: str(uuid.uuid4()) for uid in self._uids}}
        for name in self._others:
            parts = {old: copy for old, copy in new.items() if old in name}
            new[name] = _numbered(_replaced(name, parts), node)
        known = {old.encode(): copy.encode() for old, copy in new.items()}
        for key, value in zip(self._stored, self._values, strict=True):
            renamed = self._words.sub(lambda found: known[found[0]], key.encode()).decode()
            yield renamed, self._words.sub(lambda found: known[found[0]], value)

    def last(self, node: str) -> str:
        """Return the API's path of the last copy."""
        dummy, dummy, namespace, name = self._stored[-1][1:].split("/")
        return f"/api/v1/namespaces/{namespace}/pods/{_numbered(name, node)}"


def _replaced(text: str, words: t.Mapping[str, str]) -> str:
    for old, copy in words.items():
        text = text.replace(old, copy)
    return text


def _numbered(name: str, node: str) -> str:
    """Return the name of a copy. The last five characters of a name are random, those of a copy a number."""
    return f"{name[:-5]}0{node[-4:]}"


def _key(kind: str, item: Json) -> str:
    """Return the key of an object in etcd."""
    meta = item["metadata"]
    namespace = meta.get("namespace")
    return "/".join(["/registry", kind, *([namespace] if namespace else []), meta["name"]])


def _write(lab: Lab, entries: t.Iterable[Entry]) -> int:
    """Write everything in transactions, a few at a time, and return the number of objects."""
    written = 0
    with concurrent.futures.ThreadPoolExecutor(_WRITERS) as pool:
        pending: set[concurrent.futures.Future[int]] = set()
        for batch in _batches(entries):
            if len(pending) >= 2 * _WRITERS:
                done, pending = concurrent.futures.wait(pending, return_when=concurrent.futures.FIRST_COMPLETED)
                written += sum(item.result() for item in done)
            pending.add(pool.submit(_put, lab, batch))
        return written + sum(item.result() for item in pending)


def _batches(entries: t.Iterable[Entry]) -> t.Iterator[list[Entry]]:
    batch: list[Entry] = []
    size = 0
    for key, value in entries:
        if batch and (size + len(value) > _BATCH_BYTES or len(batch) == _BATCH_KEYS):
            yield batch
            batch, size = [], 0
        batch.append((key, value))
        size += len(value)
    if batch:
        yield batch


def _put(lab: Lab, batch: list[Entry]) -> int:
    puts = [{"requestPut": {"key": _encoded(key.encode()), "value": _encoded(value)}} for key, value in batch]
    _etcd(lab, "/v3/kv/txn", {"success": puts})
    return len(batch)


def _get(lab: Lab, key: str) -> bytes:
    return base64.b64decode(_etcd(lab, "/v3/kv/range", {"key": _encoded(key.encode())})["kvs"][0]["value"])


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _etcd(lab: Lab, path: str, body: Json) -> Json:
    connection = controlplane.connect(lab.state.ports["etcd"], lab.authority)
    try:
        connection.request("POST", path, json.dumps(body))
        reply = connection.getresponse()
        data = reply.read()
    finally:
        connection.close()
    if reply.status != http.client.OK:
        raise LabError(f"etcd refuses the objects: {data.decode(errors='replace')}")
    return t.cast(Json, json.loads(data))


def _until_served(api: Api, copies: _Copies, node: str) -> None:
    """Wait until the API server's caches have seen the last objects."""
    paths, deadline = (f"/api/v1/nodes/{node}", copies.last(node)), time.monotonic() + 300
    while any(api.get(path, resourceVersion=0) is None for path in paths):
        if time.monotonic() > deadline:
            raise LabError(f"The API server does not serve node {node} after 300 s.")
        time.sleep(0.2)


def _count(api: Api, pods: list[Json], nodes: int) -> None:
    """Write into each DaemonSet's status that all of its pods are ready, since its controller is gone."""
    kinds = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled")
    status = dict.fromkeys([*kinds, "numberReady", "numberAvailable"], nodes)
    for pod in pods:
        path = f"/apis/apps/v1/namespaces/{pod['metadata']['namespace']}/daemonsets/{_daemonset(pod)}/status"
        api.merge(path, {"status": status})
