# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a wait remembers: for how long it has seen the same trouble. The API does not say that.

A condition's lastTransitionTime moves only if its status flips, and a waiting container has no time at all. This file
is pure.
"""

from __future__ import annotations

import dataclasses
import math
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import policy_reasons
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Observation, PodRow

GAP_S = 30.0
"""How long a pod may be out of trouble in between: a container that crashes or is pulled again sometimes runs."""


Troubled = t.Mapping[str, tuple[PodRow, ...]]


class History:
    """Adds to each observation of a wait how long its troubles have lasted."""

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s
        self._errors, self._check_refusal = _Spans(0), _Spans(0)
        self._troubled, self._others = _Spans(GAP_S), _Spans(GAP_S)

    def add_ages(self, observation: Observation, now_s: float) -> Observation:
        """Return the observation with what only a waiter knows. Call this once for each look, in their order."""
        error = policy_reasons.error_condition(observation) or {}
        lasts_s = self._errors.see([(error.get("reason"), error.get("message"))] if error else [], now_s)
        refused_s = self._check_refusal.see(observation.refusals, now_s)
        return dataclasses.replace(
            observation,
            waits=True,
            waited_s=now_s - self._began_s,
            error_lasts_s=max(lasts_s.values(), default=0.0),
            refusals={
                name: dataclasses.replace(refusal, seen_s=refused_s[name])
                for name, refusal in observation.refusals.items()
            },
            troubled=_aged(self._troubled, observation.troubled, now_s),
            others=_aged(self._others, observation.others, now_s),
        )


def _aged(spans: _Spans, troubled: Troubled, now_s: float) -> Troubled:
    """Return the pods in trouble with how long each has been in it."""
    stuck_s = spans.see([(name, row.name, row.trouble) for name, rows in troubled.items() for row in rows], now_s)
    return {
        name: tuple(dataclasses.replace(row, stuck_s=stuck_s[name, row.name, row.trouble]) for row in rows)
        for name, rows in troubled.items()
    }


class _Spans:
    """Knows since when each of some things has been seen, with gaps of at most ``gap_s``."""

    def __init__(self, gap_s: float) -> None:
        self._gap_s = gap_s
        self._looked_s = -math.inf
        self._spans: dict[t.Hashable, tuple[float, float]] = {}

    def see(self, things: t.Iterable[t.Hashable], now_s: float) -> dict[t.Any, float]:
        """Return for how long each of the things that are there now has been seen."""
        before = {thing: span for thing, span in self._spans.items() if self._lasts(span[1], now_s)}
        seen = {thing: (before.get(thing, (now_s, now_s))[0], now_s) for thing in things}
        self._spans, self._looked_s = {**before, **seen}, now_s
        return {thing: now_s - first_s for thing, (first_s, dummy) in seen.items()}

    def _lasts(self, last_s: float, now_s: float) -> bool:
        """Return whether something that was last seen then has not ended since."""
        return last_s == self._looked_s or now_s - last_s <= self._gap_s
