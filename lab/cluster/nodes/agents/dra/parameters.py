# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parameters of claims as NVIDIA's DRA driver reads them when it prepares a claim, and its words for mistakes.

The kinds, fields and words are those of api/nvidia.com/resource/v1beta1 in
https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu at commit 95932046, whose decoder refused the same parameters.
"""

from __future__ import annotations

import json
import re
import typing as t

from lab.cluster.api import Json

VERSION = "resource.nvidia.com/v1beta1"
_TYPES = {"GpuConfig": "gpu", "MigDeviceConfig": "mig", "VfioDeviceConfig": "vfio"}
"""The kinds of parameters, with the type of the devices that each is for."""
_QUANTITY = "resource.Quantity"
_STRUCTS: dict[str, dict[str, str]] = {
    "GpuConfig": {"sharing": "GpuSharing"},
    "MigDeviceConfig": {"sharing": "MigDeviceSharing"},
    "VfioDeviceConfig": {"iommu": "IOMMUConfig"},
    "ComputeDomainChannelConfig": {"domainID": "string", "allocationMode": "string"},
    "ComputeDomainDaemonConfig": {"domainID": "string"},
    "GpuSharing": {
        "strategy": "v1beta1.GpuSharingStrategy",
        "timeSlicingConfig": "TimeSlicingConfig",
        "mpsConfig": "MpsConfig",
    },
    "MigDeviceSharing": {"strategy": "v1beta1.GpuSharingStrategy", "mpsConfig": "MpsConfig"},
    "TimeSlicingConfig": {"interval": "v1beta1.TimeSliceInterval"},
    "MpsConfig": {
        "defaultActiveThreadPercentage": "int",
        "defaultPinnedDeviceMemoryLimit": _QUANTITY,
        "defaultPerDevicePinnedMemoryLimit": "v1beta1.MpsPerDevicePinnedMemoryLimit",
        "multiUser": "bool",
    },
    "IOMMUConfig": {"backendPolicy": "v1beta1.IOMMUBackendPolicy", "enableAPIDevice": "bool"},
}
"""The fields of each struct with their types in Go. A type that is listed here itself is a struct."""
_KINDS = (*_TYPES, "ComputeDomainChannelConfig", "ComputeDomainDaemonConfig")
_GATES = {"TimeSlicing": "TimeSlicingSettings", "MPS": "MPSSupport"}
_INTERVALS = ("Default", "Short", "Medium", "Long")
_POLICIES = ("LegacyOnly", "PreferIommuFD")
_NUMBER = re.compile(r"[+-]?[0-9.]+([eE][+-]?[0-9]+|[numkKMGTPE]|[KMGTPE]i)?")


class ParameterError(Exception):
    """What keeps the driver from preparing a claim."""


def decode(parameters: t.Any) -> Json:
    """Return parameters that have a known kind and only known fields; else raise `ParameterError`."""
    given = parameters if isinstance(parameters, dict) else {}
    kind, version = given.get("kind"), given.get("apiVersion")
    raw = json.dumps(parameters, separators=(",", ":"))
    if not kind:
        raise ParameterError(f"error decoding config parameters: Object 'Kind' is missing in '{raw}'")
    if not version:
        raise ParameterError(f"error decoding config parameters: Object 'apiVersion' is missing in '{raw}'")
    if version != VERSION or kind not in _KINDS:
        raise ParameterError(
            f'error decoding config parameters: no kind "{kind}" is registered for version "{version}" '
            'in scheme "api/nvidia.com/resource/v1beta1/api.go:63"'
        )
    unknown = list(_walk({key: value for key, value in given.items() if key not in ("kind", "apiVersion")}, kind, ""))
    if unknown:
        words = ", ".join(f'unknown field "{field}"' for field in unknown)
        raise ParameterError(f"error decoding config parameters: strict decoding error: {words}")
    return given


def _walk(given: Json, struct: str, path: str) -> t.Iterator[str]:
    """Yield the paths of unknown fields, and raise for a value of another type."""
    for name, value in given.items():
        kind = _STRUCTS[struct].get(name)
        if kind is None:
            yield path + name
        elif kind in _STRUCTS and isinstance(value, dict):
            yield from _walk(value, kind, f"{path}{name}.")
        elif value is not None:
            _assert_type(value, kind, f"{struct}.{path}{name}")


def _assert_type(value: t.Any, kind: str, field: str) -> None:
    if kind == _QUANTITY and _NUMBER.fullmatch(str(value)):
        return
    if kind == _QUANTITY:
        form = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        raise ParameterError(f"error decoding config parameters: quantities must match the regular expression '{form}'")
    wanted = {"int": int, "bool": bool}.get(kind, dict if kind in _STRUCTS or kind.endswith("Limit") else str)
    if type(value) is not wanted:
        found = {bool: "bool", str: "string", list: "array", dict: "object"}.get(type(value), "number")
        named = f"v1beta1.{kind}" if kind in _STRUCTS else kind
        raise ParameterError(
            "error decoding config parameters: "
            f"json: cannot unmarshal {found} into Go struct field {field} of type {named}"
        )


def assert_valid(given: Json, gates: t.Container[str]) -> None:
    """Raise `ParameterError` if the driver refuses decoded parameters with these feature gates."""
    sharing, iommu = given.get("sharing"), given.get("iommu") or {}
    if sharing is not None:
        _assert_sharing(sharing, gates)
    policy = iommu.get("backendPolicy") or _POLICIES[0]
    if policy not in _POLICIES:
        supported = ", ".join(_POLICIES)
        raise ParameterError(f"unknown IOMMU backend policy: {policy}, supported IOMMU backend policies: {supported}")
    if given["kind"].startswith("ComputeDomain") and not given.get("domainID"):
        raise ParameterError("domainID cannot be empty")


def _assert_sharing(sharing: Json, gates: t.Container[str]) -> None:
    strategy = sharing.get("strategy", "")
    if strategy not in _GATES:
        known = ", ".join(_GATES)
        raise ParameterError(f"unknown GPU sharing strategy: {strategy}, supported GPU sharing strategies: {known}")
    if _GATES[strategy] not in gates:
        raise ParameterError(
            f'"{strategy}" is selected as the GPU sharing strategy, '
            f'but the "{_GATES[strategy]}" feature gate is not enabled'
        )
    interval = (sharing.get("timeSlicingConfig") or {}).get("interval", _INTERVALS[0])
    if strategy == "TimeSlicing" and interval not in _INTERVALS:
        known = ", ".join(_INTERVALS)
        raise ParameterError(f"unknown time-slice interval: {interval}, supported time-slice intervals: {known}")
    share = (sharing.get("mpsConfig") or {}).get("defaultActiveThreadPercentage", 0)
    if strategy == "MPS" and not 0 <= share <= 100:
        wrong = "negative" if share < 0 else "greater than 100"
        raise ParameterError(f"active thread percentage must not be {wrong}")


def of_devices(allocation: Json, types: t.Mapping[str, str], gates: t.Container[str]) -> None:
    """Raise `ParameterError` if the driver of GPUs refuses the parameters of an allocation.

    ``types`` has the type of each device that the driver knows: `gpu`, `mig` or `vfio`.
    """
    devices = allocation.get("devices") or {}
    configs = _configs(devices.get("config") or [], "gpu.nvidia.com")
    applied = []
    for result in devices.get("results") or []:
        if result["driver"] == "gpu.nvidia.com":
            if result["device"] not in types:
                raise ParameterError(f'allocatable not found for device "{result["device"]}"')
            applied += _applied(configs, result, types[result["device"]])
    for parameters in applied:
        try:
            assert_valid(parameters, gates)
        except ParameterError as error:
            raise ParameterError(f"error validating GPU config: {error}") from None


def _configs(entries: list[Json], driver: str) -> list[Json]:
    """Return the parameters for a driver: those of classes first, since those of the claim prevail."""
    ordered = sorted(entries, key=lambda entry: entry.get("source") == "FromClaim")
    try:
        return [
            {"requests": entry.get("requests") or [], "parameters": decode(entry["opaque"]["parameters"])}
            for entry in ordered
            if entry["opaque"]["driver"] == driver
        ]
    except ParameterError as error:
        raise ParameterError(f"error getting opaque device configs: {error}") from None


def _applied(configs: list[Json], result: Json, kind: str) -> list[Json]:
    """Return the parameters that prevail for a device: none, or one.

    Those that name its request must be for its type of devices. Those for all requests are skipped if they are not.
    """
    for config in reversed(configs):
        parameters = config["parameters"]
        fits = _TYPES.get(parameters["kind"], kind) == kind
        if result["request"] in config["requests"] and not fits:
            raise ParameterError(
                f'cannot apply {parameters["kind"]} to device "{result["device"]}" of type "{kind}" '
                f"(request: {result['request']})"
            )
        if fits and (result["request"] in config["requests"] or not config["requests"]):
            return [parameters]
    return []
