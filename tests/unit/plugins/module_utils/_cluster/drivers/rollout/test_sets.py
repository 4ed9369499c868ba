# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import sets
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.pods import view
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.sets import Deletion, DriverSet
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.sight import Sight

from tests.unit.fakes import stack
from tests.unit.fakes.stack import NOW, Json
from tests.unit.fakes.upgrades.drivers import NEW, OLD, STATE, driver_pod, validator_pod

SET = DriverSet("nvidia-driver-daemonset", revision=NEW, image=f"nvcr.io/nvidia/driver:{NEW}-ubuntu24.04", desired=1)


def node(state: str = "upgrade-done", version: str = NEW, **labels: str) -> Json:
    made = stack.node()
    made["metadata"]["labels"] |= {STATE: state, "nvidia.com/cuda.driver-version.full": version, **labels}
    return made


def sight(pod: Json | None = None, made: Json | None = None, **fields: t.Any) -> Sight:
    """Return a node that has its driver, with some changes."""
    views: dict[str, t.Any] = {
        "pod": view(pod or driver_pod("gpu-0000", NEW)),
        "validators": (view(validator_pod("gpu-0000")),),
    }
    return Sight(made or node(), SET, **{**views, **fields})


def lack(**fields: t.Any) -> str:
    return next(iter(sight(**fields).lacks(NOW)), "")


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("nvcr.io/nvidia/driver:595.91.07-ubuntu24.04", "595.91.07"),
        ("127.0.0.1:5000/nvidia/driver:595.91.07-rhel9", "595.91.07"),
        ("nvcr.io/nvidia/driver:580-6.8.0-31-generic-ubuntu24.04", "580"),
        ("nvcr.io/nvidia/driver@sha256:abc", ""),
        ("nvcr.io/nvidia/driver:latest", ""),
        ("", ""),
    ],
)
def test_the_version_comes_from_the_image(image: str, version: str) -> None:
    assert dataclasses.replace(SET, image=image).version == version


def test_a_branch_has_every_version_of_it_and_a_digest_any() -> None:
    branch, digest = dataclasses.replace(SET, image="d:595-6.8.0-x"), dataclasses.replace(SET, image="d@sha256:1")
    assert branch.has_version(NEW) and not branch.has_version("5951.1") and digest.has_version(OLD)
    assert SET.has_version(NEW) and not SET.has_version(OLD)


def test_older_releases_report_the_version_in_parts() -> None:
    parts = {
        f"nvidia.com/cuda.driver.{name}": value for name, value in (("major", "595"), ("minor", "91"), ("rev", "07"))
    }
    labelled = {"metadata": {"name": "x", "labels": parts}}
    assert sets.reported_version(labelled) == "595.91.07"
    assert sets.reported_version({"metadata": {"name": "x"}}) == ""


def test_the_upgrade_policy_says_which_pods_may_go() -> None:
    blocks = {"podDeletion": {"force": True, "deleteEmptyDir": True}, "drain": {"enable": True}}
    policy = {"driver": {"upgradePolicy": {**blocks, "waitForCompletion": {"podSelector": "job=yes"}}}}
    assert sets.deletion_of(policy, None) == Deletion(True, True, True, True, "job=yes")
    assert sets.deletion_of({}, None) == Deletion(is_given=False)
    assert sets.deletion_of(policy, {"default": True}) == Deletion(), "an NVIDIADriver has the operator's defaults"
    assert sets.deletion_of(policy, {}).force, "before v26.7 the ClusterPolicy's policy governed NVIDIADrivers"
