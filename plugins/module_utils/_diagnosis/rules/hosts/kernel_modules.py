# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.


"""The kernel or the GPU refuses the driver's modules: signatures, open and proprietary modules, versions, users."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import NOT_READY
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.components import whose_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.matches import fact
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Certainty, Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Hit, Pattern, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

_SIGNATURE = (
    pattern(
        r"could not insert '?(?:module )?[\w/.-]*nvidia[\w-]*'?(?:\.ko\S*)?: "
        r"(?:Key was rejected by service|Required key not available)",
        "could not insert",
    ),
    pattern(
        r"module failed to load, because it was not signed by a key that is trusted", "was not signed by a key that"
    ),
)
_SIGNATURE_LIKELY = (
    pattern(r"Kernel module load error: Operation not permitted", "load error: operation not permit"),
    # By other loaders than modprobe, such as that of Talos or of a driver container.
    pattern(r"\bnvidia[\w-]*\b.{0,160}: (?:key was rejected by service|required key not available)", " key "),
    pattern(r"Loading of (?:unsigned )?module (?:with unavailable key )?is rejected", "is rejected"),
)
_LOCKDOWN = pattern(r"Lockdown: modprobe: unsigned module loading is restricted", "unsigned module loading", "kernel")
_NOT_OPEN = pattern(r"NVRM: installed in this system is not supported by open", "not supported by open", "kernel")
_ONLY_DATACENTER = pattern(r"NVRM: Open nvidia\.ko is only ready for use on Data Center GPUs", "open nvidia.ko is only")
_ONLY_OPEN = pattern(
    r"requires use of the NVIDIA open kernel modules\.?\s*$", "requires use of the nvidia open kernel", "kernel"
)
_TOLD_OPEN = pattern(
    r"\b(?:is|are) only supported by the open (?:GPU )?(?:kernel )?(?:modules|drivers?)"
    r"|can only be used with the open (?:kernel )?(?:modules|drivers?)",
    "the open ",
)
"""What people write of the kernel's words."""
_UNSUPPORTED = pattern(
    r"NVRM: installed in this system is not supported by the\s*$", "installed in this system is not", "kernel"
)
_LEGACY = pattern(r"supported through the NVIDIA (?P<branch>\d{3})\.xx Legacy drivers", "legacy drivers", "kernel")
_LIBRARIES = (
    pattern(r"driver/library version mismatch", "driver/library version mismatch"),
    pattern(r"NVRM: API mismatch: the client", "api mismatch: the client"),
)
_NOT_LOADED = pattern(r"nvml error: driver not loaded", "nvml error: driver not loaded")
_SMI = pattern(
    r"NVIDIA-SMI has failed because it could.{2,4}t communicate with the NVIDIA driver", "nvidia-smi has failed"
)
"""It says so as well in a container that has the driver's libraries and none of its device files."""
_NO_DRIVER = (_SMI, pattern(r"modprobe: FATAL: Module nvidia not found", "fatal: module nvidia not found"))
_MODULE = r"(?P<module>nvidia[_-]peermem|nv_peer_mem|gdrdrv|nvidia[_-]fs)"
_DIRECT = (
    pattern(rf"\b{_MODULE}: (?:disagrees about version of|Unknown) symbol", "symbol"),
    pattern(rf"\b{_MODULE}\b.{{0,60}} Unknown symbol (?:nvidia_p2p|ib)_\w+", "unknown symbol "),
    pattern(rf"could not insert (?:module )?'?(?:[\w./-]*/)?{_MODULE}(?:\.ko)?'?: ", "could not insert"),
)

_NO_ADDRESSES = pattern(
    r"nvidia-uvm: .*devmem_alloc_pagemap.*request_free_mem_region\(\) err", "request_free_mem_region", "kernel"
)
_UNLOADING = pattern(r"\bModules linked in: .*?\b(?P<module>nvidia\w*)\([A-Z]*-\)", "modules linked in: ", "kernel")
"""The kernel marks a module that is being unloaded with ``-`` (module_flags in kernel/module/main.c)."""

