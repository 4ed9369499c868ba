# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines import plugin_names

VENDOR = json.loads((Path(__file__).parents[4] / "fixtures" / "kubevirt" / "plugin_names.json").read_text())["names"]
"""The names that the vendor's own code made, by PCI device id: the text of pci.ids, and the name of the resource."""


def test_the_rule_makes_the_names_of_the_vendors_plugin() -> None:
    assert len(VENDOR) > 130
    made = {device: plugin_names.resource_of_name(text) for device, (text, dummy) in VENDOR.items()}
    assert made == {device: f"nvidia.com/{name}" for device, (dummy, name) in VENDOR.items()}


def test_each_gpu_of_the_table_has_the_name_of_the_vendors_plugin() -> None:
    known = {device: plugin_names.resource_of_gpu(f"10de:{device}") for device in VENDOR}
    found = {device: name for device, name in known.items() if name}
    assert len(found) >= 100
    assert found == {device: f"nvidia.com/{VENDOR[device][1]}" for device in found}


def test_what_is_no_gpu_or_of_another_vendor_has_no_name() -> None:
    assert plugin_names.resource_of_gpu("10DE:22A3") is None  # an NVSwitch
    assert plugin_names.resource_of_gpu("8086:2236") is None


def test_a_name_leads_back_to_every_gpu_that_has_it() -> None:
    assert plugin_names.gpus_of_resource("nvidia.com/GA102GL_A10") == ["10DE:2236"]
    assert plugin_names.gpus_of_resource("nvidia.com/GA100_A100_PCIE_40GB") == ["10DE:20B1", "10DE:20F1"]
    assert plugin_names.gpus_of_resource("nvidia.com/ga102gl_a10") == []


@pytest.mark.parametrize(
    ("mdev_type", "resource"),
    [
        ("NVIDIA A10-12Q", "nvidia.com/NVIDIA_A10-12Q"),
        ("GRID T4-1Q", "nvidia.com/GRID_T4-1Q"),
        ("NVIDIA A100-1-5CME", "nvidia.com/NVIDIA_A100-1-5CME"),
    ],
)
def test_a_vgpu_is_named_after_its_type_with_its_case(mdev_type: str, resource: str) -> None:
    assert plugin_names.resource_of_vgpu(mdev_type) == resource
    assert plugin_names.vgpu_of_resource(resource) == mdev_type


def test_a_gpu_is_no_vgpu() -> None:
    assert plugin_names.vgpu_of_resource("nvidia.com/GA102GL_A10") is None
