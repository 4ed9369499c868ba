# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The names that NVIDIA's operator, its chart and Node Feature Discovery use: labels, annotations, states, resources.

Source: NVIDIA GPU Operator v26.7.0 (``controllers/state_manager.go``, ``deployments/gpu-operator``), its upgrade
library (``k8s-operator-libs/pkg/upgrade/consts.go``), GPU Feature Discovery and Node Feature Discovery.
"""

from __future__ import annotations

# The operator's API

CLUSTERPOLICY_API = "nvidia.com/v1"
CLUSTERPOLICIES = "clusterpolicies"
CLUSTERPOLICY_CRD = "clusterpolicies.nvidia.com"
GPUCLUSTER_API = "nvidia.com/v1alpha1"
GPUCLUSTERS = "gpuclusters"

# Labels of nodes, set by the operator or by a person

GPU_PRESENT = "nvidia.com/gpu.present"
DEPLOY_PREFIX = "nvidia.com/gpu.deploy."
OPERANDS_SWITCH = DEPLOY_PREFIX + "operands"
PAUSED = "paused-for-"
"""Part of a deploy label's value while a driver upgrade or a MIG change keeps the operand away; the cause follows.

A value that a person had set stays in front of it: ``mine_paused-for-driver-upgrade``.
"""
PRE_INSTALLED = "pre-installed"
"""Value of the driver's deploy label on a node that has a driver of its own."""
WORKLOAD_CONFIG = "nvidia.com/gpu.workload.config"

# Labels of nodes, set by GPU Feature Discovery

GPU_PRODUCT = "nvidia.com/gpu.product"
GPU_COUNT = "nvidia.com/gpu.count"
GPU_MEMORY = "nvidia.com/gpu.memory"
DRIVER_VERSION = "nvidia.com/cuda.driver-version.full"
DRIVER_VERSION_PARTS = tuple(f"nvidia.com/cuda.driver.{part}" for part in ("major", "minor", "rev"))
"""The driver's version in the spelling of older releases."""

# Labels of nodes, set by the MIG manager or for it

MIG_CAPABLE = "nvidia.com/mig.capable"
MIG_STRATEGY = "nvidia.com/mig.strategy"
MIG_CONFIG = "nvidia.com/mig.config"
MIG_STATE = "nvidia.com/mig.config.state"
MIG_CHANGING = ("pending", "rebooting")
"""Values of the MIG state while the MIG manager works on a node."""

# Labels of nodes, set by Node Feature Discovery

NFD_PREFIX = "feature.node.kubernetes.io/"
NFD_GPU_LABELS = tuple(f"{NFD_PREFIX}pci-{device}.present" for device in ("10de", "0302_10de", "0300_10de"))
"""Its labels for an NVIDIA PCI device; the operator takes any one of them for a GPU node."""
OS_ID = NFD_PREFIX + "system-os_release.ID"
OS_VERSION = NFD_PREFIX + "system-os_release.VERSION_ID"

# States of a node's driver upgrade

UPGRADE_STATE = "nvidia.com/gpu-driver-upgrade-state"
UPGRADE_REQUIRED = "upgrade-required"
UPGRADE_DONE = "upgrade-done"
UPGRADE_FAILED = "upgrade-failed"

UPGRADE_FINISHED = ("", UPGRADE_DONE)
"""The node runs the driver that the operator wants, as far as the operator has looked."""
UPGRADE_ENDED = (*UPGRADE_FINISHED, UPGRADE_FAILED)
"""No upgrade is under way or about to start, so nothing explains why an operand is still paused."""
UPGRADE_IDLE = (*UPGRADE_ENDED, UPGRADE_REQUIRED)
"""The operator does not act on the node now, so it does not uncordon it by itself."""

# Other objects

OPERATOR = "gpu-operator"
"""The name of the operator's Deployment and the label ``app`` of its pods, with the chart and with OLM alike."""
OPERATOR_SELECTOR = f"app={OPERATOR}"
COMPONENT = "app.kubernetes.io/component"
DRIVER_COMPONENT = "nvidia-driver"
"""The component label of a DaemonSet that an NVIDIADriver makes."""
HELM_RELEASE = "meta.helm.sh/release-name"
"""The annotation by which Helm knows what it has installed."""
POD_SECURITY = "pod-security.kubernetes.io/enforce"

# Extended resources

GPU_RESOURCE = "nvidia.com/gpu"
MIG_RESOURCE_PREFIX = "nvidia.com/mig-"
