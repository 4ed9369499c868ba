# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A must-gather of a lab: the files that the GPU Operator's collector writes, by the same kubectl commands.

The names of the files and what is in each follow hack/must-gather.sh of NVIDIA/gpu-operator at a22dbf6 (August 2026).
A lab's pods run no programs, so there are no bug reports.
"""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from lab.cluster import Lab
from lab.errors import LabError

NAMESPACE = "gpu-operator"
_GPU_NODES = "--selector=nvidia.com/gpu.present=true"
_LOGS = ("--all-containers", "--prefix", "--timestamps")


def must_gather(lab: Lab, folder: Path) -> None:
    """Write what a support case would get."""

    def write(name: str, *command: str) -> None:
        (folder / name).write_text(_said(lab, *command))

    own = (f"--namespace={NAMESPACE}",)
    write("cluster_policy.yaml", "get", "clusterpolicy/cluster-policy", "--output=yaml")
    write("gpu_nodes.labels", "get", "nodes", _GPU_NODES, "--show-labels")
    write("gpu_nodes.status", "get", "nodes", _GPU_NODES, "--output=wide")
    write("gpu_nodes.descr", "describe", "nodes", _GPU_NODES)
    write("gpu_operand_pods.status", "get", "pods", "--output=wide", *own)
    write("gpu_operand_pods.yaml", "get", "pods", "--output=yaml", *own)
    write("gpu_operand_ds.status", "get", "daemonsets", *own)
    write("gpu_operand_ds.yaml", "get", "daemonsets", "--output=yaml", *own)
    for pod in _named(lab, "pods"):
        write(f"gpu_operand_pod_{pod}.log", "logs", f"pod/{pod}", *_LOGS, *own)
        write(f"gpu_operand_pod_{pod}.previous.log", "logs", f"pod/{pod}", *_LOGS, "--previous", *own)
        write(f"gpu_operand_pod_{pod}.descr", "describe", f"pod/{pod}", *own)
    for daemonset in _named(lab, "daemonsets"):
        write(f"gpu_operand_ds_{daemonset}.descr", "describe", f"daemonset/{daemonset}", *own)


def _named(lab: Lab, kind: str) -> t.Iterator[str]:
    for item in json.loads(lab.kubectl("get", kind, f"--namespace={NAMESPACE}", "--output=json"))["items"]:
        yield item["metadata"]["name"]


def _said(lab: Lab, *command: str) -> str:
    """Return what kubectl prints. The collector goes on where a container has no log."""
    try:
        return lab.kubectl(*command)
    except LabError:
        return ""
