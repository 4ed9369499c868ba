# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The operating systems that the host wing supports: those that a test or a recorded host stands for."""

from __future__ import annotations

import typing as t

_RED_HAT = ("rhel", "rocky", "almalinux", "ol", "centos")
_VERSIONS: dict[str, tuple[str, ...]] = {
    "debian": ("12", "13"),
    "ubuntu": ("22.04", "24.04", "26.04"),
    **dict.fromkeys(_RED_HAT, ("9", "10")),
}
"""The values of ID in os-release, each with the versions. For the Red Hat family only the major version counts."""

SUPPORTED = "Debian 12 and 13, Ubuntu 22.04, 24.04 and 26.04, and Enterprise Linux 9 and 10"


def refusal(os_release: t.Mapping[str, str]) -> str:
    """Return why the host wing does not support a system, or an empty string."""
    system, version = os_release.get("ID", ""), os_release.get("VERSION_ID", "")
    major = version.partition(".")[0]
    if system in _RED_HAT and major == "8":
        return (
            "The package manager of Enterprise Linux 8 works only with Python 3.6, "
            "with which no supported ansible-core works."
        )
    # Debian's testing and unstable have no version. They are newer than the newest one.
    if system == "debian" and not version:
        return ""
    if (major if system in _RED_HAT else version) in _VERSIONS.get(system, ()):
        return ""
    name = f"{system or 'an unknown system'} {version}".strip()
    return f"This collection is not tested on {name}, so that it does not change such a host."
