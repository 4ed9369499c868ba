# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.systems import refusal


@pytest.mark.parametrize(
    ("system", "version"),
    [
        ("debian", "12"),
        ("debian", "13"),
        ("debian", ""),
        ("ubuntu", "22.04"),
        ("ubuntu", "26.04"),
        ("rhel", "9.6"),
        ("rocky", "9.4"),
        ("almalinux", "10.1"),
        ("centos", "10"),
        ("ol", "9.7"),
    ],
)
def test_supported_systems(system: str, version: str) -> None:
    assert refusal({"ID": system, "VERSION_ID": version}) == ""


@pytest.mark.parametrize(
    ("system", "version", "name"),
    [
        ("debian", "11", "debian 11"),
        ("ubuntu", "20.04", "ubuntu 20.04"),
        ("ubuntu", "", "ubuntu"),
        ("sles", "15.6", "sles 15.6"),
        ("amzn", "2023", "amzn 2023"),
        ("rhel", "7.9", "rhel 7.9"),
        ("", "", "an unknown system"),
    ],
)
def test_other_systems(system: str, version: str, name: str) -> None:
    assert refusal({"ID": system, "VERSION_ID": version}) == (
        f"This collection is not tested on {name}, so that it does not change such a host."
    )


@pytest.mark.parametrize("system", ["rhel", "rocky", "almalinux", "ol", "centos"])
def test_enterprise_linux_8(system: str) -> None:
    assert refusal({"ID": system, "VERSION_ID": "8.10"}) == (
        "The package manager of Enterprise Linux 8 works only with Python 3.6, "
        "with which no supported ansible-core works."
    )
