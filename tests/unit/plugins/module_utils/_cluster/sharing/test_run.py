# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing import config, run
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.sharing.store import Store

from tests.unit.fakes.stack import node, policy

LABEL = "nvidia.com/device-plugin.config"
FOUR = config.of_document("x", {"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}})
PLAIN = config.of_document("plain", {"version": "v1"})


class NoCluster:
    """A cluster with one ConfigMap."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def get(self, path: str) -> dict[str, t.Any]:
        return {"metadata": {"name": "gpuops-sharing"}, "data": self.texts}


def scene(texts: dict[str, str], label: str = "", **options: t.Any) -> run.Scene:
    cluster = t.cast(t.Any, NoCluster(texts))
    found = node()
    found["metadata"]["labels"] |= {LABEL: label} if label else {}
    return run.Scene(
        cluster=cluster,
        options={"state": "present", "purge": False, "wait": True, "configs": [{"name": "x"}], **options},
        policy=policy(),
        namespace="gpu-operator",
        fleet=t.cast(t.Any, None),
        nodes={"gpu-0000": found},
        store=Store(cluster, "gpu-operator", "gpuops-sharing"),
        choices=[],
    )


OURS = {FOUR.key: FOUR.text, PLAIN.key: PLAIN.text, "theirs": "version: v1"}


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({}, [FOUR.key]),
        ({"purge": True}, [FOUR.key, PLAIN.key]),
        ({"state": "absent"}, [FOUR.key]),
        ({"state": "absent", "configs": None}, [FOUR.key, PLAIN.key]),
        ({"configs": None}, []),
    ],
)
def test_a_call_concerns_the_configurations_that_it_names(options: dict, keys: list[str]) -> None:
    found = scene(OURS, **options)
    assert [key for key in OURS if found.concerns(key)] == keys
    assert found.stale == keys


def test_a_key_that_a_node_or_the_default_uses_is_not_stale() -> None:
    assert scene(OURS, FOUR.key).stale == []
    default = scene(OURS)
    default.policy["spec"]["devicePlugin"] = {"config": {"default": FOUR.key}}
    assert default.stale == []


def test_without_a_proof_no_key_is_stale() -> None:
    assert scene(OURS, wait=False).stale == []


def test_a_label_of_our_form_whose_key_is_gone_is_ours() -> None:
    found = scene({})
    assert found.is_ours("x-00000000") and not found.is_ours("tesla-t4")
    assert not scene({"x-00000000": "edited"}).is_ours("x-00000000")


def test_only_the_last_key_retires_the_config_map() -> None:
    assert scene({FOUR.key: FOUR.text}).retires
    assert not scene(OURS).retires and not scene({}).retires
    wanted = scene({FOUR.key: FOUR.text})
    wanted.wanted = {"gpu-0000": PLAIN}
    assert not wanted.retires
