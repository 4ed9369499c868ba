# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the exporter of a node's status answers: whether the driver answers, and what the operator has validated.

Source: ``cmd/nvidia-validator/metrics.go`` of the GPU Operator (v25.10.1 to v26.7.0).
"""

from __future__ import annotations

from lab.cluster.api import Json
from lab.cluster.nodes.agents.drivers.manager import loaded_version
from lab.cluster.nodes.agents.exporter import RESOURCE
from lab.cluster.nodes.agents.facts import note

_BARRIERS = ("driver", "toolkit", "plugin", "cuda")


def metrics(node: Json, is_validated: bool) -> str:
    """Return the metrics of a node. ``is_validated`` is whether its validator is ready."""
    name, has_driver = node["metadata"]["name"], bool(loaded_version(node))
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    values = {
        **{f"gpu_operator_node_{barrier}_ready": int(is_validated) for barrier in _BARRIERS},
        "gpu_operator_node_driver_validation": int(has_driver and note(node, "driver-silent") != "true"),
        "gpu_operator_node_device_plugin_devices_total": int(allocatable.get(RESOURCE, 0)),
        "gpu_operator_nvidia_pci_devices_total": int(note(node, "gpus")),
    }
    lines = [f'# TYPE {metric} gauge\n{metric}{{node="{name}"}} {value}' for metric, value in values.items()]
    return "\n".join(lines) + "\n"
