# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.


"""Another driver than NVIDIA's holds the GPU: nouveau or its successor nova, or one for virtual machines."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_LSPCI = pattern(r"^\s*Kernel driver in use: nouveau\b", "kernel driver in use: nouveau")
_INSTALLER = pattern(
    r"The Nouveau kernel driver is currently in use by your system", "nouveau kernel driver is currently in use"
)
_TOOK_IT = pattern(r"\bnouveau 0000:[0-9a-f:.]+: DRM: ", "nouveau 0", "kernel")
_NOVA = pattern(r"NVRM: GPU (?P<gpu>[0-9a-f:.]+) is already bound to (?P<driver>\w+)", "is already bound to", "kernel")
_NOT_PROBED = pattern(r"NVRM: The NVIDIA probe routine was not called for \d+ device", "was not called for", "kernel")

_VIRTUAL = ("vfio-pci", "pci-stub")


def _nouveau(view: View) -> t.Iterator[Sighting]:
    known = {node for node in view.names if view.facts(node).get("nouveau")}
    for node in sorted(known):
        held = [gpu["pci_address"] for gpu in seen.gpus(view, node) if gpu.get("bound_driver") == "nouveau"]
        if held:
            yield seen.on_node(node, f"gpus.bound_driver: nouveau ({', '.join(held)})")
        elif seen.part(view, node, "nouveau").get("loaded") and not seen.part(view, node, "driver").get("loaded"):
            yield seen.on_node(node, "nouveau.loaded: true, driver.loaded: false", "likely")
    for found, certainty in ((_LSPCI, "certain"), (_INSTALLER, "certain"), (_TOOK_IT, "likely")):
        for hit in view.hits(found):
            if hit.line.node not in known:
                yield matches.sighting(hit, "certain" if certainty == "certain" else "likely")


def _others(view: View) -> t.Iterator[Sighting]:
    for node, gpu in seen.each_gpu(view):
        driver = gpu.get("bound_driver")
        if driver in ("nova_core", "nova") or (driver in _VIRTUAL and _is_for_containers(view, node)):
            yield seen.of_gpu(node, gpu, f"bound_driver: {driver}", driver=driver)
    for hit in view.hits(_NOVA):
        yield matches.sighting(hit)
    for hit in view.hits(_NOT_PROBED):
        if not seen.gpus(view, hit.line.node):
            yield matches.sighting(hit, "likely", driver="another driver")


def _is_for_containers(view: View, node: str) -> bool:
    """Return whether the cluster wants to give the GPUs of a node to containers."""
    labels = view.nodes.get(node, {}).get("metadata", {}).get("labels", {})
    return node in view.rows and not str(labels.get(names.WORKLOAD_CONFIG, "container")).startswith("vm-")


_PREPARE = (
    "Set host_change_allowed: true and run playbooks/site.yml. It keeps the kernel's own drivers from loading, and "
    "drains and reboots the host."
)

RULES = (
    Rule(
        code="NouveauHoldsGPU",
        title="nouveau holds the GPU",
        severity="failure",
        cause="The kernel's own driver nouveau holds the GPU, so NVIDIA's driver cannot take it.",
        remedy=_PREPARE,
        sources=(
            "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html",
            "https://github.com/negativo17/nvidia-driver/issues/73",
            "https://github.com/NixOS/nixpkgs/issues/29514",
        ),
        check=_nouveau,
        patterns=(_LSPCI, _INSTALLER, _TOOK_IT),
        explains=seen.NO_DRIVER | {"OtherDriverHoldsGPU", "ModuleForOtherKernel"},
        unlike={"ModuleSignatureRefused": seen.NOUVEAU_OR_SIGNATURE},
    ),
    Rule(
        code="OtherDriverHoldsGPU",
        title="Another driver holds the GPU",
        severity="failure",
        cause="{driver} holds the GPU, so NVIDIA's driver cannot take it.",
        remedy=f"If the GPU is for containers: {_PREPARE} For vfio-pci, first remove the kernel argument "
        "vfio-pci.ids. If the GPU is for virtual machines, label the node "
        "nvidia.com/gpu.workload.config=vm-passthrough.",
        sources=("https://github.com/beclab/Olares/pull/3963", "https://github.com/NVIDIA/gpu-operator/issues/8"),
        check=_others,
        patterns=(_NOVA, _NOT_PROBED),
        explains=seen.NO_DRIVER,
    ),
)