_BEFORE_TURING = ("Kepler", "Maxwell", "Pascal", "Volta")
_ONLY_WITH_OPEN = ("Blackwell",)


def _signature(view: View) -> t.Iterator[Sighting]:
    for found in (*_SIGNATURE, *_SIGNATURE_LIKELY, _LOCKDOWN):
        for hit in view.hits(found):
            if seen.part(view, hit.line.node, "driver").get("loaded") is not True:
                yield matches.sighting(hit, "certain" if found in _SIGNATURE else "likely")
    for node in view.names:
        driver, boot = seen.part(view, node, "driver"), seen.part(view, node, "secure_boot")
        if boot.get("enabled") and driver.get("loaded") is False and driver.get("signer_enrolled") is False:
            yield seen.on_node(node, f"secure_boot.enabled: true; driver.signer: {driver.get('signer')}, not enrolled")


def _key_waits(view: View) -> t.Iterator[Sighting]:
    """Yield hosts whose driver is not loaded while a key waits. A key may be for another module, so this is likely."""
    for node in view.names:
        driver, boot = seen.part(view, node, "driver"), seen.part(view, node, "secure_boot")
        waits = seen.state(view, node).get("mok_pending") and driver.get("signer_enrolled") is not True
        if waits and boot.get("enabled") and driver.get("loaded") is False:
            quotes = fact("mok_pending: true (mokutil --list-new)", seen.HOST_STATE, node)
            yield Sighting(node, "", quotes, "likely")


def _not_open(view: View) -> t.Iterator[Sighting]:
    for node, gpu in seen.each_gpu(view):
        if _module_type(view, node) == "open" and gpu.get("architecture") in _BEFORE_TURING:
            yield seen.of_gpu(node, gpu, f"{gpu['architecture']}, driver.module_type: open", model=_name(gpu))
    for hit in (*view.hits(_NOT_OPEN), *view.hits(_ONLY_DATACENTER)):
        if not seen.gpus(view, hit.line.node):
            yield matches.sighting(hit, "likely", model="A GPU of this host")


def _only_open(view: View) -> t.Iterator[Sighting]:
    for node, gpu in seen.each_gpu(view):
        if _module_type(view, node) == "proprietary" and gpu.get("architecture") in _ONLY_WITH_OPEN:
            yield seen.of_gpu(node, gpu, f"{gpu['architecture']}, driver.module_type: proprietary", model=_name(gpu))
    for hit in view.hits(_ONLY_OPEN):
        if not seen.gpus(view, hit.line.node):
            yield matches.sighting(hit, model="A GPU of this host")
    for hit in view.hits(_TOLD_OPEN):
        yield matches.sighting(hit, "likely", model="A GPU of this host")


def _module_type(view: View, node: str) -> str | None:
    return seen.part(view, node, "driver").get("module_type")


def _name(gpu: t.Mapping[str, t.Any]) -> str:
    return str(gpu.get("name") or gpu.get("device_id") or gpu["pci_address"])


def _unsupported(view: View) -> t.Iterator[Sighting]:
    for hit in (hit for each in (_UNSUPPORTED, _LEGACY) for hit in view.hits(each)):
        if not seen.answers(view, hit.line.node):
            yield dataclasses.replace(matches.sighting(hit), values={})


def _libraries(view: View) -> t.Iterator[Sighting]:
    for node in view.names:
        driver = seen.part(view, node, "driver")
        if driver.get("matches") is False:
            text = f"driver.version: {driver['version']}, driver.userspace_version: {driver['userspace_version']}"
            yield seen.on_node(node, text)
    for hit in (hit for each in _LIBRARIES for hit in view.hits(each)):
        # An old line of a log does not count for a host whose driver was examined now.
        if seen.part(view, hit.line.node, "driver").get("matches") is None:
            yield matches.sighting(hit)


