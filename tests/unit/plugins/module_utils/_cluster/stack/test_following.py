# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.following import Follower
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

PODS = "/api/v1/namespaces/gpu-operator/pods"
Json = dict[str, t.Any]


def pod(name: str, text: str = "", namespace: str = "gpu-operator") -> Json:
    return {"metadata": {"name": name, "namespace": namespace}, "text": text}


class FakePods:
    """Two pods, and what happens to them afterwards."""

    def __init__(self, *answers: t.Any) -> None:
        self.answers = list(answers)
        self.log: list[str] = []

    def large_list(self, path: str, keep: t.Callable[[Json], t.Any], **selectors: str) -> tuple[list[t.Any], str]:
        self.log.append(f"list {path} {selectors['labelSelector']}")
        return [keep(pod("a", "old")), keep(pod("b", "old"))], "7"

    def changes(self, path: str, version: str, **selectors: str) -> tuple[list[tuple[str, Json]], str]:
        self.log.append(f"changes {version} {selectors['labelSelector']}")
        answer = self.answers.pop(0)
        if isinstance(answer, GpuOpsError):
            raise answer
        return answer, "8"


def follower(cluster: FakePods) -> Follower[str]:
    return Follower(
        t.cast("t.Any", cluster), PODS, lambda item: f"{item['metadata']['name']}:{item['text']}", labelSelector="app=x"
    )


def test_only_what_is_kept_of_changed_objects_is_read_again() -> None:
    changes = [("MODIFIED", pod("b", "new")), ("ADDED", pod("c", "new")), ("DELETED", pod("a"))]
    cluster = FakePods(changes)
    made = follower(cluster)
    assert made.read() == ["a:old", "b:old"]
    assert made.read() == ["b:new", "c:new"]
    assert cluster.log == [f"list {PODS} app=x", "changes 7 app=x"]


def test_objects_of_one_name_in_two_namespaces_are_two() -> None:
    made = follower(FakePods([("ADDED", pod("a", "other", "default")), ("DELETED", pod("b", "", "default"))]))
    made.read()
    assert made.read() == ["a:old", "b:old", "a:other"]


@pytest.mark.parametrize("reason", ["Expired", "Forbidden"])
def test_everything_is_listed_again_when_changes_cannot_be_had(reason: t.Any) -> None:
    cluster = FakePods(GpuOpsError("too old", reason=reason))
    made = follower(cluster)
    made.read()
    assert made.read() == ["a:old", "b:old"] and len(cluster.log) == 3


def test_any_other_failure_is_raised() -> None:
    made = follower(FakePods(GpuOpsError("away", reason="Unreachable")))
    made.read()
    with pytest.raises(GpuOpsError, match="away"):
        made.read()
