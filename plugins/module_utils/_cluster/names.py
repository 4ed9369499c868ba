# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The operands of a ClusterPolicy: which spec field asks for which DaemonSet on which nodes, and the label names.

Source: NVIDIA GPU Operator v26.7.0, ``api/nvidia/v1/clusterpolicy_types.go`` (what an absent ``enabled`` means),
``assets/*/*daemonset.yaml`` (names, selectors, containers) and ``controllers/state_manager.go`` (labels, workload types).
"""

from __future__ import annotations

import dataclasses
import typing as t

Json = dict[str, t.Any]

GPU_PRESENT = "nvidia.com/gpu.present"
DEPLOY_PREFIX = "nvidia.com/gpu.deploy."
OPERANDS_SWITCH = DEPLOY_PREFIX + "operands"
WORKLOAD_CONFIG = "nvidia.com/gpu.workload.config"
UPGRADE_STATE = "nvidia.com/gpu-driver-upgrade-state"
NFD_GPU_LABELS = tuple(
    f"feature.node.kubernetes.io/pci-{device}.present" for device in ("10de", "0302_10de", "0300_10de")
)
"""Node Feature Discovery's labels for an NVIDIA PCI device; the operator takes any one of them for a GPU node."""

OPERATOR_APP = "gpu-operator"
"""The label ``app`` of the operator's pods. The chart does not put it on the Deployment itself."""
OPERATOR_MANAGED = "app.kubernetes.io/managed-by=gpu-operator"
GPU_RESOURCE = "nvidia.com/gpu"
MIG_RESOURCE_PREFIX = "nvidia.com/mig-"


@dataclasses.dataclass(frozen=True)
class Operand:
    """One component of the stack.

    ``key`` is its field in the ClusterPolicy's spec, ``daemonset`` the name (or the prefix, for the driver) of its
    DaemonSet, ``container`` the container that runs the component's own image, ``default`` what an absent ``enabled`` means.
    """

    name: str
    key: str
    daemonset: str
    container: str
    default: bool = True


OPERANDS = (
    Operand("driver", "driver", "nvidia-driver-daemonset", "nvidia-driver-ctr"),
    Operand("container-toolkit", "toolkit", "nvidia-container-toolkit-daemonset", "nvidia-container-toolkit-ctr"),
    Operand("operator-validator", "validator", "nvidia-operator-validator", "nvidia-operator-validator"),
    Operand("device-plugin", "devicePlugin", "nvidia-device-plugin-daemonset", "nvidia-device-plugin"),
    Operand("dcgm", "dcgm", "nvidia-dcgm", "nvidia-dcgm-ctr"),
    Operand("dcgm-exporter", "dcgmExporter", "nvidia-dcgm-exporter", "nvidia-dcgm-exporter"),
    Operand("gpu-feature-discovery", "gfd", "gpu-feature-discovery", "gpu-feature-discovery"),
    Operand("mig-manager", "migManager", "nvidia-mig-manager", "nvidia-mig-manager"),
    Operand(
        "node-status-exporter",
        "nodeStatusExporter",
        "nvidia-node-status-exporter",
        "nvidia-node-status-exporter",
        default=False,
    ),
)
"""In the order in which they depend on one another, so that the first that is not ready is the cause of the rest."""

OWN_PODS = ("nvidia-cuda-validator", "nvidia-device-plugin-validator")
"""Prefixes of the pods that the validator starts and that may hold a GPU for some seconds."""


def enabled(operand: Operand, spec: Json) -> bool:
    """Tell whether a ClusterPolicy's ``spec`` asks for the operand."""
    if operand.key == "validator":
        return True
    if operand.key == "driver" and (spec.get("driver") or {}).get("useNvidiaDriverCRD"):
        return False
    value = (spec.get(operand.key) or {}).get("enabled")
    return operand.default if value is None else bool(value)


def belongs(operand: Operand, daemonset: str) -> bool:
    """Tell whether a DaemonSet is the operand's. The driver may have one DaemonSet for each kernel (precompiled)."""
    if daemonset == operand.daemonset:
        return True
    return operand.key == "driver" and daemonset.startswith(operand.daemonset + "-")


def operand_of(daemonset: str) -> Operand | None:
    """Return the operand that a DaemonSet belongs to, or None for one that is not in the table (vGPU, Kata, NVIDIADriver)."""
    return next((operand for operand in OPERANDS if belongs(operand, daemonset)), None)


def wanted_image(operand: Operand, spec: Json) -> str | None:
    """Return what the operand's image must start with, or None when the spec leaves it to the operator's defaults.

    The driver's tag gets the node's operating system (and kernel) added by the operator, hence "start with".
    """
    block = spec.get(operand.key) or {}
    repository, image, version = (block.get(part) for part in ("repository", "image", "version"))
    if not (repository and image and version):
        return None
    separator = "@" if version.startswith("sha256:") else ":"
    return f"{repository}/{image}{separator}{version}"
