# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Proves that a host can take its workloads back: that its GPUs, driver and fabric are whole.

The proof is pure. It judges the facts of gpu_facts, and compares them with those of before and with what is expected.
"""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.guests import guest_problems
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof import gpu_checks, guest_checks, machine_checks
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.proof.subject import (
    PROOF_OUTCOMES,
    Subject,
    Verdict,
    record,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_NEEDED = ("gpus", "nvswitches", "fabric", "driver")

CHECKS: dict[str, t.Callable[[Subject], list[Verdict]]] = {
    "proof_driver": machine_checks.check_driver,
    "proof_gpus": machine_checks.check_gpus,
    "proof_nvswitches": machine_checks.check_nvswitches,
    "proof_memory": gpu_checks.check_memory,
    "proof_pcie": gpu_checks.check_pcie,
    "proof_nvlink": gpu_checks.check_nvlink,
    "proof_fabric": gpu_checks.check_fabric,
    "proof_persistence": gpu_checks.check_persistence,
    "proof_recovery": gpu_checks.check_recovery,
    "proof_errors": machine_checks.check_errors,
    "proof_iommu": guest_checks.check_iommu,
    "proof_iommu_groups": guest_checks.check_groups,
    "proof_binding": guest_checks.check_binding,
    "proof_vgpus": guest_checks.check_vgpus,
}
_GUESTS = ("proof_iommu", "proof_iommu_groups")
_FOR_GUESTS = {
    "container": (),
    "vm-passthrough": (*_GUESTS, "proof_binding"),
    "vm-vgpu": (*_GUESTS, "proof_vgpus"),
}
"""The checks that a kind of workload has beyond those of all kinds."""

_WITHOUT_DRIVER = ("proof_gpus", "proof_nvswitches", "proof_errors")
_NO_DRIVER = {
    "container": "The driver container loads the driver when the node is back.",
    "none": "The host should have no driver.",
}


def prove(options: t.Mapping[str, t.Any]) -> Json:
    """Return the module's result."""
    subject = _subject(options)
    verdicts = run_checks(subject, options["skip"])
    counts = collections.Counter(verdict.result for verdict in verdicts)
    return {
        "proved": not (counts["failed"] or counts["unknown"]),
        "reason": reason(verdicts),
        "findings": [dataclasses.asdict(verdict) for verdict in verdicts],
        "summary": {result: counts[result] for result in PROOF_OUTCOMES},
        "record": record(subject.facts),
    }


def _subject(options: t.Mapping[str, t.Any]) -> Subject:
    facts = options["facts"]
    missing = [name for name in _NEEDED if name not in facts]
    if missing:
        raise GpuOpsError(
            f"The facts lack {', '.join(missing)}. "
            "Gather the subsets min, gpus, services and xid of gpuops.nvidia.gpu_facts."
        )
    guest_problems.assert_gathered(facts, options["workload_kind"])
    expected = {name: value for name, value in (options["expected"] or {}).items() if value is not None}
    return Subject(facts, options["driver"], options["before"] or {}, expected, options["workload_kind"])


def run_checks(subject: Subject, skip: t.Collection[str] = ()) -> list[Verdict]:
    """Run every check, and return what failed first."""
    verdicts: list[Verdict] = []
    for_guests = _FOR_GUESTS[subject.workload_kind]
    others = {name for names in _FOR_GUESTS.values() for name in names if name not in for_guests}
    for name, check in CHECKS.items():
        if name in others:
            continue
        if name in skip:
            verdicts.append(Verdict(name, "skipped", "The check is left out by skip."))
        elif not subject.has_driver and name not in (*_WITHOUT_DRIVER, *for_guests):
            verdicts.append(Verdict(name, "skipped", _NO_DRIVER[subject.driver]))
        else:
            verdicts += check(subject)
    return sorted(verdicts, key=lambda verdict: PROOF_OUTCOMES.index(verdict.result))


def reason(verdicts: t.Iterable[Verdict]) -> str:
    """Return why the host is not proved: what failed, or else what is unknown, with its remedy."""
    wrong = [verdict for verdict in verdicts if verdict.result in ("failed", "unknown")]
    if not wrong:
        return ""
    others = f" {len(wrong) - 1} more findings are in the report." if len(wrong) > 1 else ""
    return f"{wrong[0].message} {wrong[0].remedy}".strip() + others
