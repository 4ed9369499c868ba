# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for nvidia-smi with the listing, the XML report and the CSV queries of the simulated GPUs."""

from __future__ import annotations

import os
import sys
import uuid
import xml.etree.ElementTree as ET

from . import files, pci, spec

FABRIC_MANAGER_READY = "/run/nvidia-fabricmanager/ready"
LIBRARIES = ("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/usr/lib64/libnvidia-ml.so.1")
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)
_NO_ERRORS = dict.fromkeys(
    (
        "sram_correctable",
        "sram_uncorrectable_parity",
        "sram_uncorrectable_secded",
        "dram_correctable",
        "dram_uncorrectable",
    ),
    "0",
)
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version:"


def main(arguments: list[str]) -> int:
    """``nvidia-smi``."""
    version = files.read("/sys/module/nvidia/version").strip()
    if not version:
        print(NO_DRIVER)
        return 9
    library = next(os.readlink(path).partition(".so.")[2] for path in LIBRARIES if os.path.islink(path))
    if version != library:
        print(f"{MISMATCH} {library.rpartition('.')[0]}")
        return 18
    addresses = [address for address in pci.gpus() if pci.driver(address) == "nvidia"]
    gpus = [_gpu(index, address) for index, address in enumerate(addresses)]
    query = _value(arguments, "--query-gpu")
    if query:
        return _csv(query.split(","), gpus, version, arguments)
    print(_report_of_all(gpus, version, arguments))
    return 0


def _report_of_all(gpus: list[dict[str, str]], version: str, arguments: list[str]) -> str:
    if arguments[:1] == ["nvlink"]:
        return "\n".join(map(_links, gpus))
    if {"-L", "--list-gpus"} & set(arguments):
        return "\n".join(f"GPU {gpu['index']}: {gpu['name']} (UUID: {gpu['uuid']})" for gpu in gpus)
    if "-q" in arguments and {"-x", "--xml-format"} & set(arguments):
        return _xml(gpus, version)
    return f"NVIDIA-SMI {version} (stand-in)    Driver Version: {version}    {len(gpus)} GPUs"


def _links(gpu: dict[str, str]) -> str:
    model = spec.MODELS[spec.load().model]
    # Without switches, the other end is empty. Those of an A100 are up only when the fabric manager has run.
    is_up = _is_switched(model) and (_joins_a_fabric(model) or os.path.exists(FABRIC_MANAGER_READY))
    state = model.link_speed if is_up else "<inactive>"
    links = (f"\t Link {link}: {state}" for link in range(model.links))
    return "\n".join([f"GPU {gpu['index']}: {gpu['name']} (UUID: {gpu['uuid']})", *links])


def _value(arguments: list[str], option: str) -> str | None:
    """Return the value of an option."""
    return next((argument.partition("=")[2] for argument in arguments if argument.startswith(f"{option}=")), None)


def _gpu(index: int, address: str) -> dict[str, str]:
    model = spec.MODELS[spec.load().model]
    identity = uuid.uuid5(uuid.NAMESPACE_URL, f"{os.uname().nodename}/{address}")
    return {
        "index": str(index),
        "name": model.name,
        "uuid": f"GPU-{identity}",
        "pci.bus_id": f"0000{address.upper()}",
        "serial": str(1650000000000 + identity.int % 10**9),
        "memory.total": f"{model.memory_mib} MiB",
        "power.limit": f"{model.power_w}.00 W",
        "power.draw": "71.35 W",
        "persistence_mode": "Enabled" if os.path.exists("/run/nvidia-persistenced/socket") else "Disabled",
        "mig.mode.current": "Disabled",
        "mig.mode.pending": "Disabled",
        "ecc.mode.current": "Enabled",
        "fabric.state": _fabric(model),
        "fabric.status": "Success" if _fabric(model) == "Completed" else "N/A",
        "pcie": str(model.pcie_generation),
    }


