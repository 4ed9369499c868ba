# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.gather import gather
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.guests.guest_problems import (
    GuestProblem,
    assert_gathered,
    function_ids,
    group_problems,
    held,
    iommu_problems,
    version,
    vgpu_problems,
    wrong_variants,
)
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import FakeHost
from tests.unit.fakes.iommu_machines import PUBLISHED, plant_functions, published

GPU = {
    "pci_address": "0000:18:00.0",
    "device_id": "10de:2330",
    "kind": "gpu",
    "iommu_group": 22,
    "bound_driver": None,
    "driver_override": None,
    "vfio_driver": "vfio_pci",
    "gpu": "0000:18:00.0",
}
FOR_GUESTS: dict[str, t.Any] = {
    "iommu": {
        "enabled": True,
        "mode": "translated",
        "groups": 84,
        "gpu_groups": [{"gpu": "0000:18:00.0", "group": 22, "shared_with": []}],
        "firmware_tables": ["DMAR"],
    },
    "acs": {"enabled": True, "bridges": []},
    "passthrough": {
        "guest": False,
        "kvm": True,
        "modules": {
            "kvm": "loaded",
            "vfio_pci": "available",
            "vfio_iommu_type1": "builtin",
            "nvgrace_gpu_vfio_pci": "missing",
            "mdev": "available",
            "nvidia_vgpu_vfio": "missing",
        },
        "devices": [GPU],
        "vgpus": [
            {
                "gpu": "0000:18:00.0",
                "sriov_totalvfs": 16,
                "sriov_numvfs": 16,
                "framework": "mdev",
                "types": ["NVIDIA A40-8Q"],
                "vgpus": 0,
            }
        ],
    },
}
KERNEL: dict[str, t.Any] = {"running": "5.15.0-126-generic", "cmdline": ["ro", "intel_iommu=on"]}
FACTS = {**FOR_GUESTS, "kernel": KERNEL, "gpus": [{"pci_address": "0000:18:00.0", "architecture": "Ampere"}]}


def facts(**changes: t.Any) -> dict[str, t.Any]:
    """Return the facts of a healthy host with other values in some of its sections."""
    found = copy.deepcopy(FACTS)
    for section, values in changes.items():
        found[section] = {**found[section], **values} if isinstance(values, dict) else values
    return found


def test_a_healthy_host() -> None:
    for finder in (iommu_problems, group_problems, wrong_variants, vgpu_problems):
        assert list(finder(facts())) == []
    assert held(facts(), of_gpus=True) == held(facts(), of_gpus=False) == function_ids(facts()) == []


OFF = {"enabled": False, "mode": None, "groups": 0}


@pytest.mark.parametrize(
    ("tables", "cmdline", "message", "by_roles"),
    [
        ([], ["ro"], wording("The firmware offers no IOMMU: it has neither of the ACPI tables DMAR and IVRS."), False),
        (["DMAR"], ["ro"], wording("The IOMMU is off: the kernel has made no groups."), True),
        (None, ["ro"], wording("The IOMMU is off: the kernel has made no groups."), True),
        # The arguments that the role sets are there, or the role has none to set.
        (["DMAR"], ["intel_iommu=on"], wording("The IOMMU is off: the kernel has made no groups."), False),
        (["IVRS"], ["ro"], wording("The IOMMU is off: the kernel has made no groups."), False),
        (["IVRS"], ["amd_iommu=off"], wording("The kernel argument amd_iommu=off turns the IOMMU off."), False),
        # The role's argument stands behind that of another owner, and the kernel uses the last.
        (["DMAR"], ["intel_iommu=off"], wording("The kernel argument intel_iommu=off turns the IOMMU off."), True),
        (
            ["DMAR"],
            ["intel_iommu=off", "intel_iommu=on"],
            wording("The IOMMU is off: the kernel has made no groups."),
            False,
        ),
        (
            ["DMAR"],
            ["intel_iommu=off", "iommu=off"],
            wording("The kernel argument intel_iommu=off iommu=off turns the IOMMU off."),
            False,
        ),
    ],
)
def test_an_iommu_that_is_off(tables: list[str] | None, cmdline: list[str], message: str, by_roles: bool) -> None:
    (problem,) = iommu_problems(facts(iommu={**OFF, "firmware_tables": tables}, kernel={"cmdline": cmdline}))
    assert (problem.message, problem.settled_by_roles) == (message, by_roles)
    assert problem.remedy


