# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._findings import CheckFinding
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.guests import guest_preflight
from inline_snapshot import snapshot as wording

from tests.unit.plugins.module_utils._host.guests.test_guest_problems import FOR_GUESTS, GPU, facts


def only(findings: t.Iterable[CheckFinding]) -> tuple[str, str]:
    (finding,) = findings
    assert finding.remedy or finding.level == "ok"
    return finding.level, finding.message


@pytest.mark.parametrize(
    ("iommu", "level", "message"),
    [
        ({}, "ok", wording("The IOMMU is in force.")),
        ({"mode": "passthrough"}, "ok", wording("The IOMMU is in force, and the drivers of the host bypass it.")),
        # The role host_prep sets intel_iommu=on, which the host does not have yet.
        ({"enabled": False}, "warning", wording("The IOMMU is off: the kernel has made no groups.")),
        (
            {"enabled": False, "firmware_tables": []},
            "failure",
            wording("The firmware offers no IOMMU: it has neither of the ACPI tables DMAR and IVRS."),
        ),
    ],
)
def test_the_iommu(iommu: dict[str, t.Any], level: str, message: str) -> None:
    assert only(guest_preflight.check_iommu(facts(iommu=iommu, kernel={"cmdline": []}))) == (level, message)


def test_groups() -> None:
    assert only(guest_preflight.check_groups(facts())) == ("ok", wording("Each GPU has an IOMMU group to itself."))
    assert only(guest_preflight.check_groups(facts(iommu={"enabled": False}))) == (
        "warning",
        wording("Which devices share a group is unknown while the IOMMU is off."),
    )
    twin = {**GPU, "pci_address": "0000:19:00.0", "gpu": "0000:19:00.0"}
    assert only(guest_preflight.check_groups(facts(passthrough={"devices": [GPU, twin]}))) == (
        "failure",
        wording("The GPUs 0000:18:00.0, 0000:19:00.0 share IOMMU group 22, so only one guest can have them all."),
    )


def modules(**states: str | None) -> dict[str, t.Any]:
    return {"modules": {**FOR_GUESTS["passthrough"]["modules"], **states}}


@pytest.mark.parametrize(
    ("states", "level", "message"),
    [
        ({}, "ok", wording("The kernel has the modules of vfio.")),
        ({"vfio_pci": "missing"}, "failure", wording("The kernel 5.15.0-126-generic has no module vfio_pci.")),
        (
            {"vfio_pci": "missing", "vfio_iommu_type1": "missing"},
            "failure",
            wording("The kernel 5.15.0-126-generic has no module vfio_pci and no vfio_iommu_type1."),
        ),
        (
            {"vfio_pci": None},
            "warning",
            wording("Whether the kernel 5.15.0-126-generic has vfio_pci is unknown: its list of modules is missing."),
        ),
    ],
)
def test_the_modules_of_vfio(states: dict[str, str | None], level: str, message: str) -> None:
    assert only(guest_preflight.check_vfio(facts(passthrough=modules(**states)))) == (level, message)


def test_the_modules_for_grace() -> None:
    grace = {"devices": [{**GPU, "device_id": "10de:2342"}]}
    assert only(guest_preflight.check_vfio(facts(passthrough=grace)))[0] == "failure"


def test_vgpus() -> None:
    assert only(guest_preflight.check_vgpu(facts()))[0] == "ok"
    vendor = [{**FOR_GUESTS["passthrough"]["vgpus"][0], "framework": "vendor"}]
    assert only(guest_preflight.check_vgpu(facts(passthrough={"vgpus": vendor})))[0] == "failure"


