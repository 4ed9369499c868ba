# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.maintenance_request import (
    MaintenanceRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.options import NodeRolloutRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.pacing import PaceRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import config, sharing_scene
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.sharing_request import SharingRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.store import Store

from tests.unit.fakes.stack import node, policy

LABEL = "nvidia.com/device-plugin.config"
FOUR = config.of_document("x", {"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}})
PLAIN = config.of_document("plain", {"version": "v1"})
ROLLOUT = NodeRolloutRequest(MaintenanceRequest(), PaceRequest())


class NoCluster:
    """A cluster with one ConfigMap."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def get(self, path: str) -> dict[str, t.Any]:
        return {"metadata": {"name": "gpuops-sharing"}, "data": self.texts}


def scene_of(texts: dict[str, str], label: str = "", **given: t.Any) -> sharing_scene.Scene:
    cluster = t.cast(t.Any, NoCluster(texts))
    found = node()
    found["metadata"]["labels"] |= {LABEL: label} if label else {}
    return sharing_scene.Scene(
        cluster=cluster,
        request=SharingRequest(**{"rollout": ROLLOUT, "names": frozenset({"x"}), **given}),
        policy=policy(),
        namespace="gpu-operator",
        fleet=t.cast(t.Any, None),
        nodes={"gpu-0000": found},
        store=Store(cluster, "gpu-operator", "gpuops-sharing"),
    )


OURS = {FOUR.key: FOUR.text, PLAIN.key: PLAIN.text, "theirs": "version: v1"}


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ({}, [FOUR.key]),
        ({"purges": True}, [FOUR.key, PLAIN.key]),
        ({"is_end": True}, [FOUR.key]),
        ({"is_end": True, "names": frozenset()}, [FOUR.key, PLAIN.key]),
        ({"names": frozenset()}, []),
    ],
)
def test_a_call_concerns_the_configurations_that_it_names(given: dict, keys: list[str]) -> None:
    found = scene_of(OURS, **given)
    assert [key for key in OURS if found.concerns(key)] == keys
    assert found.stale == keys


def test_a_key_that_a_node_or_the_default_uses_is_not_stale() -> None:
    assert scene_of(OURS, FOUR.key).stale == []
    default = scene_of(OURS)
    default.policy["spec"]["devicePlugin"] = {"config": {"default": FOUR.key}}
    assert default.stale == []


def test_without_a_proof_no_key_is_stale() -> None:
    assert scene_of(OURS, waits=False).stale == []


def owned(found: sharing_scene.Scene) -> bool:
    return found.owns(found.nodes["gpu-0000"])


def test_a_label_is_ours_by_its_mark_and_never_by_its_form() -> None:
    assert not owned(scene_of({}, "x-00000000")) and not owned(scene_of(OURS, "theirs")) and not owned(scene_of(OURS))
    found = scene_of({}, "x-00000000")
    found.nodes["gpu-0000"]["metadata"]["annotations"] = {"gpuops.nvidia/sharing": "x-00000000 2026-01-01T00:00:00Z"}
    assert owned(found)
    found.foreign = frozenset({"x-00000000"})
    assert not owned(found)
    found.nodes["gpu-0000"]["metadata"]["annotations"] = {"gpuops.nvidia/sharing": "x-11111111 2026-01-01T00:00:00Z"}
    found.foreign = frozenset()
    assert not owned(found)


def test_without_a_mark_a_label_is_ours_if_its_key_is_in_our_own_config_map() -> None:
    assert not owned(scene_of(OURS, FOUR.key))  # in a ConfigMap of somebody else
    assert scene_of(OURS, FOUR.key).unmarked == ["gpu-0000"]
    found = scene_of(OURS, FOUR.key)
    found.store._found = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "gpuops.nvidia"}}, "data": OURS}
    assert owned(found) and found.unmarked == []


def test_keys_stay_if_the_user_keeps_them() -> None:
    assert scene_of(OURS, keeps_keys=True).stale == []


def test_only_the_last_key_retires_the_config_map() -> None:
    last = scene_of({FOUR.key: FOUR.text})
    assert last.retires([FOUR.key]) and last.retires(last.stale)
    assert not scene_of(OURS).retires([FOUR.key]) and not scene_of({}).retires([])
    last.wanted = {"gpu-0000": PLAIN}
    assert not last.retires([FOUR.key])
