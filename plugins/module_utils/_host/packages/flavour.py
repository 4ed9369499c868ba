# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Open or proprietary kernel modules, by the generations of a host's GPUs and the driver's branch."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._compatibility import (
    FIRST_FOR_BLACKWELL,
    LAST_FOR_OLD_GPUS,
    ONLY_OPEN_MODULES,
    ONLY_PROPRIETARY_MODULES,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_GRACE = ("10de:2342", "10de:2348")


class FlavourChoice(t.NamedTuple):
    """The flavour, or why no flavour supports all GPUs."""

    flavour: str = ""
    failure: str = ""


def choose(gpus: t.Sequence[Json], wanted: str = "auto", branch: str = "") -> FlavourChoice:
    """Return the flavour for a driver branch. Without a branch, only the generations decide."""
    old = _names(gpus, lambda gpu: gpu["architecture"] in ONLY_PROPRIETARY_MODULES)
    new = _names(gpus, _needs_open_modules)
    failure = _by_generation(gpus, old, new) or _by_branch(gpus, old, branch) or _by_wish(wanted, old, new)
    if failure:
        return FlavourChoice(failure=failure)
    return FlavourChoice(("proprietary" if old else "open") if wanted == "auto" else wanted)


def _by_generation(gpus: t.Sequence[Json], old: str, new: str) -> str:
    unsupported = _names(gpus, lambda gpu: gpu["architecture"] == "Kepler")
    if unsupported:
        return f"No supported driver works with {unsupported}."
    if old and new:
        return f"{old} needs the proprietary modules and {new} the open ones. A host can load only one flavour."
    return ""


def _by_branch(gpus: t.Sequence[Json], old: str, branch: str) -> str:
    if not branch.isdecimal():
        return ""
    blackwell = _names(gpus, lambda gpu: gpu["architecture"] == "Blackwell")
    if old and int(branch) > LAST_FOR_OLD_GPUS:
        return f"The driver branch {branch} does not support {old}. {LAST_FOR_OLD_GPUS} is the last branch that does."
    if blackwell and int(branch) < FIRST_FOR_BLACKWELL:
        return f"The driver branch {branch} does not support {blackwell}. Use {FIRST_FOR_BLACKWELL} or a newer branch."
    return ""


def _by_wish(wanted: str, old: str, new: str) -> str:
    if wanted == "open" and old:
        return f"The open modules do not support {old}. Use the proprietary modules."
    if wanted == "proprietary" and new:
        return f"The proprietary modules do not support {new}. Use the open modules."
    return ""


def _needs_open_modules(gpu: Json) -> bool:
    return gpu["architecture"] in ONLY_OPEN_MODULES or gpu["device_id"] in _GRACE


def _names(gpus: t.Sequence[Json], test: t.Callable[[Json], bool]) -> str:
    return ", ".join(sorted({str(gpu["name"] or gpu["device_id"]) for gpu in gpus if test(gpu)}))
