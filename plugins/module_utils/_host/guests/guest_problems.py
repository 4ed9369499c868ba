# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What stands between a host's GPUs and virtual machines, as its facts show it. Pure.

The rules follow the kernel (https://docs.kernel.org/driver-api/vfio.html) and NVIDIA's vfio manager, validator and
device plugins, at the commits that each rule names.
"""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

WORKLOAD_KINDS = ("container", "vm-passthrough", "vm-vgpu")
"""Whom the GPUs of a host serve, in the words of the operator's label nvidia.com/gpu.workload.config."""

NEEDED_SUBSETS = ("iommu", "passthrough", "acs")

# What the operator's validator accepts: github.com/NVIDIA/gpu-operator, pull request 1983. The second is the kernel's
# own driver for the GPUs of Grace (drivers/vfio/pci/nvgrace-gpu/main.c).
VFIO_DRIVERS = ("vfio-pci", "nvgrace_gpu_vfio_pci")
_GRACE_GPUS = ("10de:2342", "10de:2345", "10de:2348", "10de:2941")
_SWITCHES = ("intel_iommu", "amd_iommu", "iommu")
_SET_BY_ROLES = "intel_iommu=off"
"""What the argument of the role host_prep replaces, because it stands behind it."""

_TURN_ON = "turn VT-d (Intel) or AMD-Vi (AMD) on in the firmware's settings"


@dataclasses.dataclass(frozen=True)
class GuestProblem:
    """One thing that keeps GPUs from virtual machines. A run of the roles settles some of them by itself."""

    message: str
    remedy: str
    settled_by_roles: bool = False


def assert_gathered(facts: t.Mapping[str, t.Any], kind: str) -> None:
    """Raise an error if the facts lack what the judgement of a host for virtual machines needs."""
    missing = [name for name in NEEDED_SUBSETS if kind != "container" and name not in facts]
    if missing:
        raise GpuOpsError(
            f"workload_kind {kind} needs the facts {', '.join(missing)}. "
            f"Gather the subsets {', '.join(NEEDED_SUBSETS)} of gpuops.nvidia.gpu_facts, too."
        )


def iommu_problems(facts: Json) -> t.Iterator[GuestProblem]:
    """Find an IOMMU that is off, and GPUs that it leaves out. Groups that exist are the proof, not arguments."""
    iommu = facts["iommu"]
    if not iommu["enabled"]:
        yield _off(facts)
        return
    outside = [row["gpu"] for row in iommu["gpu_groups"] if row["group"] is None]
    if outside:
        message = f"The IOMMU is on, and the GPUs {first_few(outside)} have no IOMMU group."
        yield GuestProblem(message, "Move them to a slot behind the IOMMU, or update the firmware.")


def _off(facts: Json) -> GuestProblem:
    tables = facts["iommu"]["firmware_tables"]
    if tables == []:
        message = "The firmware offers no IOMMU: it has neither of the ACPI tables DMAR and IVRS."
        return GuestProblem(message, f"{_TURN_ON[:1].upper()}{_TURN_ON[1:]}.")
    # The kernel uses the last argument of a name.
    last = dict(argument.partition("=")[::2] for argument in facts["kernel"]["cmdline"])
    against = [f"{name}=off" for name in _SWITCHES if last.get(name) == "off"]
    message = "The IOMMU is off: the kernel has made no groups."
    if against:
        message = f"The kernel argument {' '.join(against)} turns the IOMMU off."
    if against in ([], [_SET_BY_ROLES]) and not last.get("intel_iommu", "").startswith("on") and tables != ["IVRS"]:
        first = "Run playbooks/site.yml, which sets intel_iommu=on where the host needs it and reboots the host. "
        return GuestProblem(message, f"{first}If that does not help, {_TURN_ON}.", settled_by_roles=True)
    if against:
        return GuestProblem(message, "Remove it from the boot loader's configuration, and reboot.")
    return GuestProblem(message, f"{_TURN_ON[:1].upper()}{_TURN_ON[1:]}, and read dmesg | grep -e DMAR -e AMD-Vi.")


def group_problems(facts: Json) -> t.Iterator[GuestProblem]:
    """Find groups whose devices would have to go to different places, since a group goes to one guest as a whole."""
    for number, rows in sorted(_groups(facts).items()):
        gpus = [row["pci_address"] for row in rows if row["kind"] == "gpu"]
        if len(gpus) > 1:
            message = f"The GPUs {first_few(gpus)} share IOMMU group {number}, so only one guest can have them all."
            yield GuestProblem(message, _SEPARATE)
        strangers = [_held(row) for row in rows if gpus and row["gpu"] is None and is_foreign(row)]
        if strangers:
            message = f"The GPU {gpus[0]} shares IOMMU group {number} with devices of the host: {first_few(strangers)}."
            yield GuestProblem(message, _SEPARATE)
    if facts["acs"]["enabled"] is False:
        message = (
            "The access control services (ACS) of the PCIe bridges are off, so guests can reach each other's GPUs."
        )
        remedy = "Leave host_prep_acs at true, and reboot. The groups are as the kernel made them at boot."
        yield GuestProblem(message, remedy)


_SEPARATE = (
    "Turn ACS on in the firmware's settings, or move a card to another slot. If one guest is to have the whole group, "
    "leave this check out."
)


def _groups(facts: Json) -> dict[int, list[Json]]:
    groups = collections.defaultdict(list)
    for row in facts["passthrough"]["devices"]:
        if row["iommu_group"] is not None:
            groups[row["iommu_group"]].append(row)
    return groups


def is_foreign(row: Json) -> bool:
    """Return whether a driver holds a device that vfio would need. The kernel lets bridges keep theirs."""
    return row["kind"] != "bridge" and row["bound_driver"] not in (None, *VFIO_DRIVERS)


def _held(row: Json) -> str:
    return f"{row['pci_address']} ({row['bound_driver']})"


def held(facts: Json, of_gpus: bool) -> list[str]:
    """Return the GPUs that a driver other than vfio's holds, or the other functions of GPUs that one holds."""
    rows = [row for row in facts["passthrough"]["devices"] if (row["kind"] == "gpu") is of_gpus]
    return [_held(row) for row in rows if row["gpu"] is not None and is_foreign(row)]


def function_ids(facts: Json) -> list[str]:
    """Return the device ids of the functions beside GPUs that other drivers hold, each once."""
    rows = (row for row in facts["passthrough"]["devices"] if row["kind"] != "gpu" and row["gpu"] is not None)
    return sorted({row["device_id"] for row in rows if is_foreign(row)})


def wrong_variants(facts: Json) -> t.Iterator[GuestProblem]:
    """Find GPUs of Grace that plain vfio-pci would get. Their memory goes to a guest through a driver of its own."""
    rows = [row for row in facts["passthrough"]["devices"] if row["device_id"] in _GRACE_GPUS and row["kind"] == "gpu"]
    plain = [row["pci_address"] for row in rows if row["vfio_driver"] == "vfio_pci"]
    if plain:
        message = f"The kernel has no nvgrace_gpu_vfio_pci for {first_few(plain)}: a guest would lack the GPU's memory."
        yield GuestProblem(message, "Use a kernel from 6.8 on that has this module, such as NVIDIA's for Grace.")
    bound = [row["pci_address"] for row in rows if row["bound_driver"] == "vfio-pci"]
    if bound and not plain:
        message = f"Plain vfio-pci holds {first_few(bound)}, and a guest would lack the GPU's memory."
        yield GuestProblem(message, "Bind them to nvgrace_gpu_vfio_pci, as the operator's vfio manager does.")


# github.com/NVIDIA/gpu-operator/issues/2594: the device manager of vGPUs and KubeVirt's device plugin read
# /sys/class/mdev_bus and /sys/bus/mdev (vgpu-device-manager acb72704, kubevirt-gpu-device-plugin d26f2374, both of
# August 2026). Later commits of both know virtual functions (vgpu-device-manager pull request 195,
# kubevirt-gpu-device-plugin 9a6360b1).
_ONLY_MEDIATED = "GPU Operator up to v26.7 knows mediated devices only"
_OTHER_HOST = (
    "Use Ubuntu 22.04 or Red Hat's kernel 5.14 with a vGPU release that makes mediated devices for the GPU, or a "
    "release of the operator that knows virtual functions, and leave this check out."
)
_FIRST_WITHOUT = (6, 0)
_WITH_VIRTUAL_FUNCTIONS = ("Ampere", "Ada", "Hopper", "Blackwell")


def vgpu_problems(facts: Json) -> t.Iterator[GuestProblem]:
    """Find GPUs without virtual functions, and kernels whose vGPUs the operator does not see.

    NVIDIA documents vGPUs with KubeVirt for kernels before 6.0 and for Red Hat's.
    """
    rows = facts["passthrough"]["vgpus"]
    newer = {gpu["pci_address"] for gpu in facts["gpus"] if gpu.get("architecture") in _WITH_VIRTUAL_FUNCTIONS}
    without = [row["gpu"] for row in rows if row["gpu"] in newer and not row["sriov_totalvfs"]]
    if without:
        message = f"The GPUs {first_few(without)} offer no virtual functions (SR-IOV), which their vGPUs need."
        yield GuestProblem(message, "Turn SR-IOV on in the firmware's settings. If it is on, the GPU has no vGPUs.")
    vendor = [row["gpu"] for row in rows if row["framework"] == "vendor"]
    running = facts["kernel"]["running"] or ""
    if vendor:
        message = (
            f"The vGPUs of {first_few(vendor)} are virtual functions (vendor-specific VFIO), and {_ONLY_MEDIATED}."
        )
        yield GuestProblem(message, _OTHER_HOST)
    elif version(running) >= _FIRST_WITHOUT and not any(row["framework"] for row in rows):
        message = f"The kernel is {running}. From 6.0 on vGPUs may be virtual functions, and {_ONLY_MEDIATED}."
        yield GuestProblem(message, _OTHER_HOST)


def version(release: str) -> tuple[int, ...]:
    """Return the first two numbers of a kernel's release, or an empty tuple if it has none."""
    parts = release.split(".")[:2]
    return tuple(map(int, parts)) if len(parts) == 2 and all(part.isdigit() for part in parts) else ()
