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
GPUCLUSTER_CRD = "gpuclusters.nvidia.com"
GPUCLUSTER = "gpu-cluster"
"""The only name that the CRD lets a GPUCluster have."""
NVIDIADRIVERS = "nvidiadrivers"

# Dynamic Resource Allocation

DRA_GROUP = "resource.k8s.io"
DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")
"""The versions of resource.k8s.io, newest first. Kubernetes 1.32 serves v1beta1 only, and v1 came with 1.34."""
DRA_DRIVER = "gpu.nvidia.com"
"""NVIDIA's driver for GPUs and MIG devices, and the DeviceClass of its whole GPUs."""
DEVICE_CLASSES = {"gpu": DRA_DRIVER, "mig": "mig.nvidia.com", "vfio": "vfio.gpu.nvidia.com"}
"""The DeviceClass of each type of device. Source: NVIDIA GPU Operator v26.7.0, ``manifests/state-dra-driver/04*``."""

# Labels of nodes, set by the operator or by a user

GPU_PRESENT = "nvidia.com/gpu.present"
DEPLOY_PREFIX = "nvidia.com/gpu.deploy."
OPERANDS_SWITCH = DEPLOY_PREFIX + "operands"
PAUSED = "paused-for-"
"""Part of a deploy label's value while a driver upgrade or a MIG change keeps the operand away; the cause follows.

A value that a user had set stays in front of this part: ``mine_paused-for-driver-upgrade``.
"""
DRIVER_PAUSED = PAUSED + "driver-upgrade"
VGPU_PAUSED = PAUSED + "vgpu-change"
CC_PAUSED = PAUSED + "cc-mode-change"
"""What the vGPU device manager and the Confidential Computing manager write while they change a node. Sources:
NVIDIA/vgpu-device-manager at acb72704, ``cmd/nvidia-k8s-vgpu-dm/main.go``; NVIDIA/k8s-cc-manager v0.4.3."""
PRE_INSTALLED = "pre-installed"
"""Value of the driver's deploy label on a node with a pre-installed driver."""
DRIVER_OWNER = "nvidia.com/gpu-operator.driver.owner"
"""The NVIDIADriver to which a node belongs, from v26.7 on."""
WORKLOAD_CONFIG = "nvidia.com/gpu.workload.config"
"""Who gets a node's GPUs, if the ClusterPolicy has sandboxWorkloads enabled. Other values mean the default."""
CONTAINER = "container"
VM_PASSTHROUGH = "vm-passthrough"
VM_VGPU = "vm-vgpu"
WORKLOAD_KINDS = (CONTAINER, VM_PASSTHROUGH, VM_VGPU)
"""The values of this label. Source: ``gpuStateLabels`` in ``controllers/state_manager.go``."""

# Labels of nodes, set by GPU Feature Discovery

GPU_PRODUCT = "nvidia.com/gpu.product"
GPU_FAMILY = "nvidia.com/gpu.family"
"""The generation of the GPUs in lower case: ``ampere``, ``hopper``, ``blackwell``."""
GPU_COUNT = "nvidia.com/gpu.count"
GPU_REPLICAS = "nvidia.com/gpu.replicas"
"""How many pods share each GPU: 1 without sharing, 0 for a GPU that is divided into MIG devices."""
SHARING_STRATEGY = "nvidia.com/gpu.sharing-strategy"
GPU_MEMORY = "nvidia.com/gpu.memory"
GPU_SLICES = "nvidia.com/gpu.slices.gi"
GPU_MACHINE = "nvidia.com/gpu.machine"
"""The machine's own product name in the firmware, such as ``DGXH100``."""
GPU_CLIQUE = "nvidia.com/gpu.clique"
"""The UUID of the NVLink fabric, a point, and the number of the clique in it. The DRA driver's plugin also sets it."""
COMPUTE_CAPABILITY = ("nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor")
DRIVER_VERSION = "nvidia.com/cuda.driver-version.full"
DRIVER_VERSION_PARTS = tuple(f"nvidia.com/cuda.driver.{part}" for part in ("major", "minor", "rev"))
"""The driver's version in the labels of older releases."""

FEATURE_DISCOVERY = (
    *(f"nvidia.com/gpu.{part}" for part in ("product", "count", "replicas", "memory", "family", "machine", "mode")),
    *("nvidia.com/gpu.sharing-strategy", GPU_CLIQUE, "nvidia.com/gpu.imex-domain"),
    *("nvidia.com/gpu.compute.*", "nvidia.com/cuda.*", "nvidia.com/mig-*", "nvidia.com/gfd.*", "nvidia.com/sharing.*"),
    *("nvidia.com/mig.capable", "nvidia.com/mig.strategy", "nvidia.com/mps.capable"),
    *("nvidia.com/vgpu.present", "nvidia.com/vgpu.host-driver-*", "nvidia.com/cc.capable"),
)
"""Every label of GPU Feature Discovery. An asterisk stands for any rest. Source: k8s-device-plugin, ``internal/lm``."""

PLUGIN_CONFIG = "nvidia.com/device-plugin.config"
"""A label that a user sets: the key of the device plugin's configuration for this node, in a ConfigMap."""

