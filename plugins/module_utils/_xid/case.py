# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What happened to a GPU or an NVSwitch, and the one thing to do about it."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.advice import Family, Outcome
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.reports import Report

Certainty = t.Literal["certain", "likely", "possible"]


@dataclasses.dataclass(frozen=True)
class Case:
    """What happened to a GPU or an NVSwitch, and what to do about it."""

    machine: str
    gpu: str
    kind: str
    code: int
    """The error that decides. 154 stands for an order of the driver whose reason is not in the log."""
    family: Family
    outcome: Outcome
    why: str
    source: str
    """Where the rule is published."""
    certainty: Certainty
    reports: tuple[Report, ...]
    """All errors of the case. Their lines are the evidence."""
    bursts: int = 1
    """How often it happened."""

    @property
    def name(self) -> str:
        """Return the error that decides, and the GPU, in a few words."""
        return f"{'Xid' if self.kind == 'xid' else 'SXid'} {self.code} of {self.gpu}"

    @property
    def codes(self) -> tuple[int, ...]:
        """Return the codes of all of its errors, without repetitions."""
        return tuple(dict.fromkeys(report.event.code for report in self.reports))
