# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Where an installed driver comes from: a repository, NVIDIA's .run file or a driver container."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.software import InstalledPackage
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


def origin(driver: Json, packages: t.Mapping[str, InstalledPackage] | None) -> str | None:
    """Return the driver's origin, or None if there is no driver or its origin cannot be known.

    ``packages`` are the installed packages of a driver, or None if the package manager was not asked.
    """
    if driver["containerised"]:
        return "container"
    if not any(driver[part] for part in ("loaded", "userspace_version", "module_installed")):
        return None
    version, known = driver["userspace_version"], packages or {}
    current = {name: package for name, package in known.items() if package.version == version}
    # The installer of a .run file writes over the files of packages, and leaves the packages.
    if driver["uninstaller"] and not current:
        return "runfile"
    return None if packages is None else _of_packages(known, current)


def _of_packages(packages: t.Mapping[str, InstalledPackage], current: t.Mapping[str, InstalledPackage]) -> str:
    if any(name.startswith(_UBUNTU_SIGNED) for name in packages):
        return "ubuntu-signed"
    return _by_maker([package.maker.lower() for package in (current or packages).values()])


def _by_maker(makers: t.Sequence[str]) -> str:
    for word, found in _MAKERS:
        if any(word in maker for maker in makers):
            return found
    return "distribution" if makers else "unknown"
