# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network operator's driver container."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import network_driver

from tests.unit import diagnosed


@pytest.mark.parametrize(
    ("text", "code", "certainty"),
    [
        # https://github.com/Mellanox/network-operator/pull/1450
        (
            " mlnx-ofed-kernel-modules : Depends: linux-modules-extra-5.15.0-130-generic but it is not installable",
            "NetworkDriverPackagesMissing",
            "likely",
        ),
        # https://support.crusoecloud.com/hc/en-us/articles/47917278400923
        ("Storage modules are loaded for current driver, terminating", "NetworkDriverKeepsStorage", "certain"),
        # https://github.com/Mellanox/network-operator/issues/1415
        ("Failed to build mlnx-nvme DEB", "NetworkDriverDoesNotBuild", "likely"),
        # https://github.com/Mellanox/doca-driver-build/issues/52
        ("Failed loading kernel module mlx5_ib:[FAILED[]", "NetworkDriverReloadFails", "likely"),
    ],
)
def test_published_lines_of_the_network_driver(text: str, code: str, certainty: str) -> None:
    found = diagnosed.found(network_driver.RULES, text)
    assert {name: each.certainty for name, each in found.items()} == {code: certainty}


def test_the_package_that_is_missing_is_named() -> None:
    line = " mlnx-ofed-kernel-modules : Depends: linux-modules-extra-5.15.0-130-generic but it is not installable"
    found = diagnosed.found(network_driver.RULES, line)["NetworkDriverPackagesMissing"]
    assert "linux-modules-extra-5.15.0-130-generic" in found.cause


def test_a_module_of_another_device_is_not_the_network_drivers() -> None:
    assert diagnosed.found(network_driver.RULES, "Failed loading kernel module nvidia") == {}
