# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest
from inline_snapshot import snapshot as wording

from tests.unit.fakes.claimed import separate_driver
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
        (
            [OTHER_NFD],
            True,
            [node()],
            "failure",
            wording(
                "Node Feature Discovery is already running (node-feature-discovery/nfd-worker), and a second one would fight over its labels."
            ),
        ),
        (
            [OTHER_NFD],
            False,
            [node()],
            "ok",
            wording("Node Feature Discovery runs as node-feature-discovery/nfd-worker."),
        ),
        (
            [OTHER_NFD, OUR_NFD],
            False,
            [node()],
            "failure",
            wording("Node Feature Discovery runs 2 times (node-feature-discovery/nfd-worker, gpu-operator/worker)."),
        ),
        (
            [],
            False,
            [bare()],
            "failure",
            wording(
                "nfd.enabled is false and no Node Feature Discovery runs, so the GPU nodes would stay without labels."
            ),
        ),
        (
            [],
            False,
            [node()],
            "warning",
            wording("Nodes carry labels of Node Feature Discovery, but it does not run, so the labels become stale."),
        ),
        ([OUR_NFD], True, [node()], "ok", wording("The operator's chart installs Node Feature Discovery.")),
        ([], True, [bare()], "ok", wording("The operator's chart installs Node Feature Discovery.")),
    ],
)
def test_nfd(daemonsets: list[dict], enabled: bool, nodes: list[dict], level: str, words: str) -> None:
    finding = only("nfd", snapshot(daemonsets=daemonsets, nodes=nodes), intent(nfd={"enabled": enabled}))
    assert finding.level == level and finding.message == words


def test_the_chart_brings_its_own_nfd_unless_the_values_say_otherwise() -> None:
    finding = only("nfd", snapshot(daemonsets=[OTHER_NFD], nodes=[node()]), intent())
    assert finding.level == "failure" and finding.message == wording(
        "Node Feature Discovery is already running (node-feature-discovery/nfd-worker), and a second one would fight over its labels."
    )


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


def test_a_gpucluster_beside_the_drivers_own_chart_is_refused_with_the_way_out() -> None:
    wants = intent(gpuCluster={"deployCR": True}, clusterPolicy={"deployCR": False})
    finding = only("other_stacks", snapshot(daemonsets=[separate_driver()]), wants)
    assert finding.level == "failure" and "Helm's release nvidia-dra-driver-gpu/dra" in finding.message
    assert finding.remedy.endswith("helm uninstall dra --namespace nvidia-dra-driver-gpu.")
    assert only("other_stacks", snapshot(daemonsets=[separate_driver()])).level == "warning"


def deployment(namespace: str, release: str | None = None) -> dict:
    annotations = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace}
    annotations = annotations if release else None
    return {"metadata": {"name": "gpu-operator", "namespace": namespace, "annotations": annotations}}


@pytest.mark.parametrize(
    ("changes", "values", "words"),
    [
        (
            {"operators": [deployment("elsewhere")]},
            {},
            wording("A GPU Operator of somebody else is installed: elsewhere/gpu-operator has no mark of any tool."),
        ),
        (
            {"operators": [deployment("gpu-operator", "gpu-operator-17")]},
            {},
            wording(
                "A GPU Operator of Helm's release gpu-operator/gpu-operator-17 is installed: gpu-operator/gpu-operator has the annotation meta.helm.sh/release-name."
            ),
        ),
        (
            {"clusterpolicies": [named("a"), named("b")]},
            {},
            wording("There are several ClusterPolicies (a, b); the operator silently ignores all but one."),
        ),
        (
            {"gpuclusters": [named("gpu-cluster")]},
            {},
            wording("There is a GPUCluster, and the operator serves either a GPUCluster or a ClusterPolicy, not both."),
        ),
        (
            {"clusterpolicies": [named("a")]},
            {"gpuCluster": {"deployCR": True}},
            wording(
                "There is a ClusterPolicy, and the operator serves either a ClusterPolicy or a GPUCluster, not both."
            ),
        ),
    ],
)
def test_other_operators(changes: dict, values: dict, words: str) -> None:
    finding = only("other_stacks", snapshot(**changes), intent(**values))
    assert finding.level == "failure" and finding.message == words


@pytest.mark.parametrize(
    ("changes", "wants", "remedy"),
    [
        ({"gpuclusters": [named("a")]}, False, "set gpuCluster.deployCR to true."),
        ({"clusterpolicies": [named("a")]}, True, "set gpuCluster.deployCR to false."),
    ],
)
def test_one_kind_of_stack_goes_before_the_other_comes(changes: dict, wants: bool, remedy: str) -> None:
    finding = only("other_stacks", snapshot(**changes), intent(gpuCluster={"deployCR": wants}))
    assert "operator_state: absent" in finding.remedy and finding.remedy.endswith(remedy)


@pytest.mark.parametrize("namespace", ["gpu-operator", "nvidia-gpu-operator"])
def test_an_operator_of_olm_is_left_to_it(namespace: str) -> None:
    item = deployment(namespace)
    item["metadata"]["labels"] = {"olm.owner": "gpu-operator-certified.v26.3.3"}
    finding = only("other_stacks", snapshot(operators=[item]))
    assert finding.level == "failure"
    assert "Lifecycle Manager" in finding.message and f"{namespace}/gpu-operator" in finding.message


def test_our_own_operator_is_fine() -> None:
    ours = [deployment("gpu-operator", "gpu-operator")]
    assert only("other_stacks", snapshot(operators=ours, clusterpolicies=[named("cluster-policy")])).level == "ok"


def test_node_feature_discovery_of_another_s_operator_is_not_to_be_worked_around() -> None:
    worker = copy.deepcopy(OUR_NFD)
    worker["metadata"]["annotations"] = {"meta.helm.sh/release-name": "gpu-operator-17"}
    theirs = {"operators": [deployment("gpu-operator", "gpu-operator-17")], "daemonsets": [worker]}
    assert only("nfd", snapshot(**theirs)).level == "ok"
    finding = only("other_stacks", snapshot(**theirs))
    assert finding.level == "failure" and "release_name: gpu-operator-17" in finding.remedy
