# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator import dra_configs
from inline_snapshot import snapshot as wording

RECORDED = Path(__file__).parents[3] / "fixtures" / "dra" / "opaque_parameters.jsonl"
ROWS = [json.loads(line) for line in RECORDED.read_text().splitlines()]


def parameters(kind: str = "GpuConfig", **fields: t.Any) -> dict[str, t.Any]:
    return {"apiVersion": dra_configs.API_VERSION, "kind": kind, **fields}


def refused(row: dict[str, t.Any]) -> bool:
    if dra_configs.mistake(row["parameters"], row["devices"]):
        return True
    return not set(dra_configs.gates(row["parameters"])) <= set(row["gates"])


def test_the_driver_accepts_nothing_that_is_called_a_mistake_but_what_has_no_effect() -> None:
    stricter = [row["parameters"] for row in ROWS if row["stage"] == "ok" and refused(row)]
    assert stricter == [
        parameters("VfioDeviceConfig", iommu={"backendPolicy": ""}),
        parameters("MigDeviceConfig", sharing={"strategy": "TimeSlicing", "mpsConfig": {}}),
    ]
    assert {row["stage"] for row in ROWS} == {"ok", "decode", "validate", "apply", "panic"}


@pytest.mark.parametrize("row", [row for row in ROWS if row["stage"] != "ok"], ids=lambda row: row["message"][:40])
def test_what_the_driver_refuses_is_refused(row: dict[str, t.Any]) -> None:
    assert refused(row)


def mps(**config: t.Any) -> dict[str, t.Any]:
    return parameters(sharing={"strategy": "MPS", "mpsConfig": config})


UUID = "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"


@pytest.mark.parametrize(
    "accepted",
    [
        parameters(),
        parameters(sharing=None),
        parameters(sharing={"strategy": "TimeSlicing"}),
        parameters(sharing={"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}),
        parameters("MigDeviceConfig", sharing={"strategy": "MPS"}),
        parameters("VfioDeviceConfig", iommu={"backendPolicy": "PreferIommuFD", "enableAPIDevice": True}),
        parameters("VfioDeviceConfig"),
        mps(defaultActiveThreadPercentage=0, multiUser=True),
        mps(defaultActiveThreadPercentage=100, defaultPinnedDeviceMemoryLimit="1Mi"),
        mps(defaultPerDevicePinnedMemoryLimit={"1": "10Gi", UUID: "1048575.5"}),
    ],
)
def test_what_the_driver_accepts(accepted: dict[str, t.Any]) -> None:
    assert dra_configs.mistake(accepted, 2) is None


def test_every_mistake_names_the_field_and_the_remedy() -> None:
    wrong = [
        parameters("GPUConfig"),
        {**parameters(), "apiVersion": "resource.nvidia.com/v1"},
        parameters(sharing={"strategy": "MPS", "replicas": 4}),
        parameters(sharing=[]),
        mps(defaultActiveThreadPercentage="50"),
        mps(defaultPinnedDeviceMemoryLimit="10GB"),
        mps(defaultPerDevicePinnedMemoryLimit=[]),
        mps(multiUser="yes"),
        parameters(sharing={"strategy": "mps"}),
        parameters(sharing={"strategy": "MPS", "timeSlicingConfig": {"interval": "Long"}}),
        parameters(sharing={"strategy": "TimeSlicing", "timeSlicingConfig": {}}),
        parameters(sharing={"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "long"}}),
        mps(defaultActiveThreadPercentage=101),
        mps(defaultPinnedDeviceMemoryLimit="1000k"),
        mps(defaultPerDevicePinnedMemoryLimit={"2": "10Gi"}),
        mps(defaultPerDevicePinnedMemoryLimit={"0": None}),
        parameters("VfioDeviceConfig", iommu={"backendPolicy": "Legacy"}),
    ]
    assert [dra_configs.mistake(each, 2) for each in wrong] == wording(
        [
            "kind is 'GPUConfig': write one of GpuConfig, MigDeviceConfig, VfioDeviceConfig.",
            "apiVersion is 'resource.nvidia.com/v1': write resource.nvidia.com/v1beta1.",
            "sharing.replicas is no field of the driver: the fields here are strategy, timeSlicingConfig, mpsConfig.",
            "sharing is []: give a mapping with strategy, timeSlicingConfig, mpsConfig.",
            "sharing.mpsConfig.defaultActiveThreadPercentage is '50': give a whole number.",
            "sharing.mpsConfig.defaultPinnedDeviceMemoryLimit is '10GB': give a quantity such as 10Gi.",
            "sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit is []: give a mapping from the index or UUID of a device to a quantity.",
            "sharing.mpsConfig.multiUser is 'yes': give true or false.",
            "sharing.strategy is 'mps': write one of TimeSlicing, MPS.",
            "sharing.timeSlicingConfig does not fit the strategy MPS: remove it, or change sharing.strategy.",
            "sharing.timeSlicingConfig has no interval, and the driver's code panics on that: give interval, or leave timeSlicingConfig out.",
            "sharing.timeSlicingConfig.interval is 'long': write one of Default, Short, Medium, Long.",
            "sharing.mpsConfig.defaultActiveThreadPercentage is 101: give 0 to 100.",
            "sharing.mpsConfig.defaultPinnedDeviceMemoryLimit is 1000k: give at least 1Mi.",
            "sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit has the device 2: write its index in the claim (0 to 1) or its UUID.",
            "sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit of device 0 is None: give a quantity of at least 1Mi.",
            "iommu.backendPolicy is 'Legacy': write one of LegacyOnly, PreferIommuFD.",
        ]
    )
    unknown = mps(defaultPerDevicePinnedMemoryLimit={"first": "10Gi"})
    assert dra_configs.mistake(unknown) == wording(
        "sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit has the device first: write its index in the claim (0, 1 and so on) or its UUID."
    )


def test_an_index_has_no_limit_while_the_number_of_devices_is_unknown() -> None:
    assert dra_configs.mistake(mps(defaultPerDevicePinnedMemoryLimit={"7": "10Gi"})) is None


def test_the_gates_that_parameters_need() -> None:
    assert dra_configs.gates(parameters()) == ()
    assert dra_configs.gates(parameters(sharing={"strategy": "MPS"})) == ("MPSSupport",)
    assert dra_configs.gates(parameters(sharing={"strategy": "TimeSlicing"})) == ("TimeSlicingSettings",)
    assert dra_configs.gates(parameters("VfioDeviceConfig")) == ("PassthroughSupport",)


def test_time_slices_of_mig_devices_have_no_effect() -> None:
    sharing = {"strategy": "TimeSlicing"}
    assert dra_configs.without_effect(parameters("MigDeviceConfig", sharing=sharing)) == wording(
        "sharing.strategy TimeSlicing has no effect on MIG devices: time slices are set on whole GPUs only."
    )
    assert dra_configs.without_effect(parameters(sharing=sharing)) is None
    assert dra_configs.without_effect(parameters("MigDeviceConfig")) is None
