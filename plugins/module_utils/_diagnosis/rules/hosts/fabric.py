# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.


"""The NVLink fabric of a host: the fabric manager, the NVLink subnet manager and the state of the fabric."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_DIFFERS = (
    pattern(
        r"fabric manager NVIDIA GPU driver interface version (?P<manager>[\d.]+\d) don.{1,3}t match with driver "
        r"version (?P<driver>[\d.]+\d)",
        "fabric manager nvidia gpu driver interface version",
    ),
    pattern(
        r"nvidia-nvswitch\d*: Version mismatch, kernel version (?P<driver>[\d.]+\d) user version (?P<manager>[\d.]+\d)",
        "version mismatch, kernel version",
    ),
)
_NOT_READY = (
    pattern(r"\bsystem not yet initialized\b", "system not yet initialized"),
    pattern(r"code=802\(cudaErrorSystemNotReady\)", "cudaerrorsystemnotready"),
)
_IN_PROGRESS = pattern(r"^\s*State\s+: In Progress\s*$", ": in progress")
_SUMMARY = pattern(r"^\s*Summary\s+: (?P<health>Unhealthy|Limited Capacity)\s*$", "summary ")
_CLIQUE = pattern(r"^\s*CliqueId\s+: ", "cliqueid")
_NO_SWITCH = pattern(
    r"request to query NVSwitch device information from NVSwitch driver failed with error:\s*WARNING Nothing to do",
    "request to query nvswitch device information",
)
_NO_MODULES = (
    pattern(
        r"waiting for the mlx5_core and ib_umad kernel modules to be loaded", "waiting for the mlx5_core and ib_umad"
    ),
    pattern(r"umad_init: can't read ABI version from \S*infiniband_mad/abi_version", "is ib_umad module loaded"),
)

_MANAGED = ("nvswitch", "nvlink5")
_FABRICS = (*_MANAGED, "nvl72")
_DONE = ("Completed", "Not Supported", "N/A", None)


def _managed(view: View) -> t.Iterator[tuple[str, Json]]:
    """Yield the hosts with a fabric and a loaded driver of their own, each with its fabric manager's facts."""
    for node in view.names:
        driver, services = seen.part(view, node, "driver"), seen.part(view, node, "services")
        fabric = seen.part(view, node, "fabric").get("kind") in _MANAGED
        if fabric and driver.get("loaded") and driver.get("containerised") is False and "fabric_manager" in services:
            yield node, services["fabric_manager"]


def _missing(view: View) -> t.Iterator[Sighting]:
    for node, manager in _managed(view):
        if not manager.get("package") and manager.get("active") is False:
            yield seen.on_node(node, f"fabric.kind: {_kind(view, node)}, services.fabric_manager.package: null")


def _stopped(view: View) -> t.Iterator[Sighting]:
    for node, manager in _managed(view):
        if manager.get("package") and manager.get("active") is False:
            yield seen.on_node(node, f"services.fabric_manager: {manager['package']}, active: false")


def _kind(view: View, node: str) -> str:
    return str(seen.part(view, node, "fabric")["kind"])


def _differs(view: View) -> t.Iterator[Sighting]:
    known = set()
    for node, manager in _managed(view):
        known.add(node)
        if manager.get("matches_driver") is False:
            versions = {"manager": str(manager["version"]), "driver": str(seen.part(view, node, "driver")["version"])}
            text = f"services.fabric_manager.version: {versions['manager']}, driver.version: {versions['driver']}"
            yield seen.on_node(node, text, "certain", **versions)
    for hit in (hit for each in _DIFFERS for hit in view.hits(each)):
        if hit.line.node not in known:
            yield matches.sighting(hit)


def _not_ready(view: View) -> t.Iterator[Sighting]:
    for node, gpu in seen.each_gpu(view):
        fabric, kind = gpu.get("fabric") or {}, seen.part(view, node, "fabric").get("kind")
        if kind in _FABRICS and fabric.get("state") not in _DONE:
            yield seen.of_gpu(node, gpu, f"fabric.state: {fabric['state']}")
    reports = seen.together(view, _IN_PROGRESS, _CLIQUE)
    for hit in (*(hit for each in _NOT_READY for hit in view.hits(each)), *reports):
        if not _is_complete(view, hit.line.node):
            yield matches.sighting(hit, "likely")


def _is_complete(view: View, node: str) -> bool:
    states = [(gpu.get("fabric") or {}).get("state") for gpu in seen.gpus(view, node)]
    return bool(states) and all(state == "Completed" for state in states)


