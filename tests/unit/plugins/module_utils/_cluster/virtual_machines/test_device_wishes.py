# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines import device_wishes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines.permitted_devices import (
    PermittedDevice,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

A10 = PermittedDevice("pci", "10DE:2236", "nvidia.com/GA102GL_A10", True)
VGPU = PermittedDevice("mdev", "NVIDIA A10-12Q", "nvidia.com/NVIDIA_A10-12Q", True)


@pytest.mark.parametrize(
    ("wish", "found"),
    [
        ({"pci_id": "10de:2236"}, [A10]),
        ({"resource_name": "nvidia.com/GA102GL_A10"}, [A10]),
        (
            {"pci_id": "10DE:2236", "resource_name": "nvidia.com/A10"},
            [PermittedDevice("pci", "10DE:2236", "nvidia.com/A10", True)],
        ),
        ({"mdev_type": " NVIDIA A10-12Q"}, [VGPU]),
        ({"resource_name": "nvidia.com/NVIDIA_A10-12Q"}, [VGPU]),
        ({"mdev_type": "x", "resource_name": "nvidia.com/x"}, [PermittedDevice("mdev", "x", "nvidia.com/x", True)]),
    ],
)
def test_what_a_wish_leaves_out_is_derived(wish: dict[str, t.Any], found: list[PermittedDevice]) -> None:
    assert device_wishes.entries([wish]) == found


def test_a_name_of_several_gpus_is_one_entry_for_each() -> None:
    found = device_wishes.entries([{"resource_name": "nvidia.com/AD102GL_L20", "external_resource_provider": False}])
    assert [(entry.selector, entry.is_external) for entry in found] == [("10DE:26B7", False), ("10DE:26BA", False)]


WRONG: tuple[dict[str, t.Any], ...] = (
    {"pci_id": "2236"},
    {"pci_id": "8086:6F54"},
    {"pci_id": "10DE:FFFF"},
    {"mdev_type": " "},
    {"resource_name": "A10"},
    {"resource_name": "nvidia.com/gpu"},
    {"resource_name": "nvidia.com/pgpu", "pci_id": "10DE:2236"},
    {"resource_name": "nvidia.com/UNKNOWN"},
)


def test_a_wrong_wish_is_refused_with_the_field_and_the_remedy() -> None:
    messages = []
    for wish in WRONG:
        with pytest.raises(GpuOpsError) as error:
            device_wishes.entries([wish])
        assert error.value.reason == "Invalid"
        messages.append(error.value.msg)
    assert messages == wording(
        [
            "pci_id '2236' is not VENDOR:DEVICE. Write both as four hexadecimal digits, such as 10DE:2236; `lspci -nn -d 10de:` shows them on the host.",
            "pci_id 8086:6F54 is a device of another vendor than NVIDIA (10DE). Let its owner permit it.",
            "The name that NVIDIA's plugin gives to 10DE:FFFF is unknown. Give resource_name, too, as `kubectl describe node` shows it below Allocatable.",
            "mdev_type is empty. Give the name of a mediated device type, such as NVIDIA A10-12Q.",
            "resource_name 'A10' is no name of a resource. Write it as `kubectl describe node` shows it below Allocatable, such as nvidia.com/GA102GL_A10.",
            "resource_name nvidia.com/gpu is what NVIDIA's plugin for containers offers, and a virtual machine gets no device by it. Give the resource of the plugin for KubeVirt, such as nvidia.com/GA102GL_A10.",
            "resource_name nvidia.com/pgpu is what NVIDIA's plugin for Kata containers offers, and a virtual machine gets no device by it. Give the resource of the plugin for KubeVirt, such as nvidia.com/GA102GL_A10.",
            "The device behind nvidia.com/UNKNOWN is unknown. Give pci_id or mdev_type, too; `lspci -nn -d 10de:` on a node that offers it shows the PCI id.",
        ]
    )


def test_an_entry_that_is_wanted_twice_is_refused() -> None:
    with pytest.raises(GpuOpsError, match=r"nvidia.com/GA102GL_A10 \(10DE:2236\) twice"):
        device_wishes.entries([{"pci_id": "10DE:2236"}, {"resource_name": "nvidia.com/GA102GL_A10"}])


def test_a_wish_matches_entries_by_what_it_gives() -> None:
    for wish, matches in (
        ({"pci_id": "10de:2236"}, (True, False)),
        ({"mdev_type": "NVIDIA A10-12Q"}, (False, True)),
        ({"resource_name": "nvidia.com/GA102GL_A10"}, (True, False)),
        ({"mdev_type": "10DE:2236"}, (False, False)),
        ({"pci_id": "10DE:2236", "resource_name": "nvidia.com/other"}, (False, False)),
    ):
        found = device_wishes.matcher([wish])
        assert (found(A10), found(VGPU)) == matches, wish


def test_options_that_would_remove_too_much_are_refused() -> None:
    plain = {"from_nodes": False, "purge": False, "state": "present", "devices": None}
    device_wishes.refuse_contradictions(plain)
    device_wishes.refuse_contradictions({**plain, "purge": True, "devices": []})
    for wrong in (
        {"from_nodes": True, "purge": True},
        {"from_nodes": True, "state": "absent"},
        {"purge": True},
    ):
        with pytest.raises(GpuOpsError) as error:
            device_wishes.refuse_contradictions({**plain, **wrong})
        assert error.value.reason == "Invalid"


def test_another_name_than_the_plugins_is_said_if_no_node_offers_it() -> None:
    wrong = PermittedDevice("pci", "10DE:2236", "nvidia.com/A10", True)
    unknown = PermittedDevice("pci", "10DE:FFFF", "nvidia.com/x", True)
    assert device_wishes.misnamed([wrong], {"nvidia.com/A10"}) == []
    assert device_wishes.misnamed([A10, unknown, VGPU], set()) == []
    assert device_wishes.misnamed([wrong], set()) == wording(
        [
            "10DE:2236 is permitted as nvidia.com/A10, which no node offers. NVIDIA's plugin calls it nvidia.com/GA102GL_A10: correct resource_name, or leave it out."
        ]
    )
