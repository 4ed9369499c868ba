# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpuops.nvidia.plugins.filter.nvidia_packages import FilterModule, nvidia_packages

INSTALLED = {
    "cuda-drivers-580": [],
    "libnvidia-container1": [],
    "linux-objects-nvidia-580-server-6.8.0-31-generic": [],
    "nvidia-container-toolkit": [],
    "nvidia-fabricmanager-580": [],
    "nvidia-headless-580-server-open": [],
    "linux-image-generic": [],
}


def test_the_scope_driver_covers_what_a_driver_container_replaces() -> None:
    find = FilterModule().filters()["nvidia_packages"]
    assert find("driver", INSTALLED) == [
        "cuda-drivers-580",
        "linux-objects-nvidia-580-server-6.8.0-31-generic",
        "nvidia-fabricmanager-580",
        "nvidia-headless-580-server-open",
    ]


def test_all_packages_include_the_container_toolkit_but_not_the_kernel() -> None:
    assert nvidia_packages("all", INSTALLED) == sorted(INSTALLED.keys() - {"linux-image-generic"})


def test_without_installed_packages_the_patterns_are_returned() -> None:
    assert "nvidia-*" in nvidia_packages("driver")
    assert "nvidia-*" in nvidia_packages("all")


def test_an_unknown_scope_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="accepts driver or all, not toolkit"):
        nvidia_packages("toolkit")
