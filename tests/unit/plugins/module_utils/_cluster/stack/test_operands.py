# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operands of a ClusterPolicy."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.operands import (
    DEVICE_PLUGIN,
    DRIVER,
    OPERANDS,
)


def daemonset(name: str, **labels: str) -> dict[str, t.Any]:
    return {"metadata": {"name": name, "labels": labels}}


def operand(name: str) -> operands.Operand:
    return next(each for each in OPERANDS if each.name == name)


@pytest.mark.parametrize("block", [None, {}, {"tolerations": None}, {"tolerations": []}])
def test_an_empty_list_of_tolerations_leaves_the_default(block: dict[str, t.Any] | None) -> None:
    """The operator replaces its own list only with a list that has entries (object_controls.go)."""
    assert operands.tolerations(block) == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_given_tolerations_replace_the_default() -> None:
    given = [{"operator": "Exists"}]
    assert operands.tolerations({"tolerations": given}) == given


@pytest.mark.parametrize(
    ("block", "image"),
    [
        ({}, None),
        ({"repository": "nvcr.io/nvidia", "image": "driver", "version": "580.1"}, "nvcr.io/nvidia/driver:580.1"),
        ({"repository": "r", "image": "i", "version": "sha256:1f"}, "r/i@sha256:1f"),
        ({"image": "mirror.example/driver@sha256:1f"}, "mirror.example/driver@sha256:1f"),
        ({"image": "driver", "version": "580.1"}, None),
        ({"repository": "r", "version": "580.1"}, None),
        ({"repository": "r", "image": "i"}, None),
        ({"image": ""}, None),
        ({}, None),
    ],
)
def test_an_image_is_composed_as_the_operator_does(block: dict[str, str], image: str | None) -> None:
    assert operands.image_of(block) == image


@pytest.mark.parametrize(
    ("name", "spec", "wanted"),
    [
        ("device-plugin", {}, True),
        ("device-plugin", {"devicePlugin": {"enabled": False}}, False),
        ("device-plugin", {"devicePlugin": {"enabled": None}}, True),
        ("node-status-exporter", {}, False),
        ("node-status-exporter", {"nodeStatusExporter": {"enabled": True}}, True),
        ("operator-validator", {"validator": {"enabled": False}}, True),
        ("driver", {"driver": {"enabled": True}}, True),
        ("driver", {"driver": {"enabled": True, "useNvidiaDriverCRD": True}}, False),
    ],
)
def test_which_operands_the_spec_enables(name: str, spec: dict[str, t.Any], wanted: bool) -> None:
    assert operands.enabled(operand(name), spec) is wanted


@pytest.mark.parametrize(
    ("item", "name"),
    [
        (daemonset("nvidia-driver-daemonset"), "driver"),
        (daemonset("nvidia-driver-daemonset-5.15.0-91-generic-ubuntu22.04"), "driver"),
        (daemonset("nvidia-gpu-driver-ubuntu22.04-6b7", **{"app.kubernetes.io/component": "nvidia-driver"}), "driver"),
        (daemonset("nvidia-device-plugin-daemonset"), "device-plugin"),
        (daemonset("nvidia-device-plugin-daemonset-2"), None),
        (daemonset("node-exporter"), None),
    ],
)
def test_the_operand_that_a_daemonset_belongs_to(item: dict[str, t.Any], name: str | None) -> None:
    assert operands.operand_name(item) == name


def test_deploy_labels() -> None:
    assert DRIVER.deploy_label == "nvidia.com/gpu.deploy.driver"
    assert DEVICE_PLUGIN.deploy_label == "nvidia.com/gpu.deploy.device-plugin"


@pytest.mark.parametrize(
    ("labels", "is_operator"), [({"app": "gpu-operator"}, True), ({"app": "node-exporter"}, False), (None, False)]
)
def test_the_operator_is_known_by_its_pods(labels: dict[str, str] | None, is_operator: bool) -> None:
    """OLM writes no label of the chart on the Deployment itself."""
    deployment = {"metadata": {"name": "x"}, "spec": {"template": {"metadata": {"labels": labels}}}}
    assert operands.is_operator(deployment) is is_operator


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("v26.7.0", (26, 7, 0)),
        ("25.10.1", (25, 10, 1)),
        ("nvcr.io/nvidia/gpu-operator:v25.10.1", (25, 10, 1)),
        ("26.3.3-rc.1", (26, 3, 3)),
        ("v26.7", (26, 7, 0)),
        ("gpu-operator-v26.3.3", (26, 3, 3)),
        ("1.26-7", None),
        ("main-latest", None),
        ("v1.0.0-devel", None),
        ("gpu-operator-v1.0.0-devel", None),
        ("registry.example.com:5000/gpu-operator@sha256:12ab34", None),
        ("", None),
        (None, None),
    ],
)
def test_the_release_of_an_operator(text: str | None, release: tuple[int, int, int] | None) -> None:
    assert operands.release(text) == release


def test_an_operand_has_an_option_of_its_own() -> None:
    assert [operand.option for operand in (operands.DRIVER, operands.DEVICE_PLUGIN, operands.DCGM_EXPORTER)] == [
        "driver",
        "device_plugin",
        "dcgm_exporter",
    ]


@pytest.mark.parametrize(
    ("labels", "is_off"),
    [
        ({}, False),
        ({"nvidia.com/gpu.deploy.operands": "false"}, True),
        ({"nvidia.com/gpu.deploy.operands": "true"}, False),
        ({"nvidia.com/gpu.deploy.operands": "false", "nvidia.com/gpu.deploy.dra-driver": "true"}, False),
        ({"nvidia.com/gpu.deploy.operands": "false", "nvidia.com/gpu.deploy.dra-driver": ""}, True),
    ],
)
def test_operands_are_switched_off_unless_a_gpucluster_has_labelled_the_node(
    labels: dict[str, str], is_off: bool
) -> None:
    assert operands.are_switched_off({"metadata": {"name": "a", "labels": labels}}) is is_off


def test_only_a_clusterpolicy_obeys_the_switch() -> None:
    assert operands.obeys_switch({"driver": {"enabled": True}})
    assert not operands.obeys_switch(operands.in_words_of_policy({"draDriver": {}}))
