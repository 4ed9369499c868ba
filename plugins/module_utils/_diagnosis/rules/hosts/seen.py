# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.


"""What rules about hosts have in common: facts as evidence, and what follows if a node's driver does not work. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.matches import fact
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Certainty, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Hit, Pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View, text_of_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

NO_DRIVER = NOT_READY | {
    *("NodesNotLabelled", "NoNvidiaRuntimeHandler", "HostPreflightHostDriver", "UnhealthyGPUs"),
    *("DriverNotLoaded", "WaitsForDriver", "ValidatorKnowsNoDriver", "DriverBuildFailed", "HostServiceFails"),
}
"""What follows on a node whose driver is not built or not loaded."""

NO_GPU = NOT_READY | {
    *("UnhealthyGPUs", "GPUsMissingFromDriver", "GPUInitFailed", "GPUDoesNotAnswer", "HostServiceFails"),
    "ExporterSilent",
}
"""What follows on a node with a GPU that its driver cannot use."""

NODE_DOWN = frozenset({"NodeNotReady", "NodeSilent", "NodesNotReady"})
"""What follows if the kubelet or the container runtime of a node fails."""

NOUVEAU_OR_SIGNATURE = (
    "Run lspci -k -d 10de:. If it shows nouveau as the driver in use, nouveau holds the GPU. If it shows none, and "
    "modprobe nvidia names a key or says Operation not permitted, the signature is refused."
)
"""What tells apart why NVIDIA's driver cannot take a GPU. Where its modules are refused, nouveau often loads."""

SELINUX_OR_SIGNATURE = (
    "Run ausearch -m avc -ts boot. If it shows a denial that names nvidia, SELinux is the cause; if it shows none and "
    "mokutil --sb-state says that secure boot is enabled, the signature is the cause."
)
LOADED_OR_NOT = (
    "Run cat /proc/driver/nvidia/version on the host. If it prints a version, the driver is loaded and the toolkit "
    "looks for its libraries in the wrong place; if there is no such file, the driver is not loaded."
)
CONTAINER_OR_GPU = (
    "Run nvidia-smi on the host, or in the driver's pod. If it lists all GPUs, only the container has lost its own; if "
    "it fails or lists fewer, the GPU has failed."
)
MACHINE_OR_LINK = (
    "Run ras-mc-ctl --errors. If it names a memory module or a processor, it is the machine; if it names a PCIe port, "
    "it is the link of the GPU below that port (lspci -t)."
)
HOST_OR_LIMIT = (
    "Run journalctl -k -g 'out of memory'. A line with Memory cgroup out of memory means the limit of the container; a "
    "line without these first two words means that the host itself was full."
)
LINK_OR_POWER = (
    "Run journalctl -k -b. If AER errors of the port above the GPU stand before the Xid, the link has failed (slot, "
    "riser or cable); if the Xid comes first, look for power and temperature in the event log of the BMC."
)
DCGM_OR_PATH = (
    "Look at RESTARTS of the node's pod nvidia-dcgm. If the number grows, DCGM crashes; if it does not, the exporter "
    "does not reach it over the network."
)
HANG_OR_XID = (
    "Run journalctl -k -b. If the Xid stands before the first message about a blocked task, the GPU failed and the "
    "driver hangs because of it; if it stands after that message, the hang came first."
)

ADDRESSES_OR_FABRIC = (
    "Run journalctl -k -g request_free_mem_region. If it shows errors of nvidia-uvm, the kernel leaves CUDA no "
    "addresses; if it shows none, look at the fabric manager."
)

FABRIC_OR_PROGRAM = (
    "Run nvidia-smi -q | grep -A 3 Fabric on the node. If a GPU shows In Progress, the fabric is the cause; if all "
    "show Completed or N/A, it is the program or its container."
)

TO_SERVICE = "Drain the node, and send the GPU to service. Take the evidence first (nvidia-bug-report.sh)."

HOST_FACTS = "facts of the host"
HOST_STATE = "state of the host"


def gpus(view: View, node: str) -> list[Json]:
    """Return the GPUs of a node's host, as far as they are known."""
    return view.facts(node).get("gpus") or []


def part(view: View, node: str, name: str) -> Json:
    """Return a part of the facts of a node's host, such as its driver, or an empty dict."""
    return view.facts(node).get(name) or {}


def state(view: View, node: str) -> Json:
    """Return what `host_evidence_info` says of a node's host, or an empty dict if it was not asked."""
    return (view.evidence.hosts.get(node) or {}).get("state") or {}


def on_node(node: str, text: str, certainty: Certainty = "certain", **values: str) -> Sighting:
    """Return a sighting on a node from a fact in words."""
    return Sighting(node, "", fact(text, HOST_FACTS, node), certainty, values)


def of_gpu(node: str, gpu: Json, text: str, certainty: Certainty = "certain", **values: str) -> Sighting:
    """Return a sighting of a GPU from a fact in words."""
    address = gpu["pci_address"]
    return Sighting(node, f"GPU {address}", fact(f"GPU {address}: {text}", HOST_FACTS, node), certainty, values)


def answers(view: View, node: str, address: str = "") -> bool:
    """Return whether the driver answered for a GPU of a node, or for all of them. Then older lines of logs are over.

    Logs name GPUs without the function, and in capitals or not.
    """
    wanted = address.lower().partition(".")[0][-7:]
    found = [gpu for gpu in gpus(view, node) if gpu["pci_address"].partition(".")[0].endswith(wanted)]
    return bool(found) and all(gpu.get("uuid") and not gpu.get("lost") for gpu in found)


def is_ready(view: View, node: str) -> bool:
    """Return whether all of the stack runs on a node. Then older events are over."""
    row = view.rows.get(node) or {}
    return bool(row.get("ready")) and not row.get("waiting_for")


def text_of(hit: Hit) -> tuple[str, str]:
    """Return which text a line belongs to."""
    return text_of_line(hit.line)


def together(view: View, wanted: Pattern, *others: Pattern) -> t.Iterator[Hit]:
    """Yield the matches of a pattern in texts where each of the others matches, too."""
    texts = [{text_of(hit) for hit in view.hits(other)} for other in others]
    return (hit for hit in view.hits(wanted) if all(text_of(hit) in found for found in texts))


def each_gpu(view: View) -> t.Iterator[tuple[str, Json]]:
    """Yield all GPUs of all hosts, each with its node."""
    for node in view.names:
        for gpu in gpus(view, node):
            yield node, gpu


def in_facts(wanted: t.Callable[[Json], str | None]) -> t.Callable[[View], t.Iterator[Sighting]]:
    """Return a check of each GPU's facts. It says what is wrong in words, or returns None."""

    def check(view: View) -> t.Iterator[Sighting]:
        for node, gpu in each_gpu(view):
            text = None if gpu.get("lost") else wanted(gpu)
            if text:
                yield of_gpu(node, gpu, text)

    return check
