# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Reads ``nvidia-smi -q -x``: the driver's report on its GPUs if NVML cannot be asked directly."""

from __future__ import annotations

import functools
import re
import typing as t
import xml.etree.ElementTree as ET

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus import health
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gpus.driver_report import (
    FIELDS,
    SMI,
    DriverReport,
    GpuReport,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.address import normal_address

_NOT_SUPPORTED = "nvidia-smi says N/A"
# Driver versions differ in these names. The newest comes first.
_POWER = ("gpu_power_readings/instant_power_draw", "gpu_power_readings/power_draw", "power_readings/power_draw")
_POWER_LIMIT = (
    "gpu_power_readings/current_power_limit",
    "power_readings/current_power_limit",
    "power_readings/enforced_power_limit",
    "power_readings/power_limit",
)
_HEADING = re.compile(r"GPU \d+: .*\(UUID: (?P<uuid>[^)]+)\)")
_PROFILE = re.compile(r"^\s+MIG (?P<profile>\S+)\s+Device\s+(?P<index>\d+): \(UUID: (?P<uuid>[^)]+)\)")
# The GPU does not have the value, or the driver could not read it. Some versions write an error in brackets.
_NO_VALUE = (
    "",
    "N/A",
    "None",
    "Unknown Error",
    "Insufficient Permissions",
    "GPU is lost",
    "Requested functionality has been deprecated",
)
_LINK = re.compile(r"^\s+Link (?P<link>\d+): (?P<state>.+)$")
_LOST = re.compile(
    r"Unable to determine the device handle for (?:GPU|gpu)\s*(?:\d+: )?(?P<gpu>[0-9a-fA-F:.]+?): (?P<message>.+)"
)


def ask(host: Host, root: str, timeout_s: float) -> DriverReport:
    """Run the nvidia-smi below the driver's root.

    It runs again for the NVLinks, and a third time for the names of MIG instances if there are any.
    """
    command = ["chroot", root, "nvidia-smi"] if root else ["nvidia-smi"]
    output = host.run([*command, "-q", "-x"], timeout_s)
    report = parse(output)
    if any(gpu.values for gpu in report.gpus):
        add_links(report, host.run([*command, "nvlink", "--status"], timeout_s))
    if any(_instances(gpu) for gpu in report.gpus):
        name_instances(report, host.run([*command, "-L"], timeout_s).stdout)
    return report


def _instances(gpu: GpuReport) -> list[Json]:
    instances: list[Json] = (gpu.values.get("mig") or {}).get("instances", [])
    return instances


def parse(output: Output) -> DriverReport:
    """Read the output. For each lost GPU there is a sentence before or instead of the XML."""
    lost = [
        GpuReport(normal_address(match["gpu"]), lost=True, reasons=_for_every_field(match["message"]))
        for match in _LOST.finditer(output.stdout)
    ]
    start, end = output.stdout.find("<?xml"), output.stdout.rfind("</nvidia_smi_log>")
    if start < 0 or end < 0:
        return DriverReport(SMI, gpus=lost, reason=output.error or "nvidia-smi printed no XML")
    if "<!ENTITY" in output.stdout:
        # nvidia-smi defines no entities. Older parsers would let them fill the memory.
        return DriverReport(SMI, gpus=lost, reason="nvidia-smi printed XML with entities, which is unexpected")
    try:
        log = ET.fromstring(output.stdout[start : end + len("</nvidia_smi_log>")])  # noqa: S314 (the host's own driver wrote it)
    except ET.ParseError as e:
        return DriverReport(SMI, gpus=lost, reason=f"nvidia-smi printed broken XML: {e}")
    return DriverReport(
        SMI, driver_version=log.findtext("driver_version"), gpus=[*map(_gpu, log.findall("gpu")), *lost]
    )


def _for_every_field(reason: str) -> dict[str, str]:
    return {field: reason.strip() for field in FIELDS}


def _gpu(gpu: ET.Element) -> GpuReport:
    values: Json = {
        "product": _text(gpu, "product_name"),
        "architecture": _text(gpu, "product_architecture"),
        "uuid": _text(gpu, "uuid"),
        "serial": _text(gpu, "serial"),
        "memory_mib": _whole(gpu, "fb_memory_usage/total"),
        "power_w": _first(_decimal(gpu, path) for path in _POWER),
        "power_limit_w": _first(_decimal(gpu, path) for path in _POWER_LIMIT),
        "clocks": _clocks(gpu),
        "persistence_mode": _flag(gpu, "persistence_mode"),
        "vbios": _text(gpu, "vbios_version"),
        "inforom": _text(gpu, "inforom_version/img_version"),
        "gsp": _text(gpu, "gsp_firmware_version"),
        "pcie": _pcie(gpu),
        "ecc": _ecc(gpu),
        "remapped_rows": _remapped_rows(gpu),
        "retired_pages": _retired_pages(gpu),
        "recovery_action": health.recovery_action_of_text(gpu.findtext("gpu_recovery_action")),
        "mig": _mig(gpu),
        "nvlink": None,
        "peer_type": _text(gpu, "platformInfo/peer_type"),
        "fabric": _fabric(gpu),
    }
    reasons = {field: _NOT_SUPPORTED for field, value in values.items() if value is None}
    return GpuReport(normal_address(gpu.get("id", "")), values=values, reasons=reasons)


def _text(element: ET.Element, path: str) -> str | None:
    text = (element.findtext(path) or "").strip()
    return None if text in _NO_VALUE or text.startswith("[") else text


def _decimal(element: ET.Element, path: str) -> float | None:
    match = re.match(r"-?\d{1,15}(\.\d+)?", _text(element, path) or "")
    return float(match[0]) if match else None


def _whole(element: ET.Element, path: str) -> int | None:
    number = _decimal(element, path)
    return None if number is None else int(number)


def _first(values: t.Iterable[t.Any]) -> t.Any:
    return next((value for value in values if value is not None), None)


def _flag(element: ET.Element, path: str) -> bool | None:
    text = _text(element, path)
    return None if text is None else text in ("Yes", "Enabled")


def _pcie(gpu: ET.Element) -> dict[str, int | None] | None:
    link = "pci/pci_gpu_link_info"
    values = {
        "generation": _whole(gpu, f"{link}/pcie_gen/current_link_gen"),
        "generation_max": _first(
            _whole(gpu, f"{link}/pcie_gen/{name}") for name in ("max_device_link_gen", "max_link_gen")
        ),
        "generation_host": _whole(gpu, f"{link}/pcie_gen/max_link_gen"),
        "width": _whole(gpu, f"{link}/link_widths/current_link_width"),
        "width_max": _whole(gpu, f"{link}/link_widths/max_link_width"),
    }
    return values if any(values.values()) else None


def _clocks(gpu: ET.Element) -> dict[str, int | None] | None:
    values = {
        "graphics_max": _whole(gpu, "max_clocks/graphics_clock"),
        "memory_max": _whole(gpu, "max_clocks/mem_clock"),
        "graphics_application": _whole(gpu, "applications_clocks/graphics_clock"),
        "memory_application": _whole(gpu, "applications_clocks/mem_clock"),
    }
    return values if any(values.values()) else None


def _ecc(gpu: ET.Element) -> Json | None:
    enabled = _flag(gpu, "ecc_mode/current_ecc")
    if enabled is None:
        return None
    return {
        "enabled": enabled,
        "pending": _flag(gpu, "ecc_mode/pending_ecc"),
        "corrected": _errors(gpu, "volatile", "correctable", "single_bit"),
        "uncorrected": _errors(gpu, "volatile", "uncorrectable", "double_bit"),
        "corrected_total": _errors(gpu, "aggregate", "correctable", "single_bit"),
        "uncorrected_total": _errors(gpu, "aggregate", "uncorrectable", "double_bit"),
    }


def _errors(gpu: ET.Element, counter: str, kind: str, old_kind: str) -> int | None:
    old = _whole(gpu, f"ecc_errors/{counter}/{old_kind}/total")
    if old is not None:
        return old
    # Hopper's drivers split sram_uncorrectable into sram_uncorrectable_parity and sram_uncorrectable_secded.
    names = [child.tag for child in gpu.findall(f"ecc_errors/{counter}/*")]
    memories = [name for name in names if re.match(rf"(sram|dram)_{kind}(_|$)", name)]
    counts = [_whole(gpu, f"ecc_errors/{counter}/{name}") for name in memories]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _remapped_rows(gpu: ET.Element) -> Json | None:
    values = {
        "correctable": _whole(gpu, "remapped_rows/remapped_row_corr"),
        "uncorrectable": _whole(gpu, "remapped_rows/remapped_row_unc"),
        "pending": _flag(gpu, "remapped_rows/remapped_row_pending"),
        "failure": _flag(gpu, "remapped_rows/remapped_row_failure"),
    }
    return None if all(value is None for value in values.values()) else values


def _retired_pages(gpu: ET.Element) -> Json | None:
    values = {
        "single_bit": _whole(gpu, "retired_pages/multiple_single_bit_retirement/retired_count"),
        "double_bit": _whole(gpu, "retired_pages/double_bit_retirement/retired_count"),
        "pending": _first(
            (_flag(gpu, "retired_pages/pending_retirement"), _flag(gpu, "retired_pages/pending_blacklist"))
        ),
    }
    return None if all(value is None for value in values.values()) else values


def _mig(gpu: ET.Element) -> Json | None:
    mode = _flag(gpu, "mig_mode/current_mig")
    if mode is None:
        return None
    instances = [
        {
            "index": _whole(device, "index"),
            "gpu_instance": _whole(device, "gpu_instance_id"),
            "compute_instance": _whole(device, "compute_instance_id"),
            "memory_mib": _whole(device, "fb_memory_usage/total"),
            "profile": None,
            "uuid": None,
        }
        for device in gpu.findall("mig_devices/mig_device")
    ]
    pending = _flag(gpu, "mig_mode/pending_mig")
    # Only NVML tells the instances of GPUs, as opposed to the devices in them.
    return {"mode": mode, "pending": pending, "instances": instances, "gpu_instances": None if mode else []}


def _fabric(gpu: ET.Element) -> Json | None:
    state = _text(gpu, "fabric/state")
    if state is None:
        return None
    return {
        "state": state,
        "status": _text(gpu, "fabric/status"),
        "clique": _first((_whole(gpu, "fabric/cliqueId"), _whole(gpu, "fabric/clique_id"))),
        "cluster_uuid": _first((_text(gpu, "fabric/clusterUuid"), _text(gpu, "fabric/cluster_uuid"))),
        **health.of_texts(functools.partial(_health, gpu)),
    }


def _health(gpu: ET.Element, element: str) -> str | None:
    text = (gpu.findtext(f"fabric/health/{element}") or "").strip()
    # Here, None is a value: nothing is configured incorrectly.
    return text if text == "None" else _text(gpu, f"fabric/health/{element}")


def add_links(report: DriverReport, output: Output) -> None:
    """Add the NVLinks of each GPU, as ``nvidia-smi nvlink --status`` lists them below the GPU."""
    by_uuid = {gpu.values.get("uuid"): gpu for gpu in report.gpus if gpu.values}
    states: dict[str, list[str]] = {}
    uuid = ""
    for line in output.stdout.splitlines():
        heading, match = _HEADING.match(line), _LINK.match(line)
        uuid = heading["uuid"] if heading else uuid
        if match:
            states.setdefault(uuid, []).append(match["state"])
    for found, gpu in by_uuid.items():
        links = states.get(str(found))
        if links:
            del gpu.reasons["nvlink"]
            gpu.values["nvlink"] = {
                "links": len(links),
                "active": sum("inactive" not in state for state in links),
                "version": None,
            }
        else:
            gpu.reasons["nvlink"] = output.error or "nvidia-smi lists no NVLink"


def name_instances(report: DriverReport, listing: str) -> None:
    """Add the profile and the UUID of each MIG instance, which ``nvidia-smi -L`` lists below the GPU."""
    by_uuid = {gpu.values.get("uuid"): gpu for gpu in report.gpus}
    gpu: GpuReport | None = None
    for line in listing.splitlines():
        heading = _HEADING.match(line)
        if heading:
            gpu = by_uuid.get(heading["uuid"])
        match = _PROFILE.match(line)
        if gpu and match:
            for instance in _instances(gpu):
                if instance["index"] == int(match["index"]):
                    instance.update(profile=match["profile"], uuid=match["uuid"])