def _unhealthy(view: View) -> t.Iterator[Sighting]:
    for hit in view.hits(_SUMMARY):
        yield matches.sighting(hit, "likely", problems="nvidia-smi -q has the details under Health")
    for node, gpu in seen.each_gpu(view):
        fabric = gpu.get("fabric") or {}
        if fabric.get("health") in ("Unhealthy", "Limited Capacity"):
            problems = ", ".join(fabric.get("problems") or []) or "it does not say why"
            text = f"fabric.health: {fabric['health']} ({problems})"
            yield seen.of_gpu(node, gpu, text, health=fabric["health"], problems=problems)


def _links(view: View) -> t.Iterator[Sighting]:
    for node, gpu in seen.each_gpu(view):
        links = gpu.get("nvlink") or {}
        known = seen.part(view, node, "fabric").get("kind") in _FABRICS and links.get("active") is not None
        if known and links["active"] < (links.get("links") or 0):
            counts = {"active": str(links["active"]), "links": str(links["links"])}
            yield seen.of_gpu(node, gpu, f"nvlink.active: {links['active']} of {links['links']}", "likely", **counts)


def _subnet_manager(view: View) -> t.Iterator[Sighting]:
    for node, manager in _managed(view):
        other = seen.part(view, node, "services").get("nvlsm") or {}
        wanted = _kind(view, node) == "nvlink5" and manager.get("package")
        if wanted and not other.get("package") and other.get("active") is False:
            yield seen.on_node(node, "fabric.kind: nvlink5, services.nvlsm.package: null")
    for hit in (hit for each in _NO_MODULES for hit in view.hits(each)):
        yield matches.sighting(hit, "certain" if "ib_umad module" in hit.line.text else "likely")


_MANAGER = "https://github.com/NVIDIA/NVSentinel/issues/883"
_CHECKS = "https://docs.nvidia.com/health-validation/reference/checks/nvlink"
_LINK_OR_FABRIC = (
    "Run nvidia-smi nvlink --status. If links of all GPUs are down, the fabric manager has not set them up; if only "
    "those of one GPU are, it is this GPU or its board."
)
_SWITCHES_OR_FABRIC = (
    "Run nvidia-smi topo -m. If it shows NV and a number between the GPUs although the machine has no NVSwitches, GPUs "
    "are linked by bridges, and the fabric manager is not needed; in a machine with NVSwitches, these are missing."
)
_FOLLOWS = seen.NO_GPU | {"FabricNotReady", "FabricUnhealthy", "NVLinkDown"}

