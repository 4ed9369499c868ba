# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The labels and annotations that the operator writes on nodes."""

from __future__ import annotations

import typing as t

from lab.cluster.operator.standin.operands import Json
from lab.cluster.operator.standin.render import block

PRESENT = "nvidia.com/gpu.present"
DEPLOY = "nvidia.com/gpu.deploy."
STATE = "nvidia.com/gpu-driver-upgrade-state"
SKIP = "nvidia.com/gpu-driver-upgrade.skip"
UPGRADE_ENABLED = "nvidia.com/gpu-driver-upgrade-enabled"
_NFD = "feature.node.kubernetes.io/"
_PCI = tuple(f"{_NFD}pci-{device}.present" for device in ("10de", "0302_10de", "0300_10de"))
_CONTAINER = (
    "driver",
    "gpu-feature-discovery",
    "container-toolkit",
    "device-plugin",
    "dcgm",
    "dcgm-exporter",
    "node-status-exporter",
    "operator-validator",
    "client",
)
_PASSTHROUGH = ("sandbox-validator", "vfio-manager", "kata-manager", "cc-manager", "client")
_VGPU = ("sandbox-device-plugin", "vgpu-manager", "vgpu-device-manager", "sandbox-validator", "cc-manager", "client")
_CONDITIONAL = ("mig-manager", "sandbox-device-plugin", "kata-sandbox-device-plugin")
_DEPLOYABLE = {DEPLOY + name for name in (*_CONTAINER, *_PASSTHROUGH, *_VGPU, *_CONDITIONAL)}
_MIG_MODELS = ("h100", "a100", "a30")


def labels_of(node: Json) -> dict[str, str]:
    """Return a node's labels."""
    return t.cast("dict[str, str]", node["metadata"].get("labels") or {})


def has_nfd_labels(node: Json) -> bool:
    """Return whether Node Feature Discovery has labelled a node."""
    return any(key.startswith(_NFD) for key in labels_of(node))


def is_gpu_node(node: Json) -> bool:
    """Return whether Node Feature Discovery has found an NVIDIA device in a node."""
    labels = labels_of(node)
    return any(labels.get(key) == "true" for key in _PCI)


def mig_capable(labels: t.Mapping[str, str]) -> bool:
    """Return whether a node's GPUs support MIG, according to its labels."""
    if "nvidia.com/vgpu.host-driver-version" in labels:
        return False
    if "nvidia.com/mig.capable" in labels:
        return labels["nvidia.com/mig.capable"] == "true"
    return any(model in labels.get("nvidia.com/gpu.product", "").lower() for model in _MIG_MODELS)


def label_patch(node: Json, spec: Json) -> dict[str, str | None]:
    """Return the changes of a node's labels."""
    labels = labels_of(node)
    deployed = {key for key in labels if key.startswith(DEPLOY)}
    if not is_gpu_node(node):
        if labels.get(PRESENT) != "true":
            return {}
        return {PRESENT: "false", **dict.fromkeys(sorted(deployed))}
    present: dict[str, str | None] = {} if labels.get(PRESENT) == "true" else {PRESENT: "true"}
    if labels.get(f"{DEPLOY}operands") == "false":
        return present | dict.fromkeys(sorted(deployed - {f"{DEPLOY}operands"}))
    return present | _operand_patch(labels, deployed, spec)


_CLAIMED = ("driver", "dra-driver", "dra-validator", "dcgm-dra", "dcgm-exporter-dra")
"""The operands of a GPUCluster."""
PLUGIN_LABEL = f"{DEPLOY}dra-driver"


