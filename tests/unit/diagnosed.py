# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Evidence for rules of the diagnosis, and the findings that they make of it."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.engine import diagnose
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Finding, Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Kind, TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

NODE = "gpu-0000"


def found(rules: t.Sequence[Rule], *lines: TextLine | str, **evidence: t.Any) -> dict[str, Finding]:
    """Return the findings by code. A text stands for a line that nobody knows the origin of."""
    known = [line if isinstance(line, TextLine) else TextLine(line) for line in lines]
    diagnosis = diagnose(Evidence(lines=known, **evidence), rules)
    assert not diagnosis.gaps
    return {finding.code: finding for finding in diagnosis.findings}


def event(text: str, pod: str = "nvidia-dcgm-x7k2p", node: str = NODE) -> TextLine:
    """Return the message of an event about a pod of the stack."""
    about = f"pod gpu-operator/{pod}"
    return TextLine(text, "event", f"event of {about}", node, about)


def log(text: str, pod: str, container: str, kind: Kind = "pod", node: str = NODE) -> TextLine:
    """Return a line of the log of a container of the stack."""
    return TextLine(text, kind, f"pod gpu-operator/{pod}, container {container}", node, f"pod gpu-operator/{pod}")


def stack(*rows: Json, reasons: t.Sequence[Json] = (), **more: t.Any) -> Json:
    """Return a result of gpu_stack_info with these nodes and reasons of the verdict."""
    verdict = {"state": "progressing" if reasons else "ready", "message": "", "reasons": list(reasons)}
    return {"nodes": list(rows), "operands": [], "namespace": "gpu-operator", "verdict": verdict, **more}


def row(name: str = NODE, **more: t.Any) -> Json:
    """Return a healthy GPU node as gpu_stack_info returns it."""
    gpus = {"nvidia.com/gpu": 8}
    return {
        "name": name, "product": "NVIDIA-H100-80GB-HBM3", "gpus": 8, "replicas": 1, "memory_mib": 81559,
        "driver": "595.91.07", "os": "ubuntu24.04", "kernel": "6.8.0-31-generic", "runtime": "containerd://2.1.4",
        "mig": {"capable": True, "strategy": "single", "config": "all-disabled", "state": "success"},
        "sharing": {"strategy": "none", "config": None},
        "slices": [
            {"resource": "nvidia.com/gpu", "profile": None, "devices": 8, "replicas": 1, "expected": 8,
             "allocatable": 8, "allocated": 0}
        ],
        "capacity": gpus, "allocatable": gpus, "allocated": {}, "ready": True, "cordoned": False, "taints": [],
        "upgrade_state": "upgrade-done", "waiting_for": {}, "claimable": False, "left_out": None, **more,
    }  # fmt: skip


def reason(code: str, message: str, **more: t.Any) -> Json:
    """Return a reason of a verdict."""
    empty = dict.fromkeys(("operand", "node", "pod", "count", "total"))
    return {"level": "progressing", "code": code, "message": message, "remedy": "", **empty, **more}
