# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the planner of the driver's packages takes and returns."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import driver_parts
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Role = t.Literal["fabric_manager", "nvlsm", "imex", "persistenced", "toolkit"]
"""A companion of the driver."""

_UPSTREAM = re.compile(r"(?:\d+:)?(\d+(?:\.\d+)+)")


def upstream(version: str) -> str:
    """Return the upstream part of a package's version: 580.95.05 of 3:580.95.05-0ubuntu1."""
    match = _UPSTREAM.match(version)
    return match[1] if match else version


def branch_of(version: str) -> str:
    """Return the driver branch of a version: 580 of 580.95.05."""
    return upstream(version).partition(".")[0]


def version_key(version: str) -> tuple[int, ...]:
    """Return what upstream versions are sorted by."""
    return tuple(int(part) for part in re.findall(r"\d+", upstream(version)))


@dataclasses.dataclass(frozen=True)
class Package:
    """A package, installed or offered, with the package manager's full version.

    ``origin`` is nvidia, ubuntu, debian, distribution or unknown. A ``candidate`` is the version that the package
    manager would install by its own policy, which backports and pins are part of.
    """

    name: str
    version: str
    origin: str = "unknown"
    held: bool = False
    candidate: bool = False

    @property
    def upstream(self) -> str:
        """The upstream part of the version."""
        return upstream(self.version)


@dataclasses.dataclass(frozen=True)
class InstalledDriver:
    """The driver that a host has. ``uninstaller`` is the command of NVIDIA's .run installer, if that brought it.

    ``libraries`` says whether its libraries are there, which an installation that was cut off may lack.

    ``origin`` is nvidia, ubuntu, ubuntu-signed, debian, distribution, runfile, container or unknown.
    """

    present: bool = False
    origin: str | None = None
    version: str | None = None
    flavour: str | None = None
    loaded: bool = False
    libraries: bool = True
    uninstaller: str | None = None
    system: str | None = None

    @property
    def described(self) -> str:
        """The driver in words, for messages."""
        whose = {
            "nvidia": "of NVIDIA's repository",
            "ubuntu": "of Ubuntu's archive, built by DKMS",
            "ubuntu-signed": "of Ubuntu's archive with signed modules",
            "debian": "of Debian",
            "distribution": "of the distribution",
            "runfile": "of a .run installer",
            "container": "of a driver container",
        }.get(self.origin or "", "of unknown origin")
        named = f"the driver {self.version or 'of unknown version'} {whose}"
        return f"{named} ({self.system})" if self.system else named


@dataclasses.dataclass(frozen=True)
class Observed:
    """What the planner knows of a host.

    ``owners`` has the packages that own the driver's files. ``kernels`` are those to install modules for, the next one
    last, and ``built_for`` those whose headers are there. ``mok`` says whether the firmware trusts DKMS's key.
    ``unfinished`` are packages whose installation was cut off: their files are there, and their modules are not built.
    """

    driver: InstalledDriver
    installed: tuple[Package, ...] = ()
    offered: tuple[Package, ...] = ()
    owners: tuple[str, ...] = ()
    secure_boot: bool = False
    mok: bool = False
    kernels: tuple[str, ...] = ()
    built_for: tuple[str, ...] = ()
    gpus: tuple[Json, ...] = ()
    pins: t.Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    unfinished: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Return whether a package is installed."""
        return any(package.name == name for package in self.installed)

    def parts(self, modules: t.Iterable[str]) -> list[str]:
        """Return the installed packages that are the driver. ``modules`` are those with its modules.

        The libraries and the modules of an installation that was cut off may be of two versions.
        """
        installed = {package.name: package.version for package in self.installed}
        versions = {installed[name] for name in modules}
        if self.driver.version and (self.driver.present or self.owners):
            versions.add(self.driver.version)
        return driver_parts.parts(installed, self.owners, versions)

    def versions(self, name: str) -> list[Package]:
        """Return the offered versions of a package: the package manager's candidate, then the newest."""
        found = [package for package in self.offered if package.name == name]
        return sorted(found, key=lambda package: (package.candidate, version_key(package.version)), reverse=True)


@dataclasses.dataclass(frozen=True)
class Request:
    """What the user asks for. Empty strings and ``auto`` leave the choice to the planner."""

    state: str = "present"
    origin: str = "auto"
    branch: str = ""
    version: str = ""
    flavour: str = "auto"
    packages: tuple[str, ...] = ()
    fabric: str = "none"
    imex: bool = False
    toolkit: bool = False
    persistence: bool = False
    replace: bool = False

    @property
    def wanted_branch(self) -> str:
        """The branch that is asked for by itself or as part of the version."""
        return self.branch or (branch_of(self.version) if self.version else "")

    @property
    def roles(self) -> list[Role]:
        """The companions that the driver needs on this host."""
        wanted: list[tuple[Role, bool]] = [
            ("fabric_manager", self.fabric in ("nvswitch", "nvlink5")),
            ("nvlsm", self.fabric == "nvlink5"),
            ("imex", self.imex),
            ("persistenced", self.persistence),
            ("toolkit", self.toolkit),
        ]
        return [role for role, needed in wanted if needed]


@dataclasses.dataclass(frozen=True)
class Layout:
    """The names that one origin gives to the packages of one driver branch.

    ``required`` are the driver's own packages, all of one version. ``companions`` has the possible names of each
    companion, in order of preference. ``modules`` are built modules, whose versions are a kernel's. ``extra`` are
    packages that the modules need where they can be had, such as headers.
    """

    origin: str
    branch: str
    flavour: str
    required: tuple[str, ...]
    companions: t.Mapping[Role, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    modules: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    signed: bool = False


@dataclasses.dataclass(frozen=True)
class Transaction:
    """What the package manager is asked to do in one go.

    ``install`` maps names to full versions (an empty string means the candidate), ``pins`` maps files of pins to their
    text or None, ``local`` has package files that are installed from the disk. ``version`` is the driver's, which
    dependencies keep to.
    """

    install: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    remove: tuple[str, ...] = ()
    pins: t.Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    streams: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    version: str = ""

    @property
    def empty(self) -> bool:
        """Whether the packages are already as wanted."""
        return not (self.install or self.remove or self.streams or self.local)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What the package manager would do: names with versions, or its refusal in one line."""

    install: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    remove: tuple[str, ...] = ()
    error: str | None = None


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be done. ``refused`` says why it must not be done."""

    action: str
    transaction: Transaction = dataclasses.field(default_factory=Transaction)
    layout: Layout | None = None
    version: str | None = None
    refused: str | None = None
    messages: tuple[str, ...] = ()
    uninstall: str | None = None
