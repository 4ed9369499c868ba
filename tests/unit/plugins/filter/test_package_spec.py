# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.filter.package_spec import FilterModule, package_spec

MADISON = """\
nvidia-fabricmanager-580 | 580.95.05-0ubuntu0.24.04.1 | http://archive noble-updates/multiverse amd64 Packages
nvidia-fabricmanager-580 | 580.65.06-0ubuntu0.24.04.1 | http://archive noble/multiverse amd64 Packages
nvidia-fabricmanager | 580.95.05-1 | http://cuda Packages
"""
REPOQUERY = "nvidia-fabric-manager | 580.65.06-1\n\nnvidia-fabric-manager | 580.95.05-1\n\n"
NAMES = ["nvidia-fabricmanager-580", "nvidia-fabricmanager", "nvidia-fabric-manager"]


def test_the_version_takes_precedence_over_the_order_of_the_names() -> None:
    find = FilterModule().filters()["package_spec"]
    assert find(MADISON, NAMES, "580.65.06") == {
        "spec": "nvidia-fabricmanager-580=580.65.06-0ubuntu0.24.04.1",
        "failure": "",
    }
    assert find(MADISON, NAMES[1:], "580.95.05")["spec"] == "nvidia-fabricmanager=580.95.05-1"
    assert find(REPOQUERY, NAMES, "580.95.05", "-")["spec"] == "nvidia-fabric-manager-580.95.05-1"
    assert find(MADISON, NAMES)["spec"] == "nvidia-fabricmanager-580=580.95.05-0ubuntu0.24.04.1"


def test_a_missing_package_is_an_error_that_lists_the_available_ones() -> None:
    assert package_spec(MADISON, NAMES, "580.9")["failure"] == (
        "No repository of the host offers nvidia-fabricmanager-580 or nvidia-fabricmanager or nvidia-fabric-manager "
        "in version 580.9. The repositories offer nvidia-fabricmanager-580 580.95.05-0ubuntu0.24.04.1, "
        "nvidia-fabricmanager-580 580.65.06-0ubuntu0.24.04.1, nvidia-fabricmanager 580.95.05-1."
    )
    assert package_spec("", ["nvlsm"])["failure"] == "No repository of the host offers any version of nvlsm."


def test_an_epoch_is_not_part_of_the_version() -> None:
    assert (
        package_spec("nvidia-driver | 3:580.95.05-1", ["nvidia-driver"], "580.95.05", "-")["spec"]
        == "nvidia-driver-3:580.95.05-1"
    )
