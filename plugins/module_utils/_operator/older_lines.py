# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Release lines of the GPU Operator that NVIDIA supports no more, and the steps between still older ones."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.operator_line import OperatorLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

OLDER_LINES = (
    OperatorLine(
        name="25.10",
        life_cycle="end of support",
        revision="8246892e",
        date="2026-03-17",
        kubernetes=((1, 30), (1, 35)),
        operating_systems={
            "ubuntu": ("20.04", "22.04", "24.04"),
            "rhcos": (),
            "rhel": ("8.8", "8.10", "9.2", "9.4", "9.6"),
        },
        containerd=((1, 7), (2, 1)),
        driver="580.105.08",
        drivers=(
            "590.48.01",
            "580.126.16",
            "580.126.09",
            "580.95.05",
            "580.82.07",
            "575.57.08",
            "570.211.01",
            "570.195.03",
            "550.163.01",
            "535.288.01",
            "535.274.02",
        ),
        brings=(),
        major_tags={},
        steps=(
            {
                "from": "v25.3",
                "to": "v25.10",
                "since": "v25.10.0",
                "date": "2025-10-22",
                "last": "v25.10.1",
                "verdict": "manual",
                "restarts": {"operator": True, "operands": True, "runtime": True, "driver": "evicts"},
                "changes": [
                    {
                        "name": "cdi-by-default",
                        "what": "changed",
                        "level": "warning",
                        "when": {"values_unset": ["cdi.enabled"]},
                        "message": (
                            "cdi.enabled becomes true, and GPUs come into containers by CDI. Containers that "
                            "take GPUs by NVIDIA_VISIBLE_DEVICES without asking for them need runtimeClassName "
                            "nvidia."
                        ),
                        "remedy": (
                            "Check such containers (monitoring, device plugins of your own), or set cdi.enabled: false."
                        ),
                    },
                    {
                        "name": "cdi-default",
                        "what": "removed",
                        "level": "warning",
                        "when": {"values": ["cdi.default"]},
                        "message": "The chart no longer has cdi.default, and the operator ignores the field.",
                        "remedy": "Remove the value.",
                    },
                    {
                        "name": "validator-image",
                        "what": "image",
                        "level": "failure",
                        "when": {
                            "values": [
                                "validator.image",
                                "validator.version",
                                "nodeStatusExporter.image",
                                "nodeStatusExporter.version",
                            ]
                        },
                        "message": (
                            "The validator and the node status exporter are part of the operator's image now. "
                            "The image gpu-operator-validator does not exist for v25.10."
                        ),
                        "remedy": "Remove image and version of validator and nodeStatusExporter from your values.",
                    },
                    {
                        "name": "validator-mirror",
                        "what": "image",
                        "level": "warning",
                        "when": {"mirrored": True},
                        "message": (
                            "The validator comes from <registry>/nvidia/gpu-operator instead of "
                            "nvidia/cloud-native/gpu-operator-validator."
                        ),
                        "remedy": (
                            "Mirror the images that operator_chart_info lists for the new chart before the upgrade."
                        ),
                    },
                    {
                        "name": "licensing-configmap",
                        "what": "renamed",
                        "level": "warning",
                        "when": {"values": ["driver.licensingConfig.configMapName"]},
                        "message": "driver.licensingConfig.configMapName is deprecated. It still works.",
                        "remedy": "Move the licence into a Secret, and set driver.licensingConfig.secretName.",
                    },
                    {
                        "name": "cri-o-restarts",
                        "what": "changed",
                        "level": "warning",
                        "when": {"runtimes": ["cri-o"]},
                        "message": (
                            "With CRI-O, operands may stay in Init:RunContainerError for minutes until the new "
                            "toolkit runs (v25.10.0)."
                        ),
                        "remedy": "Go to v25.10.1, and give the run some minutes more.",
                    },
                    {
                        "name": "containerd-drop-in",
                        "what": "changed",
                        "level": "warning",
                        "when": {"values": ["toolkit.env"], "runtimes": ["containerd"]},
                        "message": (
                            "The toolkit configures containerd by a drop-in file now. Variables in toolkit.env "
                            "may name another file."
                        ),
                        "remedy": (
                            "Compare toolkit.env with NVIDIA's page for your Kubernetes distribution. MicroK8s "
                            "has a new procedure."
                        ),
                    },
                ],
                "back": {"verdict": "safe"},
                "sources": [
                    "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/release-notes.html#v25-10-0",
                    "NVIDIA/gpu-operator v25.3.4 and v25.10.0, deployments/gpu-operator/values.yaml and crds",
                ],
            },
            {
                "from": "v25.10",
                "to": "v25.10",
                "since": "v25.10.0",
                "date": "2025-10-22",
                "last": "v25.10.1",
                "verdict": "safe",
                "restarts": {"operator": True, "operands": True, "runtime": True, "driver": "evicts"},
                "changes": [],
                "back": {"verdict": "safe"},
                "sources": [
                    "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/release-notes.html#v25-10-1",
                    "NVIDIA/gpu-operator v25.10.0 and v25.10.1, deployments/gpu-operator/values.yaml and crds",
                ],
            },
        ),
    ),
)

