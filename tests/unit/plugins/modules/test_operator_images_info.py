# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import typing as t

from tests.support.mirrors import NEEDED
from tests.unit.fakes.api import FakeApi


def test_the_list(run_module: t.Callable) -> None:
    run = run_module(
        "operator_images_info", **NEEDED, mirror="r.example/m", registry={"mode": "offline"}, more=["busybox:1"]
    )
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


def test_without_a_mirror_no_registry_is_asked(run_module: t.Callable) -> None:
    run = run_module("operator_images_info", **NEEDED)
    assert {(row["mirror_image"], row["state"]) for row in run.result["images"]} == {("", "unasked")}


def test_the_nodes_of_a_cluster(run_module: t.Callable, api: FakeApi) -> None:
    run = run_module("operator_images_info", **{**NEEDED, "systems": [], "from_nodes": True, **api.connection})
    assert run.rc == 0, run.result
    drivers = [row["image"] for row in run.result["images"] if "nvidia/driver" in row["image"]]
    assert len(drivers) == 1 and re.search(r"driver:1-ubuntu\d", drivers[0])