def test_arguments_are_no_proof_of_an_iommu() -> None:
    assert list(iommu_problems(facts(kernel={"cmdline": ["ro"]}))) == []


def test_a_gpu_without_a_group() -> None:
    (problem,) = iommu_problems(facts(iommu={"gpu_groups": [{"gpu": "0000:18:00.0", "group": None}]}))
    assert problem.message == wording("The IOMMU is on, and the GPUs 0000:18:00.0 have no IOMMU group.")


def test_acs_that_is_off_breaks_the_isolation_of_groups() -> None:
    (problem,) = group_problems(facts(acs={"enabled": False}))
    assert problem.message == wording(
        "The access control services (ACS) of the PCIe bridges are off, so guests can reach each other's GPUs."
    )
    # Only root can read it, and some bridges have none.
    assert list(group_problems(facts(acs={"enabled": None}))) == []


def test_a_device_of_the_host_in_the_group_of_a_gpu() -> None:
    card = {**GPU, "pci_address": "0000:19:00.0", "kind": "other", "gpu": None, "bound_driver": "igb"}
    (problem,) = group_problems(facts(passthrough={"devices": [GPU, card]}))
    assert problem.message == wording(
        "The GPU 0000:18:00.0 shares IOMMU group 22 with devices of the host: 0000:19:00.0 (igb)."
    )
    for harmless in ({"bound_driver": None}, {"bound_driver": "vfio-pci"}, {"kind": "bridge"}, {"iommu_group": 3}):
        assert list(group_problems(facts(passthrough={"devices": [GPU, {**card, **harmless}]}))) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, wording("The kernel has no nvgrace_gpu_vfio_pci for 0000:18:00.0: a guest would lack the GPU's memory.")),
        (
            {"vfio_driver": "nvgrace_gpu_vfio_pci", "bound_driver": "vfio-pci"},
            wording("Plain vfio-pci holds 0000:18:00.0, and a guest would lack the GPU's memory."),
        ),
        ({"vfio_driver": "nvgrace_gpu_vfio_pci", "bound_driver": "nvgrace_gpu_vfio_pci"}, None),
        ({"vfio_driver": "nvgrace_gpu_vfio_pci"}, None),
    ],
)
def test_the_driver_for_the_gpus_of_grace(changes: dict[str, str], message: str | None) -> None:
    found = list(wrong_variants(facts(passthrough={"devices": [{**GPU, "device_id": "10de:2342", **changes}]})))
    assert [problem.message for problem in found] == ([message] if message else [])


def vgpu(**changes: t.Any) -> dict[str, t.Any]:
    return {"vgpus": [{**FOR_GUESTS["passthrough"]["vgpus"][0], **changes}]}


@pytest.mark.parametrize(
    ("row", "running", "architecture", "messages"),
    [
        # A mediated device that is there is a better sign than the kernel's version.
        ({}, "6.8.0-87-generic", "Ampere", []),
        ({"framework": None}, "5.15.0-126-generic", "Ampere", []),
        ({"framework": None}, "5.14.0-570.el9.x86_64", "Ada", []),
        (
            {"framework": None},
            "6.8.0-87-generic",
            "Ampere",
            [
                wording(
                    "The kernel is 6.8.0-87-generic. From 6.0 on vGPUs may be virtual functions, and GPU Operator up to v26.7 knows mediated devices only."
                )
            ],
        ),
        (
            {"framework": "vendor"},
            "6.8.0-87-generic",
            "Hopper",
            [
                wording(
                    "The vGPUs of 0000:18:00.0 are virtual functions (vendor-specific VFIO), and GPU Operator up to v26.7 knows mediated devices only."
                )
            ],
        ),
        (
            {"sriov_totalvfs": None},
            "5.15.0-126-generic",
            "Ampere",
            [wording("The GPUs 0000:18:00.0 offer no virtual functions (SR-IOV), which their vGPUs need.")],
        ),
        # GPUs before Ampere have mediated devices of their own.
        ({"sriov_totalvfs": None}, "5.15.0-126-generic", "Turing", []),
        ({"framework": None}, "custom", "Ampere", []),
    ],
)
def test_vgpus(row: dict[str, t.Any], running: str, architecture: str, messages: list[str]) -> None:
    gpus = [{"pci_address": "0000:18:00.0", "architecture": architecture}]
    found = list(vgpu_problems(facts(passthrough=vgpu(**row), kernel={"running": running}, gpus=gpus)))
    assert [problem.message for problem in found] == messages


