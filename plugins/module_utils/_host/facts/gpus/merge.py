# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The facts of the GPUs, from what sysfs shows and what the driver reports."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.driver_report import (
    FIELDS,
    DriverReport,
    GpuReport,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.pci import DEVICES, Inventory, gpu_facts
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.section import Section, known_from, unknown
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_PCI_FIELDS = (
    "pci_address",
    "device_id",
    "name",
    "bar1_mib",
    "numa_node",
    "iommu_group",
    "bound_driver",
    "lost",
    "reason",
)
_SHARED_FIELDS = ("architecture", "pcie")


def gpus(inventory: Inventory, report: DriverReport) -> Section:
    """Return every GPU. The list of GPUs comes from the PCI bus, so a GPU that the driver has lost stays in it."""
    reports = _by_address(inventory, report)
    facts = [_gpu(gpu_facts(device), reports.get(device.address), report) for device in inventory.gpus]
    on_the_bus = {device.address for device in inventory.gpus}
    # A container or a virtual machine may hide the PCI bus, but not the driver.
    hidden = [gpu for gpu in report.gpus if gpu.address and gpu.address not in on_the_bus]
    facts += [_gpu({"pci_address": gpu.address}, gpu, report) for gpu in hidden]
    return Section(facts, _sources(facts, inventory, report))


def _by_address(inventory: Inventory, report: DriverReport) -> dict[str, GpuReport]:
    reports = {gpu.address: gpu for gpu in report.gpus if gpu.address is not None}
    without_address = [gpu for gpu in report.gpus if gpu.address is None]
    without_report = [device.address for device in inventory.gpus if device.address not in reports]
    # NVML does not name the GPUs that it has lost. If as many GPUs have no report, they are the lost GPUs.
    if len(without_address) == len(without_report):
        reports.update(zip(without_report, without_address))
    return reports


def _gpu(from_pci: Json, gpu: GpuReport | None, report: DriverReport) -> Json:
    from_driver = gpu.values if gpu else {}
    facts: Json = {**dict.fromkeys((*_PCI_FIELDS, *_SHARED_FIELDS)), **from_pci}
    facts.update({field: from_driver.get(field) for field in FIELDS})
    facts.update({field: from_driver.get(field) or facts[field] for field in _SHARED_FIELDS})
    facts["pcie"] = _with_verdict(facts["pcie"])
    facts["lost"] = bool(facts["lost"] or (gpu and gpu.lost))
    facts["reason"] = _lost_reason(gpu) if facts["lost"] else _missing_report_reason(gpu, report)
    return facts


def _with_verdict(pcie: Json | None) -> Json | None:
    """Add whether the link has lost lanes. The generation is no sign: an idle GPU lowers it to save power."""
    if pcie is None:
        return None
    known = pcie["width"] is not None and pcie["width_max"] is not None
    return {"generation_host": None, **pcie, "degraded": pcie["width"] < pcie["width_max"] if known else None}


def _lost_reason(gpu: GpuReport | None) -> str:
    """Return a sentence that says that a GPU is lost, and how that is known."""
    if gpu and not gpu.lost and gpu.values:
        return "The configuration space reads as ones: the GPU fell off the bus"
    reasons = list(gpu.reasons.values()) if gpu else []
    if reasons:
        return f"The GPU fell off the bus ({reasons[0]})"
    return "The GPU fell off the bus: its configuration space reads as ones"


def _missing_report_reason(gpu: GpuReport | None, report: DriverReport) -> str | None:
    """Return why the driver's part of the facts is missing, or None if it is there."""
    if gpu and gpu.values:
        return None
    if gpu and gpu.reasons:
        return next(iter(gpu.reasons.values()))
    return report.reason or f"{report.source} does not know this GPU"


def _sources(facts: list[Json], inventory: Inventory, report: DriverReport) -> dict[str, dict[str, str | None]]:
    sources = {"": _source_of_the_list(facts, inventory, report)}
    for field in (*_SHARED_FIELDS, *FIELDS):
        tellers = [gpu.sources.get(field, report.source) for gpu in report.gpus if gpu.values.get(field) is not None]
        if tellers:
            sources[field] = known_from(", ".join(dict.fromkeys(tellers)))
        elif any(gpu[field] for gpu in facts):
            sources[field] = known_from("sysfs")
        else:
            sources[field] = unknown(_why_unknown(field, facts, report))
    return sources


def _source_of_the_list(facts: list[Json], inventory: Inventory, report: DriverReport) -> dict[str, str | None]:
    if inventory.readable:
        return known_from("sysfs")
    return known_from(report.source) if facts else unknown(f"{DEVICES} is empty")


def _why_unknown(field: str, facts: list[Json], report: DriverReport) -> str:
    if not facts:
        return "The host has no GPU"
    reasons = (gpu.reasons.get(field) for gpu in report.gpus)
    return next(filter(None, reasons), None) or report.reason or f"{report.source} does not report it"
