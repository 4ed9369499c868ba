# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The separate chart of NVIDIA's driver for claims, which a GPUCluster must not have beside it. Pure.

It is called ``nvidia-dra-driver-gpu`` up to v25.12 and ``dra-driver-nvidia-gpu`` from v0.4 on. Its DaemonSet
``NAME-kubelet-plugin`` registers the same drivers with the kubelets as the operator's, and its DeviceClasses have the
same names. Source: deployments/helm of kubernetes-sigs/dra-driver-nvidia-gpu at v25.3.2, v25.8.1, v25.12.0 and
95932046: templates/kubeletplugin.yaml, templates/deviceclass-gpu.yaml and crds, which ``helm uninstall`` leaves.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart import installed_by
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.installed_by import InstalledBy
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_WORDS = ("k8s-dra-driver-gpu", "dra-driver-nvidia-gpu", "nvidia-dra-driver")
"""Parts of the name or image of its DaemonSet."""

_OPERATOR_KINDS = ("ClusterPolicy", "NVIDIADriver", "GPUCluster")


@dataclasses.dataclass(frozen=True)
class SeparateDriver:
    """A driver for claims that the operator has not deployed: its DaemonSets, and who has installed them."""

    daemonsets: tuple[str, ...]
    owner: InstalledBy

    def __str__(self) -> str:
        return f"{first_few(self.daemonsets)}, of {self.owner.who}"

    @property
    def way_out(self) -> str:
        """What a user does before a GPUCluster can come.

        The driver takes devices back from pods and removes the finalizers of ComputeDomains, so that both go first.
        """
        users = (
            "While it still runs, end the pods that use its claims and delete the ComputeDomains; claims, templates "
            "and CRDs may stay."
        )
        if self.owner.tool == "Helm":
            namespace, dummy, release = self.owner.name.partition("/")
            return f"{users} Then run: helm uninstall {release} --namespace {namespace}."
        return f"{users} Then remove it where it comes from ({self.owner.proof})."


def separate_drivers(daemonsets: t.Iterable[Json]) -> list[SeparateDriver]:
    """Return the drivers for claims that run and are not the operator's, one for each owner."""
    found: dict[InstalledBy, list[str]] = {}
    for item in daemonsets:
        if is_active(item) and not is_operand(item) and mentions(item, _WORDS):
            found.setdefault(installed_by.owner_of(item, "DaemonSet"), []).append(objects.full_name(item))
    return [SeparateDriver(tuple(names), owner) for owner, names in found.items()]


def is_active(daemonset: Json) -> bool:
    """Return whether a DaemonSet runs on any node. Managed clouds turn their DaemonSets off by node labels."""
    return bool((daemonset.get("status") or {}).get("desiredNumberScheduled"))


def is_operand(daemonset: Json) -> bool:
    """Return whether a custom resource of the operator owns a DaemonSet."""
    return any(owner.get("kind") in _OPERATOR_KINDS for owner in daemonset["metadata"].get("ownerReferences") or [])


def mentions(daemonset: Json, words: tuple[str, ...]) -> bool:
    """Return whether the name or an image of a DaemonSet contains one of the words."""
    containers = daemonset["spec"]["template"]["spec"].get("containers") or []
    texts = [objects.name_of(daemonset), *(container.get("image", "") for container in containers)]
    return any(word in text for word in words for text in texts)
