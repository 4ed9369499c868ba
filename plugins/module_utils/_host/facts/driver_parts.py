# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which installed packages are the driver: those that own its files, and those of its version or branch.

A name alone is no proof. A machine of NVIDIA has many packages called nvidia-something that set up its platform, such
as nvidia-raid-config, and they stay when the driver goes.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import nvidia_packages
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host

_LIBRARIES = ("/usr/lib/*-linux-gnu/lib{}.so.1", "/usr/lib64/lib{}.so.1", "/usr/lib/lib{}.so.1")
_VERSION = re.compile(r"(?:\d+:|\(none\):)?(\d{3,4})\.\d")
# The branches that a driver can have. nvlsm counts years, the container toolkit from 1, and DGX OS takes its releases.
_OLDEST, _NEWEST = 300, 2000


def files(host: Host) -> list[str]:
    """Return the files that every driver has: the libraries that the links lead to, and nvidia-smi."""
    links = [path for name in ("nvidia-ml", "cuda") for each in _LIBRARIES for path in host.glob(each.format(name))]
    found = (host.resolve(path) for path in [*links, "/usr/bin/nvidia-smi"])
    return list(dict.fromkeys(path for path in found if path))


def version_of_files(paths: t.Iterable[str]) -> str | None:
    """Return the driver's version, which its libraries have in their names."""
    versions = (path.rpartition(".so.")[2] for path in paths)
    return next((version for version in versions if version[:1].isdigit() and "." in version), None)


def parts(installed: t.Mapping[str, str], owners: t.Collection[str], versions: t.Collection[str]) -> list[str]:
    """Return the installed packages that are the driver with these versions, sorted.

    ``installed`` maps names to the package manager's versions. ``owners`` are packages that own files of the driver.
    Without an owner and without a version there is no driver, so nothing is a part of it.
    """
    if not owners and not versions:
        return []
    branches = set(filter(None, map(branch, versions)))
    found = {name for name in installed if _is_part(name, installed[name], branches)}
    return sorted(found | set(owners))


def _is_part(name: str, version: str, branches: t.Collection[str]) -> bool:
    plain = name.partition(":")[0]
    if any(service.provides(plain) for service in nvidia_packages.SERVICES.values()):
        return True
    if not nvidia_packages.is_driver(plain):
        return False
    # Signed modules have their kernel's version, and the driver's branch in their names.
    return branch(version) in branches or any(re.search(rf"-{each}(?:-|$)", plain) for each in branches)


def is_of_a_driver(name: str, version: str) -> bool:
    """Return whether a package that is called like a driver's has the version or the branch of any driver."""
    plain = name.partition(":")[0]
    if branch(version) or any(service.provides(plain) for service in nvidia_packages.SERVICES.values()):
        return True
    return any(branch(f"{found}.0") for found in re.findall(r"-(\d{3,4})(?=-|$)", plain))


def branch(version: str) -> str | None:
    """Return the branch of a driver's version, or of a package's that has it, or None if it can be no driver's."""
    match = _VERSION.match(version)
    return match[1] if match and _OLDEST <= int(match[1]) < _NEWEST else None