OLDER_STEPS: tuple[Json, ...] = (
    {
        "from": "v24.9",
        "to": "v24.9",
        "since": "v24.9.0",
        "date": "2024-10-31",
        "last": "v24.9.2",
        "verdict": "safe",
        "restarts": {"operator": True, "operands": True, "runtime": True, "driver": "evicts"},
        "changes": [],
        "back": {"verdict": "safe"},
        "sources": [
            "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/release-notes.html#v24-9-2",
            "NVIDIA/gpu-operator v24.9.0, v24.9.1, v24.9.2, deployments/gpu-operator/values.yaml and crds",
        ],
    },
    {
        "from": "v24.9",
        "to": "v25.3",
        "since": "v25.3.0",
        "date": "2025-03-26",
        "last": "v25.3.4",
        "verdict": "manual",
        "restarts": {"operator": True, "operands": True, "runtime": True, "driver": "evicts"},
        "changes": [
            {
                "name": "open-kernel-modules",
                "what": "renamed",
                "level": "failure",
                "when": {"values": ["driver.useOpenKernelModules"]},
                "message": "The chart no longer has driver.useOpenKernelModules, and Helm ignores it.",
                "remedy": "Set driver.kernelModuleType: open, proprietary or auto instead.",
            },
            {
                "name": "kernel-module-type-auto",
                "what": "changed",
                "level": "warning",
                "when": {"driver_below": "570.86.15", "values_unset": ["driver.kernelModuleType"]},
                "message": "driver.kernelModuleType is auto by default, and drivers before 570.86.15 do not know that.",
                "remedy": (
                    "Set driver.kernelModuleType to open or proprietary for as long as the nodes keep their driver."
                ),
            },
            {
                "name": "default-runtime",
                "what": "removed",
                "level": "warning",
                "when": {"values": ["operator.defaultRuntime"]},
                "message": (
                    "The chart no longer has operator.defaultRuntime. The operator detects each node's container "
                    "runtime."
                ),
                "remedy": "Remove the value.",
            },
            {
                "name": "dcgm-4",
                "what": "changed",
                "level": "warning",
                "when": {"values": ["dcgmExporter.version", "dcgm.version"]},
                "message": "DCGM and its exporter move from 3.3 to 4.1, and your values name a version of one of them.",
                "remedy": (
                    "Remove dcgm.version and dcgmExporter.version from your values, or set both to the chart's "
                    "versions."
                ),
            },
        ],
        "back": {
            "verdict": "manual",
            "message": "driver.kernelModuleType does not exist there: set driver.useOpenKernelModules.",
        },
        "sources": [
            "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/release-notes.html#v25-3-0",
            "NVIDIA/gpu-operator v24.9.2 and v25.3.0, deployments/gpu-operator/values.yaml, templates and crds",
        ],
    },
    {
        "from": "v25.3",
        "to": "v25.3",
        "since": "v25.3.0",
        "date": "2025-03-26",
        "last": "v25.3.4",
        "verdict": "manual",
        "restarts": {"operator": True, "operands": True, "runtime": True, "driver": "evicts"},
        "changes": [
            {
                "name": "nfd-node-feature-api",
                "what": "removed",
                "level": "warning",
                "when": {"values": ["node-feature-discovery.enableNodeFeatureApi"]},
                "message": (
                    "Node Feature Discovery v0.17.3 (chart v25.3.1) no longer has enableNodeFeatureApi. It always "
                    "uses that API."
                ),
                "remedy": "Remove the value.",
            },
            {
                "name": "default-environment",
                "what": "changed",
                "level": "warning",
                "when": {
                    "values": [
                        "driver.manager.env",
                        "devicePlugin.env",
                        "gfd.env",
                        "migManager.env",
                        "dcgmExporter.env",
                    ]
                },
                "message": (
                    "Since v25.3.3 the chart's lists of environment variables (driver.manager, devicePlugin, gfd, "
                    "migManager, dcgmExporter) are empty by default, and yours replace nothing any more."
                ),
                "remedy": "Leave only the variables in your lists that you want to set.",
            },
        ],
        "back": {"verdict": "safe"},
        "sources": [
            "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/release-notes.html#v25-3-4",
            "NVIDIA/gpu-operator v25.3.0 to v25.3.4, deployments/gpu-operator/values.yaml and crds",
        ],
    },
)
"""The records of steps to lines whose support matrix is no more of interest, oldest first."""
