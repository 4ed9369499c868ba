# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines import permitted_devices
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines.permitted_devices import (
    PERMITTED_MARK,
    PermittedDevice,
    forbid,
    permit,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.kubevirt import THEIRS, kubevirt

A10 = PermittedDevice("pci", "10DE:2236", "nvidia.com/GA102GL_A10", True)
VGPU = PermittedDevice("mdev", "NVIDIA A10-12Q", "nvidia.com/NVIDIA_A10-12Q", True)
MARK = [list(A10.key)]


def everything(entry: PermittedDevice) -> bool:
    return True


def test_entries_are_added_behind_those_of_others_with_the_mark() -> None:
    change = permit(kubevirt(THEIRS), [A10, VGPU], purge=False)
    assert change.is_due and change.added == (A10, VGPU) and change.entries[0].selector == "8086:6F54"
    assert change.patch == {
        "metadata": {
            "annotations": {
                PERMITTED_MARK: '[["mdev", "NVIDIA_A10-12Q", "nvidia.com/NVIDIA_A10-12Q"], '
                '["pci", "10de:2236", "nvidia.com/GA102GL_A10"]]'
            },
            "resourceVersion": "7",
        },
        "spec": {
            "configuration": {
                "permittedHostDevices": {"pciHostDevices": [THEIRS, A10.content], "mediatedDevices": [VGPU.content]}
            }
        },
    }


def test_what_is_there_already_needs_no_write() -> None:
    change = permit(kubevirt(A10.content, ours=MARK), [A10], purge=True)
    assert not change.is_due and change.shown()[0] == change.shown()[1]
    same = {**A10.content, "pciVendorSelector": "10de:2236"}  # KubeVirt compares without case
    assert not permit(kubevirt(same, ours=MARK), [A10], purge=True).is_due


def test_an_equal_entry_of_somebody_else_is_enough_and_stays_theirs() -> None:
    change = permit(kubevirt(A10.content), [A10], purge=True)
    assert not change.is_due and change.ours == frozenset()


def test_our_entry_gets_another_provider_and_keeps_its_place_and_its_other_fields() -> None:
    item = {**A10.content, "note": "later"}
    change = permit(kubevirt(item, THEIRS, ours=MARK), [dataclasses.replace(A10, is_external=False)], purge=False)
    assert change.is_due and len(change.changed) == 1
    assert change.lists["pciHostDevices"] == [
        {"pciVendorSelector": "10DE:2236", "resourceName": "nvidia.com/GA102GL_A10", "note": "later"},
        THEIRS,
    ]
    back = permit(kubevirt({**item, "externalResourceProvider": False}, ours=MARK), [A10], purge=False)
    assert back.lists["pciHostDevices"] == [{**A10.content, "note": "later"}]


def test_only_our_entries_are_purged() -> None:
    t4 = PermittedDevice("pci", "10DE:1EB8", "nvidia.com/TU104GL_TESLA_T4", True)
    item = kubevirt(THEIRS, A10.content, t4.content, ours=MARK)
    assert permit(item, [t4], purge=False).removed == ()
    change = permit(item, [t4], purge=True)
    assert change.removed == (A10,) and change.lists["pciHostDevices"] == [THEIRS, t4.content]
    assert change.ours == frozenset()  # the T4 was somebody else's, and stays so


def test_only_our_entries_are_forbidden_and_those_of_others_are_named() -> None:
    change = forbid(kubevirt(THEIRS, A10.content, mdev=[VGPU.content], ours=MARK), everything)
    assert change.removed == (A10,) and [entry.selector for entry in change.left] == ["8086:6F54", "NVIDIA A10-12Q"]
    assert change.patch["metadata"]["annotations"] == {PERMITTED_MARK: None}
    assert change.patch["spec"]["configuration"]["permittedHostDevices"] == {"pciHostDevices": [THEIRS]}


def test_an_empty_list_goes_and_the_object_around_it_stays() -> None:
    change = forbid(kubevirt(A10.content, ours=MARK), everything)
    assert change.patch["spec"] == {"configuration": {"permittedHostDevices": {"pciHostDevices": None}}}


def test_of_two_equal_entries_one_is_ours() -> None:
    change = forbid(kubevirt(A10.content, A10.content, ours=MARK), everything)
    assert change.lists["pciHostDevices"] == [A10.content]


def test_an_entry_that_somebody_has_taken_out_is_forgotten() -> None:
    change = forbid(kubevirt(THEIRS, ours=MARK), lambda entry: False)
    assert change.is_due and change.ours == frozenset() and "spec" not in change.patch


@pytest.mark.parametrize("mark", ["{", "7", '[["pci", "a"]]', '[["pci", "a", 1]]', '["pci"]'])
def test_a_mark_that_is_no_list_of_entries_makes_nothing_ours(mark: str) -> None:
    item = kubevirt(A10.content)
    item["metadata"]["annotations"] = {PERMITTED_MARK: mark}
    assert permitted_devices.recorded(item) == frozenset()
    assert forbid(item, everything).removed == ()


@pytest.mark.parametrize(
    "other",
    [
        {**A10.content, "externalResourceProvider": False},
        {**A10.content, "pciVendorSelector": "10DE:2237"},
        {**A10.content, "resourceName": "example.com/a10", "externalResourceProvider": False},
    ],
)
def test_other_values_of_somebody_else_are_refused(other: dict[str, t.Any]) -> None:
    with pytest.raises(GpuOpsError) as error:
        permit(kubevirt(other), [A10], purge=True)
    assert error.value.reason == "OwnedByOthers"


def test_the_refusal_shows_both_entries() -> None:
    with pytest.raises(GpuOpsError) as error:
        permit(kubevirt({**A10.content, "pciVendorSelector": "10DE:2237"}), [A10], purge=False)
    assert error.value.msg == wording(
        'KubeVirt permits nvidia.com/GA102GL_A10 already: somebody else has written {"pciVendorSelector": "10DE:2237", "resourceName": "nvidia.com/GA102GL_A10", "externalResourceProvider": true}, and {"pciVendorSelector": "10DE:2236", "resourceName": "nvidia.com/GA102GL_A10", "externalResourceProvider": true} is wanted. Want the same values, or let its owner change or remove that entry.'
    )


def test_a_name_that_several_gpus_have_may_have_an_entry_of_somebody_else() -> None:
    one, two = (
        PermittedDevice("pci", f"10DE:{each}", "nvidia.com/GA100_A100_PCIE_40GB", True) for each in ("20B1", "20F1")
    )
    change = permit(kubevirt(one.content), [one, two], purge=False)
    assert change.added == (two,)


def test_a_kubevirt_without_lists_restricts_nothing_and_one_with_an_empty_object_does() -> None:
    assert not permitted_devices.restricts(kubevirt())
    assert permitted_devices.restricts(kubevirt(permittedHostDevices={}))
    assert not permitted_devices.restricts({"metadata": {}})
    usb = {"usb": [{"resourceName": "kubevirt.io/storage"}]}
    assert permitted_devices.resources_of(usb) == {"kubevirt.io/storage"}
