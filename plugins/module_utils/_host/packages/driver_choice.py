# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Choose the driver of a host: the first layout of packages that its repositories offer as a whole."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages import flavour as flavours
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import (
    Layout,
    Observed,
    Package,
    Request,
    branch_of,
    version_key,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few

DEFAULT_BRANCH = "580"
"""The default branch for a host without a driver: NVIDIA's branch with long-term support."""

_OLDEST, _NEWEST = 300, 2000


class PackageNames(t.Protocol):
    """The names of packages: the part of a Family that the planner needs."""

    def layouts(self, request: Request, observed: Observed, branch: str, flavour: str) -> list[Layout]:
        """Return the layouts of a branch, in order of preference."""

    def removal(self, observed: Observed) -> list[str]:
        """Return the installed packages that a removal of the driver removes."""

    def pins(self, request: Request, version: str | None) -> dict[str, str | None]:
        """Return the files of pins with their text, or None for no file."""


@dataclasses.dataclass(frozen=True)
class PackageTarget:
    """What is to be installed: a layout, in one version."""

    layout: Layout
    version: str


class RefusedError(Exception):
    """The sentence that says why the installation is impossible."""


def choose(request: Request, observed: Observed, names: PackageNames) -> PackageTarget:
    """Return the first layout, of the first branch, that the repositories offer as a whole."""
    if request.packages:
        return _named(request, observed, names)
    failures, refused_layouts = [], []
    for branch in _branches(request, observed):
        choice = flavours.choose(observed.gpus, request.flavour, branch)
        if choice.failure:
            failures.append(choice.failure)
            continue
        for layout in names.layouts(request, observed, branch, choice.flavour):
            versions = _fitting(request, observed, layout)
            if versions and _bootable(observed, layout):
                return PackageTarget(layout, versions[0])
            refused_layouts += [layout] if versions else []
    raise RefusedError(_why_nothing(request, observed, names, failures, refused_layouts))


def _named(request: Request, observed: Observed, names: PackageNames) -> PackageTarget:
    """Return the packages that the user has named, with the companions of the first layout of their branch."""
    layout = Layout("packages", request.wanted_branch, request.flavour, request.packages)
    versions = [version for version in _complete(observed, layout) if _version_fits(request, version)]
    if not versions:
        raise RefusedError(_none_of_the_named(request, observed))
    branch = branch_of(versions[0])
    if not branch.isdecimal():
        return PackageTarget(layout, versions[0])
    flavour = flavours.choose(observed.gpus, request.flavour, branch).flavour or "open"
    [known, *dummy] = names.layouts(request, observed, branch, flavour)
    return PackageTarget(dataclasses.replace(layout, companions=known.companions, extra=known.extra), versions[0])


def _none_of_the_named(request: Request, observed: Observed) -> str:
    offers = sorted({f"{p.name} {p.upstream}" for name in request.packages for p in observed.versions(name)})
    offered = f" They offer {first_few(offers)}." if offers else ""
    wanted = f" in version {request.version or request.wanted_branch}" if request.wanted_branch else ""
    return f"The host's repositories do not offer {', '.join(request.packages)}{wanted}.{offered}"


def _version_fits(request: Request, version: str) -> bool:
    return request.version in ("", version) and request.wanted_branch in ("", branch_of(version))


def _branches(request: Request, observed: Observed) -> list[str]:
    """Return the branches to try: the one asked for, else the default and then the newest."""
    if request.wanted_branch:
        return [request.wanted_branch]
    return sorted(_offered_branches(observed), key=lambda branch: (branch != DEFAULT_BRANCH, -int(branch)))


def _offered_branches(observed: Observed) -> set[str]:
    found = {branch_of(package.version) for package in observed.offered}
    return {branch for branch in found if branch.isdecimal() and _OLDEST <= int(branch) < _NEWEST}


def offered_by(observed: Observed, layout: Layout, name: str) -> list[Package]:
    """Return the versions of a package that the layout's origin offers. Two origins may use one name."""
    return [package for package in observed.versions(name) if _may_be(package.origin, layout.origin)]


def _may_be(origin: str, wanted: str) -> bool:
    return wanted == "packages" or origin in (wanted, "unknown")


def _complete(observed: Observed, layout: Layout) -> list[str]:
    """Return the upstream versions in which the whole layout is offered.

    The first one is the package manager's candidate, as far as all packages have the same one. Then come the newest.
    """
    if any(not offered_by(observed, layout, name) and not observed.has(name) for name in layout.modules):
        return []
    offers = [offered_by(observed, layout, name) for name in layout.required]
    if not offers:
        return []
    whole = set.intersection(*({package.upstream for package in each} for each in offers))
    candidates = set.intersection(*({package.upstream for package in each if package.candidate} for each in offers))
    return sorted(whole, key=lambda version: (version in candidates, version_key(version)), reverse=True)


def _bootable(observed: Observed, layout: Layout) -> bool:
    """Return whether the kernel would load the modules: secure boot wants a signature that the firmware trusts."""
    return layout.signed or not observed.secure_boot or observed.mok


def _fitting(request: Request, observed: Observed, layout: Layout) -> list[str]:
    """Return the versions of the layout's branch that the request allows. Names without a branch have several."""
    in_branch = [version for version in _complete(observed, layout) if branch_of(version) == layout.branch]
    return [version for version in in_branch if request.version in ("", version)]


def _why_nothing(
    request: Request, observed: Observed, names: PackageNames, failures: list[str], unsigned: list[Layout]
) -> str:
    if unsigned:
        kernel = observed.kernels[-1] if observed.kernels else "this host"
        return (
            f"Secure boot is on, and the repositories offer no signed modules of the branch {unsigned[0].branch} for "
            f"the kernel {kernel}. Enrol the key of DKMS with mokutil, or use a kernel that Ubuntu signs modules for."
        )
    offers = _available(request, observed, names)
    if failures and (request.wanted_branch or not offers):
        return failures[0]
    wanted = " ".join(filter(None, (request.flavour.replace("auto", ""), "driver", request.version or request.branch)))
    whose = {"nvidia": " of NVIDIA", "distribution": " of the distribution"}.get(request.origin, "")
    found = f"They offer {first_few(offers)}." if offers else "Name one in host_driver_repositories."
    return f"The host's repositories do not offer the {wanted}{whose}. {found}"


def _available(request: Request, observed: Observed, names: PackageNames) -> list[str]:
    """Return the versions that could be installed, for a message."""
    found: dict[str, None] = {}
    everything = dataclasses.replace(request, version="")
    for branch in sorted(_offered_branches(observed), key=int, reverse=True):
        choice = flavours.choose(observed.gpus, "auto", branch)
        for layout in [] if choice.failure else names.layouts(request, observed, branch, choice.flavour):
            found.update(dict.fromkeys(_fitting(everything, observed, layout)))
    return list(found)
