# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Containers of the stack that the kernel killed for their memory."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches, order
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_OPERATOR = "https://github.com/NVIDIA/gpu-operator/"
_EXPORTER = "https://github.com/NVIDIA/dcgm-exporter/"

_KILLED = pattern(
    r"Memory cgroup out of memory: Killed process \d+ \((?P<container>dcgm-exporter|gpu-operator|nvidia-device-\w*"
    r"|gpu-feature-dis\w*|nvidia-mig-mana\w*|nfd-\w+)\)",
    "memory cgroup out of memory",
)

_KILLED_CONTAINER = pattern(
    r"^OOMKilled: container of the image (?P<image>\S+), memory limit (?P<limit>\S+)$", "oomkilled: container"
)

_KILLED_POD = pattern(r"^OOMKilled: pod (?:[\w.-]+/)?(?P<pod>[\w.-]+)$", "oomkilled: pod")
"""What parts of descriptions and tables of pods say, as explain reads them."""


def _limit(pod: Json, name: str) -> str:
    spec = pod.get("spec") or {}
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        if container["name"] == name:
            return str(((container.get("resources") or {}).get("limits") or {}).get("memory") or "none")
    return "unknown"


def _out_of_memory(view: View) -> t.Iterator[tuple[str, Sighting]]:
    """Yield the containers that were killed for want of memory, each with the code of its rule."""
    for pod in view.evidence.pods:
        for container in objects.container_statuses(pod):
            ends = [(container.get(state) or {}).get("terminated") or {} for state in ("state", "lastState")]
            code = _memory_code(objects.name_of(pod), str(container.get("image") or ""))
            if code and any(end.get("reason") == "OOMKilled" for end in ends):
                yield code, _killed(pod, str(container["name"]))
    for hit in view.hits(_KILLED) if not view.evidence.pods else ():
        process = hit.values["container"]
        yield _memory_code(process, "") or "ContainerOutOfMemory", matches.sighting(hit, limit="see its pod")
    for hit in view.hits(_KILLED_CONTAINER):
        image, code = _program(hit.values["image"]), _memory_code("", hit.values["image"])
        if code:
            yield code, matches.sighting(hit, container=image)
    for hit in view.hits(_KILLED_POD):
        code = _memory_code(hit.values["pod"], "")
        if code:
            yield code, matches.sighting(hit, container=f"of the pod {hit.values['pod']}", limit="see its pod")


def _killed(pod: Json, container: str) -> Sighting:
    name, node = f"pod {objects.full_name(pod)}", str((pod.get("spec") or {}).get("nodeName") or "")
    values = {"container": container, "limit": _limit(pod, container)}
    quotes = matches.fact(f"OOMKilled, memory limit {values['limit']}", f"status of {name}", node)
    return Sighting(node, name, quotes, "certain", values, order.operand_of(name))


def _program(image: str) -> str:
    """Return what an image is: dcgm-exporter of nvcr.io/nvidia/k8s/dcgm-exporter:4.5.1."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def _memory_code(pod: str, image: str) -> str:
    """Return the code of the rule for a container by its pod's name and its image. Others' containers lack it."""
    program, operand = _program(image), order.operand_of(f"pod {pod}")
    if operand == operands.DCGM_EXPORTER.name or "dcgm-exporter" in (program, pod.rpartition("-")[0], pod):
        return "ExporterOutOfMemory"
    if program == names.OPERATOR or _OPERATOR_POD.fullmatch(pod):
        return "OperatorOutOfMemory"
    is_ours = operand in _OWN or program in _OWN_IMAGES or (pod and not operand)
    return "ContainerOutOfMemory" if is_ours else ""


_OPERATOR_POD = re.compile(rf"{names.OPERATOR}(?:-[0-9a-f]{{6,10}}-[0-9a-z]{{5}})?")

_OWN = {each.name for each in operands.OPERANDS}

_OWN_IMAGES = {
    *("driver", "k8s-driver-manager", "container-toolkit", "gpu-operator-validator", "k8s-device-plugin", "dcgm"),
    *("gpu-feature-discovery", "k8s-mig-manager", "node-feature-discovery", "vgpu-device-manager", "vgpu-manager"),
}


def _memory_rule(code: str, title: str, remedy: str, sources: tuple[str, ...]) -> Rule:
    def check(view: View) -> t.Iterator[Sighting]:
        return (sighting for found, sighting in view.once(_all_out_of_memory) if found == code)

    cause = "The container {container} was killed, because it used more memory than its limit ({limit})."
    explained = NOT_READY | {"OperatorNotAvailable", "OperatorNotUpdated", "OperatorSilent", "DiscoveryNotReady"}
    unlike = {"HostOutOfMemory": seen.HOST_OR_LIMIT}
    patterns = (_KILLED, _KILLED_CONTAINER, _KILLED_POD)
    return Rule(code, title, "failure", cause, remedy, sources, check, patterns, explains=explained, unlike=unlike)


def _all_out_of_memory(view: View) -> list[tuple[str, Sighting]]:
    return list(_out_of_memory(view))


RULES = (
    _memory_rule(
        "OperatorOutOfMemory",
        "The operator needs more memory",
        "Set operator.resources.limits.memory in operator_values to 1Gi and run playbooks/site.yml: 350Mi are too "
        "little from about 300 nodes on.",
        (f"{_OPERATOR}issues/208", f"{_OPERATOR}issues/229"),
    ),
    _memory_rule(
        "ExporterOutOfMemory",
        "The exporter needs more memory",
        "Set dcgmExporter.resources.limits.memory in operator_values to 1Gi and run playbooks/site.yml: 512Mi are too "
        "little for some nodes with 8 GPUs.",
        (f"{_EXPORTER}issues/609", "https://github.com/pytorch/ci-infra/issues/1011"),
    ),
    _memory_rule(
        "ContainerOutOfMemory",
        "A pod of the stack needs more memory",
        "Raise resources.limits.memory of this operand, or of node-feature-discovery, in operator_values and run "
        "playbooks/site.yml.",
        (f"{_OPERATOR}issues/1049",),
    ),
)
