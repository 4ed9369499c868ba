# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The driver's packages of a host: plan what is to be done, and do it in one transaction."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import driver_parts, nvidia_packages
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages import loading, planner
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.apt import Apt
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.dnf import Dnf
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.family import Family
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.observe import described, observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import (
    Observed,
    Outcome,
    Plan,
    Request,
    Transaction,
    branch_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

UNINSTALL_TIMEOUT_S = 600.0
# What leaves the packages as they are.
_NOTHING = ("none", "adopt")
# Packages without content, which depend on the driver and go with it.
_GOES_WITH_THE_DRIVER = re.compile(r"cuda(-\d+(-\d+)?)?|cuda-(runtime|demo-suite)-.*|glx-.*|update-glx")


def manage(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> Json:
    """Bring the host's driver to the requested state, and return the module's result."""
    family = family_of(host, float(options["lock_timeout"]))
    names = {field.name for field in dataclasses.fields(Request)}
    request = Request(**{key: _frozen(value) for key, value in options.items() if key in names})
    with host.locked():
        return _manage(host, family, request, options, check_mode)


def _manage(host: Host, family: Family, request: Request, options: t.Mapping[str, t.Any], check_mode: bool) -> Json:
    _refresh(family, request)
    observed = observe(host, family, options, request)
    plan = _planned(request, options["former"] or {}, observed, family)
    outcome = _simulated(plan, family)
    plan = _checked(plan, observed, outcome, family.removal(observed))
    result = _result(plan, observed, outcome, family)
    if plan.refused and not check_mode:
        raise GpuOpsError(plan.refused, **{key: result[key] for key in ("action", "former", "wanted")})
    if result["changed"] and not check_mode:
        _carry_out(host, family, plan, observed)
    loaded = loading.load(host, plan, observed, outcome, options, check_mode)
    return {**result, **loaded, "changed": result["changed"] or loaded["changed"]}


def _refresh(family: Family, request: Request) -> None:
    """Update the lists of packages. Neither a removal nor the way back depends on them."""
    try:
        family.refresh()
    except GpuOpsError:
        if request.state == "present":
            raise


def family_of(host: Host, lock_timeout_s: float) -> Family:
    """Return the host's package manager. EL hosts may have apt, too."""
    if host.which("apt-get") and not host.exists("/etc/redhat-release"):
        return Apt(host, lock_timeout_s)
    if host.which("dnf"):
        return Dnf(host)
    raise GpuOpsError(
        "This host has neither apt nor dnf. Install the driver yourself, or use a driver container.",
        reason="Unsupported",
    )


def _frozen(value: t.Any) -> t.Any:
    return tuple(value) if isinstance(value, list) else value


def _planned(request: Request, former: Json, observed: Observed, family: Family) -> Plan:
    restores = request.state == "restored"
    plan = restoration(former, observed, family) if restores else planner.plan(request, observed, family)
    if observed.unfinished and request.state != "absent" and plan.transaction.empty and not plan.refused:
        return dataclasses.replace(plan, action="complete")
    return plan


def restoration(former: Json, observed: Observed, family: Family) -> Plan:
    """Return the way back to the packages that a result has called former, at exactly their versions."""
    packages: dict[str, str] = former.get("packages") or {}
    installed = {(package.name, package.version) for package in observed.installed}
    wrong = dict(item for item in packages.items() if item not in installed)
    kept = family.kept(wrong)
    transaction = Transaction(
        install={name: wrong[name] for name in wrong if name not in kept},
        remove=tuple(sorted(set(family.removal(observed)) - packages.keys())),
        pins=_different_pins(former, observed),
        local=tuple(kept.values()),
        version=former.get("version") or "",
    )
    action = "none" if transaction.empty and not transaction.pins else "restore"
    refused = _no_way_back(former, _missing(wrong, observed, family))
    return Plan(action, transaction, version=former.get("version"), refused=refused)


def _different_pins(former: Json, observed: Observed) -> dict[str, str | None]:
    return {path: text for path, text in (former.get("pins") or {}).items() if observed.pins.get(path) != text}


def _no_way_back(former: Json, missing: list[str]) -> str | None:
    if former.get("uninstaller"):
        return f"The host had {former['described']}, which no package manager can install. Run its installer again."
    if missing:
        return f"No repository and no kept file has {first_few(missing)}, which the former driver consists of."
    return None


def _missing(packages: t.Mapping[str, str], observed: Observed, family: Family) -> list[str]:
    """Return the packages that no repository offers in their version and no file has, as name=version."""
    offered, kept = {(package.name, package.version) for package in observed.offered}, family.kept(packages)
    lost = [name for name in packages if name not in kept and (name, packages[name]) not in offered]
    return [f"{name}={packages[name]}" for name in lost]


def _simulated(plan: Plan, family: Family) -> Outcome:
    return Outcome() if plan.transaction.empty else family.simulate(plan.transaction)


def _checked(plan: Plan, observed: Observed, outcome: Outcome, parts: t.Sequence[str]) -> Plan:
    """Refuse what the package manager refuses, and what would remove packages that are no part of the driver."""
    if plan.refused:
        return plan
    if outcome.error:
        return dataclasses.replace(plan, refused=f"The package manager refuses the change: {outcome.error}.")
    ours = {*plan.transaction.remove, *parts}
    versions = {package.name: package.version for package in observed.installed}
    foreign = [name for name in outcome.remove if name not in ours and not _goes_along(name, versions.get(name, ""))]
    if foreign:
        message = f"The package manager would also remove {first_few(sorted(foreign))}, which need the present driver."
        return dataclasses.replace(plan, refused=f"{message} Remove them yourself if they may go.")
    return plan


def _goes_along(name: str, version: str) -> bool:
    """Return whether a package that needs the present driver may go with it: an empty one, or one of a driver."""
    of_a_driver = nvidia_packages.is_driver(name) and driver_parts.is_of_a_driver(name, version)
    return of_a_driver or _GOES_WITH_THE_DRIVER.fullmatch(name) is not None


def _result(plan: Plan, observed: Observed, outcome: Outcome, family: Family) -> Json:
    installed = {package.name: package.version for package in observed.installed}
    stack = {name: installed[name] for name in family.removal(observed) if name in installed}
    holds = [package.name for package in observed.installed if package.held and package.name in stack]
    steps = [
        {"name": name, "version": outcome.install[name], "former": installed.get(name)} for name in outcome.install
    ]
    changed = plan.action not in _NOTHING
    reasons = _interruptions(plan, observed, outcome, stack)
    return {
        "changed": changed,
        "action": plan.action,
        "refused": plan.refused,
        "former": described(observed.driver, stack, observed.pins, holds),
        "wanted": _wanted(plan, observed),
        "transaction": {
            "install": steps,
            "remove": [{"name": name, "version": installed.get(name)} for name in outcome.remove],
            "pins": dict(plan.transaction.pins),
            "streams": list(plan.transaction.streams),
        },
        "interrupts": bool(reasons),
        "interrupt_reasons": reasons,
        "way_back": _way_back(stack, observed, family),
        "messages": list(plan.messages),
    }


def _wanted(plan: Plan, observed: Observed) -> Json | None:
    if plan.action == "remove":
        return None
    layout = plan.layout
    named = layout and plan.action not in ("adopt", "complete")
    return {
        "origin": layout.origin if layout and named else observed.driver.origin,
        "version": plan.version,
        "branch": branch_of(plan.version) if plan.version else None,
        "flavour": layout.flavour if layout and named else observed.driver.flavour,
        "packages": dict(plan.transaction.install),
    }


def _interruptions(plan: Plan, observed: Observed, outcome: Outcome, stack: t.Collection[str]) -> list[str]:
    """Return why the change interrupts what uses the GPUs. A host whose driver is not loaded has no users of them."""
    if not observed.driver.loaded:
        return []
    touched = [name for name in (*outcome.install, *outcome.remove) if name in stack]
    if plan.uninstall or touched:
        version = observed.driver.version
        return [f"The driver {version} is loaded, and {first_few(touched) or plan.uninstall} changes."]
    if plan.action == "complete":
        cut_off = f"the installation of {first_few(list(observed.unfinished))} was cut off and is to be completed"
        return [f"The driver {observed.driver.version} is loaded, and {cut_off}."]
    return []


def _way_back(stack: t.Mapping[str, str], observed: Observed, family: Family) -> Json:
    missing = _missing(stack, observed, family)
    return {"possible": not missing and not observed.driver.uninstaller, "missing": missing}


def _carry_out(host: Host, family: Family, plan: Plan, observed: Observed) -> None:
    """Keep the former packages, do what is planned, and look at the result."""
    parts = set(family.removal(observed))
    former = {package.name: package.version for package in observed.installed if package.name in parts}
    if plan.action == "change":
        family.keep(former)
    if plan.uninstall:
        output = host.run([plan.uninstall.rpartition("/")[2], "--silent"], UNINSTALL_TIMEOUT_S)
        if not output.ok:
            raise GpuOpsError(f"The driver's own uninstaller failed: {output.error}.", reason="PackageManager")
    family.apply(plan.transaction)
    if plan.action == "remove":
        _assert_gone(host, family, observed)
    else:
        _assert_installed(family, plan)


def _assert_gone(host: Host, family: Family, observed: Observed) -> None:
    left = family.removal(dataclasses.replace(observed, installed=tuple(family.installed()), owners=()))
    left += driver_parts.files(host)
    if left:
        raise GpuOpsError(
            f"The driver was removed, but {first_few(left)} is still there. Remove what put it there.",
            reason="PackageManager",
        )


def _assert_installed(family: Family, plan: Plan) -> None:
    installed = {package.name: package.version for package in family.installed()}
    wrong = [
        f"{name} {installed.get(name, 'is missing')}"
        for name, version in plan.transaction.install.items()
        if nvidia_packages.is_stack(name) and (name not in installed or version not in ("", installed[name]))
    ]
    if wrong:
        raise GpuOpsError(
            f"The package manager ended without an error, but did not install what was asked: {first_few(wrong)}.",
            reason="PackageManager",
        )
