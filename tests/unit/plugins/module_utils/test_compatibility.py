# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._compatibility import LIFE_CYCLE, LINES, MINIMUM_DRIVERS

VERSION = re.compile(r"\d{3}\.\d{2,3}(\.\d{2})?")


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_every_line_is_complete_and_dated(line) -> None:
    assert line.kubernetes[0] < line.kubernetes[1] and line.containerd[0] < line.containerd[1]
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", line.date) and re.fullmatch(r"[0-9a-f]{8}", line.revision)
    assert VERSION.fullmatch(line.driver) and all(VERSION.fullmatch(driver) for driver in line.drivers)
    assert line.driver not in line.drivers
    assert line.name in LIFE_CYCLE


def test_lines_are_named_by_their_key_and_the_newest_is_first() -> None:
    numbers = [tuple(map(int, name.split("."))) for name in LINES]
    assert numbers == sorted(numbers, reverse=True)
    assert all(line.name == name for name, line in LINES.items())


def test_only_the_newest_line_is_supported() -> None:
    assert [name for name, status in LIFE_CYCLE.items() if status == "supported"] == [next(iter(LINES))]


def test_minimum_drivers_are_older_than_the_default() -> None:
    newest = next(iter(LINES.values())).driver
    assert all(oldest.split(".") < newest.split(".") for oldest in MINIMUM_DRIVERS.values())
