# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: nvidia_packages
short_description: List NVIDIA's packages, as name patterns or as installed packages
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Returns the patterns of NVIDIA's package names, or the installed packages whose names match them.
positional: installed
options:
  _input:
    description:
      - V(driver) means the packages that a driver container replaces (the driver and its services, but not the
        container toolkit).
      - V(all) means all packages that must be upgraded together with the driver.
    type: str
    choices: [driver, all]
    required: true
  installed:
    description: The names of the installed packages, for example the keys of C(ansible_facts.packages).
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: List the packages
  ansible.builtin.package_facts:

- name: Remove the host's driver
  ansible.builtin.package:
    name: "{{ 'driver' | gpuops.nvidia.nvidia_packages(ansible_facts.packages) }}"
    state: absent

- name: Hold NVIDIA's packages
  gpuops.nvidia.package_hold:
    packages: "{{ 'all' | gpuops.nvidia.nvidia_packages }}"
"""

RETURN = r"""
_value:
  description: The patterns, or with O(installed) the sorted names of the installed packages that match them.
  type: list
  elements: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import nvidia_packages as names

_PATTERNS = {"driver": names.DRIVER_PACKAGES, "all": names.ALL_PACKAGES}


def nvidia_packages(scope: str, installed: t.Iterable[str] | None = None) -> list[str]:
    """Return the patterns of the packages, or the installed packages that match them."""
    if scope not in _PATTERNS:
        raise AnsibleFilterError(f"gpuops.nvidia.nvidia_packages accepts driver or all, not {scope}.")
    if installed is None:
        return list(_PATTERNS[scope])
    found = names.matching(installed, _PATTERNS[scope])
    return [name for name in found if scope == "all" or names.is_driver(name)]


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filter by its name."""
        return {"nvidia_packages": nvidia_packages}