@pytest.mark.parametrize(
    ("machine", "pages", "level", "message"),
    [
        ({}, None, "ok", wording("The host can start virtual machines.")),
        ({}, [{"total": 16}, {"total": None}], "ok", wording("The host can start virtual machines.")),
        ({}, [{"total": 0}], "ok", wording("The host can start virtual machines, and has no huge pages.")),
        ({"guest": None}, None, "ok", wording("The host can start virtual machines.")),
        (
            {"guest": True},
            [{"total": 0}],
            "warning",
            wording("The host is a virtual machine, and NVIDIA supports GPUs for virtual machines on bare metal only."),
        ),
        (
            {"kvm": False},
            None,
            "warning",
            wording("The host has no /dev/kvm, without which KubeVirt starts no virtual machines."),
        ),
    ],
)
def test_the_machine(machine: dict[str, t.Any], pages: list[t.Any] | None, level: str, message: str) -> None:
    given = facts(passthrough=machine)
    if pages is not None:
        given["hugepages"] = {"sizes": pages, "transparent": "always"}
    assert only(guest_preflight.check_machine(given)) == (level, message)


DRIVER = {
    "userspace_version": "580.95.05",
    "installed_version": "580.95.05",
    "containerised": False,
    "origin": "nvidia",
}
NOTHING = {"userspace_version": None, "installed_version": None, "containerised": False}
CALM = {"modules": {"nouveau": {"loaded": False}}}


def with_driver(driver: dict[str, t.Any], **changes: t.Any) -> dict[str, t.Any]:
    return {**facts(**changes), "driver": driver, "nouveau": CALM, "services": {}}


@pytest.mark.parametrize("kind", ["vm-passthrough", "vm-vgpu"])
def test_no_driver_of_the_host(kind: str) -> None:
    for driver in (NOTHING, {**DRIVER, "containerised": True}):
        assert (
            only(guest_preflight.check_driver(with_driver(driver), kind, wants_own=False, may_remove=False))[0] == "ok"
        )


def test_a_driver_of_the_host_is_in_the_way() -> None:
    for may_remove, level in ((True, "warning"), (False, "failure")):
        found = only(
            guest_preflight.check_driver(with_driver(DRIVER), "vm-passthrough", wants_own=False, may_remove=may_remove)
        )
        assert found == (
            level,
            wording(
                "The host has the driver 580.95.05 of NVIDIA's repository, and while its driver works, the operator leaves the GPUs with it."
            ),
        )


def test_a_vgpu_manager_of_the_host_is_not_in_the_way_of_vgpus() -> None:
    given = with_driver(DRIVER, passthrough=modules(nvidia_vgpu_vfio="loaded"))
    assert only(guest_preflight.check_driver(given, "vm-vgpu", wants_own=False, may_remove=False))[0] == "ok"
    assert (
        only(guest_preflight.check_driver(given, "vm-passthrough", wants_own=False, may_remove=False))[0] == "failure"
    )


def test_nouveau() -> None:
    given = {**with_driver(NOTHING), "nouveau": {"modules": {"nouveau": {"loaded": True}}}}
    found = only(guest_preflight.check_driver(given, "vm-vgpu", wants_own=False, may_remove=False))
    assert found == ("warning", wording("nouveau is loaded, and can hold the GPUs."))


def test_functions_that_keep_their_driver() -> None:
    usb = {**GPU, "pci_address": "0000:18:00.2", "kind": "usb", "device_id": "10de:1aec", "bound_driver": "xhci_hcd"}
    given = with_driver(NOTHING, passthrough={"devices": [GPU, usb]})
    (finding,) = guest_preflight.check_driver(given, "vm-passthrough", wants_own=False, may_remove=False)
    assert (finding.level, finding.message) == (
        "warning",
        wording("Other drivers hold functions of the GPUs: 0000:18:00.2 (xhci_hcd)."),
    )
    assert "{vfio-pci: {ids: '10de:1aec'}}" in finding.remedy
    assert only(guest_preflight.check_driver(given, "vm-vgpu", wants_own=False, may_remove=False))[0] == "ok"


@pytest.mark.parametrize("kind", ["vm-passthrough", "vm-vgpu"])
def test_a_driver_of_the_host_that_is_declared(kind: str) -> None:
    found = only(guest_preflight.check_driver(with_driver(NOTHING), kind, wants_own=True, may_remove=True))
    assert found[0] == "failure" and kind in found[1]