def _unloading(view: View) -> t.Iterator[Sighting]:
    return (matches.sighting(hit, "likely") for hit in view.hits(_UNLOADING) if not seen.answers(view, hit.line.node))


def _not_loaded(view: View) -> t.Iterator[Sighting]:
    for node in view.names:
        driver = seen.part(view, node, "driver")
        wanted = any(gpu.get("bound_driver") != "vfio-pci" for gpu in seen.gpus(view, node))
        if driver.get("loaded") is False and driver.get("module_installed") and wanted:
            yield seen.on_node(node, f"driver.loaded: false, driver.installed_version: {driver['installed_version']}")
    for found in (_NOT_LOADED, *_NO_DRIVER):
        for hit in view.hits(found):
            if seen.part(view, hit.line.node, "driver").get("loaded") is None:
                yield matches.sighting(
                    hit, "possible" if _may_be_in_container(found, hit) else _SURE.get(found, "likely")
                )


def _without_files(view: View) -> t.Iterator[Sighting]:
    for hit in view.hits(_SMI):
        if _may_be_in_container(_SMI, hit) and seen.part(view, hit.line.node, "driver").get("loaded") is not False:
            yield matches.sighting(hit, "possible")


_SURE: dict[Pattern, Certainty] = {_NOT_LOADED: "certain"}
_OF_HOSTS = ("driver", "driver-manager", "validator", "kernel")
"""Components whose containers see all device files of the host."""


def _may_be_in_container(found: Pattern, hit: Hit) -> bool:
    """Return whether a program in a container may have said this of its own device files."""
    return found is _SMI and whose_line.of_source(hit.line.source) not in _OF_HOSTS


_HOST_OR_CONTAINER = (
    "Run cat /proc/driver/nvidia/version on the host. If it prints a version, the driver is loaded, and only the "
    "container lacks the device files; if there is no such file, the driver is not loaded."
)

