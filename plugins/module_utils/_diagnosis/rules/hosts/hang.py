# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.


"""The driver hangs: the node is ready and its GPUs are allocatable, and programs that ask the driver hang."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.matches import fact
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Certainty, Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_HUNG_TASK = pattern(
    r"INFO: task (?P<process>nv[\w:\[\]-]*|nvidia[\w-]*|UVM[\w ]*|dcgm[\w-]*|nv-hostengine):\d+ blocked for more than",
    "blocked for more than",
    "kernel",
)
_RPC = pattern(
    r"nvidia-container-cli(?:\.real)?: initialization error: driver rpc error: timed out",
    "driver rpc error: timed out",
)
_PS = pattern(r"^\S+\s+\d+ .*\sD[a-zA-Z<+]*\s+\S+\s+\d+:\d+ (?P<process>(?:/\S*/)?nvidia-\S+)", "nvidia-")
_TASK = pattern(r"task:(?P<process>\S+)\s+state:D\b", "state:d", "kernel")
_STACK = pattern(r"\b\w+\+0x[0-9a-f]+/0x[0-9a-f]+ \[nvidia(?:_uvm)?\]", " [nvidia", "kernel")

_NO_ANSWER = "did not answer"


def _hangs(view: View) -> t.Iterator[Sighting]:
    for node in view.names:
        yield from _of_host(view, node)
    for hit in view.hits(_HUNG_TASK):
        if not seen.answers(view, hit.line.node) or seen.state(view, hit.line.node).get("stuck"):
            yield matches.sighting(hit)
    for hit in (*view.hits(_RPC), *view.hits(_PS)):
        yield matches.sighting(hit, "likely")
    for hit in seen.together(view, _TASK, _STACK):
        yield matches.sighting(hit, "likely")


def _of_host(view: View, node: str) -> t.Iterator[Sighting]:
    """Yield what hangs. A GPU without persistence mode takes seconds to start, so one sign alone is not certain."""
    held = [process for process in seen.state(view, node).get("stuck") or [] if process["nvidia"]]
    unanswered = _unanswered(view, node)
    certainty: Certainty = "certain" if held and unanswered else "likely"
    for process in held:
        where = " < ".join(process["stack"][:3]) or process["wchan"] or "unknown"
        text = f"process {process['pid']} ({process['name']}) does not leave the kernel: {where}"
        yield Sighting(node, "", fact(text, seen.HOST_STATE, node), certainty, {"process": process["name"]})
    if unanswered:
        values = {"process": "NVML or nvidia-smi"}
        yield Sighting(node, "", fact(unanswered, seen.HOST_FACTS, node), certainty, values)


def _unanswered(view: View, node: str) -> str:
    """Return what gpu_facts says of a driver that it asked in vain, or an empty string."""
    sources = seen.part(view, node, "sources")
    reasons = (str(each.get("reason")) for name, each in sources.items() if name.startswith("gpus."))
    found = next((reason for reason in reasons if _NO_ANSWER in reason), "")
    return found if seen.part(view, node, "driver").get("loaded") else ""


RULES = (
    Rule(
        code="DriverHangs",
        title="The driver hangs",
        severity="failure",
        cause="{process} called the driver and gets no answer. Kubernetes does not notice: the node stays ready, and "
        "its GPUs stay allocatable.",
        remedy="Save the kernel log (journalctl -k) and look in it for Xids before the hang. Then drain the node, and "
        "reboot it: a process that hangs in the kernel cannot be killed. If the drain or the reboot does not end, turn "
        "the host off and on.",
        sources=(
            "https://github.com/NVIDIA/k8s-device-plugin/issues/77",
            "https://github.com/NVIDIA/nvidia-docker/issues/377",
            "https://github.com/rwth-i6/returnn/issues/1480",
            "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html",
        ),
        check=_hangs,
        patterns=(_HUNG_TASK, _RPC, _PS, _TASK, _STACK),
        explains=seen.NO_GPU | seen.NO_DRIVER | {"DriverStillInUse"},
        unlike=dict.fromkeys(("XidOffTheBus", "XidReset", "XidReboot", "XidService"), seen.HANG_OR_XID),
    ),
)
