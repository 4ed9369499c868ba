# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers import kernels
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks import published
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks.registry.ask import Answer
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import drivers_view
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.drivers_view import DriversView
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import node

NEW = "6.8.0-60-generic"
BRANCH = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "595", "usePrecompiled": True}
BUILT = {**BRANCH, "version": "595.1.2", "usePrecompiled": False}
IMAGE = f"nvcr.io/nvidia/driver:595-{NEW}-ubuntu24.04"


def look(
    monkeypatch: pytest.MonkeyPatch, driver: dict[str, t.Any], mode: str = "strict", **states: t.Any
) -> dict[str, t.Any]:
    policy = {"metadata": {"name": "cluster-policy"}, "spec": {"driver": driver}}
    seen = DriversView("gpu-operator", policy, None, [], True, [node(0), node(1)], [], None, 0.0)
    seen.__dict__["line"] = (26, 7)
    monkeypatch.setattr(drivers_view, "look", lambda cluster, policy_name, namespace: seen)

    def answers(cluster: object, namespace: str, pools: t.Any, registry: object) -> dict[str, Answer]:
        return {image: Answer(image, image, **states) for pool in pools for image in pool.images}

    monkeypatch.setattr(published, "answers", answers)
    options = {
        "kernels": {"gpu-0000": NEW, "elsewhere": NEW},
        "registry": {"mode": mode},
        "policy_name": "",
        "namespace": "",
    }
    return kernels.look(None, options)["nodes"]  # type: ignore[arg-type]


def test_the_image_of_a_precompiled_driver_has_the_new_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    assert look(monkeypatch, BRANCH, state="exists") == {
        "elsewhere": {"image": "", "precompiled": False, "problem": ""},
        "gpu-0000": {"image": IMAGE, "precompiled": True, "problem": ""},
    }


def test_a_registry_needs_time_to_answer() -> None:
    with pytest.raises(GpuOpsError) as error:
        kernels.look(None, {"kernels": {}, "registry": {"timeout": 0}})
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording("timeout is 0: give 1 or more.")  # type: ignore[arg-type]


def test_an_image_that_is_missing_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(monkeypatch, BRANCH, state="missing", message="there is no such tag")
    assert found["gpu-0000"]["problem"] == f"{IMAGE}: there is no such tag"
    lacks = look(monkeypatch, BRANCH, state="exists", lacks=("arm64",))
    assert lacks["gpu-0000"]["problem"] == wording(
        "nvcr.io/nvidia/driver:595-6.8.0-60-generic-ubuntu24.04: it is not published for arm64"
    )


@pytest.mark.parametrize(
    ("mode", "state", "is_problem"),
    [
        ("strict", "unreachable", True),
        ("lenient", "unreachable", False),
        ("lenient", "missing", True),
        ("offline", "unasked", False),
        ("strict", "unasked", True),
    ],
)
def test_the_mode_says_which_answers_pass(
    monkeypatch: pytest.MonkeyPatch, mode: str, state: str, is_problem: bool
) -> None:
    assert bool(look(monkeypatch, BRANCH, mode, state=state)["gpu-0000"]["problem"]) is is_problem


def test_an_image_that_builds_its_driver_serves_every_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(monkeypatch, BUILT, state="missing")["gpu-0000"]
    assert found == {"image": "nvcr.io/nvidia/driver:595.1.2-ubuntu24.04", "precompiled": False, "problem": ""}


def test_a_driver_of_the_host_has_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(monkeypatch, {"enabled": False}, state="missing")["gpu-0000"]
    assert found == {"image": "", "precompiled": False, "problem": ""}
