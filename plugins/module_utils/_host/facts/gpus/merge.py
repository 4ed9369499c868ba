# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""One picture of the GPUs out of what sysfs shows and what the driver says."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.pci import DEVICES, Inventory, gpu_facts
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.readings import FIELDS, Reading, Readings
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.section import Section, known, missing
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_PCI_FIELDS = ("pci_address", "device_id", "name", "numa_node", "iommu_group", "bound_driver", "lost", "reason")
_SHARED_FIELDS = ("architecture", "pcie")


def merge(inventory: Inventory, readings: Readings) -> Section:
    """Return every GPU with the driver's word on it. The PCI bus says which GPUs there are, so that one the driver lost is not forgotten."""
    by_address = {reading.address: reading for reading in readings.gpus}
    unnamed = [reading for reading in readings.gpus if reading.address is None]
    silent = [device for device in inventory.gpus if device.address not in by_address]
    # NVML does not say which GPU it lost, but when as many are missing as it lost, it is those.
    if unnamed and len(unnamed) == len(silent):
        by_address.update((device.address, reading) for device, reading in zip(silent, unnamed))
    gpus = [_gpu(gpu_facts(device), by_address.get(device.address), readings) for device in inventory.gpus]
    on_the_bus = {device.address for device in inventory.gpus}
    # A container or a virtual machine may hide the bus from us, and not the driver.
    gpus += [
        _gpu({"pci_address": reading.address}, reading, readings)
        for reading in readings.gpus
        if reading.address and reading.address not in on_the_bus
    ]
    return Section(gpus, _sources(gpus, by_address, inventory, readings))


def _gpu(facts: Json, reading: Reading | None, readings: Readings) -> Json:
    said = reading.values if reading else {}
    gpu: Json = {
        **dict.fromkeys(_PCI_FIELDS),
        **dict.fromkeys(_SHARED_FIELDS),
        **facts,
        **{field: said.get(field) for field in FIELDS},
    }
    for field in _SHARED_FIELDS:
        gpu[field] = said.get(field) or gpu[field]
    gpu["lost"] = bool(gpu["lost"] or (reading and reading.lost))
    gpu["reason"] = _reason(gpu["lost"], reading, readings)
    return gpu


def _reason(lost: bool, reading: Reading | None, readings: Readings) -> str | None:
    """Say in a sentence why the driver's part is missing, or None when it is there."""
    if reading and not reading.lost and reading.values:
        return "The configuration space reads as ones: the GPU fell off the bus" if lost else None
    if lost:
        words = next(iter(reading.reasons.values()), None) if reading else None
        return (
            f"The GPU fell off the bus ({words})"
            if words
            else "The GPU fell off the bus: its configuration space reads as ones"
        )
    if reading and reading.reasons:
        return next(iter(reading.reasons.values()))
    return readings.reason or f"{readings.source} does not know this GPU"


def _sources(
    gpus: list[Json], by_address: t.Mapping[str | None, Reading], inventory: Inventory, readings: Readings
) -> dict[str, dict[str, str | None]]:
    sources = {
        "": known("sysfs" if inventory.readable else readings.source)
        if gpus or inventory.readable
        else missing(f"{DEVICES} is empty")
    }
    for field in (*_SHARED_FIELDS, *FIELDS):
        if any(reading.values.get(field) is not None for reading in readings.gpus):
            sources[field] = known(readings.source)
        elif any(gpu[field] for gpu in gpus):
            sources[field] = known("sysfs")
        else:
            sources[field] = missing(_why_missing(field, gpus, by_address, readings))
    return sources


def _why_missing(field: str, gpus: list[Json], by_address: t.Mapping[str | None, Reading], readings: Readings) -> str:
    if not gpus:
        return "The host has no GPU"
    reasons = (reading.reasons.get(field) for reading in by_address.values())
    return next(filter(None, reasons), None) or readings.reason or f"{readings.source} does not tell"
