# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The feature gates of NVIDIA's DRA driver, and the words with which it refuses them at its start.

The gates, their defaults and relations are those of pkg/featuregates/featuregates.go in
https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu at commit 95932046 (v0.5.0-dev). The words are what its program
gpu-kubelet-plugin of that commit wrote.
"""

from __future__ import annotations

import typing as t

from lab.cluster.api import Json

ALPHA = (
    "TimeSlicingSettings",
    "MPSSupport",
    "PassthroughSupport",
    "DynamicMIG",
    "NVMLDeviceHealthCheck",
    "DeviceMetadata",
    "FabricManagerPartitioning",
    "HostManagedIMEXDaemon",
    "DRAListTypeAttributes",
    "ConsumableShares",
)
"""Off by default."""
BETA = ("IMEXDaemonsWithDNSNames", "ComputeDomainCliques", "CrashOnNVLinkFabricErrors")
"""On by default."""
_LOGGING = ("AllAlpha", "AllBeta", "ContextualLogging", "LoggingAlphaOptions", "LoggingBetaOptions")
_NEEDS = {"ComputeDomainCliques": "IMEXDaemonsWithDNSNames", "DeviceMetadata": "PassthroughSupport"}
_EXCLUDED = (
    ("DynamicMIG", "PassthroughSupport"),
    ("DynamicMIG", "NVMLDeviceHealthCheck"),
    ("DynamicMIG", "MPSSupport"),
    ("PassthroughSupport", "NVMLDeviceHealthCheck"),
)
_TRUE, _FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")


class GateError(Exception):
    """What makes the driver's programs exit."""


def of(container: Json) -> frozenset[str]:
    """Return the gates that are on in a container, or raise `GateError`."""
    text = next((item.get("value", "") for item in container.get("env") or [] if item["name"] == "FEATURE_GATES"), "")
    try:
        given = dict(_pair(part) for part in text.split(",") if part.strip())
        unknown = [name for name in given if name not in (*ALPHA, *BETA, *_LOGGING)]
        if unknown:
            raise GateError(f"unrecognized feature gate: {unknown[0]}")
    except GateError as error:
        raise GateError(
            f'could not parse "{text}" from environment variable "FEATURE_GATES" '
            f"as value for flag feature-gates: {error}"
        ) from None
    found = dict.fromkeys(ALPHA, False) | dict.fromkeys(BETA, True)
    for group, names in (("AllAlpha", ALPHA), ("AllBeta", BETA)):
        found |= dict.fromkeys(names, given[group]) if group in given else {}
    on = frozenset(name for name, value in {**found, **given}.items() if value)
    _assert_valid(on)
    return on


def _pair(part: str) -> tuple[str, bool]:
    name, equals, value = (item.strip() for item in part.partition("="))
    if not equals:
        raise GateError(f"missing bool value for {name}")
    if value not in (*_TRUE, *_FALSE):
        wrong = f'strconv.ParseBool: parsing "{value}": invalid syntax'
        raise GateError(f"invalid value of {name}={value}, err: {wrong}")
    return name, value in _TRUE


def _assert_valid(on: t.Container[str]) -> None:
    for gate, needed in _NEEDS.items():
        if gate in on and needed not in on:
            raise GateError(f"feature gate validation failed: feature gate {gate} requires {needed} to also be enabled")
    for gate, other in _EXCLUDED:
        if gate in on and other in on:
            exclusion = f"feature gate {gate} is currently mutually exclusive with {other}"
            raise GateError(f"feature gate validation failed: {exclusion}")
