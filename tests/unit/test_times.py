# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run of pytest names failures at once, prints the time of each file, and names the long ones without a reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.times import FILE_S, TEST_S, Times, keep_reasons

ROOT = Path(__file__).parents[2]


def counted(*phases: tuple[str, float, str], is_strict: bool = True) -> Times:
    times = Times(is_strict)
    for phase in phases:
        times.add(*phase)
    return times


def test_files_are_added_up_and_the_longest_comes_first() -> None:
    times = counted(("a.py::one", 1, ""), ("b.py::two[x::y]", 4, ""), ("a.py::one", 2, ""), ("b.py::three", 3, ""))
    assert times.files == {"b.py": 7, "a.py": 3}
    assert times.lines() == ["    7.0 s  b.py", "    3.0 s  1 other files"]


@pytest.mark.parametrize("seconds", [TEST_S, TEST_S + 1])
def test_a_long_test_needs_a_reason(seconds: float) -> None:
    is_long = seconds > TEST_S
    assert counted(("a.py::one", seconds, "")).fails is is_long
    assert not counted(("a.py::one", seconds, "it boots a host")).fails
    assert not counted(("a.py::one", seconds, ""), is_strict=False).fails
    said = ["a.py::one takes 31 s, and a test may take 30 s."] if is_long else []
    assert counted(("a.py::one", seconds, "")).unexplained() == said


def test_a_long_file_needs_the_reason_of_one_of_its_tests() -> None:
    short = [(f"a.py::{number}", FILE_S / 3, "") for number in range(4)]
    assert counted(*short[:3]).unexplained() == []
    assert counted(*short).unexplained() == ["a.py takes 80 s, and a file may take 60 s."]
    assert counted(*short).lines()[0].endswith("a.py  (without a reason)")
    explained = counted(*short, ("a.py::4", 1, "a short one"), ("a.py::5", 2, "the longest one"))
    assert explained.unexplained() == [] and explained.lines()[0].endswith("a.py  (the longest one)")


class Item:
    """A test with marks."""

    nodeid = "a.py::one"

    def __init__(self, *marks: pytest.Mark) -> None:
        self.marks, self.user_properties = marks, list[tuple[str, object]]()

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [mark for mark in self.marks if mark.name == name]


def test_the_mark_nearest_to_a_test_gives_its_reason() -> None:
    item = Item(pytest.mark.slow("of the test").mark, pytest.mark.slow("of the file").mark)
    keep_reasons([item])  # type: ignore[list-item]
    assert item.user_properties == [("slow_reason", "of the test")]


def test_a_mark_without_a_reason_is_refused() -> None:
    with pytest.raises(pytest.UsageError, match=r"a\.py::one: Give a reason"):
        keep_reasons([Item(pytest.mark.slow.mark)])  # type: ignore[list-item]


def test_a_failure_is_named_before_the_run_ends_and_a_test_that_hangs_ends(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.support.times import *\n")
    wrong = "def test_wrong():\n    assert False, 'the reason'\n"
    hangs = "def test_hangs():\n    import subprocess\n    subprocess.run(['sleep', '1000'])\n"
    (tmp_path / "test_two.py").write_text(wrong + hangs)
    command = [sys.executable, "-m", "pytest", "--numprocesses=1", "--timeout=1", f"--rootdir={tmp_path}", tmp_path]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    during = ended.stdout.partition("= FAILURES =")[0]
    assert "test_two.py::test_wrong failed in its call: AssertionError: the reason" in during, ended.stdout
    assert "test_two.py::test_hangs failed in its call: Failed: Timeout" in during