RULES = (
    Rule(
        code="FabricManagerMissing",
        title="The fabric manager is not installed",
        severity="failure",
        cause="NVSwitches connect the GPUs of this host, but no fabric manager is installed. So CUDA fails with error "
        "802.",
        remedy="Set gpuops_driver: host and run playbooks/site.yml. It installs the fabric manager in the version of "
        "the driver.",
        sources=(_MANAGER, "https://github.com/pytorch/pytorch/issues/35710"),
        check=_missing,
        explains=_FOLLOWS,
    ),
    Rule(
        code="FabricManagerStopped",
        title="The fabric manager does not run",
        severity="failure",
        cause="The fabric manager is installed but does not run. So CUDA fails with error 802.",
        remedy="Read why it stopped (journalctl -u nvidia-fabricmanager), and run playbooks/site.yml, which starts it. "
        "If CUDA still fails, drain the node, and reset all GPUs (nvidia-smi --gpu-reset) or reboot.",
        sources=(_MANAGER, "https://github.com/NVIDIA/nccl/issues/1488"),
        check=_stopped,
        explains=_FOLLOWS,
    ),
    Rule(
        code="FabricManagerMismatch",
        title="The fabric manager has another version than the driver",
        severity="failure",
        cause="The fabric manager has version {manager}, but the driver has version {driver}. The fabric manager only "
        "starts with a driver of its own version.",
        remedy="With a driver on the host, set gpuops_driver: host and run playbooks/site.yml, which installs the "
        "fabric manager in the version of the driver; host_prep_hold: [driver] keeps unattended upgrades from changing "
        "one of them. With a driver container, usually another driver than the image's is loaded: compare "
        "/proc/driver/nvidia/version on the host with driver.version, and reboot the node.",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/544",
            "https://github.com/NVIDIA/gpu-operator/issues/121",
            "https://github.com/NVIDIA/gpu-driver-container/issues/735",
        ),
        check=_differs,
        patterns=_DIFFERS,
        explains=_FOLLOWS | {"FabricManagerStopped"},
    ),
    Rule(
        code="NVLSMMissing",
        title="The NVLink subnet manager, or a module that it needs, is missing",
        severity="failure",
        cause="An NVLink 5 fabric needs the NVLink subnet manager (nvlsm) and the kernel modules ib_umad and "
        "mlx5_core. At least one of the three is missing, so the NVSwitch fabric does not come up and CUDA does not "
        "start.",
        remedy="Run lsmod | grep -e ib_umad -e mlx5_core on the host, and modprobe ib_umad if it is not loaded "
        "(host_prep_modules_load: [ib_umad] loads it at each boot). Run playbooks/site.yml, which installs nvlsm. If "
        "the modules are missing, install linux-modules-extra (Ubuntu), kernel-modules-extra (Red Hat) or NVIDIA's "
        "DOCA for the running kernel.",
        sources=(
            _MANAGER,
            "https://github.com/NVIDIA/gpu-driver-container/blob/main/rhel9/nvidia-driver",
            "https://github.com/siderolabs/extensions/issues/893",
            "https://github.com/siderolabs/docs/issues/581",
        ),
        check=_subnet_manager,
        patterns=_NO_MODULES,
        explains=_FOLLOWS | {"FabricManagerStopped", "HostPreflightHostModules"},
    ),
    Rule(
        code="FabricManagerWithoutSwitches",
        title="The fabric manager finds no NVSwitches",
        severity="warning",
        cause="The fabric manager does not start, because the driver sees no NVSwitch. Machines without NVSwitches do "
        "not need it.",
        remedy="If the machine has no NVSwitches, disable the service (systemctl disable --now nvidia-fabricmanager). "
        "If it has, look for them on the bus (lspci -d 10de:) and in the kernel log (journalctl -k -g nvswitch).",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/610",
            "https://github.com/data-infra/cube-studio/issues/29",
        ),
        patterns=(_NO_SWITCH,),
        explains=frozenset({"FabricManagerStopped", "HostServiceFails"}),
        unlike={"FabricNotReady": _SWITCHES_OR_FABRIC},
    ),
    Rule(
        code="FabricNotReady",
        title="The NVLink fabric is not ready",
        severity="failure",
        cause="The GPUs have not joined the NVLink fabric. So CUDA fails with error 802 (system not yet initialized).",
        remedy="Check the fabric manager: with a driver on the host by systemctl status nvidia-fabricmanager, with a "
        "driver container in the log of the driver's pod, on an NVL72 on the switch trays. It must run, and on a host "
        "it must have exactly the version of the driver. On HGX B200 and newer it also needs the kernel modules "
        "mlx5_ib and ib_umad: run lsmod | grep -E 'mlx5_ib|ib_umad'. On a machine without NVSwitches, a kernel with "
        "random addresses may be the cause instead: run journalctl -k -g request_free_mem_region.",
        sources=(
            _MANAGER,
            "https://github.com/pytorch/pytorch/issues/35710",
            "https://github.com/wilicc/gpu-burn/issues/92",
            "https://github.com/huggingface/huggingface_hub/issues/4134",
        ),
        check=_not_ready,
        patterns=(*_NOT_READY, _IN_PROGRESS, _CLIQUE),
        explains=seen.NO_GPU,
        unlike={
            "NVLinkDown": _LINK_OR_FABRIC,
            "FabricManagerWithoutSwitches": _SWITCHES_OR_FABRIC,
            "CUDAWithoutAddresses": seen.ADDRESSES_OR_FABRIC,
            "ProgramCannotInitialize": seen.FABRIC_OR_PROGRAM,
        },
    ),
    Rule(
        code="FabricUnhealthy",
        title="The NVLink fabric is unhealthy",
        severity="warning",
        cause="The driver reports the NVLink fabric of the GPU as {health}: {problems}.",
        remedy="Drain the node, stop the fabric manager, reset all GPUs (nvidia-smi --gpu-reset), and start it again. "
        "If the finding stays, check the NVLink cables and switches.",
        sources=("https://docs.nvidia.com/deploy/nvml-api/api/group__nvmlFabricDefs.html",),
        check=_unhealthy,
        patterns=(_SUMMARY,),
    ),
    Rule(
        code="NVLinkDown",
        title="NVLinks of a GPU are down",
        severity="warning",
        cause="Only {active} of the {links} NVLinks of the GPU are up, so traffic between GPUs is slow or fails.",
        remedy="Look for Xid 74 or 145 to 150 and for SXids in the kernel log (journalctl -k -g Xid). Then drain the "
        "node, stop the fabric manager, reset all GPUs (nvidia-smi --gpu-reset), and start it again.",
        sources=(_CHECKS,),
        check=_links,
        explains=frozenset({"FabricUnhealthy"}),
        unlike={"FabricNotReady": _LINK_OR_FABRIC},
    ),
)
