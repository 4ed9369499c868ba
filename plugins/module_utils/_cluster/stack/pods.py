# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Functions about pods: which pods hold GPUs, which are running, and which do not start."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_health, names
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.device_claims import (
    ClaimName,
    ClaimReader,
    extended_resources,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.device_health import ReportedHealth
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import ignores_cordons, is_gpu_resource
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import quantity
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

NEVER_STARTS = (
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
)
"""States of a waiting container that need manual intervention. The remedy depends on the pod."""

HEALS_S = 180.0
"""How long such a state may last before it counts as final: busy registries and a runtime that restarts heal sooner."""

_FINAL_STATES = ("InvalidImageName", "ErrImageNeverPull")
_PULL_STATES = ("ErrImagePull", "ImagePullBackOff")
_FINAL_ANSWER = re.compile(
    r"\bnot found\b|manifest unknown|name unknown|unauthorized|access denied|authentication required"
    r"|no match for platform|no matching manifest|invalid reference format|: 403 Forbidden",
    re.IGNORECASE,
)
"""What registries answer for an image that does not exist or may not be pulled (containerd's and CRI-O's wording)."""


def never_starts(state: str, message: str, lasts_s: float) -> bool:
    """Return whether a container in this waiting state needs manual intervention.

    ``lasts_s`` is how long it has been in such a state. A pull error that names the image or the credentials is final
    at once. All others may heal: a busy registry, a lost connection, a container runtime that restarts.
    """
    if state in _FINAL_STATES:
        return True
    if state in _PULL_STATES and _FINAL_ANSWER.search(message):
        return True
    return state in NEVER_STARTS and lasts_s >= HEALS_S


def is_running(row: t.Mapping[str, t.Any]) -> bool:
    """Return whether a row of the API's pod table shows a pod that runs with all its containers ready (``2/2``)."""
    ready, dummy, total = str(row["ready"]).partition("/")
    return row["status"] == "Running" and ready == total


# ---- GPUs ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class GpuPod:
    """A pod that holds GPUs: ``gpus`` maps resource names to numbers.

    Devices of Dynamic Resource Allocation stand under the name of their driver, also those that a pod got for an
    extended resource. Of several pods that share a claim, the first one has its devices.
    """

    namespace: str
    name: str
    node: str
    gpus: t.Mapping[str, int]
    is_bare: bool = False
    """Whether no controller would create it again, so that a drain refuses to delete it."""
    keeps_data: bool = False
    """Whether it has an emptyDir volume, so that a drain refuses to delete it."""
    owner: str = dataclasses.field(default="", compare=False)
    """The kind and the name of its controller, or an empty string."""
    ignores_cordons: bool = dataclasses.field(default=False, compare=False)
    """Whether the scheduler may put it on a cordoned node."""
    doubted: tuple[ReportedHealth, ...] = dataclasses.field(default=(), compare=False)
    """Its GPUs that the kubelet does not call healthy."""


def gpu_pods(cluster: Cluster, operator_namespace: str, claims: ClaimReader | None = None) -> list[GpuPod]:
    """Return the scheduled, unfinished pods that hold GPUs, except operands."""
    claims = claims or ClaimReader(cluster)
    counted: set[ClaimName] = set()
    found = []
    for pod in candidates(cluster, operator_namespace):
        gpus = gpus_of_plugin(pod)
        held = claims.gpus_of(pod)
        node = pod["spec"].get("nodeName")
        if (gpus or held) and node:
            devices = sum(number for claim, number in held.items() if claim not in counted)
            counted |= set(held)
            gpus |= {names.DRA_DRIVER: devices} if devices else {}
            meta = pod["metadata"]
            facts = (is_bare(pod), bool(local_data(pod)), owner_of(pod), ignores_cordons(pod["spec"]))
            doubted = device_health.doubted(pod)
            found.append(GpuPod(meta["namespace"], meta["name"], node, gpus, *facts, doubted))
    return found


class GpuHolders:
    """Knows which pods hold GPUs, from a device plugin or through claims."""

    def __init__(self, cluster: Cluster) -> None:
        self._claims = ClaimReader(cluster)

    def __contains__(self, pod: Json) -> bool:
        return bool(requested_gpus(pod["spec"])) or self._claims.holds_gpu(pod)


def is_bare(pod: Json) -> bool:
    """Return whether a pod has no controller. Source: kubectl ``pkg/drain/filters.go``, ``unreplicatedFilter``."""
    return not owner_of(pod)


def owner_of(pod: Json) -> str:
    """Return the kind and the name of a pod's controller, such as ``ReplicaSet/web-7d8``, or an empty string."""
    owners = (owner for owner in pod["metadata"].get("ownerReferences") or [] if owner.get("controller"))
    return next((f"{owner.get('kind')}/{owner.get('name')}" for owner in owners), "")


def local_data(pod: Json) -> list[str]:
    """Return the emptyDir volumes of a pod. Source: kubectl ``pkg/drain/filters.go``, ``localStorageFilter``."""
    return [volume["name"] for volume in pod["spec"].get("volumes") or [] if "emptyDir" in volume]


def candidates(cluster: Cluster, operator_namespace: str) -> t.Iterator[Json]:
    """Yield the unfinished pods that may hold GPUs, in pages.

    Most pods of a large fleet are operands, and hold no GPUs. They are left out by the API server: they are pods of
    DaemonSets (which all have the label below) in the operator's namespace.
    """
    unfinished = "status.phase!=Succeeded,status.phase!=Failed"
    elsewhere = f"metadata.namespace!={operator_namespace},{unfinished}" if operator_namespace else unfinished
    yield from cluster.pages(namespaced("v1", None, "pods"), fieldSelector=elsewhere)
    if operator_namespace:
        yield from _candidates_in(cluster, operator_namespace, unfinished)


def _candidates_in(cluster: Cluster, operator_namespace: str, unfinished: str) -> t.Iterator[Json]:
    path = namespaced("v1", operator_namespace, "pods")
    for pod in cluster.pages(path, fieldSelector=unfinished, labelSelector=f"!{DAEMONSET_POD}"):
        if not _is_operand(pod):
            yield pod
    for item in cluster.list(namespaced("apps/v1", operator_namespace, "daemonsets")) or []:
        if not _is_operand(item) and _may_hold_gpus(item["spec"]["template"]["spec"]):
            labels = item["spec"]["selector"].get("matchLabels") or {}
            chosen = ",".join([DAEMONSET_POD, *(f"{key}={value}" for key, value in labels.items())])
            yield from cluster.pages(path, fieldSelector=unfinished, labelSelector=chosen)


def _may_hold_gpus(spec: Json) -> bool:
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    by_class = any(name.startswith(CLASS_RESOURCE) for container in containers for name in _asked(container))
    return bool(requested_gpus(spec) or spec.get("resourceClaims") or by_class)


CLASS_RESOURCE = "deviceclass.resource.kubernetes.io/"
"""The beginning of the extended resource that every DeviceClass has. Source: k8s.io/api/resource/v1,
``ResourceDeviceClassPrefix``."""


DAEMONSET_POD = "pod-template-generation"
"""A label of every pod of a DaemonSet. Source: kubernetes/pkg/controller/daemon/util/daemonset_util.go."""


def _is_operand(item: Json) -> bool:
    """Return whether a custom resource of the operator owns this object: a DaemonSet, or a pod of the validator."""
    owners = item["metadata"].get("ownerReferences") or []
    return any(str(owner.get("apiVersion")).partition("/")[0] == OPERATOR_GROUP for owner in owners)


OPERATOR_GROUP = "nvidia.com"


# ---- requests -----------------------------------------------------------------------------------------------------


def gpus_of_plugin(pod: Json) -> dict[str, int]:
    """Return the GPUs that a device plugin gave to a pod: all that it requests, less those that are a claim."""
    claimed = extended_resources(pod)
    return {name: number for name, number in requested_gpus(pod["spec"]).items() if name not in claimed}


def requested_gpus(spec: Json) -> dict[str, int]:
    """Return the GPUs that a pod holds.

    They are the sum of its containers and sidecars, or more if another init container needs more beside the sidecars
    that have been started before it.
    """
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            sidecars = _added(sidecars, _limits(container))
        else:
            peak = _larger(peak, _added(sidecars, _limits(container)))
    total = sidecars
    for container in spec.get("containers") or []:
        total = _added(total, _limits(container))
    return _larger(total, peak)


def _added(one: t.Mapping[str, int], other: t.Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def _larger(one: t.Mapping[str, int], other: t.Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def _limits(container: Json) -> dict[str, int]:
    asked = _asked(container).items()
    return {name: quantity(number) for name, number in asked if is_gpu_resource(name) and quantity(number)}


def _asked(container: Json) -> dict[str, str]:
    resources = container.get("resources") or {}
    return {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
