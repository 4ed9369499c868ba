# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What driver a host has, and what the choice of another one depends on."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import driver as facts
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import driver_parts, nvidia_packages
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.kernel import secure_boot
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.family import Family
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import (
    InstalledDriver,
    Observed,
    Package,
    Request,
    branch_of,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

UNINSTALLER = "/usr/bin/nvidia-uninstall"
_KEYS = ("/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.der")


def observe(host: Host, family: Family, options: t.Mapping[str, t.Any], request: Request) -> Observed:
    """Return what the planner needs to know."""
    installed = tuple(family.installed())
    files = driver_parts.files(host)
    owners = {path: owner for path, owner in family.owners(files).items() if owner}
    driver = _driver(host, family, installed, files, owners)
    kernels = options["kernels"] or [host.read("/proc/sys/kernel/osrelease") or ""]
    return Observed(
        driver=driver,
        installed=installed,
        offered=tuple(family.offered()),
        owners=tuple(sorted(set(owners.values()))),
        secure_boot=bool(secure_boot(host).facts["enabled"]),
        mok=_key_enrolled(host),
        kernels=tuple(dict.fromkeys(filter(None, kernels))),
        built_for=tuple(kernel for kernel in kernels if host.exists(f"/lib/modules/{kernel}/build/Makefile")),
        gpus=tuple(options["gpus"]),
        pins={path: _text(host, path) for path in family.pins(request, driver.version)},
        unfinished=tuple(family.unfinished()),
    )


def _text(host: Host, path: str) -> str | None:
    """Return a file's text as it was written, or None if there is no file."""
    text = host.read(path)
    return None if text is None else f"{text}\n"


def _driver(
    host: Host, family: Family, installed: t.Sequence[Package], files: t.Sequence[str], owners: t.Mapping[str, str]
) -> InstalledDriver:
    if facts.driver_root(host):
        return InstalledDriver(present=True, origin="container", version=facts.loaded_version(host), loaded=True)
    origin, flavour = family.recognise(installed, tuple(owners.values()))
    loaded, uninstaller = facts.is_loaded(host), _uninstaller(host, family)
    nobodys = bool(files) and not owners
    present = any((uninstaller, flavour, loaded, nobodys))
    return InstalledDriver(
        present=present,
        origin=_origin(origin, uninstaller, nobodys) if present else None,
        version=_version(host, installed, files),
        flavour=flavour or facts.module_type(host.read(facts.VERSION_FILE)),
        loaded=loaded,
        libraries=bool(files),
        uninstaller=uninstaller,
        system=family.dgx_release(),
    )


def _origin(of_packages: str | None, uninstaller: str | None, nobodys: bool) -> str:
    if uninstaller:
        return "runfile"
    return "unknown" if nobodys or of_packages is None else of_packages


def _uninstaller(host: Host, family: Family) -> str | None:
    """Return the uninstaller of NVIDIA's .run installer. Some packages bring a command of this name, too."""
    there = host.exists(UNINSTALLER) and family.owners([UNINSTALLER])[UNINSTALLER] is None
    return UNINSTALLER if there else None


def _version(host: Host, installed: t.Sequence[Package], files: t.Sequence[str]) -> str | None:
    """Return the version of the libraries, else that of most packages, else that of the loaded modules."""
    found = driver_parts.version_of_files(files)
    if found:
        return found
    versions = collections.Counter(
        package.upstream
        for package in installed
        if nvidia_packages.is_driver(package.name) and driver_parts.branch(package.version)
    )
    return versions.most_common(1)[0][0] if versions else facts.loaded_version(host)


def _key_enrolled(host: Host) -> bool:
    """Return whether the firmware trusts the key that DKMS signs modules with."""
    keys = [key for key in _KEYS if host.exists(key)]
    return any("is already enrolled" in host.run(["mokutil", "--test-key", key]).stdout for key in keys)


def described(
    driver: InstalledDriver, packages: t.Mapping[str, str], pins: t.Mapping[str, str | None], holds: list[str]
) -> Json:
    """Return the driver as the module's results have it."""
    return {
        "present": driver.present,
        "origin": driver.origin,
        "version": driver.version if driver.present else None,
        "branch": branch_of(driver.version) if driver.present and driver.version else None,
        "flavour": driver.flavour,
        "packages": dict(packages),
        "holds": holds,
        "pins": dict(pins),
        "uninstaller": driver.uninstaller,
        "described": driver.described if driver.present else "no driver",
    }
