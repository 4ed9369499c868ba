# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The operands of a ClusterPolicy: which field of the spec asks for which DaemonSet, with which image and tolerations.

Source: NVIDIA GPU Operator v26.7.0, ``api/nvidia/v1/clusterpolicy_types.go`` (what an absent ``enabled`` means, how an
image is composed), ``assets/*/*daemonset.yaml`` (names, containers, tolerations), ``controllers/object_controls.go``.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import is_switched_off
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class Operand:
    """One component of the stack.

    ``key`` is its field in the ClusterPolicy's spec, ``daemonset`` the name of its DaemonSet (for the driver, also a
    prefix), ``container`` the container that runs its own image, ``default`` what an absent ``enabled`` means.
    """

    name: str
    key: str
    daemonset: str
    container: str
    default: bool = True

    @property
    def option(self) -> str:
        """The name of its block among a module's options: ``dcgm_exporter``."""
        return re.sub("(?=[A-Z])", "_", self.key).lower()

    @property
    def deploy_label(self) -> str:
        """The node label that allows, pauses or forbids this operand on a node."""
        return names.DEPLOY_PREFIX + self.name


DRIVER = Operand("driver", "driver", "nvidia-driver-daemonset", "nvidia-driver-ctr")
TOOLKIT = Operand("container-toolkit", "toolkit", "nvidia-container-toolkit-daemonset", "nvidia-container-toolkit-ctr")
VALIDATOR = Operand("operator-validator", "validator", "nvidia-operator-validator", "nvidia-operator-validator")
DEVICE_PLUGIN = Operand("device-plugin", "devicePlugin", "nvidia-device-plugin-daemonset", "nvidia-device-plugin")
MIG_MANAGER = Operand("mig-manager", "migManager", "nvidia-mig-manager", "nvidia-mig-manager")
DCGM_EXPORTER = Operand("dcgm-exporter", "dcgmExporter", "nvidia-dcgm-exporter", "nvidia-dcgm-exporter")

OPERANDS = (
    DRIVER,
    TOOLKIT,
    VALIDATOR,
    DEVICE_PLUGIN,
    Operand("dcgm", "dcgm", "nvidia-dcgm", "nvidia-dcgm-ctr"),
    DCGM_EXPORTER,
    Operand("gpu-feature-discovery", "gfd", "gpu-feature-discovery", "gpu-feature-discovery"),
    MIG_MANAGER,
    Operand(
        "node-status-exporter",
        "nodeStatusExporter",
        "nvidia-node-status-exporter",
        "nvidia-node-status-exporter",
        default=False,
    ),
)
"""In order of dependency: the first operand that is not ready is the cause for those after it."""

DRA_PLUGIN = Operand("dra-driver", "draDriver", "nvidia-dra-driver-kubelet-plugin", "gpus", default=False)

DRA_OPERANDS = (
    DRA_PLUGIN,
    Operand("dra-validator", "draValidator", "nvidia-dra-validator", "nvidia-dra-validator", default=False),
    Operand("dcgm-dra", "draDcgm", "nvidia-dcgm-dra", "nvidia-dcgm-ctr", default=False),
    Operand("dcgm-exporter-dra", "draDcgmExporter", "nvidia-dcgm-exporter-dra", "nvidia-dcgm-exporter", default=False),
)
"""The operands of a GPUCluster, in order of dependency. Their keys are those of `in_words_of_policy`.

Source: NVIDIA GPU Operator v26.7.0, ``manifests/state-d*/*daemonset.yaml`` and ``internal/state/*.go``.
"""

ALL_OPERANDS = (*OPERANDS, *DRA_OPERANDS)


def in_words_of_policy(gpucluster: Json) -> Json:
    """Return a GPUCluster's spec as a ClusterPolicy's: with a block for each operand that says whether it is enabled.

    The kubelet plugin and the validator have no switch. DCGM is off unless it is switched on, and its exporter is there
    if its block is there and does not switch it off.
    """
    dcgm, exporter = gpucluster.get("dcgm") or {}, gpucluster.get("dcgmExporter")
    has_exporter = exporter is not None and exporter.get("enabled") is not False
    return {
        **{operand.key: {"enabled": False} for operand in OPERANDS},
        "draDriver": {**(gpucluster.get("draDriver") or {}), "enabled": True},
        "draValidator": {"enabled": True},
        "draDcgm": {**dcgm, "enabled": bool(dcgm.get("enabled"))},
        "draDcgmExporter": {**(exporter or {}), "enabled": has_exporter},
        "daemonsets": gpucluster.get("daemonsets") or {},
    }


def obeys_switch(spec: Json) -> bool:
    """Return whether the operator takes its operands off nodes that a user has switched off. ``spec`` is a policy's.

    With a GPUCluster it does not. Source: the operator v26.7.0, ``updateGPUStateLabels`` in
    ``controllers/nodelabeling_controller.go``.
    """
    return not (spec.get(DRA_PLUGIN.key) or {}).get("enabled")


def are_switched_off(node: Json) -> bool:
    """Return whether a user has switched the operands of a node off, as far as the node shows it.

    A GPUCluster does not obey this, and gives such a node the label of its plugin.
    """
    return is_switched_off(node) and not labels_of(node).get(DRA_PLUGIN.deploy_label)


SIBLINGS = {"gds": "GPUDirect Storage", "gdrcopy": "GDRCopy"}
"""Kernel modules whose containers run in the driver's pods: the field of each in a spec, and its name."""

DEFAULT_TOLERATIONS: list[Json] = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
"""The tolerations that every operand has unless ``daemonsets.tolerations`` replaces them."""


def tolerations(daemonsets: t.Mapping[str, t.Any] | None) -> list[Json]:
    """Return the operands' tolerations according to the block ``daemonsets``. An empty list also means the default."""
    return (daemonsets or {}).get("tolerations") or DEFAULT_TOLERATIONS


def enabled(operand: Operand, spec: Json) -> bool:
    """Return whether a ClusterPolicy's ``spec`` asks for the operand."""
    if operand is VALIDATOR:
        return True
    if operand is DRIVER and delegates_driver(spec):
        return False
    value = (spec.get(operand.key) or {}).get("enabled")
    return operand.default if value is None else bool(value)


def delegates_driver(policy: Json) -> bool:
    """Return whether a ClusterPolicy's spec leaves the driver to NVIDIADrivers, whatever ``driver.enabled`` says."""
    return bool((policy.get("driver") or {}).get("useNvidiaDriverCRD"))


def replaces_driver_pods(policy: Json, driver: Json | None = None) -> bool:
    """Return whether the operator replaces outdated driver pods by itself. Nothing else does (``OnDelete``).

    ``policy`` is the ClusterPolicy's spec, and ``driver`` that of an NVIDIADriver. From v26.7 on, when ``default`` was
    added, an NVIDIADriver has its own upgradePolicy, which is on unless it is switched off. Before, the ClusterPolicy's
    was used. Virtual machines in the cluster switch all upgrades off.
    """
    if (policy.get("sandboxWorkloads") or {}).get("enabled"):
        return False
    own = (driver or {}).get("upgradePolicy")
    if own is not None or "default" in (driver or {}):
        return bool((own or {}).get("autoUpgrade", True))
    return bool(((policy.get("driver") or {}).get("upgradePolicy") or {}).get("autoUpgrade"))


def belongs(operand: Operand, daemonset: str) -> bool:
    """Return whether a DaemonSet belongs to the operand. A precompiled driver has a DaemonSet for each kernel."""
    if daemonset == operand.daemonset:
        return True
    return operand is DRIVER and daemonset.startswith(operand.daemonset + "-")


def operand_name(daemonset: Json) -> str | None:
    """Return the operand's name for one of its DaemonSets, or None for a DaemonSet that is not an operand's."""
    for operand in ALL_OPERANDS:
        if belongs(operand, name_of(daemonset)):
            return operand.name
    if labels_of(daemonset).get(names.COMPONENT) == names.DRIVER_COMPONENT:
        return DRIVER.name
    return None


def image_of(block: Json) -> str | None:
    """Return the image that a block of the spec asks for, or None if it leaves the image to the operator.

    ``repository``, ``image`` and ``version`` (a tag or a digest) go together; ``image`` alone is a whole path. The
    operator adds the node's operating system (and kernel) to the tag of a driver's image.
    """
    repository, image, version = (block.get(key) for key in ("repository", "image", "version"))
    if not isinstance(image, str) or not image:
        return None
    if not repository and not version:
        return image
    separator = "@" if str(version).startswith("sha256:") else ":"
    return f"{repository}/{image}{separator}{version}" if repository and version else None


_RELEASE = re.compile(r"(?:^|[^\d.])v?(\d+)\.(\d+)(?:\.(\d+)(?!-devel)|$)")


def release(text: str | None) -> tuple[int, int, int] | None:
    """Return the operator's release that a version, a chart's label or an image's tag names, or None.

    ``gpu-operator-v26.7.0-ubi9`` is ``(26, 7, 0)``. Its line is ``(26, 7)``. The chart in the vendor's repository is
    ``v1.0.0-devel`` at every commit, which names no release.
    """
    found = _RELEASE.search(text or "")
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def is_operator(deployment: Json) -> bool:
    """Return whether a Deployment runs the operator. Only its pods have a label: OLM does not label the Deployment."""
    pod_labels: t.Mapping[str, str] = deployment["spec"]["template"]["metadata"].get("labels") or {}
    return pod_labels.get("app") == names.OPERATOR