def claim_label_patch(node: Json) -> dict[str, str | None]:
    """Return the changes of a node's labels for the operands of a GPUCluster.

    It has no switch for the operands of one node, and leaves the values of paused operands alone.
    """
    labels = labels_of(node)
    mine = {DEPLOY + name for name in _CLAIMED}
    if not is_gpu_node(node):
        if labels.get(PRESENT) != "true":
            return {}
        return {PRESENT: "false", **dict.fromkeys(sorted(labels.keys() & (_DEPLOYABLE | mine)))}
    left = (labels.keys() & _DEPLOYABLE) - mine - {f"{DEPLOY}vgpu-manager"}
    present = {} if labels.get(PRESENT) == "true" else {PRESENT: "true"}
    return {**present, **{key: "true" for key in sorted(mine) if not labels.get(key)}, **dict.fromkeys(sorted(left))}


def swept_claim_labels(node: Json, *, serves: bool) -> dict[str, str | None]:
    """Return the changes that take the operands of a GPUCluster off a node that has a ClusterPolicy again.

    ``serves`` is whether pods on the node hold claims: then the plugin that prepared them stays.
    """
    mine = {DEPLOY + name for name in _CLAIMED if name != "driver"} & labels_of(node).keys()
    return dict.fromkeys(sorted(mine - ({PLUGIN_LABEL} if serves else set())))


def _operand_patch(labels: t.Mapping[str, str], deployed: set[str], spec: Json) -> dict[str, str | None]:
    wanted = {DEPLOY + name for name in _deployed(labels, spec)}
    patch: dict[str, str | None] = {key: "true" for key in sorted(wanted) if not labels.get(key)}
    if block(spec, "sandboxWorkloads").get("enabled"):
        patch |= dict.fromkeys(sorted((deployed & _DEPLOYABLE) - wanted))
    if f"{DEPLOY}mig-manager" in wanted and not labels.get("nvidia.com/mig.config") and _mig_is_off(spec):
        patch["nvidia.com/mig.config"] = "all-disabled"
    return patch


def _mig_is_off(spec: Json) -> bool:
    """Return whether the MIG manager runs with MIG disabled by default, which the CRD sets if the block is there."""
    manager = block(spec, "migManager")
    return bool(manager.get("enabled", True) and block(manager, "config").get("default") == "all-disabled")


def _deployed(labels: t.Mapping[str, str], spec: Json) -> tuple[str, ...]:
    sandbox = block(spec, "sandboxWorkloads")
    workload = "container"
    if sandbox.get("enabled"):
        workload = labels.get("nvidia.com/gpu.workload.config") or ""
        if workload not in ("container", "vm-passthrough", "vm-vgpu"):
            workload = sandbox.get("defaultWorkload") or "container"
    if workload == "vm-vgpu":
        return _VGPU
    if workload == "vm-passthrough":
        kata = sandbox.get("mode") == "kata"
        return (*_PASSTHROUGH, "kata-sandbox-device-plugin" if kata else "sandbox-device-plugin")
    return (*_CONTAINER, "mig-manager") if mig_capable(labels) else _CONTAINER


def upgrades_wanted(spec: Json) -> bool:
    """Return whether the operator upgrades drivers automatically."""
    driver = block(spec, "driver")
    automatic = block(driver, "upgradePolicy").get("autoUpgrade", False)
    return bool(driver.get("enabled", True) and automatic and not block(spec, "sandboxWorkloads").get("enabled"))


def annotation_patch(node: Json, spec: Json) -> dict[str, str | None]:
    """Return the changes of a node's annotations."""
    wanted = "true" if is_gpu_node(node) and upgrades_wanted(spec) else None
    present = (node["metadata"].get("annotations") or {}).get(UPGRADE_ENABLED)
    return {} if wanted == present else {UPGRADE_ENABLED: wanted}


def concerns_labelling(before: Json | None, after: Json | None) -> bool:
    """Return whether the operator checks a node's labels after a change. It ignores edits of its own labels."""

    def relevant(node: Json | None) -> Json:
        labels = labels_of(node) if node else {}
        return {
            key: value
            for key, value in labels.items()
            if key == f"{DEPLOY}operands" or not key.startswith((DEPLOY, STATE))
        }

    return relevant(before) != relevant(after)
