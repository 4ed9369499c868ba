# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from lab.registry import Registry
from tests.support.mirrors import NEEDED


@pytest.fixture
def look(run_module: t.Callable) -> t.Callable:
    def call(**options: t.Any) -> t.Any:
        return run_module("operator_images_info", **{**NEEDED, **options})

    return call


def asked(registry: Registry, **more: t.Any) -> dict[str, t.Any]:
    return {"mirror": f"{registry.host}/m", "registry": {"insecure": [registry.host], **more}}


def test_a_mirror_that_has_all_of_it(look: t.Callable, registry: Registry) -> None:
    digest = registry.push("m/nvidia/driver", "1-ubuntu24.04", ["amd64", "arm64"])
    registry.push("m/nvidia/gpu-operator", "v1")
    run = look(**asked(registry), digests={"nvcr.io/nvidia/driver:1-ubuntu24.04": digest})
    assert run.rc == 0 and {row["state"] for row in run.result["images"]} == {"exists"}


def test_what_a_mirror_lacks_is_named(look: t.Callable, registry: Registry) -> None:
    registry.push("lacks/nvidia/driver", "1-ubuntu24.04", ["arm64"])
    run = look(mirror=f"{registry.host}/lacks", registry={"insecure": [registry.host]})
    assert run.rc == 1 and run.result["reason"] == "ImagesMissing"
    rows = {row["image"]: row for row in run.result["images"]}
    assert rows["nvcr.io/nvidia/gpu-operator:v1"]["state"] == "missing"
    assert "amd64" in rows["nvcr.io/nvidia/driver:1-ubuntu24.04"]["message"]
    assert "skopeo_sync" in run.result and "2 of 2" in run.result["msg"]


def test_another_digest_is_named(look: t.Callable, registry: Registry) -> None:
    registry.push("other/nvidia/driver", "1-ubuntu24.04")
    registry.push("other/nvidia/gpu-operator", "v1")
    digests = {"nvcr.io/nvidia/driver:1-ubuntu24.04": f"sha256:{'0' * 64}"}
    run = look(mirror=f"{registry.host}/other", registry={"insecure": [registry.host]}, digests=digests)
    assert run.rc == 1 and [row["state"] for row in run.result["images"]] == ["differs", "exists"]


@pytest.mark.parametrize(("mode", "rc"), [("strict", 1), ("lenient", 0)])
def test_credentials(look: t.Callable, basic_registry: Registry, mode: str, rc: int) -> None:
    run = look(**asked(basic_registry, mode=mode))
    assert run.rc == rc and {row["state"] for row in run.result["images"]} == {"refused"}
    assert len(run.warnings) == (2 if mode == "lenient" else 0)
    user = {"username": basic_registry.user, "password": basic_registry.password}
    run = look(**asked(basic_registry, mode=mode, **user))
    assert run.rc == 1 and {row["state"] for row in run.result["images"]} == {"missing"}
