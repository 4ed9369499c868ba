# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The names of NVIDIA's packages and of the systemd units that they install.

Every module, filter and role takes these names from here.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import re
import typing as t

_BRANCH = "{branch}"


@dataclasses.dataclass(frozen=True)
class Service:
    """A service of the driver: its unit, and the names that its package may have, in order of preference.

    ``{branch}`` in a name stands for the driver's branch, such as 580.
    """

    unit: str
    packages: tuple[str, ...]

    def names(self, driver_version: str) -> list[str]:
        """Return the names of the package for a driver version, in order of preference."""
        branch = driver_version.partition(".")[0]
        return [name.replace(_BRANCH, branch) for name in self.packages]

    def provides(self, package: str) -> bool:
        """Return whether a package with this name contains the service, for any driver branch."""
        return any(re.fullmatch(name.replace(_BRANCH, r"\d+"), package) for name in self.packages)

    @property
    def globs(self) -> list[str]:
        """Patterns that match every name of the package."""
        return list(dict.fromkeys(name.partition(f"-{_BRANCH}")[0] + "*" for name in self.packages))


SERVICES: dict[str, Service] = {
    # Ubuntu's packages have the branch in their names, and those of NVIDIA's repositories do not.
    "fabric_manager": Service(
        "nvidia-fabricmanager.service",
        ("nvidia-fabricmanager-{branch}", "nvidia-fabricmanager", "nvidia-fabric-manager"),
    ),
    "nvlsm": Service("nvlsm.service", ("nvlsm",)),
    "imex": Service("nvidia-imex.service", ("nvidia-imex-{branch}", "nvidia-imex")),
    "persistenced": Service(
        "nvidia-persistenced.service",
        ("nvidia-compute-utils-{branch}-server", "nvidia-compute-utils-{branch}", "nvidia-persistenced"),
    ),
}

SERVICE_PACKAGES: tuple[str, ...] = tuple(glob for service in SERVICES.values() for glob in service.globs)
"""Patterns of the packages of all services."""

TOOLKIT_PACKAGE = "nvidia-container-toolkit"
"""The package of the container toolkit. It is no part of the driver, and its version is its own."""

DRIVER_PACKAGES: tuple[str, ...] = (
    "cuda-drivers*",
    "firmware-nvidia-*",
    "kmod-nvidia*",
    "libcuda1",
    "libcudadebugger1",
    "libegl*-nvidia*",
    "libgl*-nvidia*",
    "libnvcuvid1",
    "libnvidia-*",
    "libnvoptix1",
    "libnvsdm*",
    "linux-modules-nvidia-*",
    "linux-objects-nvidia-*",
    "linux-signatures-nvidia-*",
    "nvidia-*",
    "xserver-xorg-video-nvidia*",
    *SERVICE_PACKAGES,
)
"""Patterns of the names that a driver's packages can have. driver_parts.py tells which of them are the driver."""

OTHER_PACKAGES: tuple[str, ...] = (
    "libnvidia-container*",
    "libnvidia-egl-*",
    "libnvidia-ml-dev",
    "nvidia-cg-*",
    "nvidia-container*",
    # The toolkit of CUDA, but not nvidia-cuda-mps
    "nvidia-cuda-[!m]*",
    "nvidia-cudnn*",
    "nvidia-dgx*",
    "nvidia-docker*",
    # The user's choice of a branch, and a repository on the disk
    "nvidia-driver-local-repo-*",
    "nvidia-driver-pinning-*",
    "nvidia-fs*",
    "nvidia-gds*",
    "nvidia-mig*",
    "nvidia-openjdk*",
    "nvidia-opencl-dev",
    "nvidia-profiler",
    "nvidia-system-*",
    "nvidia-vaapi-*",
    "nvidia-visual-*",
)
"""Patterns of packages that match DRIVER_PACKAGES and are no part of the driver."""

PINNED: tuple[str, ...] = tuple(sorted({glob for glob in DRIVER_PACKAGES if glob != "nvlsm*"}))
"""Patterns of the packages that have the driver's version, for the pins of apt."""

TOOLKIT_PACKAGES: tuple[str, ...] = (
    "libnvidia-container-tools",
    "libnvidia-container1",
    TOOLKIT_PACKAGE,
    "nvidia-container-toolkit-base",
)
"""The packages of the container toolkit, which a hold of the driver holds, too."""


def matching(names: t.Iterable[str], patterns: t.Iterable[str]) -> list[str]:
    """Return the package names that match one of the patterns, sorted. Debian's names may end in an architecture."""
    patterns = list(patterns)
    return sorted({name for name in names if _matches(name.partition(":")[0], patterns)})


def _matches(name: str, patterns: t.Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def is_driver(name: str) -> bool:
    """Return whether a package is called like a part of a driver or of its services."""
    name = name.partition(":")[0]
    return _matches(name, DRIVER_PACKAGES) and not _matches(name, OTHER_PACKAGES)


def is_stack(name: str) -> bool:
    """Return whether a package is called like a part of a driver or its services, or is the container toolkit."""
    return is_driver(name) or name == TOOLKIT_PACKAGE
