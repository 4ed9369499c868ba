# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""make quick runs the tests of what changed."""

from __future__ import annotations

from pathlib import Path, PurePath

import pytest

from scripts import quick

UNIT = "tests/unit"
PLUGINS = f"{UNIT}/plugins"


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("plugins/module_utils/_cluster/chart/helm.py", {f"{PLUGINS}/module_utils/_cluster/chart"}),
        ("plugins/module_utils/_text.py", {f"{PLUGINS}/module_utils/test_text.py"}),
        ("plugins/modules/gpu_facts.py", {f"{PLUGINS}/modules/test_gpu_facts.py"}),
        ("roles/verify/tasks/main.yml", {f"{UNIT}/test_roles.py"}),
        ("docs/tasks/verify.md", {f"{UNIT}/test_docs.py"}),
        (f"{PLUGINS}/modules/test_gpu_facts.py", {f"{PLUGINS}/modules/test_gpu_facts.py"}),
        (f"{UNIT}/plugins/modules/helper.py", {f"{UNIT}/plugins/modules"}),
        (f"{UNIT}/conftest.py", set[str]()),
        ("lab/cli.py", set[str]()),
        ("README.md", set[str]()),
    ],
)
def test_a_change_has_its_tests(tmp_path: Path, changed: str, tests: set[str]) -> None:
    always = {f"{UNIT}/test_walls.py"}
    for path in {*tests, *always}:
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch() if target.suffix else target.mkdir()
    assert {str(path) for path in quick.tests_of([PurePath(changed)], tmp_path)} == tests | always


def test_a_room_contains_its_files() -> None:
    room = PurePath(f"{PLUGINS}/module_utils/_cluster/chart")
    found = quick.tests_of([PurePath("plugins/module_utils/_cluster/chart/helm.py"), room / "test_helm.py"])
    assert room in found and room / "test_helm.py" not in found


def test_what_git_knows_is_asked_for() -> None:
    assert all(isinstance(path, PurePath) for path in quick.changed_since("HEAD"))
    assert quick.changed_since("a-branch-that-is-missing") == quick.changed_since("HEAD")
