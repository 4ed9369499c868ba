# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Managed clouds: which one the nodes belong to, and what its node images already contain."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight.check_input import Intent, Snapshot
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import os_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_CLOUDS = (
    ("eks", "aws://", "eks.amazonaws.com/"),
    ("gke", "gce://", "cloud.google.com/gke-"),
    ("aks", "azure://", "kubernetes.azure.com/"),
)
"""The name of each cloud, and the prefixes of its provider IDs and node labels."""

_AMAZON_SYSTEMS = ("amazon", "bottlerocket")


def cloud_of(nodes: list[Json]) -> str | None:
    """Return the managed cloud that the nodes belong to, or None."""
    for name, provider, prefix in _CLOUDS:
        if any(_provider_of(node).startswith(provider) and _has_label(node, prefix) for node in nodes):
            return name
    return None


def _provider_of(node: Json) -> str:
    return str(node["spec"].get("providerID", ""))


def _has_label(node: Json, prefix: str) -> bool:
    return any(key.startswith(prefix) for key in labels_of(node))


def check_cloud(snapshot: Snapshot, intent: Intent) -> t.Iterator[ClusterFinding]:
    """Warn if the node images of a managed cloud contain the driver that the operator should install."""
    cloud = cloud_of(snapshot.nodes)
    if cloud and intent.manages_driver and (cloud != "eks" or _runs_amazon_system(snapshot)):
        yield _warning(cloud)
    elif cloud:
        yield ClusterFinding("cloud", "ok", f"The nodes belong to {cloud.upper()}.")
    else:
        yield ClusterFinding("cloud", "ok", "The nodes belong to no managed cloud that needs special values.")


def _runs_amazon_system(snapshot: Snapshot) -> bool:
    systems = {os_of(node)[0].lower() for node in snapshot.candidates}
    return any(name in system for system in systems for name in _AMAZON_SYSTEMS)


def _warning(cloud: str) -> ClusterFinding:
    message, remedy = {
        "aks": (
            "AKS node images contain a driver and the container toolkit unless a pool was created without them.",
            "Use the aks preset (driver.enabled and toolkit.enabled false), "
            "unless the pools were created without the GPU driver.",
        ),
        "gke": (
            "GKE's Container-Optimized OS takes its driver from Google's installer, not from a driver container.",
            "Use the gke preset with Google's driver installer, "
            "and label the pools gke-no-default-nvidia-gpu-device-plugin=true.",
        ),
        "eks": (
            "Amazon Linux and Bottlerocket have no driver container; their GPU images contain the driver.",
            "Use the eks_gpu_image preset (driver.enabled and toolkit.enabled false) for Amazon Linux 2023 with "
            "NVIDIA's driver, or node groups with Ubuntu.",
        ),
    }[cloud]
    return ClusterFinding("cloud", "warning", message, remedy)
