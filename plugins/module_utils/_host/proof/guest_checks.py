# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Checks of a host whose GPUs are for virtual machines. Pure.

The operator's pods bind the GPUs and make the vGPUs, when the node has the label for it. Before that, a host is whole
without them, and ``expected.bound`` says that they must be there now.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.guests import guest_problems
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.guests.guest_problems import GuestProblem
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof.subject import Subject, Verdict
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_LOG = "Read the log of the node's pod nvidia-vfio-manager, and lspci -nnk -d 10de: on the host."
_NOT_YET = "The operator's pods have to be on the node for it, which expected.bound states."


def _verdicts(check: str, problems: t.Iterable[GuestProblem], passed: str) -> list[Verdict]:
    found = [Verdict(check, "failed", each.message, each.remedy) for each in problems]
    return found or [Verdict(check, "passed", passed)]


def check_iommu(subject: Subject) -> list[Verdict]:
    """Prove that the IOMMU is in force: that the kernel has made groups, and has put each GPU into one."""
    problems = guest_problems.iommu_problems(subject.facts)
    return _verdicts("proof_iommu", problems, "The IOMMU is in force, and each GPU is in a group.")


def check_groups(subject: Subject) -> list[Verdict]:
    """Prove that no group has devices that would have to go to different places."""
    check = "proof_iommu_groups"
    if not subject.facts["iommu"]["enabled"]:
        return [Verdict(check, "unknown", "Which devices share a group is unknown while the IOMMU is off.")]
    problems = guest_problems.group_problems(subject.facts)
    return _verdicts(check, problems, "Each GPU has an IOMMU group to itself.")


def check_binding(subject: Subject) -> list[Verdict]:
    """Prove that vfio has every GPU with its functions, or at least that no driver of the host has one."""
    check, facts = "proof_binding", subject.facts
    must = bool(subject.expected.get("bound"))
    if facts["driver"]["containerised"] and not must:
        return [
            Verdict(check, "skipped", f"A driver container has the GPUs until the node's label changes. {_NOT_YET}")
        ]
    rows = [row for row in facts["passthrough"]["devices"] if row["kind"] == "gpu" and not subject.is_excluded(row)]
    if not facts["passthrough"]["devices"]:
        return [Verdict(check, "unknown", "The host shows no GPU that a driver could hold.")]
    wrong = [f"{row['pci_address']} ({row['bound_driver']})" for row in rows if guest_problems.is_foreign(row)]
    free = [row["pci_address"] for row in rows if row["bound_driver"] is None]
    found = list(guest_problems.wrong_variants(facts))
    if wrong:
        found.append(GuestProblem(f"Another driver than vfio holds the GPUs {first_few(wrong)}.", _LOG))
    if must and free:
        found.append(GuestProblem(f"No driver holds the GPUs {first_few(free)}, and vfio should.", _LOG))
    if must:
        found += _functions(facts)
    word = "vfio holds every GPU." if not free else "No driver of the host holds a GPU, and vfio can take them."
    return _verdicts(check, found, word)


def _functions(facts: Json) -> t.Iterator[GuestProblem]:
    functions = guest_problems.held(facts, of_gpus=False)
    if functions:
        ids = ",".join(guest_problems.function_ids(facts))
        message = f"Other drivers hold functions of the GPUs, so no guest gets the GPU: {first_few(functions)}."
        yield GuestProblem(message, f"Give them to vfio-pci at boot (vfio-pci.ids={ids}).")


def check_vgpus(subject: Subject) -> list[Verdict]:
    """Prove that every GPU offers vGPUs as mediated devices, and has its virtual functions on where it needs them."""
    check, rows = "proof_vgpus", subject.facts["passthrough"]["vgpus"]
    if not subject.expected.get("bound"):
        return [Verdict(check, "skipped", f"The vGPU manager offers the vGPUs. {_NOT_YET}")]
    if not rows:
        return [Verdict(check, "unknown", "The host shows no GPU that could have vGPUs.")]
    found = list(guest_problems.vgpu_problems(subject.facts))
    off = [row["gpu"] for row in rows if row["sriov_totalvfs"] and not row["sriov_numvfs"]]
    if off:
        message = f"The virtual functions of the GPUs {first_few(off)} are off."
        found.append(GuestProblem(message, "Read the log of the pod nvidia-vgpu-manager for sriov-manage."))
    without = [row["gpu"] for row in rows if row["gpu"] not in off and not row["types"] and not row["vgpus"]]
    if without:
        message = f"The GPUs {first_few(without)} offer no vGPU types."
        found.append(GuestProblem(message, "Read the log of the pod nvidia-vgpu-manager, and run nvidia-smi vgpu."))
    return _verdicts(check, found, "Every GPU offers vGPUs.")
