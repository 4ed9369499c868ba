# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Where an installed driver comes from: a repository, NVIDIA's .run file or a driver container."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.software import Package
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

OTHER_NAMES = ("akmod-nvidia*", "xorg-x11-drv-nvidia*")
"""Patterns of driver packages that only third parties make, such as RPM Fusion."""

# NVIDIA's RPMs name no vendor. Everybody else's do.
_MAKERS = (
    ("nvidia.com", "nvidia"),
    ("ubuntu.com", "ubuntu"),
    ("canonical.com", "ubuntu"),
    ("debian.org", "debian"),
    ("nvidia corporation", "nvidia"),
    ("(none)", "nvidia"),
)
_UBUNTU_SIGNED = "linux-modules-nvidia-"


def origin(driver: Json, packages: t.Mapping[str, Package] | None) -> str | None:
    """Return the driver's origin, or None if there is no driver or its origin cannot be known.

    ``packages`` are the installed packages of a driver, or None if the package manager was not asked.
    """
    if driver["containerised"]:
        return "container"
    if not any(driver[part] for part in ("loaded", "userspace_version", "module_installed")):
        return None
    known = packages or {}
    current = [name for name, package in known.items() if package.version == driver["userspace_version"]]
    # The installer of a .run file writes over the files of packages, and leaves the packages.
    if driver["uninstaller"] and not current:
        return "runfile"
    if any(name.startswith(_UBUNTU_SIGNED) for name in known):
        return "ubuntu-signed"
    if packages is None:
        return None
    return _by_maker([known[name].maker.lower() for name in current or known])


def _by_maker(makers: t.Sequence[str]) -> str:
    for word, found in _MAKERS:
        if any(word in maker for maker in makers):
            return found
    return "distribution" if makers else "unknown"
