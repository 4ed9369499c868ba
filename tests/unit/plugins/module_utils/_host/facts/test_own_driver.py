# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.own_driver import own_driver

DRIVER = {"userspace_version": "580.95.05", "containerised": False, "origin": "runfile"}


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        ({}, ["the driver 580.95.05 of a .run file", "nvidia-imex"]),
        ({"origin": "unknown"}, ["the driver 580.95.05", "nvidia-imex"]),
        ({"userspace_version": None, "installed_version": "570.1"}, ["the driver 570.1 of a .run file", "nvidia-imex"]),
        ({"userspace_version": None}, ["nvidia-imex"]),
        ({"containerised": True}, ["nvidia-imex"]),
    ],
)
def test_the_parts_of_a_driver(driver: dict[str, t.Any], words: list[str]) -> None:
    services = {"imex": {"package": "nvidia-imex"}, "nvlsm": {"package": None}}
    assert own_driver({"driver": {**DRIVER, **driver}, "services": services}) == words
    assert own_driver({"driver": {**DRIVER, **driver}}) == words[:-1]