def _is_switched(model: spec.Model) -> bool:
    machine = spec.load()
    # The switches of NVLink 5 are no PCI devices of the host.
    switched = machine.nvswitches or (model.device == spec.MODELS["b200-sxm"].device and machine.gpus >= 8)
    return bool(model.links and switched)


def _joins_a_fabric(model: spec.Model) -> bool:
    """Return whether the driver reports the state of the fabric, which it does from Hopper on."""
    return model.device != spec.MODELS["a100-sxm"].device


def _fabric(model: spec.Model) -> str:
    if not _is_switched(model) or not _joins_a_fabric(model):
        return "N/A"
    return "Completed" if os.path.exists(FABRIC_MANAGER_READY) else "In Progress"


def _csv(fields: list[str], gpus: list[dict[str, str]], version: str, arguments: list[str]) -> int:
    style = (_value(arguments, "--format") or "csv").split(",")
    fields = [field.strip() for field in fields]
    unknown = [field for field in fields if field != "driver_version" and field not in gpus[0]]
    if unknown:
        print(f'Field "{unknown[0]}" is not a valid field to query.\n', file=sys.stderr)
        return 2
    if "noheader" not in style:
        print(", ".join(fields))
    for gpu in gpus:
        print(_row({**gpu, "driver_version": version}, fields, units="nounits" not in style))
    return 0


def _row(gpu: dict[str, str], fields: list[str], units: bool) -> str:
    values = [gpu[field] for field in fields]
    return ", ".join(values if units else [value.removesuffix(" MiB").removesuffix(" W") for value in values])


def _xml(gpus: list[dict[str, str]], version: str) -> str:
    log = ET.Element("nvidia_smi_log")
    head = {"timestamp": "Thu Jan  1 00:00:00 2026", "driver_version": version, "cuda_version": "13.0"}
    _fill(log, {**head, "attached_gpus": str(len(gpus))})
    for gpu in gpus:
        element = ET.SubElement(log, "gpu", id=gpu["pci.bus_id"])
        _fill(element, _report(gpu))
    ET.indent(log, "\t")
    declaration = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
    return declaration + ET.tostring(log, encoding="unicode")


def _report(gpu: dict[str, str]) -> dict[str, object]:
    generation = gpu["pcie"]
    width = {"max_link_width": "16x", "current_link_width": "16x"}
    return {
        "product_name": gpu["name"],
        "persistence_mode": gpu["persistence_mode"],
        "mig_mode": {"current_mig": gpu["mig.mode.current"], "pending_mig": gpu["mig.mode.pending"]},
        "mig_devices": "None",
        "serial": gpu["serial"],
        "uuid": gpu["uuid"],
        "minor_number": gpu["index"],
        "pci": {
            "pci_bus_id": gpu["pci.bus_id"],
            "pci_gpu_link_info": {
                "pcie_gen": {
                    "max_link_gen": generation,
                    "current_link_gen": generation,
                    "max_device_link_gen": generation,
                },
                "link_widths": width,
            },
        },
        "fb_memory_usage": {
            "total": gpu["memory.total"],
            "reserved": "551 MiB",
            "used": "0 MiB",
            "free": gpu["memory.total"],
        },
        "ecc_mode": {"current_ecc": "Enabled", "pending_ecc": "Enabled"},
        "ecc_errors": {"volatile": _NO_ERRORS, "aggregate": _NO_ERRORS},
        "remapped_rows": {
            "remapped_row_corr": "0",
            "remapped_row_unc": "0",
            "remapped_row_pending": "No",
            "remapped_row_failure": "No",
        },
        "gpu_power_readings": {
            "power_state": "P0",
            "instant_power_draw": gpu["power.draw"],
            "current_power_limit": gpu["power.limit"],
        },
        "fabric": {"state": gpu["fabric.state"], "status": gpu["fabric.status"]},
        "processes": "",
    }


def _fill(element: ET.Element, content: dict[str, object]) -> None:
    for name, value in content.items():
        child = ET.SubElement(element, name)
        if isinstance(value, dict):
            _fill(child, value)
        else:
            child.text = str(value)
