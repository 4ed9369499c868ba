# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines import machine_users
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines.machine_users import MachineUsers

from tests.unit.fakes.kubevirt import instance, instance_type, machine

A10, T4 = "nvidia.com/GA102GL_A10", "nvidia.com/TU104GL_TESLA_T4"


@pytest.mark.parametrize(
    ("kind", "item", "user"),
    [
        ("VirtualMachineInstance", instance("a", A10, T4), ("VirtualMachineInstance research/a", {A10, T4})),
        (
            "VirtualMachineInstance",
            instance("a", A10, field="hostDevices"),
            ("VirtualMachineInstance research/a", {A10}),
        ),
        ("VirtualMachineInstance", instance("a", A10, phase="Succeeded"), ("VirtualMachineInstance research/a", set())),
        ("VirtualMachine", machine("a", T4), ("VirtualMachine research/a", {T4})),
        ("VirtualMachine", {"metadata": {"name": "a"}}, ("VirtualMachine a", set())),
        ("VirtualMachineClusterInstancetype", instance_type("g", A10), ("VirtualMachineClusterInstancetype g", {A10})),
    ],
)
def test_what_an_object_asks_for(kind: str, item: dict[str, t.Any], user: tuple[str, set[str]]) -> None:
    assert machine_users.user_of(kind, item) == user


def test_a_device_by_a_claim_needs_no_permission() -> None:
    claimed = instance("a")
    claimed["spec"]["domain"]["devices"]["gpus"] = [{"name": "gpu", "claimName": "c", "requestName": "r"}]
    assert machine_users.user_of("VirtualMachineInstance", claimed)[1] == set()


def test_a_machine_that_runs_is_named_with_its_node() -> None:
    running = instance("a", A10)
    running["status"]["nodeName"] = "gpu-0000"
    assert (
        machine_users.user_of("VirtualMachineInstance", running)[0] == "VirtualMachineInstance research/a on gpu-0000"
    )


def test_users_are_found_by_resource() -> None:
    users = MachineUsers([("b", frozenset({A10, T4})), ("a", frozenset({A10}))], [])
    assert users.of(A10) == ["a", "b"] and users.of("x") == []
    assert users.of_others({A10}) == [f"b ({T4})"]
