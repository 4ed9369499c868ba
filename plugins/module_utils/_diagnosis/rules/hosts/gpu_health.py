# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.


"""GPUs that do not start, do not answer or fail, as facts and the kernel's messages without an Xid tell."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import matches
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Certainty, Quote, Rule, Sighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.hosts import seen
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Hit, Pattern, pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_ADDRESS = r"(?P<gpu>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.\d)?)"

_NO_FIRMWARE = (
    pattern(r"Direct firmware load for nvidia/[\w.]+/gsp\w*\.bin failed with error -2", "direct firmware load for nvi"),
    pattern(r"RmFetchGspRmImages: No firmware image found", "no firmware image found"),
)
_GSP = (
    pattern(r"\b(?:GPU\d+ )?RmInitAdapter: Cannot initialize GSP firmware RM", "cannot initialize gsp firmware rm"),
    pattern(r"unexpected WPR2 already up", "unexpected wpr2 already up"),
    pattern(r"GSP-FMC reported an error while attempting to boot GSP", "gsp-fmc reported an error"),
    pattern(r"failed to wait for GFW_BOOT", "failed to wait for gfw_boot"),
    pattern(r"cannot bootstrap riscv/gsp", "cannot bootstrap riscv/gsp"),
)
_GSP_SILENT = (
    pattern(r"_kgspIsHeartbeatTimedOut: Heartbeat timed out", "heartbeat timed out"),
    pattern(r"\*{8,} GSP Timeout \*{8,}", "gsp timeout"),
    pattern(r"NVRM: .*Timeout (?:after \d+s of )?waiting for RPC response from GPU\d+ GSP", "rpc response from gpu"),
)
_XID = pattern(r"NVRM: Xid \(", "xid (", "kernel")
_INIT = (
    pattern(rf"NVRM: (?:GPU {_ADDRESS}: )?RmInitAdapter failed!", "rminitadapter failed!"),
    pattern(r"NVRM: Can't find an IRQ for your NVIDIA card", "find an irq for your nvidia card"),
)
_RESET = pattern(r"NVRM: .*Reset required \[NV_ERR_RESET_REQUIRED\]", "nv_err_reset_required")
_UNKNOWN = pattern(rf"Unable to determine the device handle for (?:GPU\d* ?:? ?)?{_ADDRESS}: ", "determine the device")
_INFOROM = pattern(rf"infoROM is corrupted at gpu {_ADDRESS}", "inforom is corrupted at gpu")
_BAR = (
    pattern(r"NVRM: This PCI I/O region assigned to your NVIDIA device is invalid", "pci i/o region assigned to your"),
    pattern(rf"NVRM: BAR\d is 0M @ 0x0 \(PCI:{_ADDRESS}\)", "is 0m @ 0x0"),
)
_SEGFAULT = pattern(r"\bnv-hostengine\[\d+\]: segfault at ", "segfault at", "kernel")
_AER = pattern(rf"nvidia {_ADDRESS}: AER: can't recover", "aer: can't recover", "kernel")
_IOMMU = pattern(rf"nvidia {_ADDRESS}: AMD-Vi: Event logged \[IO_PAGE_FAULT", "event logged [io_page_fault", "kernel")
_DMAR = pattern(r"DMAR: \[DMA (?:Read|Write)[^\]]*\] Request device \[(?P<slot>[0-9a-f:.]+)\]", "dmar: [dma", "kernel")
_MCE = (
    pattern(r"mce: \[Hardware Error\]: (?:CPU \d+: )?Machine check(?: events logged|: )", "[hardware error]", "kernel"),
    pattern(r"EDAC MC\d+: \d+ UE ", "edac mc", "kernel"),
)
_OOM = pattern(
    r"(?<!cgroup )\bOut of memory: Killed process \d+ "
    r"\((?P<process>kubelet|containerd|crio|dockerd|k3s\S*|rke2|nv\S+|dcgm\S*)\)",
    "out of memory: killed process",
    "kernel",
)


def _matched(
    patterns: t.Sequence[Pattern], certainty: Certainty, *, lasting: bool = False
) -> t.Callable[[View], t.Iterator[Sighting]]:
    """Return a check with one sighting for each GPU that the lines name, or for the host if they name none.

    Unless the fault is ``lasting``, a GPU for which the driver answers has overcome it.
    """

    def check(view: View) -> t.Iterator[Sighting]:
        found: dict[tuple[str, str], list[Hit]] = {}
        for hit in (hit for each in patterns for hit in view.hits(each)):
            found.setdefault((hit.line.node, hit.values.get("gpu", "")), []).append(hit)
        named = {node for node, gpu in found if gpu}
        for (node, gpu), hits in found.items():
            if (gpu or node not in named) and (lasting or not seen.answers(view, node, gpu)):
                quotes = tuple(Quote(hit.line.text, hit.line.source, node) for hit in hits[:2])
                yield Sighting(node, f"GPU {gpu}" if gpu else "", quotes, certainty)

    return check


def _silent(view: View) -> t.Iterator[Sighting]:
    """Yield the hosts whose GSP does not answer. Where the driver has reported the error as an Xid, that says more."""
    reported = {(hit.line.node, seen.text_of(hit)) for hit in view.hits(_XID)}
    started = {seen.text_of(hit) for each in _GSP for hit in view.hits(each)}
    for hit in (hit for each in _GSP_SILENT for hit in view.hits(each)):
        text = seen.text_of(hit)
        if (hit.line.node, text) not in reported and text not in started and not seen.answers(view, hit.line.node):
            yield matches.sighting(hit, "likely")


def _degraded(gpu: Json) -> str | None:
    pcie = gpu.get("pcie") or {}
    return f"pcie.width: {pcie['width']} of {pcie['width_max']}" if pcie.get("degraded") else None


def _missing(view: View) -> t.Iterator[Sighting]:
    """Yield GPUs on the bus that the driver does not show, on hosts where it shows others."""
    for node in view.names:
        shown = seen.state(view, node).get("driver_gpus")
        present = [gpu for gpu in seen.gpus(view, node) if not gpu.get("lost")]
        if not shown or not seen.part(view, node, "driver").get("loaded"):
            continue
        for gpu in present:
            if gpu["pci_address"] not in shown and gpu.get("bound_driver") not in ("vfio-pci", "nouveau", "nova_core"):
                text = f"on the PCI bus, and not among the {len(shown)} GPUs of the driver"
                yield seen.of_gpu(node, gpu, text, shown=str(len(shown)), present=str(len(present)))


def _iommu(view: View) -> t.Iterator[Sighting]:
    yield from _matched((_IOMMU,), "likely", lasting=True)(view)
    for hit in view.hits(_DMAR):
        addresses = [gpu["pci_address"] for gpu in seen.gpus(view, hit.line.node)]
        if any(address.endswith(hit.values["slot"]) for address in addresses):
            yield matches.sighting(hit, "likely")


_IOMMU_OR_GPU = (
    "Drain the node, and boot it once with iommu=pt. If the GPU then starts, the IOMMU blocked it; if it does not, "
    "look for the fault in the GPU or its driver."
)
_SMI = "https://manpages.ubuntu.com/manpages/plucky/man1/nvidia-smi.1.html"
_RM = "https://github.com/NVIDIA/open-gpu-kernel-modules/issues"

RULES = (
    Rule(
        code="GSPFirmwareMissing",
        title="The GPU's firmware is missing",
        severity="failure",
        cause="The driver needs firmware of its own version for the GPU's system processor (GSP), and does not find "
        "it.",
        remedy="With a driver on the host, install the firmware package of the driver's version (linux-firmware only "
        "has nouveau's), drain the node, and reboot it. With a driver container, look at "
        "/sys/module/firmware_class/parameters/path: it must be empty before the driver starts, or name "
        "/run/nvidia/driver/lib/firmware.",
        sources=(
            "https://github.com/NVIDIA/gpu-operator/issues/1278",
            f"{_RM}/639",
            "https://github.com/ublue-os/bazzite/issues/2668",
        ),
        check=_matched(_NO_FIRMWARE, "certain"),
        patterns=_NO_FIRMWARE,
        explains=seen.NO_GPU | {"GSPFailed"},
    ),
    Rule(
        code="GSPFailed",
        title="The GPU's system processor does not start",
        severity="failure",
        cause="The GPU's own processor (GSP) does not start, so the driver cannot use the GPU.",
        remedy="Drain the node, and turn the host off and on: a reset or a warm reboot often does not help. If the "
        "fault comes back, update the driver and the GPU's firmware. If that does not help either, send the GPU to "
        "service.",
        sources=(f"{_RM}/1230", f"{_RM}/789", f"{_RM}/1104", f"{_RM}/433"),
        check=_matched(_GSP, "certain"),
        patterns=_GSP,
        explains=seen.NO_GPU,
    ),
    Rule(
        code="GSPDoesNotAnswer",
        title="The GPU's system processor does not answer",
        severity="failure",
        cause="The GPU's own processor (GSP) has stopped answering the driver, so work on the GPU hangs.",
        remedy="Read the kernel log after this line for an Xid 119 or 120 and the GPU's address (journalctl -k -g "
        "'NVRM|Xid'). Drain the node, and reset the GPU (nvidia-smi --gpu-reset -i ADDRESS) or reboot the host. If it "
        "comes back, update the driver.",
        sources=(f"{_RM}/1230", f"{_RM}/446"),
        check=_silent,
        patterns=(*_GSP_SILENT, _XID),
        explains=seen.NO_GPU,
    ),
    Rule(
        code="GPUInitFailed",
        title="The driver cannot start a GPU",
        severity="failure",
        cause="The driver found the GPU but could not start it. The lines before this one in the kernel log may say "
        "why.",
        remedy="Read the kernel log around this line (journalctl -k -g NVRM). Then drain the node, and turn the host "
        "off and on. If only one of several equal GPUs fails, send it to service. If all fail, check the driver's "
        "version and whether its modules are open or proprietary. In a virtual machine, check how the GPU is passed "
        "through.",
        sources=(
            "https://github.com/microsoft/pai/issues/4344",
            "https://github.com/NVIDIA/cuda-samples/issues/104",
            "https://github.com/kata-containers/kata-containers/issues/1142",
        ),
        check=_matched(_INIT, "likely"),
        patterns=_INIT,
        explains=seen.NO_GPU - {"GPUInitFailed"},
        unlike={"IOMMUFaults": _IOMMU_OR_GPU},
    ),
    Rule(
        code="GPUNeedsReset",
        title="A GPU must be reset",
        severity="failure",
        cause="The driver gives a GPU no new work before a reset: an earlier error has left it in an unknown state. "
        "Programs meet that as busy or unavailable devices.",
        remedy="Run nvidia-smi -q | grep -A 1 'Recovery Action' and journalctl -k -g 'Xid' for the GPU and the first "
        "error. Then drain the node, and reset the GPU (nvidia-smi --gpu-reset) or reboot.",
        sources=("https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/982",),
        patterns=(_RESET,),
        certainty="likely",
        explains=seen.NO_GPU | {"CUDARefusesTest"},
    ),
    Rule(
        code="GPUDoesNotAnswer",
        title="A GPU does not answer",
        severity="failure",
        cause="The driver knows the GPU, but NVIDIA's tools get no answer from it.",
        remedy="Look for Xids in the kernel log (journalctl -k -g Xid). Then drain the node, and reset the GPU "
        "(nvidia-smi --gpu-reset -i ADDRESS) or reboot. If the fault comes back, send the GPU to service.",
        sources=(
            "https://github.com/NVIDIA/nvidia-docker/issues/1553",
            "https://github.com/NVIDIA/k8s-device-plugin/issues/231",
        ),
        check=_matched((_UNKNOWN,), "likely"),
        patterns=(_UNKNOWN,),
        explains=seen.NO_GPU - {"GPUDoesNotAnswer", "GPUInitFailed", "GPUsMissingFromDriver"},
        unlike={"DevicesLostAfterReload": seen.CONTAINER_OR_GPU},
    ),
    Rule(
        code="GPUsMissingFromDriver",
        title="The driver shows fewer GPUs than the PCI bus",
        severity="failure",
        cause="The PCI bus has {present} GPUs, and the driver shows {shown}.",
        remedy="Read what the driver says (journalctl -k -g NVRM). Then drain the node, and turn the host off and on. "
        "If the same GPU is missing again, send it to service.",
        sources=(
            "https://github.com/microsoft/pai/issues/4344",
            "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html",
        ),
        check=_missing,
        explains=seen.NO_GPU - {"GPUsMissingFromDriver", "GPUInitFailed"},
    ),
    Rule(
        code="InfoROMCorrupt",
        title="The GPU's infoROM is corrupt",
        severity="failure",
        cause="The infoROM, a small memory on the GPU with its settings and history, is corrupt. So nvidia-smi exits "
        "with code 14, and the operator's validation fails.",
        remedy=seen.TO_SERVICE,
        sources=(
            "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html",
            "https://github.com/NVIDIA/gpu-operator/issues/20",
        ),
        check=_matched((_INFOROM,), "certain", lasting=True),
        patterns=(_INFOROM,),
        explains=seen.NO_GPU,
    ),
    Rule(
        code="GPUBarUnassigned",
        title="The GPU has no address space",
        severity="failure",
        cause="The firmware of the machine gave a memory region (BAR) of the GPU no address, so no driver can use it.",
        remedy="Drain the node. Turn on large addresses in the machine's firmware settings (Above 4G Decoding, 64-bit "
        "MMIO). If that does not help, update the firmware, or add pci=realloc to host_prep_kernel_args and run "
        "playbooks/site.yml. In a virtual machine, raise its 64-bit MMIO space.",
        sources=(
            "https://github.com/Dunedan/mbp-2016-linux/issues/60",
            "https://github.com/system76/firmware-open/issues/66",
        ),
        check=_matched(_BAR, "certain"),
        patterns=_BAR,
        explains=seen.NO_GPU | seen.NO_DRIVER,
    ),
    Rule(
        code="PCIeDegraded",
        title="The GPU's PCIe link is narrow",
        severity="warning",
        cause="The PCIe link of the GPU has fewer lanes than the GPU and its slot can have, so copies are slow.",
        remedy="Drain the node, turn the host off, and seat the GPU, its riser or its cable again. Compare with the "
        "same slot of an equal machine.",
        sources=(_SMI,),
        check=seen.in_facts(_degraded),
    ),
    Rule(
        code="PCIeErrors",
        title="PCIe errors of a GPU",
        severity="failure",
        cause="The kernel reports an uncorrectable error on the PCIe link of a GPU, and could not recover the GPU.",
        remedy="Drain the node, and turn the host off and on. If the error comes back, check the power supply, the "
        "riser and the slot, and send the GPU to service.",
        sources=("https://github.com/rwth-i6/returnn/issues/1500", "https://github.com/wilicc/gpu-burn/issues/1"),
        check=_matched((_AER,), "certain", lasting=True),
        patterns=(_AER,),
        explains=seen.NO_GPU,
        unlike={"MachineCheckErrors": seen.MACHINE_OR_LINK, "XidOffTheBus": seen.LINK_OR_POWER},
    ),
    Rule(
        code="IOMMUFaults",
        title="The IOMMU blocks a GPU",
        severity="warning",
        cause="The IOMMU, which protects memory from devices, blocks memory accesses of a GPU. Transfers between GPUs "
        "hang or give wrong data.",
        remedy="Set host_prep_iommu: passthrough and host_change_allowed: true, and run playbooks/site.yml, which "
        "drains and reboots the host. If the messages stay, drain the node and turn the IOMMU off in the machine's "
        "firmware.",
        sources=(
            "https://github.com/NVIDIA/cuda-samples/issues/48",
            "https://github.com/NVIDIA/nccl/issues/257",
            "https://github.com/stas00/ml-engineering/issues/1",
        ),
        check=_iommu,
        patterns=(_IOMMU, _DMAR),
        unlike={"GPUInitFailed": _IOMMU_OR_GPU},
    ),
    Rule(
        code="MachineCheckErrors",
        title="The machine reports hardware errors",
        severity="warning",
        cause="The processor or the memory of the machine reports errors in hardware.",
        remedy="Read what failed (ras-mc-ctl --errors, or the event log of the BMC). If a memory module has "
        "uncorrectable errors (UE), drain the node and replace the module.",
        sources=("https://www.kernel.org/doc/html/latest/admin-guide/RAS/index.html",),
        patterns=_MCE,
        certainty="likely",
        unlike=dict.fromkeys(("PCIeErrors", "XidOffTheBus"), seen.MACHINE_OR_LINK),
    ),
    Rule(
        code="HostengineCrashed",
        title="DCGM's host engine crashed",
        severity="warning",
        cause="DCGM's host engine ended with a segmentation fault, so there are no metrics of GPUs.",
        remedy="Update DCGM (dcgm.version or dcgmExporter.version in the operator's values). If it keeps crashing, "
        "report it with the lines of the kernel log.",
        sources=("https://github.com/NVIDIA/DCGM/issues/155",),
        patterns=(_SEGFAULT,),
        explains=frozenset({"OperandWaiting"}),
        unlike={"ExporterWithoutDCGM": seen.DCGM_OR_PATH},
    ),
    Rule(
        code="HostOutOfMemory",
        title="The host ran out of memory",
        severity="warning",
        cause="The kernel killed {process}, because the host had no memory left.",
        remedy="Reserve memory for the system (systemReserved and kubeReserved of the kubelet), and set memory limits "
        "on the pods of the node. To see which process grew, read the table before this line (journalctl -k).",
        sources=("https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/",),
        patterns=(_OOM,),
        unlike={
            "ToolkitHookKilled": seen.HOST_OR_LIMIT,
            **dict.fromkeys(("OperatorOutOfMemory", "ExporterOutOfMemory", "ContainerOutOfMemory"), seen.HOST_OR_LIMIT),
        },
        explains=seen.NODE_DOWN | {"OperandWaiting"},
    ),
)
