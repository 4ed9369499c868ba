# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which packages make up a kernel, by those of the kernel that runs, and what is missing of another one. Pure."""

from __future__ import annotations

import dataclasses
import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import boot_entries
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few

LATEST = "latest"
"""The word for the newest kernel of the flavour that runs."""

_FLAVOUR = re.compile(r"-([a-z][\w-]*)$")
_DRIVER_MODULES = ("linux-modules-nvidia-", "linux-objects-nvidia-", "linux-signatures-nvidia-", "kmod-nvidia-")
"""Packages with the driver's modules for one kernel. Without them, the driver would be missing after the reboot."""
SHOWN = 6


@dataclasses.dataclass(frozen=True)
class Names:
    """What a package manager calls the parts of a kernel."""

    image: str
    headers: str
    siblings: tuple[str, ...] = ()
    """The names that the packages of the running kernel have for the wanted one."""


@dataclasses.dataclass(frozen=True)
class Seen:
    """What a host has and could have. ``offered`` and ``installed`` are names of packages with their kernel's release.

    ``releases`` are the kernels that the repositories offer, and ``kernels`` those that can be booted, oldest first.
    """

    running: str
    kernels: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    offered: frozenset[str] = frozenset()
    installed: frozenset[str] = frozenset()
    built_for: frozenset[str] = frozenset()
    """The kernels whose headers are there, from a package or otherwise."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """The kernel that a host is to get: its release, the packages to install, and why it may not get it."""

    release: str
    install: tuple[str, ...] = ()
    headers: str = "missing"
    """``installed``, ``offered`` or ``missing``."""
    refused: str = ""


def flavour_of(release: str) -> str:
    """Return the flavour of a kernel of Debian or Ubuntu: generic of 6.8.0-60-generic. Others have none."""
    found = _FLAVOUR.search(release)
    return found[1] if found else ""


def release_of(wanted: str, seen: Seen) -> str:
    """Return the kernel's release that is asked for, or an empty string if there is none."""
    if wanted != LATEST:
        return wanted
    flavour = flavour_of(seen.running)
    of_flavour = [release for release in (*seen.kernels, *seen.releases) if flavour_of(release) == flavour]
    return boot_entries.newest(of_flavour) or ""


def choose(release: str, names: Names, seen: Seen, headers: str) -> Choice:
    """Return what is to be installed for a kernel, or why it must not be.

    ``headers`` says what has to be true of them: ``installed``, ``offered`` or ``ignored``.
    """
    is_there = release in seen.kernels
    state = _headers(release, names, seen)
    missing = [] if is_there else [names.image]
    missing += [name for name in names.siblings if name in seen.offered and name not in seen.installed]
    missing += [names.headers] if headers == "installed" and state == "offered" else []
    install = tuple(dict.fromkeys(name for name in missing if name not in seen.installed))
    return Choice(release, install, state, _refusal(release, names, seen, headers, state, is_there))


def _headers(release: str, names: Names, seen: Seen) -> str:
    if release in seen.built_for or names.headers in seen.installed:
        return "installed"
    return "offered" if names.headers in seen.offered else "missing"


def _refusal(release: str, names: Names, seen: Seen, headers: str, state: str, is_there: bool) -> str:
    if not is_there and names.image not in seen.offered:
        others = sorted(seen.releases, key=boot_entries.version_key, reverse=True)
        offer = f"They offer {first_few(others, SHOWN)}." if others else "They offer none at all."
        return f"No enabled repository offers the kernel {release} ({names.image}). {offer}"
    if headers != "ignored" and state == "missing":
        return (
            f"No enabled repository offers {names.headers}, the headers of the kernel {release}, without which no "
            "driver can be built for it. Choose a kernel that has them, or a driver with built modules."
        )
    gone = [name for name in names.siblings if name.startswith(_DRIVER_MODULES) and not _has(name, seen)]
    if gone:
        return (
            f"No enabled repository offers {first_few(gone)}, the driver's modules for the kernel {release}. Choose a "
            "kernel that has them, or another driver."
        )
    return ""


def _has(name: str, seen: Seen) -> bool:
    return name in seen.offered or name in seen.installed


def kept(seen: Seen, release: str) -> str | None:
    """Return the kernel that stays as the way back: the one that runs, if it can be booted."""
    return seen.running if seen.running in seen.kernels and seen.running != release else None
