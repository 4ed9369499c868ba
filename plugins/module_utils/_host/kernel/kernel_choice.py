# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which packages make up a kernel, by those of the kernel that runs, and what is missing of another one. Pure."""

from __future__ import annotations

import dataclasses

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot import boot_entries
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.kernel import kernel_series
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few

LATEST = "latest"
"""The word for the newest kernel that the host follows."""

_DRIVER_MODULES = ("linux-modules-nvidia-", "linux-objects-nvidia-", "linux-signatures-nvidia-", "kmod-nvidia-")
"""Packages with the driver's modules for one kernel. Without them, the driver would be missing after the reboot."""
SHOWN = 6


@dataclasses.dataclass(frozen=True)
class KernelNames:
    """What a package manager calls the parts of a kernel."""

    image: str
    headers: str
    siblings: tuple[str, ...] = ()
    """The names that the packages of the running kernel have for the wanted one."""


@dataclasses.dataclass(frozen=True)
class Seen:
    """What a host has and could have. ``offered`` and ``installed`` are names of packages with their kernel's release.

    ``releases`` are the kernels that the repositories offer, ``kernels`` those that can be booted, oldest first, and
    ``followed`` those that the installed metapackages resolve to by the package manager's own policy.
    """

    running: str
    kernels: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    offered: frozenset[str] = frozenset()
    installed: frozenset[str] = frozenset()
    built_for: frozenset[str] = frozenset()
    """The kernels whose headers are there, from a package or otherwise."""
    followed: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class KernelChoice:
    """The kernel that a host is to get: its release, the packages to install, and why it may not get it."""

    release: str
    install: tuple[str, ...] = ()
    headers: str = "missing"
    """``installed``, ``offered`` or ``missing``."""
    refused: str = ""


def release_of(wanted: str, seen: Seen) -> str:
    """Return the kernel's release that is asked for, or an empty string."""
    if wanted != LATEST:
        return wanted
    return kernel_series.newest_followed(seen.running, seen.followed, (*seen.kernels, *seen.releases))


def nothing_fits(seen: Seen) -> str:
    """Return why no kernel is the latest one."""
    series, flavour = kernel_series.series_of(seen.running), kernel_series.flavour_of(seen.running)
    kind = f"the series {series}" + (f" and the flavour {flavour}" if flavour else "")
    return (
        f"The host runs {seen.running}, and no kernel of {kind} is installed or offered. {_offer(seen)} "
        "Name the one to change to."
    )


def choose(release: str, names: KernelNames, seen: Seen, headers: str) -> KernelChoice:
    """Return what is to be installed for a kernel, or why it must not be.

    ``headers`` says what has to be true of them: ``installed``, ``offered`` or ``ignored``.
    """
    is_there = release in seen.kernels
    state = _headers(release, names, seen)
    missing = [] if is_there else [names.image]
    missing += [name for name in names.siblings if name in seen.offered and name not in seen.installed]
    missing += [names.headers] if headers == "installed" and state == "offered" else []
    install = tuple(dict.fromkeys(name for name in missing if name not in seen.installed))
    return KernelChoice(release, install, state, _refusal(release, names, seen, headers, state, is_there))


def _headers(release: str, names: KernelNames, seen: Seen) -> str:
    if release in seen.built_for or names.headers in seen.installed:
        return "installed"
    return "offered" if names.headers in seen.offered else "missing"


def _refusal(release: str, names: KernelNames, seen: Seen, headers: str, state: str, is_there: bool) -> str:
    if not is_there and names.image not in seen.offered:
        return f"No enabled repository offers the kernel {release} ({names.image}). {_offer(seen)}"
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


def _offer(seen: Seen) -> str:
    others = sorted(set(seen.releases), key=boot_entries.version_key, reverse=True)
    if not others:
        return "The repositories offer no kernel at all."
    return f"The repositories offer {first_few(others, SHOWN)}."


def _has(name: str, seen: Seen) -> bool:
    return name in seen.offered or name in seen.installed


def kept(seen: Seen, release: str) -> str | None:
    """Return the kernel that stays as the way back: the one that runs, if it can be booted."""
    return seen.running if seen.running in seen.kernels and seen.running != release else None
