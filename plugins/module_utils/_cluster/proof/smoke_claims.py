# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The claims of one run of the smoke test: a template for each DeviceClass, and the devices that each pod got."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_pools import Device
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_reader import Offered
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_claims, names
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.device_claims import AllocatedClaim
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

REQUEST = "gpu"
"""The name of the claim in a pod, and of its one request."""


def is_class(resource: str | None) -> bool:
    """Return whether this names a DeviceClass. An extended resource always has a domain and a slash."""
    return resource is not None and "/" not in resource


def enough_of(offered: Offered, node: str, device_class: str, count: int) -> bool:
    """Return whether claims can get that many devices of a class on a node, if none is held.

    What a class of somebody else selects is unknown here, and the scheduler says it.
    """
    pool = offered.by_node.get(node)
    if pool is None or pool.missing:
        return False
    kind = next((kind for kind, name in names.DEVICE_CLASSES.items() if name == device_class), None)
    usable = [device for device in pool.devices if not device.is_kept_away and kind in (None, device.kind)]
    return len(usable) >= count


class SmokeClaims:
    """The claims of a run. What it creates has the labels of ``metadata``, and ``selector`` finds it again."""

    def __init__(self, cluster: Cluster, namespace: str, count: int, offered: Offered) -> None:
        self._cluster, self._namespace, self._count = cluster, namespace, count
        self._devices = {device.name: device for pool in offered.pools for device in pool.devices}
        self._made: dict[str, str] = {}
        self._version: str | None = None

    def template(self, device_class: str, name: str, metadata: Json) -> str:
        """Return the name of the template for a class, which is created when it is first needed.

        The name begins with ``name``.
        """
        if device_class not in self._made:
            numbered, path = f"{name}-{len(self._made)}", self.templates_path
            self._cluster.create(path, self._manifest(numbered, device_class, metadata))
            self._made[device_class] = numbered
        return self._made[device_class]

    @property
    def templates_path(self) -> str:
        """The path of the templates in the newest version that is served."""
        return self._path("resourceclaimtemplates")

    def _path(self, plural: str) -> str:
        if self._version is None:
            self._version = device_claims.served_version(self._cluster, "resourceclaimtemplates")
        if self._version is None:
            raise GpuOpsError("The cluster serves no ResourceClaimTemplates.", reason="NotFound")
        return namespaced(f"{names.DRA_GROUP}/{self._version}", self._namespace, plural)

    def _manifest(self, name: str, device_class: str, metadata: Json) -> Json:
        wanted: Json = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": self._count}
        request = {"name": REQUEST, **(wanted if self._version == "v1beta1" else {"exactly": wanted})}
        return {
            "apiVersion": f"{names.DRA_GROUP}/{self._version}",
            "kind": "ResourceClaimTemplate",
            "metadata": {**metadata, "name": name},
            # The claims get the labels too, so that one list finds them all.
            "spec": {"metadata": {"labels": metadata["labels"]}, "spec": {"devices": {"requests": [request]}}},
        }

    def read(self, selector: str) -> dict[str, AllocatedClaim]:
        """Return the claims of the run that have devices, by name."""
        if not self._made:
            return {}
        listed = self._cluster.list(self._path("resourceclaims"), labelSelector=selector) or []
        return {claim.name: claim for claim in map(device_claims.allocated, listed) if claim}

    def devices_of(self, pod: Json | None, claims: t.Mapping[str, AllocatedClaim]) -> list[Json]:
        """Return the devices of a pod's claims. Kubernetes deletes a claim from a template soon after its pod's end."""
        named = device_claims.claims_of(pod) if pod and claims else ()
        held = [claims[name] for dummy, name in sorted(named) if name in claims]
        found = [self._devices.get(device, Device(device)) for claim in held for device in claim.devices]
        return [
            {
                "name": device.name[2],
                "type": device.kind,
                "uuid": device.uuid,
                "profile": device.profile,
                "parent_uuid": device.parent_uuid,
            }
            for device in found
        ]

    def delete(self, selector: str) -> None:
        """Delete the templates of the run. Kubernetes deletes their claims with the pods."""
        if self._version:  # the answer to a creation may have been lost
            path = self.templates_path
            for item in self._cluster.list(path, labelSelector=selector, resourceVersion="") or []:
                self._cluster.delete(f"{path}/{name_of(item)}")


_UUID = re.compile(r"\b(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


def contradiction(log: str, devices: t.Sequence[Json]) -> str:
    """Return a sentence if a workload's log names another GPU than its claim has, or an empty string.

    ``nvidia-smi -L`` names the GPU of a MIG device, too. Without a known UUID, nothing can be compared.
    """
    known = {device[key] for device in devices for key in ("uuid", "parent_uuid") if device[key]}
    strange = sorted(set(_UUID.findall(log)) - known)
    if not known or not strange:
        return ""
    return (
        f"The workload sees {first_few(strange)}, and its claim has {first_few(sorted(known))}. The node gives "
        "containers GPUs that the scheduler has not allocated: check its container runtime, and that no device plugin "
        "runs there."
    )
