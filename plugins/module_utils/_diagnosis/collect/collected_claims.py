# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a cluster says of GPUs by ResourceClaim. It is read only where a DRA driver runs, or pods wait with claims.

The DRA driver comes with a GPUCluster or with a chart of its own, which has its own namespace.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import choice
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect.reader import GapReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CONTAINERS = frozenset({"gpus", "compute-domains"})
"""The containers of the plugin's pods, with a GPUCluster and with the chart. Source: kubernetes-sigs/
dra-driver-nvidia-gpu at 95932046, ``deployments/helm/dra-driver-nvidia-gpu/templates/kubeletplugin.yaml``."""

PREPARE_FAILED = "FailedPrepareDynamicResources"
"""The reason of the kubelet's event. Nothing in a pod's status says it."""

BARE = frozenset({"resourceslices", "resourceclaims", "draplugins"})
"""Kinds of which only parts are kept that hold no secrets. To mask those of a large fleet takes long."""

READ_PLUGINS = 4
"""How many pods of plugins are read whole, with their logs. Those of a fleet fail alike."""

_DOMAINS = namespaced("resource.nvidia.com/v1beta1", None, "computedomains")
_KEPT = frozenset({"type", "resource.kubernetes.io/pciBusID", "uuid", "parentUUID", "profile"})
"""The attributes of devices that rules read."""


@dataclasses.dataclass(frozen=True)
class ClaimObjects:
    """The objects by the plural of their kind, and the pods of plugins whose logs are of interest.

    ``draplugins`` are the pods of plugins in short. A kind that could not be read is absent.
    """

    kinds: dict[str, list[Json]] = dataclasses.field(default_factory=dict)
    pods: tuple[Json, ...] = ()


def plugins(daemonsets: t.Iterable[Json]) -> list[Json]:
    """Return the DaemonSets of DRA drivers for GPUs."""
    return [item for item in daemonsets if objects.name_of(item).endswith("kubelet-plugin") and _containers(item)]


def _containers(daemonset: Json) -> frozenset[str]:
    """Return the containers of a plugin's pods: ``gpus``, ``compute-domains`` or both."""
    containers = daemonset["spec"]["template"]["spec"].get("containers") or []
    return CONTAINERS & {str(each.get("name")) for each in containers}


def read(reader: GapReader, namespace: str, daemonsets: t.Sequence[Json], waiting: t.Sequence[Json]) -> ClaimObjects:
    """Return what rules look at. ``namespace`` is the operator's, and ``waiting`` are pods that have no node."""
    found = plugins(daemonsets)
    if not found and not any((pod.get("spec") or {}).get("resourceClaims") for pod in waiting):
        return ClaimObjects()
    kinds = _kinds(reader)
    events = f"reason={PREPARE_FAILED}"
    path = namespaced("v1", None, "events")
    kinds["events"] = list(map(choice.slimmed, reader.first_page(path, fieldSelector=events)))
    kinds["draplugins"] = [pod for item in found for pod in _pods_of(reader, item)]
    if not all(reader.has_read(namespaced("v1", item["metadata"]["namespace"], "pods")) for item in found):
        del kinds["draplugins"]
    failing = {str((event.get("source") or {}).get("host") or "") for event in kinds["events"]}
    return ClaimObjects(kinds, _read_whole(reader, namespace, kinds.get("draplugins") or [], failing))


