# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The device plugin: which resources a node offers, and which pods it refuses."""

from __future__ import annotations

import typing as t

from lab.cluster.api import Json
from lab.cluster.nodes.agents.feature_discovery import GPU, PREFIX, dotted, is_part
from lab.cluster.nodes.agents.mig import Layout
from lab.cluster.nodes.agents.sharing import Sharing

NO_DEVICES = (
    "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices {}, which is unexpected"
)


class PluginError(Exception):
    """What makes the device plugin exit."""


def offered(layout: Layout, strategy: str, sharing: Sharing) -> dict[str, int]:
    """Return the number of devices of each resource."""
    if sharing.strategy == "mps" and strategy == "mixed":
        raise PluginError("unable to validate flags: using --mig-strategy=mixed is not supported with MPS")
    devices = _devices(layout, strategy)
    if sharing.strategy == "mps" and any(gpu is not None for gpu in layout):
        raise PluginError("sharing using MPS is not supported for MIG devices")
    return {sharing.name(name): count * sharing.replicas.get(name, 1) for name, count in devices.items()}


def healthy(offered: t.Mapping[str, int], unhealthy: int, sharing: Sharing) -> dict[str, int]:
    """Return what is left of the resources if so many devices of the first one are unhealthy, with all their shares."""
    found = dict(offered)
    for name in list(found)[:1]:
        shares = sharing.replicas.get(name.removesuffix(".shared"), 1)
        found[name] = max(found[name] - unhealthy * shares, 0)
    return found


def _devices(layout: Layout, strategy: str) -> dict[str, int]:
    if strategy == "none":
        return {GPU: len(layout)}
    whole = sum(gpu is None for gpu in layout)
    found = {GPU: whole} if whole else {}
    enabled = [gpu for gpu in layout if gpu is not None]
    if strategy == "single":
        _assert_uniform(enabled, whole)
    for gpu in enabled:
        for profile, count in gpu.items():
            if strategy == "mixed" and is_part(profile):
                raise PluginError(f"MIG profile '{profile}' does not match any resource patterns")
            name = GPU if strategy == "single" else f"{PREFIX}mig-{dotted(profile)}"
            found[name] = found.get(name, 0) + count
    return found


def _assert_uniform(enabled: list[dict[str, int]], whole: int) -> None:
    if not all(enabled):
        problem = "at least one device with migEnabled=true was not configured correctly"
        raise PluginError(f"invalid MIG configuration: {problem}: a device has no MIG devices configured")
    if len({profile for gpu in enabled for profile in gpu}) > 1:
        raise PluginError("invalid MIG configuration: more than one MIG device type present on node")
    if enabled and whole:
        raise PluginError("all devices on the node must be configured with the same migEnabled value")


def is_gpu(resource: str) -> bool:
    """Return whether a resource is a GPU, a share of one or a MIG device."""
    return resource == GPU or resource.startswith((f"{GPU}.", f"{PREFIX}mig-"))


def requests(pod: Json) -> dict[str, int]:
    """Return the GPUs that a pod's containers request, by resource."""
    found: dict[str, int] = {}
    for container in pod["spec"]["containers"]:
        for name, quantity in ((container.get("resources") or {}).get("limits") or {}).items():
            if is_gpu(name):
                found[name] = found.get(name, 0) + int(quantity)
    return found


def holds_a_gpu(pod: Json) -> bool:
    """Return whether a pod's processes may hold a GPU of its node."""
    return pod["status"].get("phase") not in ("Succeeded", "Failed") and any(requests(pod).values())


def starts(pod: Json) -> bool:
    """Return whether the kubelet has not admitted a pod yet, or only just."""
    return pod["status"].get("phase") in ("Pending", "Running") and not pod["metadata"].get("deletionTimestamp")


def refusal(pod: Json, sharing: Sharing) -> str | None:
    """Return the words in which the kubelet refuses a pod that asks for several shares of a GPU."""
    shared = {sharing.name(name) for name in sharing.replicas}
    for container in pod["spec"]["containers"]:
        limits: t.Mapping[str, t.Any] = (container.get("resources") or {}).get("limits") or {}
        for name, quantity in limits.items():
            if sharing.fails_above_one and name in shared and int(quantity) > 1:
                return (
                    "Allocate failed due to rpc error: code = Unknown desc = invalid request: maximum request size for "
                    f"shared resources is 1; found {quantity}, which is unexpected"
                )
    return None