# Labels of nodes, set by the MIG manager or for it

MIG_CAPABLE = "nvidia.com/mig.capable"
MIG_STRATEGY = "nvidia.com/mig.strategy"
MIG_CONFIG = "nvidia.com/mig.config"
MIG_STATE = "nvidia.com/mig.config.state"
MIG_CHANGING = ("pending", "rebooting")
"""Values of the MIG state while the MIG manager works on a node."""
MIG_PAUSED = PAUSED + "mig-change"
MIG_DISABLED = "all-disabled"
"""The layout without MIG, which every list of layouts has."""
MIG_MANAGER_APP = "nvidia-mig-manager"
"""The name of the MIG manager's DaemonSet, the label ``app`` of its pods, and the component of its ConfigMaps."""
MIG_LAYOUTS = "default-mig-parted-config"
"""The ConfigMap with the layouts of all models, which a node without a list of its own uses."""
MIG_NODE_LAYOUTS = "-mig-config"
"""End of the name of the ConfigMap with a node's own layouts; the node's name stands before it."""

# Labels of nodes, set by Node Feature Discovery

NFD_PREFIX = "feature.node.kubernetes.io/"
NFD_ANNOTATIONS = "nfd.node.kubernetes.io/*"
"""Every annotation of Node Feature Discovery. The asterisk stands for any rest."""
NFD_GPU_LABELS = tuple(f"{NFD_PREFIX}pci-{device}.present" for device in ("10de", "0302_10de", "0300_10de"))
"""Labels for an NVIDIA PCI device. The operator regards a node with any of these labels as a GPU node."""
OS_ID = NFD_PREFIX + "system-os_release.ID"
OS_VERSION = NFD_PREFIX + "system-os_release.VERSION_ID"
KERNEL = NFD_PREFIX + "kernel-version.full"

# States of a node's driver upgrade

UPGRADE_STATE = "nvidia.com/gpu-driver-upgrade-state"
UPGRADE_SKIP = "nvidia.com/gpu-driver-upgrade.skip"
"""A label with which a user keeps a node out of driver upgrades."""
UPGRADE_FOUND_CORDONED = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
"""An annotation by which the operator remembers that it found the node cordoned, and must leave it so."""
UPGRADE_NOTES = "nvidia.com/gpu-driver-upgrade*"
"""Every annotation of the operator's driver upgrades. The asterisk stands for any rest."""
UPGRADE_EVENT = "GPUDriverUpgrade"
"""The reason of the events about a node's driver upgrade."""
UPGRADE_ENABLED = "nvidia.com/gpu-driver-upgrade-enabled"
"""An annotation that is ``true`` while the operator upgrades drivers by itself."""
UPGRADE_REQUIRED = "upgrade-required"
UPGRADE_DONE = "upgrade-done"
UPGRADE_FAILED = "upgrade-failed"
UPGRADE_CORDON = "cordon-required"
UPGRADE_JOBS = "wait-for-jobs-required"
UPGRADE_PODS = "pod-deletion-required"
UPGRADE_DRAIN = "drain-required"
UPGRADE_RESTART = "pod-restart-required"
UPGRADE_VALIDATION = "validation-required"
UPGRADE_UNCORDON = "uncordon-required"

UPGRADE_FINISHED = ("", UPGRADE_DONE)
"""States in which the node runs the right driver, according to the operator's last check."""
UPGRADE_ENDED = (*UPGRADE_FINISHED, UPGRADE_FAILED)
"""States in which no upgrade runs or is about to start. An operand that is still paused was left behind."""
UPGRADE_IDLE = (*UPGRADE_ENDED, UPGRADE_REQUIRED)
"""States in which the operator does not act on the node, so it does not uncordon the node either."""

# Other objects

OPERATOR = "gpu-operator"
"""The name of the operator's Deployment and the label ``app`` of its pods, both with the chart and with OLM."""
OPERATOR_SELECTOR = f"app={OPERATOR}"
COMPONENT = "app.kubernetes.io/component"
DRIVER_COMPONENT = "nvidia-driver"
"""The component label of a DaemonSet that belongs to an NVIDIADriver."""
HELM_RELEASE = "meta.helm.sh/release-name"
HELM_RELEASE_NAMESPACE = "meta.helm.sh/release-namespace"
"""The annotations with which Helm marks what it has installed."""
OLM_OWNER = "olm.owner"
"""The label with which the Operator Lifecycle Manager marks a Deployment that it has installed."""
POD_SECURITY = "pod-security.kubernetes.io/enforce"

ADMIN_ACCESS = "resource.kubernetes.io/admin-access"
"""The label of the operator's namespace with which a GPUCluster may claim devices that are in use."""

# Extended resources

GPU_RESOURCE = "nvidia.com/gpu"
MIG_RESOURCE_PREFIX = "nvidia.com/mig-"

TOOLKIT_ROLLOUT_MARK = "gpuops.nvidia/toolkit-rollout"
"""Annotation of the ClusterPolicy during a rollout of the toolkit: what daemonsets.updateStrategy was before."""
