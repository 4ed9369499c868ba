# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The host's operating system, and those that the host wing supports: what a test or a recorded host stands for."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.section import Section, known_if

_OS_RELEASE = "/etc/os-release"
_FAMILIES = {"debian": "debian", "ubuntu": "debian", "rhel": "redhat", "fedora": "redhat", "centos": "redhat"}
"""Values of ID and ID_LIKE in os-release, each with the family whose package manager the system has."""

_RED_HAT = ("rhel", "rocky", "almalinux", "ol", "centos")
_VERSIONS: dict[str, tuple[str, ...]] = {
    "debian": ("12", "13"),
    "ubuntu": ("22.04", "24.04", "26.04"),
    **dict.fromkeys(_RED_HAT, ("9", "10")),
}
"""The values of ID in os-release, each with the versions. For the Red Hat family only the major version counts."""

_NAMES = {"debian": "Debian", "ubuntu": "Ubuntu", "rhel": "Enterprise Linux"}


def _spoken(words: t.Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


*_FIRST, _LAST = (f"{name} {_spoken(_VERSIONS[system])}" for system, name in _NAMES.items())
SUPPORTED = f"{', '.join(_FIRST)}, and {_LAST}"
"""The supported systems in words."""


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
    return f"This collection does not support {name}, so the host was not changed."


def os_release(host: Host) -> dict[str, str]:
    """Return the values in os-release, which os-release(5) describes."""
    text = host.read(_OS_RELEASE) or ""
    return dict(re.findall(r"^(\w+)=[\"']?(.*?)[\"']?$", text, re.MULTILINE))


def system(host: Host) -> Section:
    """Return the host's operating system, and the family that it belongs to."""
    found = os_release(host)
    # ID_LIKE has the nearest relative first.
    ids = [found.get("ID", ""), *found.get("ID_LIKE", "").split()]
    facts = {
        "id": found.get("ID") or None,
        "version": found.get("VERSION_ID") or None,
        "family": next((_FAMILIES[name] for name in ids if name in _FAMILIES), None),
    }
    reasons = dict.fromkeys(facts, f"{_OS_RELEASE} does not say it")
    reasons["family"] = "It belongs to another family than Debian's and Red Hat's"
    return Section(facts, {name: known_if(value, _OS_RELEASE, reasons[name]) for name, value in facts.items()})
