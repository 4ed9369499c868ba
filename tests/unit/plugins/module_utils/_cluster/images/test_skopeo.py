# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from lab.registry import Registry
from tests.support.mirrors import IMAGES, OPERATOR, program
from tests.support.registries import running_registry


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


def test_without_skopeo(run_module: t.Callable, tmp_path: Path) -> None:
    run = run_module("image_mirror", images=IMAGES, mirror="r.example/m", binary_path=str(tmp_path / "skopeo"))
    assert run.rc == 1 and run.result["reason"] == "SkopeoMissing"


def test_a_failure_without_a_word(run_module: t.Callable, tmp_path: Path) -> None:
    run = run_module("image_mirror", images=[OPERATOR], mirror="r.example/m", binary_path=program(tmp_path, "exit 3"))
    assert run.rc == 1 and "without a word" in run.result["msg"]


def test_a_folder_that_cannot_be_made(run_module: t.Callable, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    binary = program(tmp_path, "echo x")
    options = {"images": [OPERATOR], "state": "exported", "binary_path": binary}
    run = run_module("image_mirror", folder=str(tmp_path / "file"), **options)
    assert run.rc == 1 and "file" in run.result["msg"]