@pytest.mark.parametrize(
    ("release", "numbers"), [("6.8.0-87-generic", (6, 8)), ("5.14.0-570.el9", (5, 14)), ("6", ()), ("a.b.c", ())]
)
def test_the_version_of_a_kernel(release: str, numbers: tuple[int, ...]) -> None:
    assert version(release) == numbers


def test_facts_that_are_missing() -> None:
    assert_gathered({}, "container")
    assert_gathered(FACTS, "vm-vgpu")
    with pytest.raises(GpuOpsError) as error:
        assert_gathered({"iommu": {}}, "vm-passthrough")
    assert error.value.msg == wording(
        "workload_kind vm-passthrough needs the facts passthrough, acs. Gather the subsets iommu, passthrough, acs of gpuops.nvidia.gpu_facts, too."
    )


# ---- published machines -------------------------------------------------------------------------------------------


def observed(tmp_path: Path, name: str) -> dict[str, t.Any]:
    plant_functions(tmp_path, published(name))
    host = FakeHost(tmp_path)
    host.put("/proc/sys/kernel/osrelease", "6.8.0-87-generic\n")
    host.put("/proc/cmdline", "ro\n")
    return dict(gather(host, ["!all", "!min", "pci", "kernel", "iommu", "passthrough", "acs"], 10))


def messages(problems: t.Iterable[GuestProblem]) -> list[str]:
    return [problem.message for problem in problems]


GROUPS: dict[str, list[str]] = {
    "six-v100": [
        wording("The GPUs 0000:27:00.0, 0000:28:00.0 share IOMMU group 19, so only one guest can have them all."),
        wording("The GPUs 0000:c3:00.0, 0000:c4:00.0 share IOMMU group 87, so only one guest can have them all."),
    ],
}


@pytest.mark.parametrize("name", [path.stem for path in sorted(PUBLISHED.glob("*.txt"))])
def test_published_groups(tmp_path: Path, name: str) -> None:
    """Only one of these machines has GPUs that cannot go to different guests. Its owner says so, too."""
    found = observed(tmp_path, name)
    assert messages(group_problems(found)) == GROUPS.get(name, [])


@pytest.mark.parametrize(
    ("name", "outside"),
    [("raspberry-pi-5", "The IOMMU is off"), ("rtx-pro-6000", "have no IOMMU group"), ("two-a40", None)],
)
def test_published_machines_with_gpus_outside_of_the_iommu(tmp_path: Path, name: str, outside: str | None) -> None:
    found = messages(iommu_problems(observed(tmp_path, name)))
    assert [outside in message for message in found if outside] == ([True] if outside else [])
    assert bool(found) is (outside is not None)


@pytest.mark.parametrize(
    ("name", "gpus", "functions", "ids"),
    [
        ("gtx-760", ["0000:01:00.0 (nvidia)"], ["0000:01:00.1 (snd_hda_intel)"], ["10de:0e0a"]),
        ("gtx-1050-ti", [], [], []),
        ("two-a40", [], [], []),
    ],
)
def test_published_machines_whose_gpus_another_driver_holds(
    tmp_path: Path, name: str, gpus: list[str], functions: list[str], ids: list[str]
) -> None:
    found = observed(tmp_path, name)
    assert held(found, of_gpus=True) == gpus
    assert held(found, of_gpus=False) == functions
    assert function_ids(found) == ids
