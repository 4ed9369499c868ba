# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Hosts whose facts have another form than rules know: each is left out by name, and the rest of the fleet stays. Pure.

A rule that meets such facts would be lost for every host, so the hosts are looked at one by one, but only then.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import engine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.engine import Diagnosis
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, Gap
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_WHY = "Its facts have another form than a diagnosis knows, so it was left out. Run gpu_facts on it alone to see them."


def diagnosed(evidence: Evidence, rules: t.Sequence[Rule]) -> tuple[Evidence, Diagnosis]:
    """Apply the rules, and return the evidence that they could read with what they found.

    Raises what odd evidence makes code raise (`engine.ODD`) if it is not that of a host.
    """
    first = _tried(evidence, rules)
    if first and not first.odd:
        return evidence, first
    odd = {name for name in evidence.hosts if _is_odd(_alone(evidence, name), rules)}
    if first and not odd:
        return evidence, first
    whole = _without(evidence, odd)
    return whole, engine.diagnose(whole, rules)


def is_odd(host: t.Any) -> bool:
    """Return whether what a host says lacks the form that all code expects."""
    if not isinstance(host, dict):
        return True
    facts, lines = host.get("facts") or {}, host.get("lines") or []
    gpus = (facts.get("gpus") or []) if isinstance(facts, dict) else None
    parts = (facts, facts.get("node") or {} if isinstance(facts, dict) else None, host.get("state") or {})
    lists = (gpus, host.get("preflight") or [])
    return not (
        all(isinstance(part, dict) for part in parts)
        and all(isinstance(part, list) and all(isinstance(each, dict) for each in part) for part in lists)
        and isinstance(lines, list)
        and all(isinstance(line, str) or (isinstance(line, dict) and "text" in line) for line in lines)
    )


def gap(name: str) -> Gap:
    """Return the gap that a host leaves."""
    return Gap(f"the host {name}", _WHY)


def _tried(evidence: Evidence, rules: t.Sequence[Rule]) -> Diagnosis | None:
    try:
        return engine.diagnose(evidence, rules)
    except engine.ODD:
        return None


def _is_odd(evidence: Evidence, rules: t.Sequence[Rule]) -> bool:
    if any(map(is_odd, evidence.hosts.values())):
        return True
    found = _tried(evidence, rules)
    return found is None or bool(found.odd)


def _alone(evidence: Evidence, name: str) -> Evidence:
    """Return what one host says, as if there were nothing else."""
    said = [line for line in evidence.lines if line.node == name]
    return Evidence(taken=evidence.taken, hosts={name: evidence.hosts[name]}, lines=said)


def _without(evidence: Evidence, odd: t.Collection[str]) -> Evidence:
    hosts: dict[str, Json] = {name: host for name, host in evidence.hosts.items() if name not in odd}
    gaps = [*evidence.gaps, *map(gap, sorted(odd))]
    return dataclasses.replace(evidence, hosts=hosts, gaps=gaps)