def _kinds(reader: GapReader) -> dict[str, list[Json]]:
    """Return the objects of resource.k8s.io in the newest version that is served, and the ComputeDomains."""
    kinds: dict[str, list[Json]] = {}
    for version in names.DRA_VERSIONS:
        api = f"resource.k8s.io/{version}"
        classes = reader.list(namespaced(api, None, "deviceclasses"))
        if classes is None and reader.has_read(namespaced(api, None, "deviceclasses")):
            continue  # this version is not served
        paths = {plural: namespaced(api, None, plural) for plural in ("resourceslices", "resourceclaims")}
        slices = reader.large_list(paths["resourceslices"], _slice, fieldSelector=f"spec.driver={names.DRA_DRIVER}")[0]
        claims = reader.large_list(paths["resourceclaims"], _claim)[0]
        read_now = {"deviceclasses": classes or [], "resourceslices": slices, "resourceclaims": claims}
        kinds = {plural: items for plural, items in read_now.items() if reader.has_read(namespaced(api, None, plural))}
        break
    domains = reader.list(_DOMAINS)
    return kinds | ({"computedomains": list(map(choice.slimmed, domains))} if domains is not None else {})


def _slice(item: Json) -> Json:
    """Return a ResourceSlice with the parts of its devices that rules read. With dynamic MIG, a node has hundreds."""
    spec = item["spec"]
    kept = {key: spec[key] for key in ("driver", "nodeName", "pool", "sharedCounters") if key in spec}
    return {"metadata": {"name": objects.name_of(item)}, "spec": kept | {"devices": _devices(spec)}}


def _devices(spec: Json) -> list[Json]:
    # v1beta1 has the attributes one level deeper.
    found = [(device["name"], device.get("basic") or device) for device in spec.get("devices") or []]
    return [
        {
            "name": name,
            "attributes": {key: value for key, value in (each.get("attributes") or {}).items() if key in _KEPT},
            "taints": each.get("taints") or [],
        }
        for name, each in found
    ]


def _claim(item: Json) -> Json:
    """Return a claim without its configuration, which may hold anything."""
    status, requests = item.get("status") or {}, (item["spec"].get("devices") or {}).get("requests") or []
    wanted = [{"name": each.get("name"), "exactly": _asked(each.get("exactly") or each)} for each in requests]
    return {
        "metadata": {key: item["metadata"].get(key) for key in ("namespace", "name", "deletionTimestamp")},
        "spec": {"devices": {"requests": wanted}},
        "status": {"reservedFor": status.get("reservedFor") or [], **_allocation(status)},
    }


def _allocation(status: Json) -> Json:
    allocation = status.get("allocation")
    if not allocation:
        return {}
    return {"allocation": {"devices": {"results": (allocation.get("devices") or {}).get("results") or []}}}


def _asked(request: Json) -> Json:
    return {key: request[key] for key in ("deviceClassName", "adminAccess") if key in request}


def _pods_of(reader: GapReader, daemonset: Json) -> list[Json]:
    path = namespaced("v1", daemonset["metadata"]["namespace"], "pods")
    labels = (daemonset["spec"].get("selector") or {}).get("matchLabels") or {}
    chosen = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    containers = sorted(_containers(daemonset))
    return reader.large_list(path, lambda pod: _short(pod, containers), labelSelector=chosen)[0]


def _short(pod: Json, containers: list[str]) -> Json:
    ready = [each["name"] for each in objects.container_statuses(pod) if each.get("ready")]
    return {
        "metadata": {key: pod["metadata"].get(key) for key in ("namespace", "name")},
        "node": (pod.get("spec") or {}).get("nodeName"),
        "containers": containers,
        "ready": [name for name in containers if name in ready],
    }


def _read_whole(reader: GapReader, namespace: str, found: list[Json], failing: t.Collection[str]) -> tuple[Json, ...]:
    """Return some pods of plugins: on nodes where claims fail, and those of another namespace that are not ready.

    Those of the operator's namespace that are not ready are read with its other pods.
    """
    wanted = [
        pod
        for pod in found
        if pod["node"] in failing
        or (pod["metadata"]["namespace"] != namespace and len(pod["ready"]) < len(pod["containers"]))
    ]
    paths = [namespaced("v1", pod["metadata"]["namespace"], "pods", pod["metadata"]["name"]) for pod in wanted]
    whole = [reader.get(path) for path in paths[:READ_PLUGINS]]
    return tuple(choice.slimmed(pod) for pod in whole if pod)
