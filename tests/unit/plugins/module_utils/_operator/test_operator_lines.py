# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import re

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils import _compatibility
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator import operator_lines
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.operator_lines import LINES

VERSION = re.compile(r"\d{3}\.\d{2,3}(\.\d{2})?")


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_every_line_is_complete_and_dated(line) -> None:
    assert line.kubernetes[0] < line.kubernetes[1] and line.containerd[0] < line.containerd[1]
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", line.date) and re.fullmatch(r"[0-9a-f]{8}", line.revision)
    assert VERSION.fullmatch(line.driver) and all(VERSION.fullmatch(driver) for driver in line.drivers)
    assert line.driver not in line.drivers


def test_lines_are_named_by_their_key_and_the_newest_is_first() -> None:
    numbers = [line.number for line in LINES.values()]
    assert numbers == sorted(numbers, reverse=True)
    assert all(line.name == name for name, line in LINES.items())


def test_only_the_newest_line_is_supported() -> None:
    assert [line.name for line in LINES.values() if line.life_cycle == "supported"] == [next(iter(LINES))]


def test_every_step_belongs_to_the_line_that_it_leads_to() -> None:
    assert all({step["to"] for step in line.steps} == {f"v{line.name}"} for line in LINES.values())


def test_a_feature_begins_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert operator_lines.first_with("restarts_in_place") == (26, 7)
    newer = dataclasses.replace(operator_lines.NEWEST, name="27.1")
    monkeypatch.setitem(LINES, "27.1", newer)
    assert operator_lines.first_with("restarts_in_place") == (26, 7)


@pytest.mark.parametrize(
    ("system", "version", "line", "expected"),
    [
        ("rhel", "9.4", (26, 3), False),
        ("rhel", "9.4", (26, 7), True),
        ("rhel", "10.1", (26, 3), True),
        ("rhel", "10.1", (25, 10), False),
        ("ol", "10.0", (26, 3), False),
        ("ol", "9.4", (26, 7), True),
        ("rocky", "9.6", (26, 3), True),
        ("rhel", "next", (26, 3), False),
        ("rhel", "9.4", None, True),
        ("rhel", "9.4", (27, 1), True),
        ("ubuntu", "24.04", None, False),
    ],
)
def test_the_major_version_is_alone_in_a_tag_from_a_line_on(
    system: str, version: str, line: tuple[int, int] | None, expected: bool
) -> None:
    assert operator_lines.has_major_tag(system, version, line) is expected


@pytest.mark.parametrize(
    ("version", "name"), [("v26.3.2", "26.3"), ("26.7.0", "26.7"), (None, next(iter(LINES))), ("v1.0.0", None)]
)
def test_the_line_of_a_version(version: str | None, name: str | None) -> None:
    line = operator_lines.line_of(version)
    assert (line.name if line else None) == name


def test_minimum_drivers_are_older_than_the_default() -> None:
    newest = next(iter(LINES.values())).driver
    assert all(oldest.split(".") < newest.split(".") for oldest in _compatibility.MINIMUM_DRIVERS.values())
