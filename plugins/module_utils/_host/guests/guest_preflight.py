# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Checks of a host whose GPUs are for virtual machines. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._findings import CheckFinding, Level
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import other_drivers
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.own_driver import own_driver
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.guests import guest_problems
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.guests.guest_problems import GuestProblem
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_VFIO_MODULES = ("vfio_pci", "vfio_iommu_type1")


def _findings(check: str, problems: t.Iterable[GuestProblem], ok: str) -> t.Iterator[CheckFinding]:
    found = [
        CheckFinding(check, "warning" if each.settled_by_roles else "failure", each.message, each.remedy)
        for each in problems
    ]
    yield from found or [CheckFinding(check, "ok", ok)]


def check_iommu(facts: Json) -> t.Iterator[CheckFinding]:
    """Find an IOMMU that is off in the firmware or in the kernel."""
    yield from _findings("host_iommu", guest_problems.iommu_problems(facts), _in_force(facts))


def _in_force(facts: Json) -> str:
    bypassed = facts["iommu"]["mode"] == "passthrough"
    return f"The IOMMU is in force{', and the drivers of the host bypass it' if bypassed else ''}."


def check_groups(facts: Json) -> t.Iterator[CheckFinding]:
    """Find IOMMU groups whose devices cannot go to different guests."""
    name = "host_iommu_groups"
    if not facts["iommu"]["enabled"]:
        remedy = "Turn the IOMMU on first."
        yield CheckFinding(name, "warning", "Which devices share a group is unknown while the IOMMU is off.", remedy)
        return
    yield from _findings(name, guest_problems.group_problems(facts), "Each GPU has an IOMMU group to itself.")


def check_vfio(facts: Json) -> t.Iterator[CheckFinding]:
    """Find a kernel without the modules of vfio."""
    name, kernel, states = "host_vfio", facts["kernel"]["running"], facts["passthrough"]["modules"]
    missing = [module for module in _VFIO_MODULES if states[module] == "missing"]
    unknown = [module for module in _VFIO_MODULES if states[module] is None]
    if missing:
        message = f"The kernel {kernel} has no module {' and no '.join(missing)}."
        remedy = "Install linux-modules-extra (Ubuntu) or kernel-modules (Red Hat) for this kernel."
        yield CheckFinding(name, "failure", message, remedy)
    elif unknown:
        message = f"Whether the kernel {kernel} has {' and '.join(unknown)} is unknown: its list of modules is missing."
        yield CheckFinding(name, "warning", message, "Run depmod.")
    else:
        yield from _findings(name, guest_problems.wrong_variants(facts), "The kernel has the modules of vfio.")


def check_vgpu(facts: Json) -> t.Iterator[CheckFinding]:
    """Find a host on which vGPUs would not come about, or would not be seen."""
    ok = "The GPUs and the kernel can have vGPUs that the operator sees."
    yield from _findings("host_vgpu", guest_problems.vgpu_problems(facts), ok)


def check_machine(facts: Json) -> t.Iterator[CheckFinding]:
    """Find a host that cannot start virtual machines, and give hints for their memory."""
    name, machine, found = "host_virtualization", facts["passthrough"], []
    if machine["guest"]:
        message = "The host is a virtual machine, and NVIDIA supports GPUs for virtual machines on bare metal only."
        found.append(CheckFinding(name, "warning", message, "Use a host of bare metal."))
    if not machine["kvm"]:
        message = "The host has no /dev/kvm, without which KubeVirt starts no virtual machines."
        remedy = "Turn VT-x (Intel) or SVM (AMD) on in the firmware's settings, and load kvm_intel or kvm_amd."
        found.append(CheckFinding(name, "warning", message, remedy))
    sizes = (facts.get("hugepages") or {}).get("sizes")
    if sizes is not None and not found and not any(size["total"] for size in sizes):
        message = "The host can start virtual machines, and has no huge pages."
        hint = "Large guests gain from huge pages (host_prep_hugepages) and from kubelet's CPU manager (static)."
        found.append(CheckFinding(name, "ok", message, hint))
    yield from found or [CheckFinding(name, "ok", "The host can start virtual machines.")]


def check_driver(facts: Json, kind: str, wants_own: bool, may_remove: bool) -> t.Iterator[CheckFinding]:
    """Find drivers that hold what vfio or the vGPU manager needs. ``wants_own`` is gpuops_driver: host."""
    own = _contradiction(kind) if wants_own else _own_driver(facts, kind, may_remove)
    found = [*own, *_kernels_own(facts)]
    if kind == "vm-passthrough":
        found += _other_functions(facts)
    yield from found or [CheckFinding("host_driver", "ok", "No driver of the host is in the way of virtual machines.")]


def _contradiction(kind: str) -> t.Iterator[CheckFinding]:
    message = f"A driver on the host is declared, and its GPUs are for virtual machines ({kind})."
    remedy = "Set gpuops_driver to container: the operator's pods bring what the kind needs."
    yield CheckFinding("host_driver", "failure", message, remedy)


def _own_driver(facts: Json, kind: str, may_remove: bool) -> t.Iterator[CheckFinding]:
    parts = own_driver(facts)
    # The operator uses a vGPU manager of the host, which shows by its module for guests.
    manager = kind == "vm-vgpu" and facts["passthrough"]["modules"]["nvidia_vgpu_vfio"] in ("loaded", "builtin")
    if not parts or manager:
        return
    level: Level = "warning" if may_remove else "failure"
    message = f"The host has {first_few(parts)}, and while its driver works, the operator leaves the GPUs with it."
    remedy = (
        "The role host_change removes it, as host_driver_remove permits."
        if may_remove
        else "Let the run remove it (gpuops_driver: container and host_driver_remove: true)."
    )
    yield CheckFinding("host_driver", level, message, remedy)


def _kernels_own(facts: Json) -> t.Iterator[CheckFinding]:
    for name in other_drivers.loaded(facts["nouveau"]):
        remedy = "The role host_prep blacklists it for the next boot."
        yield CheckFinding("host_driver", "warning", f"{name} is loaded, and can hold the GPUs.", remedy)


def _other_functions(facts: Json) -> t.Iterator[CheckFinding]:
    """Find functions beside a GPU that keep their driver.

    NVIDIA's vfio manager takes along one of them, and only that of a GPU with a display:
    https://github.com/NVIDIA/k8s-driver-manager/blob/bd62ca7d/internal/nvpassthrough/nvpassthrough.go
    """
    functions = guest_problems.held(facts, of_gpus=False)
    if functions:
        ids = ",".join(guest_problems.function_ids(facts))
        message = f"Other drivers hold functions of the GPUs: {first_few(functions)}."
        remedy = (
            "The operator's vfio manager takes at most one function along with a GPU. Give vfio-pci the others at boot "
            f"(host_prep_modules_options: {{vfio-pci: {{ids: '{ids}'}}}})."
        )
        yield CheckFinding("host_driver", "warning", message, remedy)
