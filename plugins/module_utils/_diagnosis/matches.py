# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""From matches of patterns to sightings that know which operand they are about. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import order
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Certainty, Quote, Sighting, at_most
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Hit, Pattern
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import View

Check = t.Callable[[View], t.Iterator[Sighting]]


def sighting(hit: Hit, certainty: Certainty = "certain", **values: str) -> Sighting:
    """Return where a pattern matched, with its named groups and further values. The operand is that of the pod."""
    line = hit.line
    quote, operand = Quote(line.text, line.source, line.node), order.operand_of(line.object or line.source)
    return Sighting(line.node, line.object, (quote,), at_most(hit, certainty), {**hit.values, **values}, operand)


def of_operands(*patterns: Pattern, certainty: Certainty = "certain") -> Check:
    """Return a check that applies wherever one of the patterns matches, to the operand whose pod the line is about."""

    def check(view: View) -> t.Iterator[Sighting]:
        return (sighting(hit, certainty) for pattern in patterns for hit in view.hits(pattern))

    return check


def fact(text: str, source: str, node: str = "") -> tuple[Quote, ...]:
    """Return a fact as the evidence of a sighting."""
    return (Quote(text, source, node),)
