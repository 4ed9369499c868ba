# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Decide what is installed, changed or removed, from what is asked for, what a host has and what it is offered."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages import flavour
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.driver_choice import (
    DEFAULT_BRANCH,
    PackageNames,
    PackageTarget,
    RefusedError,
    choose,
    offered_by,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import (
    InstalledDriver,
    Layout,
    Observed,
    Package,
    Plan,
    Request,
    Role,
    Transaction,
    branch_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few

_DISTRIBUTION = ("ubuntu", "ubuntu-signed", "debian", "distribution")
# These have the driver's version. The others have versions of their own.
_OF_ONE_VERSION: tuple[Role, ...] = ("fabric_manager", "imex")


def plan(request: Request, observed: Observed, names: PackageNames) -> Plan:
    """Return what is to be done."""
    if observed.driver.origin == "container":
        return Plan("none", refused=_CONTAINER if request.state == "present" else None)
    if request.state == "absent":
        return _removal(request, observed, names)
    try:
        return _present(request, observed, names)
    except RefusedError as refusal:
        return Plan("change" if observed.driver.present else "install", refused=str(refusal))


_CONTAINER = (
    "The host runs the driver of a driver container, and a second driver would conflict with it. Set driver.enabled to "
    "false in the operator's values and wait until the driver container is gone."
)


def _changed_pins(observed: Observed, wanted: t.Mapping[str, str | None]) -> dict[str, str | None]:
    return {path: text for path, text in wanted.items() if observed.pins.get(path) != text}


def _removal(request: Request, observed: Observed, names: PackageNames) -> Plan:
    """Remove every package of the driver. A .run driver has an uninstaller of its own."""
    driver, pins = observed.driver, _changed_pins(observed, names.pins(request, None))
    transaction = Transaction(remove=tuple(names.removal(observed)), pins=pins)
    if driver.uninstaller and not request.replace:
        refused = (
            f"The host has {driver.described}, which no package manager can remove. Run {driver.uninstaller} --silent, "
            "or set replace to true to let the module run it."
        )
        return Plan("remove", transaction, refused=refused, uninstall=driver.uninstaller)
    if not transaction.empty or driver.uninstaller or pins:
        return Plan("remove", transaction, uninstall=driver.uninstaller)
    # A driver that was removed stays loaded until the reboot.
    if driver.present and driver.libraries:
        return Plan("remove", refused=f"The host has {driver.described}, and no package owns its files. Remove them.")
    return Plan("none")


def _present(request: Request, observed: Observed, names: PackageNames) -> Plan:
    driver = observed.driver
    if driver.present and _satisfies(request, observed):
        return _adopted(request, observed, names)
    target = choose(request, observed, names)
    transaction = _transaction(request, observed, names, target)
    messages = tuple(_extra(observed, target.layout)[1])
    plan_ = Plan("install", transaction, target.layout, target.version, messages=messages)
    if not driver.present:
        return plan_
    refused = None if request.replace else _refusal_to_replace(request, driver, target)
    return dataclasses.replace(plan_, action="change", refused=refused, uninstall=driver.uninstaller)


def _satisfies(request: Request, observed: Observed) -> bool:
    """Return whether the installed driver is what the request asks for."""
    driver, version = observed.driver, observed.driver.version or ""
    origins = {"auto": (driver.origin,), "nvidia": ("nvidia",), "distribution": _DISTRIBUTION}[request.origin]
    return (
        driver.origin in origins
        and request.version in ("", version)
        and request.wanted_branch in ("", branch_of(version))
        and request.flavour in ("auto", driver.flavour)
        and all(map(observed.has, request.packages))
    )


def _refusal_to_replace(request: Request, driver: InstalledDriver, target: PackageTarget) -> str:
    origin = target.layout.origin
    wanted = InstalledDriver(True, None if origin == "packages" else origin, target.version).described
    asked = f"the packages {first_few(request.packages)}" if request.packages else wanted
    return (
        f"The host has {driver.described}, and {asked} is asked for. Allow the change, which interrupts GPU workloads, "
        f"or leave out what differs ({', '.join(_differences(request, driver))})."
    )


def _differences(request: Request, driver: InstalledDriver) -> list[str]:
    """Return what is asked for and is not so."""
    branch = branch_of(driver.version or "")
    checks = {
        f"origin {request.origin}": request.origin == "auto",
        f"branch {request.branch}": request.branch in ("", branch),
        f"version {request.version}": request.version in ("", driver.version),
        f"flavour {request.flavour}": request.flavour in ("auto", driver.flavour),
        "packages": not request.packages,
    }
    return [name for name, same in checks.items() if not same]


# ---- an installed driver stays ------------------------------------------------------------------------------------


def _adopted(request: Request, observed: Observed, names: PackageNames) -> Plan:
    """Keep the driver, and install only what it lacks, in its own version."""
    driver, version = observed.driver, observed.driver.version or ""
    layout = _layout_of(request, observed, names)
    extra, messages = _extra(observed, layout) if driver.origin == layout.origin else ({}, [])
    install = {**_lacking(observed, layout), **_companions(request, observed, layout, version), **extra}
    pins = _changed_pins(observed, names.pins(request, driver.version))
    unsupported = flavour.choose(observed.gpus, branch=branch_of(version)).failure
    transaction = Transaction(install=install, pins=pins, version=version)
    action = "adopt" if transaction.empty and not pins else "install"
    return Plan(action, transaction, layout, driver.version, messages=(*filter(None, [unsupported]), *messages))


def _lacking(observed: Observed, layout: Layout) -> dict[str, str]:
    """Return what an installation that was cut off lacks, and the signed modules of kernels that are new."""
    required = {} if observed.driver.libraries else _required(observed, layout, observed.driver.version or "")
    modules = {name: "" for name in layout.modules if layout.signed and not observed.has(name)}
    return {**required, **modules}


def _layout_of(request: Request, observed: Observed, names: PackageNames) -> Layout:
    """Return the layout that the installed driver comes nearest to: most of its packages are installed."""
    driver = observed.driver
    branch = branch_of(driver.version or DEFAULT_BRANCH)
    anyone = dataclasses.replace(request, origin="auto")
    found = names.layouts(anyone, observed, branch, driver.flavour or "open")
    origin = "ubuntu" if driver.origin == "ubuntu-signed" else driver.origin
    same = [layout for layout in found if layout.origin == origin] or found
    return max(same, key=lambda layout: sum(map(observed.has, (*layout.required, *layout.modules))))


# ---- the transaction ----------------------------------------------------------------------------------------------


def _transaction(request: Request, observed: Observed, names: PackageNames, target: PackageTarget) -> Transaction:
    """Bring everything to one version at once: what is new, what stays and what must go."""
    required = _required(observed, target.layout, target.version)
    companions = _companions(request, observed, target.layout, target.version)
    extra = _extra(observed, target.layout)[0]
    moved, removed = _former(observed, names, target, {*required, *companions})
    install = {**extra, **moved, **companions, **required}
    return Transaction(
        install=install,
        remove=tuple(name for name in removed if name not in install),
        pins=_changed_pins(observed, names.pins(request, target.version)),
        streams=target.layout.streams,
        version=target.version,
    )


def _former(
    observed: Observed, names: PackageNames, target: PackageTarget, new: t.Collection[str]
) -> tuple[dict[str, str], list[str]]:
    """Return the other packages of the former driver that move to the new version, and those that lack one."""
    former = observed.driver.version if observed.driver.present else None
    ours = set(names.removal(observed)) - set(new)
    old = [each.name for each in observed.installed if each.name in ours and each.upstream == former]
    successors = {name: _successor(observed, target, name) for name in old}
    moved = {name: version for name, version in successors.items() if version}
    return moved, [name for name in old if name not in moved]


def _successor(observed: Observed, target: PackageTarget, name: str) -> str:
    """Return the full version of a package that belongs to the target, or an empty string."""
    offers = offered_by(observed, target.layout, name)
    return next((package.version for package in offers if package.upstream == target.version), "")


def _required(observed: Observed, layout: Layout, version: str) -> dict[str, str]:
    """Return the packages of the layout that are not installed in this version, with their full versions."""
    installed = {package.name: package for package in observed.installed}
    found = {}
    for name in layout.required:
        if name not in installed or installed[name].upstream != version:
            offers = [package for package in offered_by(observed, layout, name) if package.upstream == version]
            if not offers:
                raise RefusedError(f"The host's repositories do not offer {name} in version {version}.")
            found[name] = offers[0].version
    found.update({name: "" for name in layout.modules if name not in installed})
    return found


def _extra(observed: Observed, layout: Layout) -> tuple[dict[str, str], list[str]]:
    """Return the headers to install, and a message about those that cannot be had."""
    lacking = [name for name in layout.extra if not observed.has(name)]
    found = {name: "" for name in lacking if observed.versions(name)}
    absent = [name for name in lacking if name not in found]
    if not absent:
        return found, []
    advice = "DKMS builds no modules for these kernels: boot a kernel whose headers can be had."
    return found, [f"The host's repositories do not offer {first_few(absent)}. {advice}"]


def _companions(request: Request, observed: Observed, layout: Layout, version: str) -> dict[str, str]:
    """Return the companions to install. Those that must have the driver's version have exactly that."""
    found: dict[str, str] = {}
    for role in request.roles:
        alternatives = layout.companions.get(role, ())
        exact = version if role in _OF_ONE_VERSION else ""
        if not any(_has_version(observed, name, exact) for name in alternatives):
            found.update([_companion(observed, alternatives, exact, version)])
    return found


def _has_version(observed: Observed, name: str, version: str) -> bool:
    return any(each.name == name and version in ("", each.upstream) for each in observed.installed)


def _companion(observed: Observed, names: t.Sequence[str], exact: str, near: str) -> tuple[str, str]:
    """Return the first offered companion: in the exact version, else in the branch of the driver, else the newest."""
    offers = [package for name in names for package in observed.versions(name)]
    fitting = [package for package in offers if exact in ("", package.upstream)]
    if not fitting:
        raise RefusedError(_no_companion(names, exact, offers))
    best = min(fitting, key=lambda package: _distance(package, near))
    return best.name, best.version


def _distance(package: Package, near: str) -> int:
    """Return how far a package is from a version: the same, the same branch, or another branch."""
    if package.upstream == near:
        return 0
    return 1 if branch_of(package.version) == branch_of(near) else 2


def _no_companion(names: t.Sequence[str], exact: str, offers: t.Sequence[Package]) -> str:
    wanted = " or ".join(names) + (f" in version {exact}" if exact else "")
    found = first_few([f"{package.name} {package.upstream}" for package in offers])
    advice = f"They offer {found}." if found else "Name a repository that does in host_driver_repositories."
    return f"The host's repositories do not offer {wanted}. {advice}"
