# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ResourceSlices with the attributes that NVIDIA's driver writes, and claims, pods and classes around them."""

from __future__ import annotations

import typing as t

from tests.unit.fakes.api import FakeApi, Reply, refusal

Json = dict[str, t.Any]

DRIVER = "gpu.nvidia.com"


def device(number: int, memory: str = "81559Mi", product: str = "NVIDIA H100 80GB HBM3", **more: t.Any) -> Json:
    """Return a whole GPU."""
    attributes = {"type": {"string": "gpu"}, "uuid": {"string": f"GPU-{number}"}, "productName": {"string": product}}
    attributes |= {"architecture": {"string": "Hopper"}, "driverVersion": {"version": "580.95.5"}}
    attributes |= {"resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"}}
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": memory}}, **more}


def resource_slice(node: str, *devices: Json, generation: int = 1, count: int = 1, **more: t.Any) -> Json:
    """Return a slice with devices of a node."""
    pool = {"name": node, "generation": generation, "resourceSliceCount": count}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": list(devices), **more}
    return {"metadata": {"name": f"{node}-{generation}"}, "spec": spec}


def claim(name: str, *devices: tuple[str, str], class_name: str = DRIVER, namespace: str = "research") -> Json:
    """Return a claim that has the devices of these pools and names."""
    results = [{"driver": DRIVER, "pool": pool, "device": name, "request": "gpu"} for pool, name in devices]
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": class_name}}]}},
        "status": {"allocation": {"devices": {"results": results}}} if results else {},
    }


def pod(name: str, namespace: str = "research", template: str = "", phase: str = "Running", **spec: t.Any) -> Json:
    """Return a pod, whose claim may come from a template."""
    asked = [{"name": "gpus", "resourceClaimTemplateName": template}] if template else []
    made = {"containers": [], "resourceClaims": asked, **spec}
    return {"metadata": {"namespace": namespace, "name": name}, "spec": made, "status": {"phase": phase}}


GROUP = "/apis/resource.k8s.io"
DAEMONSETS = "/apis/apps/v1/daemonsets"
KINDS = ("resourceclaimtemplates", "resourceclaims", "resourcequotas")


class DraApi:
    """Makes a fake API server one of a cluster with claims, and with the namespaces research and notebooks.

    ``versions`` are those of the API that it serves, the newest first.
    """

    def __init__(self, api: FakeApi, *versions: str) -> None:
        self.api = api
        self.root = f"{GROUP}/{(versions or ('v1',))[0]}"
        self.namespaces: dict[str, Json] = {name: {} for name in ("research", "notebooks")}
        """The labels of each namespace."""
        self.refuses_changes = False
        """Whether a template and a claim that exist cannot be changed."""
        api.lists |= {self.path(kind): [] for kind in ("resourceslices", "deviceclasses", "resourceclaims")}
        api.lists |= {f"{GROUP}/{version}/deviceclasses": [] for version in versions} | {DAEMONSETS: []}
        api.lists |= {self.path(kind, name): [] for kind in KINDS for name in self.namespaces}
        api.lists |= {f"/api/v1/namespaces/{name}/pods": [] for name in self.namespaces}
        api.answer = self.answer

    def path(self, kind: str, namespace: str = "") -> str:
        """Return the path of a collection."""
        root = "/api/v1" if kind == "resourcequotas" else self.root
        return f"{root}/namespaces/{namespace}/{kind}" if namespace else f"{root}/{kind}"

    def all(self, kind: str) -> list[Json]:
        """Return the objects of a kind in all namespaces."""
        return [item for name in self.namespaces for item in self.api.lists[self.path(kind, name)]]

    def _exists(self, path: str) -> bool:
        collection, dummy, name = path.rpartition("/")
        items = self.api.lists.get(collection, []) if "resourceclaim" in collection else []
        return any(item["metadata"]["name"] == name for item in items)

    def answer(self, method: str, path: str) -> Reply | None:
        """Answer what the lists do not."""
        for kind in KINDS:
            if path == self.path(kind):
                return 200, {"items": self.all(kind), "metadata": {}}
        if self.refuses_changes and method == "PATCH" and self._exists(path):
            return refusal(422, "spec: Invalid value: field is immutable", "Invalid")
        kind, dummy, name = path.removeprefix("/api/v1/").partition("/")
        if kind == "namespaces" and name in self.namespaces:
            return 200, {"metadata": {"name": name, "labels": self.namespaces[name]}}
        return None
