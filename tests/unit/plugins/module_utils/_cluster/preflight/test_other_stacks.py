# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from tests.unit.plugins.module_utils._cluster.preflight.clusters import (
    OTHER_NFD,
    OUR_NFD,
    bare,
    daemonset,
    intent,
    named,
    node,
    only,
    snapshot,
)


@pytest.mark.parametrize(
    ("daemonsets", "enabled", "nodes", "level", "words"),
    [
        ([OTHER_NFD], True, [node()], "failure", "is already running (node-feature-discovery/nfd-worker)"),
        ([OTHER_NFD], False, [node()], "ok", "runs as node-feature-discovery/nfd-worker"),
        ([OTHER_NFD, OUR_NFD], False, [node()], "failure", "runs 2 times"),
        ([], False, [bare()], "failure", "nothing would label the GPU nodes"),
        ([], False, [node()], "warning", "the labels become stale"),
        ([OUR_NFD], True, [node()], "ok", "The operator's chart installs"),
        ([], True, [bare()], "ok", "The operator's chart installs"),
    ],
)
def test_nfd(daemonsets: list[dict], enabled: bool, nodes: list[dict], level: str, words: str) -> None:
    finding = only("nfd", snapshot(daemonsets=daemonsets, nodes=nodes), intent(nfd={"enabled": enabled}))
    assert finding.level == level and words in finding.message


def test_the_chart_brings_its_own_nfd_unless_the_values_say_otherwise() -> None:
    finding = only("nfd", snapshot(daemonsets=[OTHER_NFD], nodes=[node()]), intent())
    assert finding.level == "failure" and "a second one would fight over its labels" in finding.message


@pytest.mark.parametrize(
    ("other", "value", "level"),
    [
        (
            daemonset("nvidia-device-plugin-daemonset", "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"),
            "devicePlugin",
            "failure",
        ),
        (daemonset("nvidia-driver-installer"), "driver", "failure"),
        (daemonset("nvidia-container-toolkit"), "toolkit", "failure"),
        (daemonset("x", "nvcr.io/nvidia/k8s/dcgm-exporter:4"), "dcgmExporter", "warning"),
        (daemonset("gpu-feature-discovery"), "gfd", "failure"),
        (daemonset("mig-manager"), "migManager", "failure"),
    ],
)
def test_other_stacks(other: dict, value: str, level: str) -> None:
    finding = only("other_stacks", snapshot(daemonsets=[other]))
    assert finding.level == level and f"set {value}.enabled to false" in finding.remedy
    assert only("other_stacks", snapshot(daemonsets=[other]), intent(**{value: {"enabled": False}})).level == "ok"


def test_our_own_operands_and_idle_daemonsets_are_not_another_stack() -> None:
    mine = daemonset(
        "nvidia-device-plugin-daemonset",
        "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
        "gpu-operator",
        owner="ClusterPolicy",
    )
    idle = daemonset("nvidia-gpu-device-plugin-large", desired=0)
    assert only("other_stacks", snapshot(daemonsets=[mine, idle])).level == "ok"


def test_a_dra_driver_beside_the_operator() -> None:
    assert (
        "allocate GPUs"
        in only("other_stacks", snapshot(daemonsets=[daemonset("nvidia-dra-driver-gpu-kubelet-plugin")])).message
    )


def deployment(namespace: str, release: str | None = None) -> dict:
    annotations = {"meta.helm.sh/release-name": release} if release else None
    return {"metadata": {"name": "gpu-operator", "namespace": namespace, "annotations": annotations}}


@pytest.mark.parametrize(
    ("changes", "values", "words"),
    [
        ({"operators": [deployment("elsewhere")]}, {}, "Another GPU Operator is installed (elsewhere/gpu-operator)"),
        ({"operators": [deployment("gpu-operator", "gpu-operator-17")]}, {}, "Another GPU Operator is installed"),
        ({"clusterpolicies": [named("a"), named("b")]}, {}, "several ClusterPolicies (a, b)"),
        ({"gpuclusters": [named("gpu-cluster")]}, {}, "There is a GPUCluster"),
        ({"clusterpolicies": [named("a")]}, {"gpuCluster": {"deployCR": True}}, "There is a ClusterPolicy"),
    ],
)
def test_other_operators(changes: dict, values: dict, words: str) -> None:
    finding = only("other_stacks", snapshot(**changes), intent(**values))
    assert finding.level == "failure" and words in finding.message


@pytest.mark.parametrize(
    ("changes", "wants", "remedy"),
    [
        ({"gpuclusters": [named("a")]}, False, "set gpuCluster.deployCR to true."),
        ({"clusterpolicies": [named("a")]}, True, "set gpuCluster.deployCR to false."),
    ],
)
def test_one_kind_of_stack_goes_before_the_other_comes(changes: dict, wants: bool, remedy: str) -> None:
    finding = only("other_stacks", snapshot(**changes), intent(gpuCluster={"deployCR": wants}))
    assert finding.remedy == f"Remove the stack first (operator_state: absent), or {remedy}"


@pytest.mark.parametrize("namespace", ["gpu-operator", "nvidia-gpu-operator"])
def test_an_operator_of_olm_is_left_to_it(namespace: str) -> None:
    item = deployment(namespace)
    item["metadata"]["labels"] = {"olm.owner": "gpu-operator-certified.v26.3.3"}
    finding = only("other_stacks", snapshot(operators=[item]))
    assert finding.level == "failure"
    assert f"Lifecycle Manager has installed a GPU Operator ({namespace}/gpu-operator)" in finding.message


@pytest.mark.parametrize("operators", [[deployment("gpu-operator", "gpu-operator")], [deployment("gpu-operator")]])
def test_our_own_operator_is_fine(operators: list[dict]) -> None:
    assert only("other_stacks", snapshot(operators=operators, clusterpolicies=[named("cluster-policy")])).level == "ok"
