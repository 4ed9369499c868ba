# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The opaque parameters of NVIDIA's driver for Dynamic Resource Allocation, and what the driver refuses in them.

The API server accepts any parameters. The driver reads them only when it prepares a claim for a pod that has been
scheduled, so a mistake keeps that pod in ContainerCreating.

Source: kubernetes-sigs/dra-driver-nvidia-gpu, revision 95932046, ``api/nvidia.com/resource/v1beta1`` (types, strict
decoder, ``Validate``) and ``cmd/gpu-kubelet-plugin/device_state.go`` (what preparing refuses beyond that).
"""

from __future__ import annotations

import math
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _quantities
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

API_VERSION = "resource.nvidia.com/v1beta1"
DEVICE_KINDS = {"gpu": "GpuConfig", "mig": "MigDeviceConfig", "vfio": "VfioDeviceConfig"}
"""The one kind of parameters that fits each type of device. The driver refuses to apply another kind."""

TIME_SLICING, MPS = "TimeSlicing", "MPS"
STRATEGY_GATES = {TIME_SLICING: "TimeSlicingSettings", MPS: "MPSSupport"}
"""The feature gate of the driver without which it refuses a strategy. Both are off unless somebody turns them on."""
PASSTHROUGH_GATE = "PassthroughSupport"
INTERVALS = ("Default", "Short", "Medium", "Long")
SHARES_GATE = "ConsumableShares"
"""The gate with which several claims take parts of one device. While its shares are in use, the driver refuses MPS."""
IOMMU_POLICIES = ("LegacyOnly", "PreferIommuFD")
LEAST_PINNED = 1024**2
"""The smallest limit of pinned memory in bytes: the driver counts in whole MiB, and refuses 0."""

_QUANTITY, _LIMITS = "a quantity such as 10Gi", "a mapping from the index or UUID of a device to a quantity"
_MPS_FIELDS = {
    "defaultActiveThreadPercentage": "a whole number",
    "defaultPinnedDeviceMemoryLimit": _QUANTITY,
    "defaultPerDevicePinnedMemoryLimit": _LIMITS,
    "multiUser": "true or false",
}
_FIELDS: Json = {
    "GpuConfig": {
        "sharing": {"strategy": "a text", "timeSlicingConfig": {"interval": "a text"}, "mpsConfig": _MPS_FIELDS}
    },
    "MigDeviceConfig": {"sharing": {"strategy": "a text", "mpsConfig": _MPS_FIELDS}},
    "VfioDeviceConfig": {"iommu": {"backendPolicy": "a text", "enableAPIDevice": "true or false"}},
}
_CHECKS: dict[str, t.Callable[[t.Any], bool]] = {
    "a text": lambda value: isinstance(value, str),
    "true or false": lambda value: isinstance(value, bool),
    "a whole number": lambda value: isinstance(value, int) and not isinstance(value, bool),
    _QUANTITY: lambda value: _quantities.parsed(value) is not None,
    _LIMITS: lambda value: isinstance(value, dict),
}
_UUID = re.compile(r"(GPU|MIG)-[0-9a-fA-F-]{36}")


def mistake(parameters: Json, count: int | None = None) -> str | None:
    """Return what the driver would refuse in parameters, as a sentence with the remedy, or None.

    ``count`` is how many devices the claim gets, if that is known. The gates of the driver are another matter: `gates`.
    """
    kind = parameters.get("kind")
    if kind not in _FIELDS:
        return f"kind is {kind!r}: write one of {', '.join(_FIELDS)}."
    if parameters.get("apiVersion") != API_VERSION:
        return f"apiVersion is {parameters.get('apiVersion')!r}: write {API_VERSION}."
    fields = {key: value for key, value in parameters.items() if key not in ("kind", "apiVersion")}
    wrong = _wrong_form(fields, _FIELDS[kind], "")
    if wrong:
        return wrong
    if kind == "VfioDeviceConfig":
        policy = (fields.get("iommu") or {}).get("backendPolicy")
        return _not_one_of("iommu.backendPolicy", policy, IOMMU_POLICIES) if policy is not None else None
    sharing = fields.get("sharing")
    return None if sharing is None else _wrong_sharing(sharing, count)


def gates(parameters: Json) -> tuple[str, ...]:
    """Return the feature gates of the driver that parameters without a mistake need."""
    if parameters["kind"] == "VfioDeviceConfig":
        return (PASSTHROUGH_GATE,)
    sharing = parameters.get("sharing")
    return () if sharing is None else (STRATEGY_GATES[sharing["strategy"]],)


def without_effect(parameters: Json) -> str | None:
    """Return what the driver accepts in parameters and does not act on, as a sentence, or None."""
    sharing = parameters.get("sharing") or {}
    if parameters["kind"] == "MigDeviceConfig" and sharing.get("strategy") == TIME_SLICING:
        return f"sharing.strategy {TIME_SLICING} has no effect on MIG devices: time slices are set on whole GPUs only."
    return None


def _wrong_form(value: Json, fields: Json, path: str) -> str | None:
    """Return the first field that is unknown or has a value of another type. The driver takes null for an absence."""
    for name, content in value.items():
        where = f"{path}{name}"
        if name not in fields:
            return f"{where} is no field of the driver: the fields here are {', '.join(fields)}."
        expected = fields[name]
        if content is None:
            continue
        if not isinstance(expected, dict):
            if not _CHECKS[expected](content):
                return f"{where} is {content!r}: give {expected}."
        elif not isinstance(content, dict):
            return f"{where} is {content!r}: give a mapping with {', '.join(expected)}."
        else:
            inner = _wrong_form(content, expected, f"{where}.")
            if inner:
                return inner
    return None


def _wrong_sharing(sharing: Json, count: int | None) -> str | None:
    strategy = sharing.get("strategy")
    unknown = _not_one_of("sharing.strategy", strategy, tuple(STRATEGY_GATES))
    if unknown:
        return unknown
    foreign = "mpsConfig" if strategy == TIME_SLICING else "timeSlicingConfig"
    if sharing.get(foreign) is not None:
        return f"sharing.{foreign} does not fit the strategy {strategy}: remove it, or change sharing.strategy."
    if strategy == TIME_SLICING:
        return _wrong_time_slicing(sharing.get("timeSlicingConfig"))
    return _wrong_mps(sharing.get("mpsConfig") or {}, count)


def _wrong_time_slicing(config: Json | None) -> str | None:
    if config is None:
        return None
    if config.get("interval") is None:
        return (
            "sharing.timeSlicingConfig has no interval, and the driver's code panics on that: give interval, or leave "
            "timeSlicingConfig out."
        )
    return _not_one_of("sharing.timeSlicingConfig.interval", config["interval"], INTERVALS)


def _wrong_mps(config: Json, count: int | None) -> str | None:
    percentage = config.get("defaultActiveThreadPercentage")
    if percentage is not None and not 0 <= percentage <= 100:
        return f"sharing.mpsConfig.defaultActiveThreadPercentage is {percentage}: give 0 to 100."
    name = "sharing.mpsConfig.defaultPinnedDeviceMemoryLimit"
    limit = config.get("defaultPinnedDeviceMemoryLimit")
    if limit is not None and _is_too_low(limit):
        return f"{name} is {limit}: give at least 1Mi."
    name = "sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit"
    for device, limit in (config.get("defaultPerDevicePinnedMemoryLimit") or {}).items():
        if not _is_device(str(device), count):
            known = f"0 to {count - 1}" if count else "0, 1 and so on"
            return f"{name} has the device {device}: write its index in the claim ({known}) or its UUID."
        if _is_too_low(limit):
            return f"{name} of device {device} is {limit}: give a quantity of at least 1Mi."
    return None


def _is_too_low(limit: t.Any) -> bool:
    number = _quantities.parsed(limit)
    return number is None or math.ceil(number) < LEAST_PINNED


def _is_device(key: str, count: int | None) -> bool:
    if _UUID.fullmatch(key):
        return True
    return bool(re.fullmatch(r"\d{1,9}", key)) and (count is None or int(key) < count)


def _not_one_of(name: str, value: t.Any, known: t.Sequence[str]) -> str | None:
    return None if value in known else f"{name} is {value!r}: write one of {', '.join(known)}."
