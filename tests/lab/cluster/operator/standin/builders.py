# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builders of the objects that the stand-in reads and writes."""

from __future__ import annotations

import typing as t

from lab.cluster.operator.standin import drivers, nodes, render
from lab.cluster.operator.standin.operands import OPERANDS

Json = dict[str, t.Any]
BY_STATE = {operand.state: operand for operand in OPERANDS}
NFD = {
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
    "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04",
}
IMAGE = {"repository": "nvcr.io/nvidia", "image": "thing", "version": "v1"}


def policy(**spec: t.Any) -> Json:
    components = {operand.spec: dict(IMAGE) for operand in OPERANDS}
    components["driver"]["manager"] = dict(IMAGE)
    for name, value in spec.items():
        components[name] = {**components.get(name, {}), **value}
    return {"metadata": {"name": "cluster-policy", "uid": "1"}, "spec": components}


def site(**spec: t.Any) -> render.Site:
    return render.Site("gpu-operator", policy(**spec), {}, "ubuntu24.04", {"6.8.0-31-generic": "ubuntu24.04"})


def node(labels: Json | None = None, *, unschedulable: bool = False, name: str = "gpu-0000") -> Json:
    return {
        "metadata": {"name": name, "uid": name, "labels": labels or {}},
        "spec": {"unschedulable": unschedulable},
        "status": {},
    }


def driver(name: str = "a", selector: Json | None = None, **spec: t.Any) -> Json:
    chosen = {"nodeSelector": selector} if selector is not None else {}
    made = {"default": False, "driverType": "gpu", **IMAGE, "manager": dict(IMAGE), **chosen, **spec}
    return {"metadata": {"name": name, "uid": name}, "spec": made}


def gpu_node(name: str = "gpu-0000", owner: str | None = None, **labels: str) -> Json:
    own = {drivers.OWNER: owner} if owner else {}
    return node({**NFD, nodes.PRESENT: "true", "node": name, **own, **labels}, name=name)
