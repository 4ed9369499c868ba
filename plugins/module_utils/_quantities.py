# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Kubernetes quantities such as ``80Gi``, ``81559Mi`` and ``1.5e9``.

Source: k8s.io/apimachinery v0.36.3, ``pkg/api/resource/quantity.go``.
"""

from __future__ import annotations

import functools
import re
import typing as t
from fractions import Fraction

_FORM = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE])|[eE]([+-]?\d{1,3}))?")
_BINARY = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL = {letter: Fraction(10) ** power for letter, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18))}
_FACTORS: t.Mapping[str, int | Fraction] = {**_BINARY, **_DECIMAL}


def parsed(value: object) -> Fraction | None:
    """Return the number that a quantity means, or None if a text or a number is no quantity."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return _of_text(str(value).strip())


@functools.lru_cache(maxsize=1024)
def _of_text(text: str) -> Fraction | None:
    """Return the number that a text means. A fleet has few different ones: one for all GPUs of a model."""
    found = _FORM.fullmatch(text)
    if not found:
        return None
    number, suffix, exponent = found.groups()
    return Fraction(number) * _FACTORS.get(suffix or "", 1) * Fraction(10) ** int(exponent or 0)
