# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""How NVIDIA's repository for the Red Hat family is laid out: module streams, and the packages of a driver branch."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.nvidia_packages import SERVICES, TOOLKIT_PACKAGE
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import (
    Layout,
    Package,
    Role,
    branch_of,
)

MODULE = "nvidia-driver"
LOCK_PLUGIN = "python3-dnf-plugin-versionlock"
KMODS = {"open": "kmod-nvidia-open-dkms", "proprietary": "kmod-nvidia-latest-dkms"}
"""The modules that DKMS builds on the host, from EPEL's dkms."""

USER_SPACE = ("nvidia-driver-cuda",)
"""The driver without a display server. Its dependencies bring the rest, in the same version."""

_BUILT = {"open": "kmod-nvidia-open-{version}-{kernel}", "proprietary": "kmod-nvidia-{version}-{kernel}"}
# Fabric manager and IMEX are in no module stream, so an enabled stream keeps neither at the driver's version.
_COMPANIONS: tuple[Role, ...] = ("fabric_manager", "imex", "persistenced")


@dataclasses.dataclass(frozen=True)
class Streams:
    """The streams of the module nvidia-driver: what the repositories offer, and which one is enabled on the host."""

    offered: tuple[str, ...] = ()
    enabled: str | None = None

    def of(self, branch: str, flavour: str) -> str | None:
        """Return the stream with a branch's modules for DKMS, or None if the repositories are not modular.

        The enabled stream is kept if it has the branch, too.
        """
        wanted = f"{branch}-open" if flavour == "open" else f"{branch}-dkms"
        latest = "open-dkms" if flavour == "open" else "latest-dkms"
        if self.enabled in (wanted, latest) and self.enabled in self.offered:
            return self.enabled
        return next((stream for stream in (wanted, latest) if stream in self.offered), None)

    @property
    def enabled_branch(self) -> str | None:
        """The branch of the enabled stream, or None if it follows the latest one."""
        branch = (self.enabled or "").partition("-")[0]
        return branch if branch.isdecimal() else None

    @property
    def precompiled(self) -> bool:
        """Whether the enabled stream has modules that NVIDIA has built and signed."""
        return self.enabled == "latest" or bool(re.fullmatch(r"\d+", self.enabled or ""))


def kernel_of_modules(kernel: str) -> str:
    """Return a kernel release as the names of precompiled modules have it: without distribution and architecture."""
    return re.sub(r"\.(el|amzn)\d.*$", "", kernel)


def companions(branch: str) -> dict[Role, tuple[str, ...]]:
    """Return the names that the companions have with a branch."""
    names: dict[Role, tuple[str, ...]] = {role: tuple(SERVICES[role].names(branch)) for role in _COMPANIONS}
    return {**names, "nvlsm": SERVICES["nvlsm"].packages, "toolkit": (TOOLKIT_PACKAGE,)}


def dkms_layout(branch: str, flavour: str, streams: Streams, extra: t.Sequence[str]) -> Layout:
    """Return the packages of a branch with modules that the host builds."""
    stream = streams.of(branch, flavour)
    return Layout(
        origin="nvidia",
        branch=branch,
        flavour=flavour,
        required=(KMODS[flavour], *USER_SPACE),
        companions=companions(branch),
        extra=tuple(extra),
        streams=(f"{MODULE}:{stream}",) if stream else (),
    )


def precompiled_layouts(
    branch: str, flavour: str, kernel: str, offered: t.Sequence[Package], streams: Streams
) -> list[Layout]:
    """Return a layout for each version of a branch whose modules NVIDIA has built for the kernel, the newest first.

    The version is part of the name of such a package. Its modules are signed, and need neither dkms nor headers.
    """
    short = kernel_of_modules(kernel)
    named = {package.name: package for package in offered if branch_of(package.version) == branch}
    found = [
        package
        for name, package in named.items()
        if name == _BUILT[flavour].format(version=package.upstream, kernel=short)
    ]
    found.sort(key=lambda package: [int(part) for part in package.upstream.split(".")], reverse=True)
    stream = _precompiled_stream(branch, flavour, streams)
    return [
        Layout(
            origin="nvidia",
            branch=branch,
            flavour=flavour,
            required=(package.name, *USER_SPACE),
            companions=companions(branch),
            streams=(f"{MODULE}:{stream}",) if stream else (),
            signed=True,
        )
        for package in found
    ]


def _precompiled_stream(branch: str, flavour: str, streams: Streams) -> str | None:
    # NVIDIA's open precompiled modules are in the stream of the open modules for DKMS.
    wanted = (f"{branch}-open",) if flavour == "open" else (branch, "latest")
    if streams.enabled in wanted:
        return streams.enabled
    return next((stream for stream in wanted if stream in streams.offered), None)


def other_stream(layout: Layout, streams: Streams) -> str | None:
    """Return the enabled stream if a layout needs another one."""
    wanted = [stream.partition(":")[2] for stream in layout.streams]
    return streams.enabled if streams.enabled and wanted and streams.enabled not in wanted else None


def devel_of(owner: str) -> str:
    """Return the package of the headers for the package that owns a kernel's vmlinuz: kernel-64k-devel, kernel-devel.

    EL's kernels are in kernel-core, kernel-64k-core, kernel-rt-core and kernel-uek-core, those of Amazon Linux in
    kernel and kernel6.12.
    """
    name = owner[: -len("-core")] if owner.endswith("-core") else owner
    return f"{name}-devel"
