# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The taints that NVIDIA's DRA driver gives devices with its gate NVMLDeviceHealthCheck.

They are those of cmd/gpu-kubelet-plugin/device_health.go.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from lab.cluster.api import Json
from lab.cluster.nodes.agents.dra.devices import Slice
from lab.cluster.nodes.agents.facts import note

_LOST = {"key": "gpu.nvidia.com/gpu-lost", "effect": "NoSchedule"}
_HARMLESS = (13, 31, 43, 45, 68, 109)
"""The Xids of applications, after which the driver lets pods use the device."""


@dataclass(frozen=True)
class Signs:
    """The signs of trouble that NVML gives: the Xid of the first GPU, and whether a GPU is lost."""

    xid: str = ""
    is_lost: bool = False


def signs(node: Json) -> Signs:
    """Return the signs of a node."""
    return Signs(note(node, "xid"), note(node, "gpu-lost") == "true")


def tainted(slices: list[Slice], before: Signs, after: Signs) -> list[Slice]:
    """Return slices with the taints that follow from signs since the driver's start.

    One lost GPU taints all devices of the node. An Xid taints the first GPU, unless it is divided.
    """
    taints = (
        [{"key": "gpu.nvidia.com/gpu-lost", "effect": "NoSchedule"}] if after.is_lost and not before.is_lost else []
    )
    found = [{**item, "devices": [_with(device, taints) for device in item.get("devices") or []]} for item in slices]
    if not after.xid or after.xid == before.xid:
        return found if taints else slices
    effect = "None" if int(after.xid) in _HARMLESS else "NoSchedule"
    own = [*taints, {"key": "gpu.nvidia.com/xid", "value": after.xid, "effect": effect}]
    return [
        {**item, "devices": [_with(each, own) if each["name"] == "gpu-0" else each for each in item["devices"]]}
        for item in found
    ]


def _with(device: Json, taints: t.Sequence[Json]) -> Json:
    return {**device, "taints": list(taints)} if taints else device
