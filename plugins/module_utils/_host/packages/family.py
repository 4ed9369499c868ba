# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The package managers behind one interface: apt in apt.py, dnf in dnf.py. The planner sees only what they return."""

from __future__ import annotations

import abc
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import (
    Layout,
    Observed,
    Outcome,
    Package,
    Request,
    Transaction,
)

KEPT = "/var/cache/gpuops/packages"
"""Copies of the former packages, for the way back."""


class Family(abc.ABC):
    """A package manager, and the names that its repositories give to the parts of the driver."""

    @abc.abstractmethod
    def refresh(self) -> None:
        """Bring the lists of packages up to date. Raise a GpuOpsError if that is impossible."""

    @abc.abstractmethod
    def installed(self) -> list[Package]:
        """Return the installed packages of the driver, and those of kernels and their headers."""

    @abc.abstractmethod
    def offered(self) -> list[Package]:
        """Return every version of the driver's packages, and of kernel headers, that the repositories offer."""

    @abc.abstractmethod
    def owners(self, paths: t.Sequence[str]) -> dict[str, str | None]:
        """Return the package that owns each file, or None."""

    @abc.abstractmethod
    def recognise(self, installed: t.Sequence[Package], owners: t.Collection[str]) -> tuple[str | None, str | None]:
        """Return the origin and the flavour of the driver that packages have installed, None where they have not."""

    @abc.abstractmethod
    def layouts(self, request: Request, observed: Observed, branch: str, flavour: str) -> list[Layout]:
        """Return the layouts of a branch, in order of preference."""

    @abc.abstractmethod
    def removal(self, observed: Observed) -> list[str]:
        """Return the installed packages that a removal of the driver removes."""

    @abc.abstractmethod
    def pins(self, request: Request, version: str | None) -> dict[str, str | None]:
        """Return the files that keep what the request asks for, with their text, or None if there is to be no file."""

    @abc.abstractmethod
    def simulate(self, transaction: Transaction) -> Outcome:
        """Ask the package manager what it would do, without doing it."""

    @abc.abstractmethod
    def keep(self, packages: t.Mapping[str, str]) -> list[str]:
        """Keep copies of packages for the way back. Return those that could not be had, as name=version."""

    @abc.abstractmethod
    def kept(self, packages: t.Mapping[str, str]) -> dict[str, str]:
        """Return the kept copies of packages: the path of each name."""

    @abc.abstractmethod
    def apply(self, transaction: Transaction) -> None:
        """Do it. Raise a GpuOpsError, with the package manager's own reason, if it fails."""

    def unfinished(self) -> list[str]:
        """Return the packages of the driver whose installation was cut off."""
        return []

    def dgx_release(self) -> str | None:
        """Return the name of the DGX OS on the host, or None."""
        return None
