# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: package_spec
short_description: Find a package of an upstream version in what a package manager offers
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Reads what C(apt-cache madison) or C(dnf repoquery --queryformat '%{name} | %{version}-%{release}\n') printed, and returns what to
    give to M(ansible.builtin.apt) or M(ansible.builtin.dnf).
options:
  _input:
    description: The output of the package manager.
    type: str
    required: true
  names:
    description: The names that the package may have, the best first.
    type: list
    elements: str
    required: true
  version:
    description: The upstream version that it must have. An empty string takes the first that is offered.
    type: str
    default: ""
  separator:
    description: What stands between name and version, C(=) for apt and C(-) for dnf.
    type: str
    default: "="
"""

EXAMPLES = r"""
- name: Install the fabric manager of the driver's version
  ansible.builtin.apt:
    name: "{{ (offered.stdout | gpuops.nvidia.package_spec(['nvidia-fabricmanager-580', 'nvidia-fabricmanager'], '580.95.05')).spec }}"
"""

RETURN = r"""
_value:
  description: C(spec), name and version, or an empty string, and C(failure), the reason why there is none, with what is offered.
  type: dict
"""

import re
import typing as t


def package_spec(offered: str, names: list[str], version: str = "", separator: str = "=") -> dict[str, str]:
    """Return the package to install, or why there is none."""
    rows = [[part.strip() for part in line.split("|")] for line in offered.splitlines() if "|" in line]
    found = [(row[0], row[1]) for name in names for row in rows if row[0] == name]
    fitting = [
        (name, full) for name, full in found if not version or re.match(rf"(\d+:)?{re.escape(version)}(-|$)", full)
    ]
    if fitting:
        return {"spec": separator.join(fitting[0]), "failure": ""}
    offers = ", ".join(f"{name} {full}" for name, full in found[:5]) or "none of them in any version"
    wanted = f" of version {version}" if version else ""
    return {
        "spec": "",
        "failure": f"No repository of the host offers {' or '.join(names)}{wanted}. It offers {offers}.",
    }


class FilterModule:
    """The filter that this file brings."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"package_spec": package_spec}
