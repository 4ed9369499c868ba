# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import shutil
import stat
import typing as t
from pathlib import Path

import pytest

from lab.registry import Registry
from tests.support.registries import running_registry

OPERATOR, DRIVER = "nvcr.io/nvidia/gpu-operator:v1", "nvcr.io/nvidia/driver:1-ubuntu24.04"
IMAGES = [OPERATOR, DRIVER]


@pytest.fixture(scope="module")
def publisher() -> t.Iterator[Registry]:
    """A registry in the place of nvcr.io. It has an image for one architecture, and one for two."""
    with running_registry() as found:
        found.push("nvidia/gpu-operator", "v1")
        found.push("nvidia/driver", "1-ubuntu24.04", ["amd64", "arm64"])
        yield found


@pytest.fixture
def home(publisher: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose registries.conf(5) leads from nvcr.io to the publisher on loopback."""
    if shutil.which("skopeo") is None:
        pytest.skip("There is no skopeo on PATH. Run make host-tools as root.")
    folder = tmp_path / "home"
    (folder / ".config" / "containers").mkdir(parents=True)
    text = f'[[registry]]\nprefix = "nvcr.io"\nlocation = "{publisher.host}"\ninsecure = true\n'
    (folder / ".config" / "containers" / "registries.conf").write_text(text)
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def mirror_of(run_module: t.Callable, home: Path) -> t.Callable:
    def to(registry: Registry, **options: t.Any) -> t.Any:
        login = {"registry": registry.host, "username": registry.user, "password": registry.password}
        given = {
            "images": IMAGES,
            "mirror": f"{registry.host}/m",
            "logins": [login] if registry.user else [],
            "insecure": [registry.host],
        }
        return run_module("image_mirror", **{**given, **options})

    return to


def results(run: t.Any) -> dict[str, str]:
    return {row["image"]: row["result"] for row in run.result["images"]}


def test_a_check_a_run_and_a_second_run(mirror_of: t.Callable, basic_registry: Registry) -> None:
    for check, expected in ((True, "copied"), (False, "copied"), (False, "present"), (True, "present")):
        run = mirror_of(basic_registry, _ansible_check_mode=check)
        assert run.rc == 0, run.result
        assert set(results(run).values()) == {expected} and run.result["changed"] == (expected == "copied")
    assert run.result["digests"].keys() == set(IMAGES)
    assert "PUT /v2/m/nvidia/driver/manifests/1-ubuntu24.04" in basic_registry.requests()


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


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"logins": []}, "logins"),
        ({"insecure": []}, "ca_path"),
        ({"logins": "wrong"}, "logins"),
    ],
)
def test_what_a_registry_refuses(mirror_of: t.Callable, options: dict[str, t.Any], remedy: str) -> None:
    with running_registry("basic", tls=True) as closed:
        if options.get("logins") == "wrong":
            options = {"logins": [{"registry": closed.host, "username": closed.user, "password": "wr0ng-secret"}]}
        run = mirror_of(closed, images=[OPERATOR], **options)
        assert run.rc == 1 and remedy in run.result["msg"]
        assert "wr0ng-secret" not in json.dumps(run.result)


def test_an_authority_of_ones_own(mirror_of: t.Callable) -> None:
    with running_registry("basic", tls=True) as closed:
        run = mirror_of(closed, images=[OPERATOR], insecure=[], ca_path=str(closed.ca))
        assert run.rc == 0, run.result


def test_a_missing_authority(mirror_of: t.Callable, registry: Registry, tmp_path: Path) -> None:
    run = mirror_of(registry, ca_path=str(tmp_path / "none.pem"))
    assert run.rc == 1 and run.result["msg"].startswith("ca_path: ")


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


def test_without_skopeo(run_module: t.Callable, tmp_path: Path) -> None:
    run = run_module("image_mirror", images=IMAGES, mirror="r.example/m", binary_path=str(tmp_path / "skopeo"))
    assert run.rc == 1 and run.result["reason"] == "SkopeoMissing"


def script(folder: Path, text: str) -> str:
    path = folder / "skopeo"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_copy_that_is_another_image_is_a_failure(run_module: t.Callable, tmp_path: Path) -> None:
    """The registry accepts the copy and serves something else."""
    program = script(tmp_path, 'case "$1$3" in inspectdocker://r.example*) echo other;; inspect*) echo "$3";; esac')
    run = run_module("image_mirror", images=[OPERATOR], mirror="r.example/m", binary_path=program)
    assert run.rc == 1 and "after the copy" in run.result["msg"]


def test_a_failure_without_a_word(run_module: t.Callable, tmp_path: Path) -> None:
    run = run_module("image_mirror", images=[OPERATOR], mirror="r.example/m", binary_path=script(tmp_path, "exit 3"))
    assert run.rc == 1 and "without a word" in run.result["msg"]


def test_a_folder_that_cannot_be_made(run_module: t.Callable, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    program = script(tmp_path, "echo x")
    options = {"images": [OPERATOR], "state": "exported", "binary_path": program}
    run = run_module("image_mirror", folder=str(tmp_path / "file"), **options)
    assert run.rc == 1 and "file" in run.result["msg"]
