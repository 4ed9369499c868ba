# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import typing as t

import pytest

from lab.registry import Registry

BASE: dict[str, t.Any] = {
    "images": ["nvcr.io/nvidia/gpu-operator:v1", "nvcr.io/nvidia/driver:1"],
    "clusterpolicy": {"spec": {"driver": {"repository": "nvcr.io/nvidia", "image": "driver", "version": "1"}}},
    "systems": [{"system": "ubuntu24.04", "architectures": ["amd64"]}],
}
DRIVER = "nvidia/driver"


@pytest.fixture
def look(run_module: t.Callable) -> t.Callable:
    def call(**options: t.Any) -> t.Any:
        return run_module("operator_images_info", **{**BASE, **options})

    return call


def asked(registry: Registry, **more: t.Any) -> dict[str, t.Any]:
    return {"mirror": f"{registry.host}/m", "registry": {"insecure": [registry.host], **more}}


def test_the_list(look: t.Callable) -> None:
    run = look(mirror="r.example/m", registry={"mode": "offline"}, more=["busybox:1"])
    assert run.rc == 0 and not run.result["changed"]
    assert [(row["image"], row["mirror_image"], row["state"]) for row in run.result["images"]] == [
        ("busybox:1", "r.example/m/library/busybox:1", "unasked"),
        ("nvcr.io/nvidia/driver:1-ubuntu24.04", "r.example/m/nvidia/driver:1-ubuntu24.04", "unasked"),
        ("nvcr.io/nvidia/gpu-operator:v1", "r.example/m/nvidia/gpu-operator:v1", "unasked"),
    ]
    assert run.result["skopeo_sync"] == {
        "docker.io": {"images": {"library/busybox": ["1"]}},
        "nvcr.io": {"images": {"nvidia/driver": ["1-ubuntu24.04"], "nvidia/gpu-operator": ["v1"]}},
    }


def test_without_a_mirror_no_registry_is_asked(look: t.Callable) -> None:
    assert {(row["mirror_image"], row["state"]) for row in look().result["images"]} == {("", "unasked")}


def test_a_mirror_that_has_all_of_it(look: t.Callable, registry: Registry) -> None:
    digest = registry.push(f"m/{DRIVER}", "1-ubuntu24.04", ["amd64", "arm64"])
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


def test_the_nodes_of_a_cluster(look: t.Callable, api: FakeApi) -> None:
    run = look(systems=[], from_nodes=True, **api.connection)
    assert run.rc == 0, run.result
    drivers = [row["image"] for row in run.result["images"] if DRIVER in row["image"]]
    assert len(drivers) == 1 and re.search(r"driver:1-ubuntu\d", drivers[0])
