# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

from lab.registry import Registry
from tests.support.mirrors import DRIVER, OPERATOR, program, results


def test_an_image_that_has_changed_is_copied_again(
    mirror_of: t.Callable, publisher: Registry, registry: Registry
) -> None:
    publisher.push("nvidia/moving", "latest", ["amd64"])
    assert mirror_of(registry, images=["nvcr.io/nvidia/moving"]).result["changed"]
    digest = publisher.push("nvidia/moving", "latest", ["amd64", "arm64"])
    run = mirror_of(registry, images=["nvcr.io/nvidia/moving"])
    assert run.result["changed"] and run.result["digests"] == {"nvcr.io/nvidia/moving": digest}
    assert not mirror_of(registry, images=["nvcr.io/nvidia/moving"]).result["changed"]


def test_through_a_folder(mirror_of: t.Callable, basic_registry: Registry, tmp_path: Path) -> None:
    folder = tmp_path / "transfer"
    for check, changed in ((True, True), (False, True), (False, False)):
        run = mirror_of(basic_registry, state="exported", folder=str(folder), _ansible_check_mode=check)
        assert run.rc == 0 and run.result["changed"] == changed
        assert folder.exists() is not check
    exported = run.result["digests"]
    assert sorted(path.name for path in (folder / "nvcr.io" / "nvidia").iterdir()) == ["driver", "gpu-operator"]
    for check, changed in ((True, True), (False, True), (False, False)):
        run = mirror_of(
            basic_registry,
            state="imported",
            folder=str(folder),
            mirror=f"{basic_registry.host}/inside",
            _ansible_check_mode=check,
        )
        assert run.rc == 0 and run.result["changed"] == changed, run.result
    assert run.result["digests"] == exported


def test_an_export_that_was_cut_short_is_not_taken_for_an_image(
    mirror_of: t.Callable, registry: Registry, tmp_path: Path
) -> None:
    partial = tmp_path / "t" / "nvcr.io" / "nvidia" / "driver" / "1-ubuntu24.04.partial"
    partial.mkdir(parents=True)
    (partial / "manifest.json").write_text("{}")
    run = mirror_of(registry, state="imported", folder=str(tmp_path / "t"), images=[DRIVER])
    assert run.rc == 1 and "does not exist" in run.result["msg"]
    assert mirror_of(registry, state="exported", folder=str(tmp_path / "t"), images=[DRIVER]).result["changed"]
    assert not partial.exists()


def test_one_image_that_fails_does_not_end_the_others(mirror_of: t.Callable, registry: Registry) -> None:
    absent = "nvcr.io/nvidia/absent:1"
    run = mirror_of(registry, images=[absent, OPERATOR], mirror=f"{registry.host}/partly")
    assert run.rc == 1 and run.result["reason"] == "ImagesFailed"
    assert results(run) == {absent: "failed", OPERATOR: "copied"} and run.result["changed"]
    assert "1 of 2 images" in run.result["msg"] and "absent" in run.result["msg"]


def test_a_copy_that_is_another_image_is_a_failure(run_module: t.Callable, tmp_path: Path) -> None:
    """The registry accepts the copy and serves something else."""
    binary = program(tmp_path, 'case "$1$3" in inspectdocker://r.example*) echo other;; inspect*) echo "$3";; esac')
    run = run_module("image_mirror", images=[OPERATOR], mirror="r.example/m", binary_path=binary)
    assert run.rc == 1 and "after the copy" in run.result["msg"]
