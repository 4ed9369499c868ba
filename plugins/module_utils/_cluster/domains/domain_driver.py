# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the cluster has for ComputeDomains: their controller, what nodes offer, and how the driver is set.

Source: NVIDIA GPU Operator v26.7.0, ``manifests/state-dra-driver``, and the driver's own chart, ``templates``.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims import driver_gates
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains import fabric_nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains.domain_request import DOMAIN_LABEL
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains.fabric_nodes import FabricNode
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpucluster import gpucluster_refusals
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_claims, names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

DOMAIN_DRIVER = "compute-domain.nvidia.com"
"""The part of the driver for ComputeDomains, and the driver of its ResourceSlices."""

_CONTROLLERS = (
    ("app", "nvidia-dra-driver-controller"),
    ("dra-driver-nvidia-gpu-component", "controller"),
    ("nvidia-dra-driver-gpu-component", "controller"),
)
"""The labels of the controller's pods: from the operator, from the driver's own chart, and from that of 25.12."""

_CONTAINER = "compute-domain"
_CALENDAR = re.compile(r":v?25\.\d")
"""The tag of a release before v0.4.0, such as v25.12.0. They write numNodes also if it is 0."""


@dataclasses.dataclass(frozen=True)
class DomainController:
    """The pods of the controller of ComputeDomains."""

    pods: tuple[Json, ...]

    @property
    def is_ready(self) -> bool:
        """Whether one of the pods runs."""
        return any(map(_is_ready, self.pods))

    @property
    def writes_zero(self) -> bool:
        """Whether it is known to write numNodes also if that is 0."""
        return bool(self.pods) and all(_CALENDAR.search(_container(pod).get("image") or "") for pod in self.pods)

    @property
    def is_host_managed(self) -> bool:
        """Whether the hosts run IMEX themselves, so that there are no daemons to wait for."""
        settings = [each for pod in self.pods for each in _container(pod).get("env") or []]
        return {"name": "IMEX_MODE", "value": "hostManaged"} in settings

    def refuse_absence(self, what: str) -> None:
        """Raise if no pod of it runs. ``what`` says what cannot be done then."""
        if self.is_ready:
            return
        named = first_few([objects.full_name(pod) for pod in self.pods])
        found = f"Its pods are not ready: {named}" if self.pods else "It has no pods"
        raise GpuOpsError(
            f"{what}: the controller of ComputeDomains does not run. {found}. It is the Deployment "
            "nvidia-dra-driver-controller of a GPUCluster with draDriver.computeDomains.enabled: true, or that of the "
            "DRA driver's own chart with resources.computeDomains.enabled: true. Bring it up first.",
            reason="NotReady",
        )


def _container(pod: Json) -> Json:
    return next((each for each in pod["spec"].get("containers") or [] if each["name"] == _CONTAINER), {})


def _is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    is_ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    return is_ready and not pod["metadata"].get("deletionTimestamp")


def controller(cluster: Cluster) -> DomainController:
    """Return the controller as it is now."""
    for key, value in _CONTROLLERS:
        listed = cluster.list(namespaced("v1", None, "pods"), labelSelector=f"{key}={value}", resourceVersion="")
        pods = tuple(pod for pod in listed or [] if objects.labels_of(pod).get(key) == value)
        if pods:
            return DomainController(pods)
    return DomainController(())


def daemons(cluster: Cluster, uid: str) -> dict[str, Json]:
    """Return the daemon's pod of each node of a ComputeDomain."""
    key = DOMAIN_LABEL
    listed = cluster.list(namespaced("v1", None, "pods"), labelSelector=f"{key}={uid}", resourceVersion="") or []
    found = [pod for pod in listed if objects.labels_of(pod).get(key) == uid]
    return {pod["spec"]["nodeName"]: pod for pod in found if pod["spec"].get("nodeName")}


def taken_nodes(cluster: Cluster, uid: str) -> set[str]:
    """Return the nodes that are in another ComputeDomain than the one with this UID."""
    listed = cluster.list(namespaced("v1", None, "nodes"), labelSelector=DOMAIN_LABEL, resourceVersion="") or []
    return {objects.name_of(node) for node in listed if objects.labels_of(node).get(DOMAIN_LABEL, uid) != uid}


def ready_nodes(pods: t.Mapping[str, Json]) -> set[str]:
    """Return the nodes whose pod is ready."""
    return {node for node, pod in pods.items() if _is_ready(pod)}


def refuse_switched_off(cluster: Cluster) -> None:
    """Raise if a GPUCluster has ComputeDomains switched off, or lacks their block."""
    for item in cluster.list_readable(observe.GPUCLUSTERS_PATH).items:
        if gpucluster_refusals.has_domains(item.get("spec") or {}) is not True:
            raise GpuOpsError(
                f"GPUCluster {objects.name_of(item)} has ComputeDomains switched off "
                "(draDriver.computeDomains.enabled). Switch them on with gpucluster: dra_driver: "
                "{compute_domains: {enabled: true}}.",
                reason="NotReady",
            )


class OfferedPart(t.NamedTuple):
    """What is kept of a ResourceSlice."""

    driver: str
    node: str
    version: str


def nodes(cluster: Cluster) -> list[FabricNode]:
    """Return the nodes that offer channels or are in a clique, as they are now."""
    parts: list[OfferedPart] = []
    served = device_claims.served_version(cluster, "resourceslices")
    if served:
        path = namespaced(f"{names.DRA_GROUP}/{served}", None, "resourceslices")
        parts, dummy = cluster.large_list(path, _part, resourceVersion="")
    channels = {part.node for part in parts if part.driver == DOMAIN_DRIVER}
    versions = {part.node: part.version for part in parts if part.driver == names.DRA_DRIVER and part.version}
    found, dummy = cluster.large_list(namespaced("v1", None, "nodes"), _slim, resourceVersion="")
    return fabric_nodes.fabric_nodes(found, channels, versions)


def _part(item: Json) -> OfferedPart:
    spec = item["spec"]
    described = [device.get("basic") or device for device in spec.get("devices") or []]
    versions = [str(value) for each in described if (value := _driver_of(each.get("attributes") or {}))]
    return OfferedPart(spec["driver"], spec.get("nodeName") or "", next(iter(versions), ""))


def _driver_of(attributes: Json) -> str | None:
    return (attributes.get("driverVersion") or attributes.get(f"{names.DRA_DRIVER}/driverVersion") or {}).get("version")


def _slim(node: Json) -> Json:
    metadata = node["metadata"]
    kept = {"name": metadata["name"], "labels": metadata.get("labels") or {}}
    return {"metadata": kept, "spec": {"unschedulable": (node.get("spec") or {}).get("unschedulable")}}


def has_dns_names(cluster: Cluster) -> bool | None:
    """Return whether IMEX daemons find each other by names, or None if the driver's gates are unknown.

    Without it, the driver asks for the exact number of nodes.
    """
    gates = driver_gates.read(cluster)
    return None if gates.unknown else gates.is_on("IMEXDaemonsWithDNSNames")
