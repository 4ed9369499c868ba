# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks import published
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks.registry import ask
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade import renamed
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade.conditions import UpgradeView

from tests.unit.fakes import stack
from tests.unit.fakes.stack import Json

OS_ID, OS_VERSION = (f"feature.node.kubernetes.io/system-os_release.{part}" for part in ("ID", "VERSION_ID"))
DRIVER = {"enabled": True, "repository": "nvcr.io/nvidia", "image": "driver", "version": "595.91.07"}
OPTIONS: Json = {"policy_name": "cluster-policy", "release_namespace": "gpu-operator", "registry": {"mode": "strict"}}


def sight(system: str, version: str, **fields: t.Any) -> UpgradeView:
    node = stack.node()
    node["metadata"]["labels"] |= {OS_ID: system, OS_VERSION: version}
    made: Json = {
        "before": (26, 3, 3), "after": (26, 7, 0), "values": {}, "policy": {"driver": DRIVER}, "nodes": [node],
    }  # fmt: skip
    return UpgradeView(**{**made, **fields})


def names(seen: UpgradeView) -> list[str | None]:
    return [pool.image for pool in renamed.renamed(seen, "cluster-policy")]


def test_an_image_that_the_next_operator_names_otherwise_is_found() -> None:
    assert names(sight("rhel", "9.4")) == ["nvcr.io/nvidia/driver:595.91.07-rhel9"]
    assert names(sight("ubuntu", "24.04")) == [] and names(sight("rhel", "10.0")) == []


def test_an_image_of_the_values_is_found_and_no_image_where_no_driver_container_runs() -> None:
    given = {"driver": {"version": "600.10.01"}}
    assert names(sight("ubuntu", "24.04", values=given)) == ["nvcr.io/nvidia/driver:600.10.01-ubuntu24.04"]
    assert names(sight("rhel", "9.4", policy={"driver": {**DRIVER, "enabled": False}})) == []
    off = sight("rhel", "9.4")
    for node in off.nodes:
        node["metadata"]["labels"]["nvidia.com/gpu.deploy.driver"] = "pre-installed"
    assert names(off) == []


def test_pools_of_nvidiadrivers_are_looked_at_each() -> None:
    mine = {"metadata": {"name": "mine"}, "spec": {**DRIVER, "nodeSelector": {}}}
    found = sight("rhel", "9.4", policy={"driver": {"useNvidiaDriverCRD": True}}, drivers=[mine])
    assert names(found) == ["nvcr.io/nvidia/driver:595.91.07-rhel9"]


def test_the_registry_is_asked_for_such_images_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    state: list[ask.State] = ["missing"]

    def answers(cluster: t.Any, namespace: str, pools: t.Any, registry: Json) -> published.Answers:
        images = [image for pool in pools for image in pool.images]
        asked.extend(images)
        return {image: ask.Answer(image, image, state[0], f"{image} does not exist") for image in images}

    monkeypatch.setattr(published, "answers", answers)
    cluster: t.Any = None
    found = renamed.findings(cluster, sight("rhel", "9.4"), OPTIONS)
    assert [(each.check, each.level) for each in found] == [("image", "failure")]
    assert "driver:595.91.07-rhel9 does not exist" in found[0].message
    state[0] = "exists"
    assert renamed.findings(cluster, sight("rhel", "9.4"), OPTIONS) == [] and len(asked) == 2
    same = sight("rhel", "9.4", after=(26, 3, 3), values={"driver": {"version": "600.10.01"}})
    assert renamed.findings(cluster, same, OPTIONS) == [], "no release is left"
    assert renamed.findings(cluster, sight("ubuntu", "24.04"), OPTIONS) == [] and len(asked) == 2
