# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The feature gates of NVIDIA's driver for Dynamic Resource Allocation: which exist, and which exclude each other.

The CRD of a GPUCluster accepts any name. An unknown gate, or two that exclude each other, end the driver's containers
at their start, on every node.

Source: kubernetes-sigs/dra-driver-nvidia-gpu (95932046, after v0.5.0), ``pkg/featuregates/featuregates.go``,
``cmd/gpu-kubelet-plugin/main.go`` and ``pkg/imex/imex.go``; gates of logging from k8s.io/component-base v0.36.
"""

from __future__ import annotations

import dataclasses
import difflib
import typing as t


@dataclasses.dataclass(frozen=True)
class DriverGate:
    """A feature gate of the driver.

    ``needs`` and ``excludes`` are other gates of the driver, and ``kubernetes`` is the gate that the cluster must have.
    """

    is_on: bool = False
    needs: str = ""
    excludes: tuple[str, ...] = ()
    kubernetes: str = ""


DRIVER_GATES: t.Mapping[str, DriverGate] = {
    "TimeSlicingSettings": DriverGate(),
    "MPSSupport": DriverGate(),
    "IMEXDaemonsWithDNSNames": DriverGate(is_on=True),
    "PassthroughSupport": DriverGate(excludes=("NVMLDeviceHealthCheck",)),
    "NVMLDeviceHealthCheck": DriverGate(kubernetes="DRADeviceTaints"),
    "DynamicMIG": DriverGate(
        excludes=("PassthroughSupport", "NVMLDeviceHealthCheck", "MPSSupport"), kubernetes="DRAPartitionableDevices"
    ),
    "ComputeDomainCliques": DriverGate(is_on=True, needs="IMEXDaemonsWithDNSNames"),
    "CrashOnNVLinkFabricErrors": DriverGate(is_on=True),
    "DeviceMetadata": DriverGate(needs="PassthroughSupport"),
    "FabricManagerPartitioning": DriverGate(),
    "HostManagedIMEXDaemon": DriverGate(),
    "DRAListTypeAttributes": DriverGate(kubernetes="DRAListTypeAttributes"),
    "ConsumableShares": DriverGate(kubernetes="DRAConsumableCapacity"),
}

_ALPHA, _BETA = "AllAlpha", "AllBeta"
OF_KUBERNETES = (_ALPHA, _BETA, "ContextualLogging", "LoggingAlphaOptions", "LoggingBetaOptions")
"""Names that Kubernetes' own library for feature gates accepts in every program."""

BY_VARIABLE = {"CONSUMABLE_SHARES": "ConsumableShares"}
"""Variables of the container ``gpus`` that end it without the gate."""


def effective(given: t.Mapping[str, bool]) -> dict[str, bool]:
    """Return which gates of the driver are on. Those that are on by default are beta, and the others are alpha."""
    stages = {name: _BETA if gate.is_on else _ALPHA for name, gate in DRIVER_GATES.items()}
    return {name: bool(given.get(name, given.get(stages[name], gate.is_on))) for name, gate in DRIVER_GATES.items()}


def problems(given: t.Mapping[str, bool], variables: t.Collection[str] = ()) -> list[str]:
    """Return a sentence for each reason why the driver would end at its start. ``variables`` are those of ``gpus``."""
    gates, field = effective(given), "draDriver.featureGates"
    found = [_unknown(name, field) for name in given if name not in DRIVER_GATES and name not in OF_KUBERNETES]
    for name in (name for name, is_on in gates.items() if is_on):
        others = [other for other in DRIVER_GATES[name].excludes if gates[other]]
        if others:
            named = " and ".join(others)
            found.append(f"{field}: {name} excludes {named}. Set {name} to false, or {named}.")
        needed = DRIVER_GATES[name].needs
        if needed and not gates[needed]:
            found.append(f"{field}: {name} needs {needed}. Set both to the same value.")
    found += [
        f"draDriver.gpus.kubeletPlugin.env: {variable} needs the feature gate {gate}. Set it to true in {field}."
        for variable, gate in BY_VARIABLE.items()
        if variable in variables and not gates[gate]
    ]
    return found


def _unknown(name: str, field: str) -> str:
    close = difflib.get_close_matches(name, DRIVER_GATES, n=1)
    hint = f" Did you mean {close[0]}?" if close else f" The driver has {', '.join(DRIVER_GATES)}."
    return f"{field}: NVIDIA's DRA driver has no feature gate {name}, and ends at its start.{hint}"


def of_cluster(given: t.Mapping[str, bool]) -> dict[str, str]:
    """Return the gates that the cluster must have, each with the driver's gate that needs it."""
    return {gate.kubernetes: name for name, gate in DRIVER_GATES.items() if gate.kubernetes and effective(given)[name]}
