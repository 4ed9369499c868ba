# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import api as _cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import config
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.store import Store

from tests.unit.fakes.api import FakeApi

PATH = "/api/v1/namespaces/gpu-operator/configmaps"
FOUR = config.of_document("x", {"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}})


def store(api: FakeApi, check_mode: bool = False) -> Store:
    return Store(_cluster.Cluster(api.connection, check_mode), "gpu-operator", "gpuops-sharing")


@pytest.fixture(autouse=True)
def kind(api: FakeApi) -> None:
    api.lists[PATH] = []


def test_a_new_config_map_is_ours_and_gets_keys_one_by_one(api: FakeApi) -> None:
    made = store(api)
    assert (made.is_ours, made.keys) == (True, [])
    made.publish(made.unpublished([FOUR]))
    made.publish({"y": "more"})
    (item,) = api.lists[PATH]
    assert item["data"] == {FOUR.key: FOUR.text, "y": "more"} == made.texts
    assert item["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "gpuops.nvidia"}
    again = store(api)
    assert (again.is_ours, again.keys, again.unpublished([FOUR])) == (True, [FOUR.key], {})


def test_keys_of_others_stay(api: FakeApi) -> None:
    api.lists[PATH] = [
        {"metadata": {"name": "gpuops-sharing"}, "data": {"theirs": "version: v1\n", FOUR.key: "edited"}}
    ]
    found = store(api)
    assert found.keys == [] and not found.is_ours
    found.publish({"y": "z"})
    found.prune(["y"])
    assert api.lists[PATH][0]["data"] == {"theirs": "version: v1\n", FOUR.key: "edited"}


def test_check_mode_writes_nothing(api: FakeApi) -> None:
    dry = store(api, check_mode=True)
    dry.publish({"y": "z"})
    assert api.lists[PATH] == []


def test_a_config_map_can_be_deleted(api: FakeApi) -> None:
    made = store(api)
    made.publish({"y": "z"})
    made.delete()
    assert api.lists[PATH] == [] and made.texts == {}
