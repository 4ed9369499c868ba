# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What is proved: the facts of a host, what it had before, and what it should have."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Outcome = t.Literal["failed", "unknown", "passed", "skipped"]
PROOF_OUTCOMES: tuple[Outcome, ...] = ("failed", "unknown", "passed", "skipped")


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome of one check. What is unknown is not proved."""

    check: str
    result: Outcome
    message: str
    remedy: str = ""


@dataclasses.dataclass
class Findings:
    """What a check has found about the GPUs. Each entry names the GPU and says what is wrong, or not known."""

    failed: list[str] = dataclasses.field(default_factory=list)
    unknown: list[str] = dataclasses.field(default_factory=list)

    def verdicts(self, check: str, passed: str, remedy: str = "", unknown_remedy: str = "") -> list[Verdict]:
        """Return one verdict for what has failed and one for what is unknown, or that the check has passed."""
        found = []
        if self.failed:
            found.append(Verdict(check, "failed", f"{first_few(self.failed)}.", remedy))
        if self.unknown:
            found.append(Verdict(check, "unknown", f"{first_few(self.unknown)}.", unknown_remedy))
        return found or [Verdict(check, "passed", passed)]


@dataclasses.dataclass(frozen=True)
class Subject:
    """A host. ``before`` is the record of an earlier proof, or empty, and ``expected`` what the user states.

    ``workload_kind`` says whom its GPUs serve.
    """

    facts: Json
    driver: str
    before: Json
    expected: Json
    workload_kind: str = "container"

    @property
    def has_driver(self) -> bool:
        """Whether the host itself must have a driver now, so that the driver can be asked about the GPUs."""
        return self.driver == "host"

    @functools.cached_property
    def gpus(self) -> list[Json]:
        """The GPUs that count: all but those that the user has excluded."""
        return [gpu for gpu in self.facts["gpus"] if not self.is_excluded(gpu)]

    @functools.cached_property
    def former_gpus(self) -> list[Json]:
        """The GPUs that the host had before, without the excluded ones."""
        return [gpu for gpu in self.before.get("gpus") or [] if not self.is_excluded(gpu)]

    @functools.cached_property
    def excluded(self) -> int:
        """The number of excluded GPUs that the host has or had."""
        known = {gpu["pci_address"]: gpu for gpu in [*(self.before.get("gpus") or []), *self.facts["gpus"]]}
        return sum(map(self.is_excluded, known.values()))

    def is_excluded(self, gpu: Json) -> bool:
        """Return whether the user has excluded a GPU, by its address, UUID or serial number."""
        names = {str(name).lower() for name in self.expected.get("exclude") or []}
        own = (gpu.get(field) for field in ("pci_address", "uuid", "serial"))
        return any(str(name).lower() in names for name in own if name)

    def former(self, gpu: Json) -> Json:
        """Return what is recorded of a GPU in the same place, or an empty object."""
        places = (former for former in self.former_gpus if former["pci_address"] == gpu["pci_address"])
        return next(places, {})

    @property
    def fabric(self) -> str:
        """The kind of fabric that connects the GPUs."""
        kind: str = self.facts["fabric"]["kind"]
        return kind

    def why_unknown(self, field: str) -> str:
        """Return why a fact is null."""
        source = self.facts.get("sources", {}).get(field) or {}
        return str(source.get("reason") or "the driver does not say").rstrip(".")


def name_of(gpu: Json) -> str:
    """Return how messages call a GPU."""
    return f"GPU {gpu['pci_address']}"


def record(facts: Json) -> Json:
    """Return what a later proof compares with."""
    return {
        "driver": {field: facts["driver"].get(field) for field in ("loaded", "version", "origin")},
        "gpus": [_recorded(gpu) for gpu in facts["gpus"]],
        "nvswitches": len(facts["nvswitches"] or []),
    }


def _recorded(gpu: Json) -> Json:
    pcie, nvlink = gpu.get("pcie") or {}, gpu.get("nvlink") or {}
    return {
        **{field: gpu.get(field) for field in ("pci_address", "device_id", "uuid", "serial")},
        "width": pcie.get("width"),
        "generation_host": pcie.get("generation_host"),
        "links": nvlink.get("active"),
    }
