# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator import dra_gates
from inline_snapshot import snapshot as wording


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"DynamicMIG": True},
        {"PassthroughSupport": True, "DeviceMetadata": True},
        {"NVMLDeviceHealthCheck": True, "MPSSupport": True, "TimeSlicingSettings": True},
        {"ComputeDomainCliques": False, "IMEXDaemonsWithDNSNames": False},
        {"ContextualLogging": False, "AllBeta": True},
    ],
)
def test_gates_with_which_the_driver_starts(given: dict[str, bool]) -> None:
    assert dra_gates.problems(given) == []


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"DynamicMIG": True, "PassthroughSupport": True}, ["PassthroughSupport"]),
        ({"DynamicMIG": True, "NVMLDeviceHealthCheck": True}, ["NVMLDeviceHealthCheck"]),
        ({"DynamicMIG": True, "MPSSupport": True}, ["MPSSupport"]),
        ({"PassthroughSupport": True, "NVMLDeviceHealthCheck": True}, ["NVMLDeviceHealthCheck"]),
        ({"DeviceMetadata": True}, ["PassthroughSupport"]),
        ({"IMEXDaemonsWithDNSNames": False}, ["ComputeDomainCliques"]),
        ({"AllBeta": False, "ComputeDomainCliques": True}, ["IMEXDaemonsWithDNSNames"]),
        ({"AllAlpha": True}, ["DynamicMIG", "PassthroughSupport"]),
        ({"DynamicMig": True}, ["DynamicMIG"]),
    ],
)
def test_gates_with_which_the_driver_ends_at_its_start(given: dict[str, bool], named: list[str]) -> None:
    found = " ".join(dra_gates.problems(given))
    assert found and all(name in found for name in named)


def test_each_problem_names_the_field_and_the_remedy() -> None:
    assert dra_gates.problems({"DynamicMIG": True, "MPSSupport": True, "Foo": True}) == wording(
        [
            "draDriver.featureGates: NVIDIA's DRA driver has no feature gate Foo, and ends at its start. The driver has TimeSlicingSettings, MPSSupport, IMEXDaemonsWithDNSNames, PassthroughSupport, NVMLDeviceHealthCheck, DynamicMIG, ComputeDomainCliques, CrashOnNVLinkFabricErrors, DeviceMetadata, FabricManagerPartitioning, HostManagedIMEXDaemon, DRAListTypeAttributes, ConsumableShares.",
            "draDriver.featureGates: DynamicMIG excludes MPSSupport. Set DynamicMIG to false, or MPSSupport.",
        ]
    )
    assert dra_gates.problems({}, {"CONSUMABLE_SHARES"}) == wording(
        [
            "draDriver.gpus.kubeletPlugin.env: CONSUMABLE_SHARES needs the feature gate ConsumableShares. Set it to true in draDriver.featureGates."
        ]
    )
    assert dra_gates.problems({"ConsumableShares": True}, {"CONSUMABLE_SHARES"}) == []


def test_what_the_cluster_must_have() -> None:
    gates: t.Mapping[str, bool] = {"DynamicMIG": True, "ConsumableShares": False}
    assert dra_gates.of_cluster(gates) == {"DRAPartitionableDevices": "DynamicMIG"}
    assert dra_gates.of_cluster({}) == {}


def test_the_relations_are_about_gates_that_exist() -> None:
    named = {other for gate in dra_gates.DRIVER_GATES.values() for other in (*gate.excludes, gate.needs) if other}
    assert (
        named <= dra_gates.DRIVER_GATES.keys() and set(dra_gates.BY_VARIABLE.values()) <= dra_gates.DRIVER_GATES.keys()
    )
