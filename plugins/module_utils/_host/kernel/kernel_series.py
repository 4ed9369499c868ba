# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Flavour and series of a kernel, and the newest kernel that a host follows. Pure.

A host follows what its metapackage resolves to, as the next upgrade of its packages would. A host without one stays in
the series that it runs: security updates come in a series, and a driver is known to build for it.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import boot_entries

# Debian and Ubuntu have the flavour at the end, the Red Hat family behind a plus, in the release or in the system.
_FLAVOURS = (
    re.compile(r"(?<=\d)(?:\+\w+)?-([a-z][\w-]*)$"),
    re.compile(r"\+(\w+)$"),
    re.compile(r"\.(rt)\d+\."),
    re.compile(r"\.el\d+(uek)\b"),
    re.compile(r"\.el\d+(?:_\d+)?\.(elrepo)\b"),
)
_SERIES = re.compile(r"\d+\.\d+")
# The packages with a kernel to boot. Without a dash, kernel6.12 is Amazon Linux's, whose kernel has no part core.
_VARIANT = r"kernel(?:\d+\.\d+)?(?:-(?P<variant>64k|rt|uek64k|uek|ml|lt))?"
_RED_HAT_IMAGE = re.compile(rf"{_VARIANT}(?:-core)?")
_PLUS = {"64k": "+64k", "uek64k": "+64k", "rt": "+rt"}


def flavour_of(release: str) -> str:
    """Return a kernel's flavour: generic of 6.8.0-60-generic, 64k of 5.14.0-427.el9.aarch64+64k, or an empty string."""
    found = (pattern.search(release) for pattern in _FLAVOURS)
    return next((match[1] for match in found if match), "")


def series_of(release: str) -> str:
    """Return a kernel's series: 6.8 of 6.8.0-60-generic."""
    match = _SERIES.match(release)
    return match[0] if match else ""


def newest_followed(running: str, followed: t.Sequence[str], others: t.Sequence[str]) -> str:
    """Return the newest kernel that a host follows, or an empty string if there is none.

    ``followed`` are the kernels that its metapackages resolve to, and ``others`` those that it has or could have.
    """
    flavour, series = flavour_of(running), series_of(running)
    mine = [release for release in followed if flavour_of(release) == flavour]
    same = [release for release in mine if series_of(release) == series]
    later = [release for release in mine if _is_newer(release, running)]
    chosen = boot_entries.newest(same or later)
    if chosen is None:
        alike = [each for each in others if flavour_of(each) == flavour and series_of(each) == series]
        return boot_entries.newest(alike) or ""
    is_older = not _is_newer(chosen, running)
    return running if is_older and running in others else chosen


def _is_newer(release: str, than: str) -> bool:
    return boot_entries.version_key(release) > boot_entries.version_key(than)


def red_hat_release(package: str) -> tuple[str, str] | None:
    """Return name and kernel of a package that has a kernel to boot, named as name-version-release.arch, or None."""
    name, dash, version = _split(package)
    match = _RED_HAT_IMAGE.fullmatch(name)
    if not dash or not match:
        return None
    plus = _PLUS.get(match["variant"] or "", "")
    return name, version if plus == "+rt" and ".rt" in version else version + plus


def red_hat_variant(name: str) -> str:
    """Return the variant that a package's name begins with: 64k of kernel-64k-modules, or an empty string."""
    match = re.match(rf"{_VARIANT}(?=-|$)", name)
    return (match["variant"] if match else "") or ""


def _split(package: str) -> tuple[str, str, str]:
    """Split name and version, which are before and after the last dash but one."""
    name, dash, release = package.rpartition("-")
    name, dash, version = name.rpartition("-")
    return name, dash, f"{version}-{release}"
