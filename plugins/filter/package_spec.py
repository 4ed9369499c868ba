# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: package_spec
short_description: Find a package by its upstream version in the output of a package manager
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Reads the output of C(apt-cache madison) or C(dnf repoquery --queryformat '%{name} | %{version}-%{release}\n'), and
    returns the package for M(ansible.builtin.apt) or M(ansible.builtin.dnf).
options:
  _input:
    description: The output of the package manager.
    type: str
    required: true
  names:
    description: Possible names of the package, in order of preference.
    type: list
    elements: str
    required: true
  version:
    description: Upstream version of the package. An empty string selects the first package offered.
    type: str
    default: ""
  separator:
    description: Separator between name and version, C(=) for apt and C(-) for dnf.
    type: str
    default: "="
"""

EXAMPLES = r"""
- name: Install the fabric manager of the driver's version
  ansible.builtin.apt:
    name: "{{ (offered.stdout | gpuops.nvidia.package_spec(names, '580.95.05')).spec }}"
  vars:
    names: [nvidia-fabricmanager-580, nvidia-fabricmanager]
"""

RETURN = r"""
_value:
  description:
    - C(spec) is the name with the version, or an empty string if the package is not offered.
    - C(failure) says what is offered instead, or is an empty string.
  type: dict
"""

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few


def package_spec(offered: str, names: list[str], version: str = "", separator: str = "=") -> dict[str, str]:
    """Return the package to install, or why there is none."""
    found = _found(offered, names)
    for name, full in found:
        if not version or _is_upstream(full, version):
            return {"spec": f"{name}{separator}{full}", "failure": ""}
    wanted = " or ".join(names)
    if not found:
        return {"spec": "", "failure": f"No repository of the host offers any version of {wanted}."}
    offers = first_few([f"{name} {full}" for name, full in found])
    failure = f"No repository of the host offers {wanted} in version {version}. The repositories offer {offers}."
    return {"spec": "", "failure": failure}


def _found(offered: str, names: list[str]) -> list[tuple[str, str]]:
    """Return the name and the full version of each package offered, in the order of the names."""
    rows = [[part.strip() for part in line.split("|")] for line in offered.splitlines() if "|" in line]
    return [(row[0], row[1]) for name in names for row in rows if row[0] == name]


def _is_upstream(full: str, version: str) -> bool:
    """Return whether a package version, with its epoch and revision, is this upstream version."""
    return re.match(rf"(\d+:)?{re.escape(version)}(-|$)", full) is not None


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"package_spec": package_spec}
