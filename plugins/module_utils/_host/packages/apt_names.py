# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The names of the driver's packages in Debian, in Ubuntu's archive and in NVIDIA's repositories for both."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import nvidia_packages
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import (
    Layout,
    Observed,
    Package,
    Request,
    Role,
    branch_of,
)

PINS = "/etc/apt/preferences.d/gpuops-nvidia"
_SIGNED = re.compile(r"linux-modules-nvidia-\d+(-server)?(?P<open>-open)?-.+")
_DKMS = re.compile(
    r"nvidia-(dkms(-\d+)?(-server)?(?P<open>-open)?|headless-\d+(-server)?(?P<open1>-open)?"
    r"|(?P<open2>open-)?kernel-(?P<open3>open-)?dkms|(tesla-(\d+-)?|legacy-\w+-)kernel-dkms)"
)
_DKMS_ORIGINS = (
    (re.compile(r"nvidia-(open-kernel|tesla|legacy).*"), "debian"),
    (re.compile(r"nvidia-.*-server.*"), "ubuntu"),
    (re.compile(r"nvidia-(kernel-open-dkms|dkms(-open)?)"), "nvidia"),
)
# From branch 590 on, NVIDIA's packages for Ubuntu have no branch in their names (Driver Installation Guide, "Ubuntu
# 590 and later packages").
_FIRST_WITHOUT_BRANCH = 590


def origin_of(maintainer: str) -> str:
    """Return the origin of a package by its maintainer, which a mirror keeps, unlike the repository's label."""
    domain = maintainer.lower()
    for word, origin in (("nvidia.com", "nvidia"), ("ubuntu.com", "ubuntu"), ("canonical.com", "ubuntu")):
        if word in domain:
            return origin
    return "debian" if "debian.org" in domain else "unknown"


def relevant(name: str) -> bool:
    """Return whether a package belongs to the driver, its companions or the headers of kernels."""
    return nvidia_packages.is_stack(name) or name.startswith(("linux-headers-", "linux-image-"))


def recognise(installed: t.Sequence[Package], owners: t.Collection[str]) -> tuple[str | None, str | None]:
    """Return the origin and the flavour of the installed modules, or the origin of the libraries without modules."""
    for package in installed:
        match = _SIGNED.fullmatch(package.name)
        if match:
            return "ubuntu-signed", "open" if match["open"] else "proprietary"
    for package in installed:
        match = _DKMS.fullmatch(package.name)
        if match:
            is_open = any(match[group] for group in ("open", "open1", "open2", "open3"))
            return _dkms_origin(package), "open" if is_open else "proprietary"
    return next((package.origin for package in installed if package.name in owners), None), None


def _dkms_origin(package: Package) -> str:
    if package.origin != "unknown":
        return package.origin
    return next((origin for pattern, origin in _DKMS_ORIGINS if pattern.fullmatch(package.name)), "unknown")


def removal(observed: Observed) -> list[str]:
    """Return the packages of the driver. A removal removes them."""
    return observed.parts(package.name for package in observed.installed if _DKMS.fullmatch(package.name))


def layouts(request: Request, observed: Observed, branch: str, flavour: str) -> list[Layout]:
    """Return the layouts of a branch, in order of preference: the distribution's, then NVIDIA's."""
    distribution = _ubuntu(observed, branch, flavour) + _debian(observed, branch, flavour)
    nvidia = _nvidia(observed, branch, flavour)
    return {"auto": distribution + nvidia, "distribution": distribution, "nvidia": nvidia}[request.origin]


def _ubuntu(observed: Observed, branch: str, flavour: str) -> list[Layout]:
    """Ubuntu's archive: modules that Canonical has built and signed, else DKMS. The servers' branches come first."""
    is_open, found = ("-open" if flavour == "open" else ""), []
    for server in ("-server", ""):
        user = f"nvidia-utils-{branch}{server}"
        companions = _companions(branch, (f"nvidia-compute-utils-{branch}{server}",))
        modules = _signed_modules(observed, f"linux-modules-nvidia-{branch}{server}{is_open}-")
        if modules:
            required = (f"nvidia-headless-no-dkms-{branch}{server}{is_open}", user)
            found.append(Layout("ubuntu", branch, flavour, required, companions, modules, signed=True))
        required = (f"nvidia-headless-{branch}{server}{is_open}", user)
        found.append(Layout("ubuntu", branch, flavour, required, companions, extra=headers(observed)))
    return found


