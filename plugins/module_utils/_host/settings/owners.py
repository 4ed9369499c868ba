# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Owners of settings: how an owner is named, how its files begin, and where the records of what it has set are."""

from __future__ import annotations

import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

_RECORDS = "/etc/gpuops"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


def assert_valid(owner: str) -> None:
    """Raise if the name cannot be part of a file name."""
    if not _NAME.fullmatch(owner):
        raise GpuOpsError(
            "owner must be at most 40 lower-case letters, digits, dashes and underscores, and begin with a letter or a "
            "digit.",
            reason="Invalid",
        )


def header(module: str, settings: str) -> str:
    """Return the comment line at the top of every file that a module writes for an owner."""
    return f"# Written by gpuops.nvidia.{module}. Do not edit: change the owner's {settings} in the inventory.\n"


def records(module: str) -> str:
    """Return the folder in which a module records what each owner has set."""
    return f"{_RECORDS}/{module}"
