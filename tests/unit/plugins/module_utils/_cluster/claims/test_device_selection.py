# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims import device_selection as selections
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import device_pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.claims import device, resource_slice

RECORDED = Path(__file__).parents[4] / "fixtures" / "dra" / "selections.jsonl"
ROWS = [json.loads(line) for line in RECORDED.read_text().splitlines()]


def wish(**fields: t.Any) -> dict[str, t.Any]:
    return {"name": "large", "type": "gpu", **fields}


def offered(*items: dict[str, t.Any]) -> list[device_pools.Device]:
    return list(device_pools.part_of(resource_slice("gpu-0001", *items)).devices)


def test_every_selection_is_that_of_kubernetes() -> None:
    found = [selections.selection(row["class"]).selects(offered(row["device"])[0]) for row in ROWS]
    assert found == [row["selected"] for row in ROWS]
    assert {True, False} <= set(found) and len(ROWS) >= 100


def test_the_expression_has_what_the_fields_say() -> None:
    chosen = selections.selection(wish(product="An 'odd' \\ GPU", memory_min="79Gi", cel=["true"]))
    assert chosen.expressions == [
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu' && "
        "device.attributes['gpu.nvidia.com'].productName == 'An \\'odd\\' \\\\ GPU' && "
        "has(device.capacity['gpu.nvidia.com'].memory) && "
        "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('79Gi')) >= 0",
        "true",
    ]
    assert not chosen.is_exact and selections.selection(wish()).is_exact


@pytest.mark.parametrize(
    "fields",
    [
        {"profile": "1g.10gb"},
        {"type": "mig", "profile": "1g10gb"},
        {"type": "mig", "profile": "large"},
        {"type": "vfio", "architecture": "Hopper"},
        {"memory_min": "80GB"},
    ],
)
def test_fields_that_no_device_could_meet_are_refused(fields: dict[str, t.Any]) -> None:
    with pytest.raises(GpuOpsError) as error:
        selections.selection(wish(**fields))
    assert error.value.reason == "Invalid" and error.value.msg in wording(
        [
            "The class large cannot have this profile: only devices of type mig have one. Set type: mig, or leave it out.",
            "The class large cannot have this profile: 1g10gb names no MIG profile. Write it like 1g.10gb.",
            "The class large cannot have this profile: large names no MIG profile. Write it like 1g.10gb.",
            "The class large cannot have this architecture: devices of type vfio do not say theirs. Leave it out, or use product.",
            "The class large cannot have this memory_min: 80GB is no quantity. Write it like 40Gi.",
        ]
    )


def vendor_class(name: str, expression: str) -> dict[str, t.Any]:
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


VENDOR = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"


def test_the_classes_of_the_vendor_are_known_by_name_and_content() -> None:
    assert selections.of_class(vendor_class("mig.nvidia.com", VENDOR)) == selections.DeviceSelection("mig")
    other_quotes = VENDOR.replace("'", '"').replace(" && ", "&&")
    assert selections.of_class(vendor_class("mig.nvidia.com", other_quotes)) == selections.DeviceSelection("mig")
    assert selections.of_class(vendor_class("mig.nvidia.com", f"{VENDOR} && false")) is None
    assert selections.of_class(vendor_class("mine", VENDOR)) is None
    assert selections.of_class({"metadata": {"name": "gpu.nvidia.com"}, "spec": {}}) is None


def test_devices_are_counted_with_the_free_ones_and_the_most_on_one_node() -> None:
    slices = [resource_slice("a", device(0), device(1)), resource_slice("b", device(0, memory="40Gi"))]
    found = [each for item in slices for each in device_pools.part_of(item).devices]
    free = {found[0].name, found[2].name}
    assert selections.count(selections.selection(wish(memory_min="79Gi")), found, free) == (2, 1, 3, 2)
    assert selections.count(selections.selection(wish(product="other")), found, free) == (0, 0, 3, 0)


def test_what_comes_nearest_to_a_class_without_devices() -> None:
    there = offered(device(0), device(1, memory="40Gi", product="NVIDIA L40S"))
    cases = [
        (wish(memory_min="80Gi"), there),
        (wish(product="NVIDIA H200"), there),
        (wish(type="mig"), there),
        (wish(), []),
    ]
    assert [selections.nearest(selections.selection(each), found) for each, found in cases] == wording(
        [
            "the largest of its type has 81559Mi of memory",
            "the values of product among its type are NVIDIA H100 80GB HBM3, NVIDIA L40S",
            "their types are gpu",
            "no driver offers any device now",
        ]
    )
    nothing_said = offered({"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}})
    assert selections.nearest(selections.selection(wish(memory_min="1Gi")), nothing_said) == wording(
        "the memory of its type is unknown"
    )
