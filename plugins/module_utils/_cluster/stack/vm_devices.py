# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which virtual machines of KubeVirt run on which node, and which devices of the host they have. Pure but for `read`.

Source: KubeVirt v1.9.0, ``api/core/v1``.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

KUBEVIRT_API = "kubevirt.io/v1"
INSTANCES = "virtualmachineinstances"
ENDED = ("Succeeded", "Failed")
"""The phases of a machine that has ended and has its devices no more."""

OnNodes = dict[str, list[Json]]
"""The machines on each node, each with its name and its devices."""


def devices_of(spec: Json) -> list[str]:
    """Return the resources that a machine's spec asks for by ``deviceName``, in its order."""
    devices = (spec.get("domain") or {}).get("devices") or {}
    return named([*(devices.get("gpus") or []), *(devices.get("hostDevices") or [])])


def named(listed: t.Iterable[Json]) -> list[str]:
    """Return the resources that these devices name. One that is claimed names none."""
    return [str(each["deviceName"]) for each in listed if each.get("deviceName")]


def on_nodes(instances: t.Iterable[Json]) -> OnNodes:
    """Return the machines with devices that run, by node and in the order of their names."""
    found: OnNodes = {}
    for item in sorted(instances, key=full_name):
        status, devices = item.get("status") or {}, devices_of(item.get("spec") or {})
        if devices and status.get("nodeName") and status.get("phase") not in ENDED:
            found.setdefault(str(status["nodeName"]), []).append({"name": full_name(item), "devices": devices})
    return found


def read(cluster: Cluster) -> OnNodes | None:
    """Read the machines. Return None if this user may not list them; without KubeVirt, there are none."""
    try:
        listed, dummy = cluster.large_list(namespaced(KUBEVIRT_API, None, INSTANCES), _kept, resourceVersion="")
    except GpuOpsError as e:
        if e.reason not in ("Forbidden", "NotFound"):
            raise
        return None if e.reason == "Forbidden" else {}
    return on_nodes(listed)


def _kept(item: Json) -> Json:
    """Return the parts of a machine that are read here."""
    metadata = {key: item["metadata"].get(key) for key in ("name", "namespace")}
    devices = ((item.get("spec") or {}).get("domain") or {}).get("devices") or {}
    spec = {"domain": {"devices": {key: devices.get(key) for key in ("gpus", "hostDevices")}}}
    status = {key: (item.get("status") or {}).get(key) for key in ("nodeName", "phase")}
    return {"metadata": metadata, "spec": spec, "status": status}
