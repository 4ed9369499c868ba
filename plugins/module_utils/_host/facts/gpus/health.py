# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The driver's verdicts on a GPU, in the same words from NVML's numbers and from nvidia-smi's texts."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

# What nvidia-smi says instead of NVML's names.
_ACTIONS_IN_TEXT = {"RESET": "GPU_RESET", "REBOOT": "NODE_REBOOT"}

_SUMMARIES = {1: "Healthy", 2: "Unhealthy", 3: "Limited Capacity"}
# For each problem: its name, its element in nvidia-smi's report, and its place in NVML's mask.
_PROBLEMS = (
    ("degraded bandwidth", "bandwidth", 0),
    ("route recovery in progress", "route_recovery_in_progress", 2),
    ("unhealthy route", "route_unhealthy", 4),
    ("access timeout recovery", "access_timeout_recovery", 6),
)
# In the mask, 2 means no, and 0 that the driver does not know.
_YES = 1
_CONFIGURATION_SHIFT, _CONFIGURATION_NONE = 8, 1
_CONFIGURATIONS = (
    "system GUID",
    "chassis serial number",
    "no partition",
    "insufficient NVLinks",
    "incompatible GPU firmware",
    "invalid location",
    "invalid GPU state",
)


def recovery_action_of_text(text: str | None) -> str | None:
    """Return NVML's name for nvidia-smi's text, in which None means that there is nothing to do."""
    if text is None:
        return None
    name = text.upper().replace(" ", "_")
    return _ACTIONS_IN_TEXT.get(name, name)


def of_mask(mask: int, summary: int = 0) -> Json:
    """Return the health of a GPU's fabric from NVML's mask and summary."""
    values = {name: mask >> shift & 3 for name, dummy, shift in _PROBLEMS}
    problems = [name for name, value in values.items() if value == _YES]
    configuration = mask >> _CONFIGURATION_SHIFT & 0xF
    if configuration > _CONFIGURATION_NONE:
        names = dict(enumerate(_CONFIGURATIONS, start=_CONFIGURATION_NONE + 1))
        problems.append(f"incorrect configuration ({names.get(configuration, configuration)})")
    return _verdict(_SUMMARIES.get(summary), problems, configuration > 0 or any(values.values()))


def of_texts(read: t.Callable[[str], str | None]) -> Json:
    """Return the health of a GPU's fabric from nvidia-smi's report. ``read`` returns an element's text."""
    texts = {name: read(element) for name, element, dummy in _PROBLEMS}
    problems = [name for name, text in texts.items() if text in ("True", "Degraded")]
    configuration = read("incorrect_configuration")
    if configuration not in (None, "None"):
        problems.append(f"incorrect configuration ({configuration})")
    return _verdict(read("summary"), problems, configuration is not None or any(texts.values()))


def _verdict(summary: str | None, problems: list[str], is_known: bool) -> Json:
    """Return the driver's own summary. Drivers before 575 leave it out, so that their answers decide."""
    if summary is None and is_known:
        summary = "Unhealthy" if problems else "Healthy"
    return {"health": summary, "problems": problems}
