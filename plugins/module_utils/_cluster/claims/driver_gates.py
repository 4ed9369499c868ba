# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The feature gates of NVIDIA's driver for Dynamic Resource Allocation as they are set, and where they are set."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpucluster.gpucluster_refusals import gates_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator import dra_gates
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_FIELD = "spec.draDriver.featureGates"
_CONTAINER, _VARIABLE = "gpus", "FEATURE_GATES"
"""The container of the kubelet plugin that prepares GPUs, and the variable with its gates. Source: the driver's chart,
``templates/kubeletplugin.yaml``, and the operator v26.7.0, ``manifests/state-dra-driver/0500_daemonset.yaml``."""


class DriverGates(t.NamedTuple):
    """The gates that somebody has set, and the object with the field for them. Without an object, they are unknown."""

    gates: t.Mapping[str, bool]
    owner: str = ""
    field: str = ""
    unknown: str = ""
    """Why the gates are unknown."""

    def is_on(self, gate: str) -> bool:
        """Return whether a gate is on."""
        return dra_gates.effective(self.gates)[gate]


def read(cluster: Cluster) -> DriverGates:
    """Return the gates of the cluster's GPUCluster, or of a driver that its own chart has installed."""
    found = cluster.list_readable(namespaced(names.GPUCLUSTER_API, None, names.GPUCLUSTERS))
    if found.items:
        item = found.items[0]
        return DriverGates(gates_of(item.get("spec") or {}), f"GPUCluster {objects.name_of(item)}", _FIELD)
    daemonsets = cluster.list_readable(namespaced("apps/v1", None, "daemonsets"))
    plugins = [(item, each) for item in daemonsets.items for each in _containers(item) if _is_plugin(item, each)]
    if plugins:
        return _of_plugin(*plugins[0])
    refusal = found.refusal or daemonsets.refusal
    return DriverGates({}, unknown=refusal or "the cluster has neither a GPUCluster nor a kubelet plugin of the driver")


def _containers(item: Json) -> list[Json]:
    return item["spec"]["template"]["spec"].get("containers") or []


def _is_plugin(item: Json, container: Json) -> bool:
    return container["name"] == _CONTAINER and objects.name_of(item).endswith("kubelet-plugin")


def _of_plugin(item: Json, container: Json) -> DriverGates:
    owner, field = f"DaemonSet {objects.full_name(item)}", "featureGates in the values of its chart"
    for each in item["metadata"].get("ownerReferences") or []:
        if each["kind"] == "GPUCluster":
            owner, field = f"GPUCluster {each['name']}", _FIELD
    setting = next((each for each in container.get("env") or [] if each["name"] == _VARIABLE), {"value": ""})
    if "valueFrom" in setting:
        return DriverGates({}, unknown=f"{_VARIABLE} of {owner} comes from another object")
    pairs = [pair.partition("=") for pair in str(setting.get("value") or "").split(",") if pair]
    gates = {name.strip(): value.strip().lower() == "true" for name, dummy, value in pairs}
    return DriverGates(gates, owner, field)