def _signed_modules(observed: Observed, prefix: str) -> tuple[str, ...]:
    """Return the modules for the host's kernels and for every kernel flavour, or an empty list if a kernel would be
    without.

    The package of a flavour (linux-modules-nvidia-580-server-open-aws) follows the kernels of linux-image-aws.
    """
    offered = {package.name for package in (*observed.offered, *observed.installed)}
    kernels = [prefix + kernel for kernel in observed.kernels]
    names = [*kernels, *(prefix + each for each in _kernel_flavours(observed))]
    if not kernels or kernels[-1] not in offered:
        return ()
    return tuple(dict.fromkeys(name for name in names if name in offered))


def _kernel_flavours(observed: Observed) -> list[str]:
    """Return the installed kernel flavours: generic of linux-image-generic, aws of linux-image-aws."""
    names = [package.name.partition("linux-image-")[2] for package in observed.installed]
    return [name for name in names if name and not re.match(r"(unsigned-)?\d+\.\d+", name) and name != "unsigned"]


def headers(observed: Observed) -> tuple[str, ...]:
    """Return the headers that DKMS needs: of the host's kernels, and of each flavour for the kernels to come."""
    kernels = [kernel for kernel in observed.kernels if kernel not in observed.built_for]
    flavours = [each for each in _kernel_flavours(observed) if not each.endswith(("-dbg", "-dbgsym"))]
    return tuple(dict.fromkeys(f"linux-headers-{each}" for each in [*kernels, *flavours]))


def _debian(observed: Observed, branch: str, flavour: str) -> list[Layout]:
    """Debian has one branch without a name of its own, and others for data centres (tesla)."""
    modules = "nvidia-open-kernel-dkms" if flavour == "open" else "nvidia-kernel-dkms"
    companions = _companions(branch, ("nvidia-persistenced",))
    plain = Layout("debian", branch, flavour, (modules, "nvidia-smi", "libcuda1"), companions, extra=headers(observed))
    if flavour == "open":
        return [plain]
    tesla = (f"nvidia-tesla-{branch}-kernel-dkms", f"nvidia-tesla-{branch}-smi", f"libnvidia-tesla-{branch}-cuda1")
    return [plain, Layout("debian", branch, flavour, tesla, companions, extra=headers(observed))]


def _nvidia(observed: Observed, branch: str, flavour: str) -> list[Layout]:
    """NVIDIA's repositories for Debian and for Ubuntu."""
    is_open, extra = ("-open" if flavour == "open" else ""), headers(observed)
    kernel = "nvidia-kernel-open-dkms" if flavour == "open" else "nvidia-kernel-dkms"
    companions = _companions(branch, ("nvidia-persistenced",))
    debian = Layout("nvidia", branch, flavour, (kernel, "nvidia-driver-cuda"), companions, extra=extra)
    if int(branch) >= _FIRST_WITHOUT_BRANCH:
        required = (f"nvidia-dkms{is_open}", "libnvidia-compute")
        return [debian, Layout("nvidia", branch, flavour, required, companions, extra=extra)]
    names = (f"nvidia-dkms-{branch}{is_open}", f"libnvidia-compute-{branch}", f"nvidia-utils-{branch}")
    companions = _companions(branch, (f"nvidia-compute-utils-{branch}", "nvidia-persistenced"))
    return [debian, Layout("nvidia", branch, flavour, names, companions, extra=extra)]


def _companions(branch: str, persistenced: tuple[str, ...]) -> dict[Role, tuple[str, ...]]:
    services = nvidia_packages.SERVICES
    return {
        "fabric_manager": tuple(services["fabric_manager"].names(branch)),
        "nvlsm": tuple(services["nvlsm"].names(branch)),
        "imex": tuple(services["imex"].names(branch)),
        "persistenced": persistenced,
        "toolkit": (nvidia_packages.TOOLKIT_PACKAGE,),
    }


def pins(request: Request, version: str | None) -> dict[str, str | None]:
    """Return the file that keeps apt at the version or branch that the user has declared, or its absence.

    Without it apt takes the newest version of every dependency, and the next upgrade leaves the branch.
    """
    if request.state != "present" or not (request.branch or request.version):
        return {PINS: None}
    exact = [(f"{version}*", 1002)] if request.version and version else []
    records = [*exact, (f"{request.wanted_branch}.*", 1001)]
    return {PINS: _HEADER + "\n".join(_record(pin, priority) for pin, priority in records)}


def transient_pins(version: str) -> str:
    """Return the pins that hold every dependency of one transaction at the driver's version."""
    return "\n".join(
        _record(pin, priority) for pin, priority in ((f"{version}*", 1002), (f"{branch_of(version)}.*", 1001))
    )


_HEADER = "# Written by gpuops.nvidia.driver_packages. Do not edit: change host_driver_version in the inventory.\n"


def _record(pin: str, priority: int) -> str:
    names = " ".join(nvidia_packages.PINNED)
    return f"Package: {names}\nPin: version {pin}\nPin-Priority: {priority}\n"
