# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from lab.registry import Registry
from tests.support.mirrors import DRIVER, IMAGES, OPERATOR, results


def test_a_check_a_run_and_a_second_run(mirror_of: t.Callable, basic_registry: Registry) -> None:
    for check, expected in ((True, "copied"), (False, "copied"), (False, "present"), (True, "present")):
        run = mirror_of(basic_registry, _ansible_check_mode=check)
        assert run.rc == 0, run.result
        assert set(results(run).values()) == {expected} and run.result["changed"] == (expected == "copied")
    assert run.result["digests"].keys() == set(IMAGES)
    assert "PUT /v2/m/nvidia/driver/manifests/1-ubuntu24.04" in basic_registry.requests()


def test_progress_is_told(mirror_of: t.Callable, registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "progress"
    mirror_of(registry, mirror=f"{registry.host}/told", progress_path=str(path))
    assert path.read_text().splitlines() == [f"1 of 2: {OPERATOR} copied", f"2 of 2: {DRIVER} copied"]


@pytest.mark.parametrize(
    ("options", "missing"),
    [({"mirror": None}, "mirror"), ({"state": "exported"}, "folder"), ({"state": "imported"}, "folder")],
)
def test_each_way_needs_its_ends(run_module: t.Callable, options: dict[str, t.Any], missing: str) -> None:
    run = run_module("image_mirror", **{"images": IMAGES, "mirror": "r.example/m", **options})
    assert run.rc == 1 and missing in run.result["msg"]