RULES = (
    Rule(
        code="ModuleSignatureRefused",
        title="The kernel refuses the driver's signature",
        severity="failure",
        cause="With secure boot, the kernel only loads modules with a signature that it trusts, and NVIDIA's modules "
        "have none.",
        remedy="On Ubuntu, use signed modules: host_driver_origin: ubuntu-signed for a driver on the host, or "
        "driver.usePrecompiled: true in operator_values for a container, and run playbooks/site.yml. Otherwise import "
        "the key that signs the modules (mokutil --import FILE), drain the node, reboot it, and confirm the key at its "
        "console. Or turn secure boot off in the machine's firmware.",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/266",
            "https://github.com/NVIDIA/gpu-operator/issues/1142",
            "https://github.com/bottlerocket-os/bottlerocket/issues/4218",
            "https://github.com/acidanthera/bugtracker/issues/2237",
        ),
        check=_signature,
        patterns=(*_SIGNATURE, *_SIGNATURE_LIKELY, _LOCKDOWN),
        explains=seen.NO_DRIVER | {"HostPreflightHostSecureBoot", "GPUDirectModuleFails"},
        unlike={"NouveauHoldsGPU": seen.NOUVEAU_OR_SIGNATURE, "SELinuxDenies": seen.SELINUX_OR_SIGNATURE},
    ),
    Rule(
        code="SecureBootKeyWaits",
        title="A key for secure boot waits to be confirmed",
        severity="failure",
        cause="A key that signs kernel modules was imported. The kernel only trusts it after somebody has "
        "confirmed it at the console during the next boot.",
        remedy="Drain the node, open its console (such as that of the BMC), and reboot it. On the blue screen that "
        "appears before the system starts, choose Enroll MOK and enter the password that was set with mokutil "
        "--import. If the screen was missed, import the key again.",
        sources=(
            "https://unix.stackexchange.com/questions/535434/what-exactly-is-mok-in-linux-for/535440",
            "https://github.com/mvallim/live-custom-ubuntu-from-scratch/issues/58",
        ),
        check=_key_waits,
        explains=seen.NO_DRIVER | {"ModuleSignatureRefused", "HostPreflightHostSecureBoot"},
    ),
    Rule(
        code="OpenModulesUnsupported",
        title="The open kernel modules do not support the GPU",
        severity="failure",
        cause="{model} does not work with NVIDIA's open kernel modules. They need a GPU of the generation Turing or "
        "newer. Old releases of them only support data centre GPUs.",
        remedy="Use the proprietary modules. With a driver on the host, set host_driver_flavour: proprietary and run "
        "playbooks/site.yml. With a driver container, set driver.kernelModuleType: proprietary in the operator's "
        "values.",
        sources=(
            "https://github.com/negativo17/nvidia-driver/issues/158",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/322",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/issues/230",
        ),
        check=_not_open,
        patterns=(_NOT_OPEN, _ONLY_DATACENTER),
        explains=seen.NO_DRIVER | seen.NO_GPU,
    ),
    Rule(
        code="OpenModulesRequired",
        title="The GPU needs the open kernel modules",
        severity="failure",
        cause="{model} only works with NVIDIA's open kernel modules, but the proprietary ones are installed.",
        remedy="Use the open modules. With a driver on the host, set host_driver_flavour: open and run "
        "playbooks/site.yml. With a driver container, set driver.kernelModuleType: open (or auto) in the operator's "
        "values.",
        sources=(
            "https://github.com/Start9Labs/start-technologies/issues/3465",
            "https://github.com/getsolus/packages/issues/5575",
        ),
        check=_only_open,
        patterns=(_ONLY_OPEN, _TOLD_OPEN),
        explains=seen.NO_DRIVER | seen.NO_GPU,
    ),
    Rule(
        code="GPUUnsupportedByBranch",
        title="The driver's release does not support the GPU",
        severity="failure",
        cause="This release of the driver does not support the GPU: the release is too old for the GPU, or too new.",
        remedy="Choose a branch that supports the GPU: host_driver_branch, or driver.version in the operator's values. "
        "The release notes of each branch list the GPUs. Then run playbooks/upgrade_driver.yml.",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/918",
            "https://github.com/anomixer/proxmox-vgpu-installer/issues/29",
        ),
        check=_unsupported,
        patterns=(_UNSUPPORTED, _LEGACY),
        explains=seen.NO_DRIVER | seen.NO_GPU,
    ),
    Rule(
        code="DriverLibraryMismatch",
        title="The driver's modules and libraries differ",
        severity="failure",
        cause="The loaded kernel module and the driver's libraries have different versions. Usually the driver was "
        "updated while the old module was loaded, or while containers ran with the old libraries.",
        remedy="If other pods of the node work, delete the pods that fail, so that they start with the new libraries. "
        "Otherwise run playbooks/upgrade_driver.yml if the driver is a container, or playbooks/site.yml with "
        "host_change_allowed: true if it belongs to the host: the node is drained, and the old module is unloaded or "
        "the host reboots. To keep unattended upgrades from changing the driver, set host_prep_hold: [driver].",
        sources=(
            "https://github.com/pando85/homelab/pull/4110",
            "https://github.com/NVIDIA/k8s-device-plugin/issues/1431",
            "https://github.com/lyulyul/shine-cluster/issues/30",
            "https://github.com/NVIDIA/nvidia-docker/issues/182",
        ),
        check=_libraries,
        patterns=_LIBRARIES,
        explains=seen.NO_DRIVER | seen.NO_GPU | {"GSPFirmwareMissing"},
    ),
    Rule(
        code="DriverNotLoaded",
        title="The driver is not loaded",
        severity="failure",
        cause="NVIDIA's driver is not loaded on this host.",
        remedy="Run playbooks/site.yml, which loads the driver. If it does not load, run modprobe nvidia on the host "
        "and read the kernel log (journalctl -k -g NVRM): both say why.",
        sources=(
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/1269",
            "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html",
        ),
        check=_not_loaded,
        patterns=(_NOT_LOADED, *_NO_DRIVER),
        explains=seen.NO_DRIVER - {"DriverNotLoaded", "DriverBuildFailed"},
        unlike={"DriverLibrariesMissing": seen.LOADED_OR_NOT, "ContainerWithoutDeviceFiles": _HOST_OR_CONTAINER},
    ),
    Rule(
        code="ContainerWithoutDeviceFiles",
        title="A container has the driver's libraries and no device files",
        severity="failure",
        cause="If nvidia-smi works on the host and fails in the container, the container did not get the device nodes "
        "of its GPU (/dev/nvidia0, /dev/nvidiactl): they did not exist when its pod or claim was prepared, or the "
        "runtime did not add them.",
        remedy="Run `nvidia-smi` on the host, which creates device nodes that are missing, and ls -l /dev/nvidia*. "
        "Then delete the pod, and with a ResourceClaim also the claim, so that both are prepared again. If it happens "
        "after each boot, keep the device nodes with nvidia-persistenced or nvidia-modprobe on the host.",
        sources=(
            "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1380",
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/48",
        ),
        check=_without_files,
        patterns=(_SMI,),
        explains=NOT_READY,
        unlike={"DriverNotLoaded": _HOST_OR_CONTAINER},
    ),
    Rule(
        code="ModuleStuckUnloading",
        title="A module of the driver hangs while it is unloaded",
        severity="failure",
        cause="The kernel began to unload the module {module} and did not finish. No driver can be loaded until the "
        "next boot.",
        remedy="Save the kernel log (journalctl -k). Then drain the node, and reboot it. To change a driver without "
        "this risk, use playbooks/upgrade_driver.yml, which drains nodes first.",
        sources=(
            "https://github.com/NVIDIA/aicr/issues/1553",
            "https://github.com/torvalds/linux/blob/master/kernel/module/main.c",
        ),
        check=_unloading,
        patterns=(_UNLOADING,),
        explains=seen.NO_GPU | seen.NO_DRIVER | {"DriverStillInUse", "DriverHangs"},
    ),
    Rule(
        code="GPUDirectModuleFails",
        title="A GPUDirect module does not load",
        severity="warning",
        cause="The kernel refuses the module {module}, because it does not fit the loaded network driver or GPU "
        "driver. GPUs work, but GPUDirect does not.",
        remedy="The GPU driver must be built after the network driver. With a driver on the host, install NVIDIA's "
        "DOCA first and the GPU driver after it. With a driver container, set driver.rdma.useHostMofed: true in "
        "operator_values if the hosts have the network driver of DOCA, run playbooks/site.yml, drain the node, and "
        "restart the driver's pod.",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/2868",
            "https://github.com/Mellanox/nv_peer_memory/issues/84",
            "https://github.com/NVIDIA/gdrcopy/issues/13",
        ),
        patterns=_DIRECT,
        explains=frozenset({"OperandWaiting", "PodsNotReady", "CrashLoopBackOff"}),
    ),
    Rule(
        code="CUDAWithoutAddresses",
        title="The kernel leaves CUDA no addresses",
        severity="failure",
        cause="The kernel places memory at random addresses (KASLR), and some kernels then leave none for the GPU's "
        "memory. So CUDA does not start on this host.",
        remedy="Install a newer kernel (host_kernel_release and playbooks/upgrade_kernel.yml). Until then, give "
        "nvidia_uvm the option uvm_disable_hmm=1 (host_prep_modules_options), or the kernel the argument nokaslr "
        "(host_prep_kernel_args), and run playbooks/site.yml.",
        sources=(
            "https://docs.nvidia.com/cuda/archive/13.2.1/cuda-features-archive/index.html",
            "https://github.com/wilicc/gpu-burn/issues/133",
        ),
        patterns=(_NO_ADDRESSES,),
        explains=NOT_READY | {"FabricNotReady", "CUDARefusesTest"},
        unlike={"FabricNotReady": seen.ADDRESSES_OR_FABRIC},
    ),
)
