# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What ``nvidia-smi -q`` prints, in the form of the facts of gpu_facts. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

SMI_LOG = re.compile(r" *={4,}NVSMI LOG={4,}")
_GPU = re.compile(r"GPU (?P<domain>[0-9A-Fa-f]{4,8}):(?P<place>[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])")
_FIELD = re.compile(r"(?P<indent> *)(?P<key>[A-Z][\w ()/.+-]{0,60}?) *(?: : (?P<value>.*))?$")
_NO_VALUE = ("N/A", "[N/A]", "None", "Unknown Error", "")

Path = tuple[str, ...]


def facts_of(lines: t.Iterable[str]) -> Json:
    """Return the facts about the driver and the GPUs."""
    gpus: list[dict[Path, str]] = []
    head: dict[Path, str] = {}
    opened: list[tuple[int, str]] = []
    for line in lines:
        gpu = _GPU.match(line)
        if gpu:
            opened = []
            gpus.append({("address",): f"{gpu['domain'][-4:]}:{gpu['place']}".lower()})
            continue
        found = _FIELD.match(line)
        if not found:
            continue
        indent = len(found["indent"])
        opened = [each for each in opened if each[0] < indent]
        path = (*(key for dummy, key in opened), found["key"].strip())
        if found["value"] is None:
            opened.append((indent, found["key"].strip()))
        else:
            (gpus[-1] if gpus else head).setdefault(path, found["value"].strip())
    version = head.get(("Driver Version",))
    driver = {"loaded": True, "version": version} if version else {}
    return {"driver": driver, "gpus": list(map(_gpu, gpus))}


def _gpu(values: t.Mapping[Path, str]) -> Json:
    """Return a GPU with the keys of gpu_facts. What nvidia-smi did not print is null."""

    def text(*path: str) -> str | None:
        value = values.get(path)
        return None if value in _NO_VALUE else value

    return {
        "pci_address": values[("address",)],
        "device_id": None,
        "name": None,
        "architecture": text("Product Architecture"),
        "product": text("Product Name"),
        "uuid": text("GPU UUID"),
        "serial": text("Serial Number"),
        "vbios": text("VBIOS Version"),
        "inforom": text("Inforom Version", "Image Version"),
        "gsp": text("GSP Firmware Version"),
        "persistence_mode": _flag(text("Persistence Mode")),
        "ecc": _ecc(text),
        "remapped_rows": _remapped(text),
        "retired_pages": None,
        # None is a word of the driver here, and not a value that is missing.
        "recovery_action": (values.get(("GPU Recovery Action",)) or "").upper().replace(" ", "_") or None,
        "mig": _mig(text),
        "pcie": None,
        "nvlink": None,
        "fabric": _fabric(text),
        "memory_mib": _number(text("FB Memory Usage", "Total")),
        "bound_driver": "nvidia",
        "lost": False,
        "reason": None,
    }


Text: t.TypeAlias = "t.Callable[..., str | None]"


def _flag(value: str | None) -> bool | None:
    return None if value is None else value in ("Enabled", "Yes")


def _number(value: str | None) -> int | None:
    return whole_number((value or "").partition(" ")[0])


def _ecc(text: Text) -> Json | None:
    enabled = _flag(text("ECC Mode", "Current"))
    if enabled is None:
        return None
    counts = {
        "corrected": _number(text("ECC Errors", "Volatile", "DRAM Correctable")),
        "uncorrected": _number(text("ECC Errors", "Volatile", "DRAM Uncorrectable")),
        "corrected_total": _number(text("ECC Errors", "Aggregate", "DRAM Correctable")),
        "uncorrected_total": _number(text("ECC Errors", "Aggregate", "DRAM Uncorrectable")),
    }
    return {"enabled": enabled, "pending": _flag(text("ECC Mode", "Pending")), **counts}


def _remapped(text: Text) -> Json | None:
    correctable = _number(text("Remapped Rows", "Correctable Error"))
    if correctable is None:
        return None
    return {
        "correctable": correctable,
        "uncorrectable": _number(text("Remapped Rows", "Uncorrectable Error")),
        "pending": _flag(text("Remapped Rows", "Pending")),
        "failure": _flag(text("Remapped Rows", "Remapping Failure Occurred")),
    }


def _mig(text: Text) -> Json | None:
    mode = _flag(text("MIG Mode", "Current"))
    if mode is None:
        return None
    return {"mode": mode, "pending": _flag(text("MIG Mode", "Pending")), "instances": [], "gpu_instances": None}


def _fabric(text: Text) -> Json | None:
    state = text("Fabric", "State")
    if state is None:
        return None
    found = {"state": state, "status": text("Fabric", "Status"), "clique": _number(text("Fabric", "CliqueId"))}
    return {**found, "cluster_uuid": text("Fabric", "ClusterUUID"), "health": None, "problems": []}
