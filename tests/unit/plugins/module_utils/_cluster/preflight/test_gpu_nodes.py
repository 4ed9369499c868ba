# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from inline_snapshot import snapshot as wording

from tests.unit.plugins.module_utils._cluster.preflight.clusters import (
    ON_HOSTS,
    TAINT,
    bare,
    intent,
    node,
    only,
    snapshot,
)


def test_gpu_nodes() -> None:
    assert only("gpu_nodes", snapshot(nodes=[])).level == "failure"
    many = only("gpu_nodes", snapshot(nodes=[*(node(f"g{number}") for number in range(7)), bare("cpu")]))
    assert (many.level, many.message, len(many.nodes), many.count) == (
        "ok",
        wording("7 of 8 nodes carry an NVIDIA GPU."),
        5,
        7,
    )
    assert "not known before" in only("gpu_nodes", snapshot(nodes=[bare()])).message
    none = only("gpu_nodes", snapshot(nodes=[node(labels={"feature.node.kubernetes.io/pci-10de.present": None})]))
    assert none.level == "warning" and "pci-10de.present" in none.remedy


MIXED = snapshot(nodes=[bare("a"), bare("b", image="Ubuntu 22.04.5 LTS"), bare("c", runtime="cri-o://1.33")])


def test_nodes_that_one_operator_may_not_serve_are_asked_about_before_anything_is_installed() -> None:
    finding = only("gpu_nodes", MIXED)
    assert finding.level == "failure" and finding.message == wording(
        "The GPU nodes are not known before Node Feature Discovery has run, and the nodes have different operating systems (ubuntu 22.04, ubuntu 24.04) and container runtimes (containerd, cri-o), which one ClusterPolicy cannot serve."
    )
    assert finding.remedy == wording(
        "If the GPU nodes are alike, say so with preflight_tolerate: [gpu_nodes]: they are checked again once they are known. Otherwise use one container runtime, and NVIDIADriver (driver.nvidiaDriverCRD.enabled) or drivers on the hosts."
    )
    assert only("gpu_nodes", MIXED, intent(toolkit={"enabled": False}, **ON_HOSTS)).level == "ok"
    alike = snapshot(nodes=[bare("a"), bare("cp", "Debian 13", {"node-role.kubernetes.io/control-plane": ""})])
    assert only("gpu_nodes", alike).level == "ok"
    kernels = snapshot(nodes=[bare("a"), bare("b", kernel="6.8.0-61-generic")])
    assert only("gpu_nodes", kernels).level == "ok"
    assert "kernels" in only("gpu_nodes", kernels, intent(driver={"usePrecompiled": True})).message
    pools = {"enabled": True}
    precompiled = {"usePrecompiled": True, "nvidiaDriverCRD": pools}
    assert only("gpu_nodes", kernels, intent(driver=precompiled)).level == "ok"


def test_taints() -> None:
    mild = [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "soft", "effect": "PreferNoSchedule"},
    ]
    gpu = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert only("taints", snapshot(nodes=[node(taints=mild), node(taints=gpu)])).level == "ok"
    one = only("taints", snapshot(nodes=[node("a", taints=[TAINT]), node("b")]))
    assert (one.level, one.nodes) == ("warning", ("a",)) and "(team)" in one.message
    every = only("taints", snapshot(nodes=[node("a", taints=[TAINT]), node("b", taints=[TAINT])]))
    assert every.level == "failure" and every.message.startswith("Every GPU node has a taint")
    assert (
        only(
            "taints",
            snapshot(nodes=[node(taints=[TAINT])]),
            intent(daemonsets={"tolerations": [{"operator": "Exists"}]}),
        ).level
        == "ok"
    )
    assert only("taints", snapshot(nodes=[node(taints=gpu)]), intent(daemonsets={"tolerations": []})).level == "ok"
    # As for the operator, an empty list leaves the default toleration, which covers only nvidia.com/gpu.
    assert (
        only("taints", snapshot(nodes=[node(taints=[TAINT])]), intent(daemonsets={"tolerations": []})).level
        == "failure"
    )


def test_control_plane_nodes_are_not_candidates_while_gpus_are_unknown() -> None:
    control_plane = bare("cp", labels={"node-role.kubernetes.io/control-plane": ""}, taints=[TAINT])
    assert only("taints", snapshot(nodes=[control_plane, bare("worker")])).level == "ok"


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (node(ready="Unknown"), "not Ready"),
        (node(cordoned=True), "cordoned"),
        (node(labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}), "upgrade-failed"),
        (node(labels={"nvidia.com/gpu.deploy.driver": "paused-for-driver-upgrade"}), "paused by an interrupted"),
        (node(labels={"nvidia.com/gpu.deploy.operands": "false"}), "excluded by a label"),
        (node(labels={"nvidia.com/gpu.deploy.driver": "pre-installed"}), "with a pre-installed driver"),
    ],
)
def test_node_state(item: dict, words: str) -> None:
    finding = only("node_state", snapshot(nodes=[item]))
    assert finding.level == "warning" and words in finding.message and finding.nodes == ("gpu-0",)


@pytest.mark.parametrize(
    "labels",
    [
        {
            "nvidia.com/gpu.deploy.driver": "paused-for-driver-upgrade",
            "nvidia.com/gpu-driver-upgrade-state": "pod-restart-required",
        },
        {"nvidia.com/gpu.deploy.driver": "paused-for-mig-change", "nvidia.com/mig.config.state": "pending"},
    ],
)
def test_a_pause_with_a_reason_is_fine(labels: dict) -> None:
    assert only("node_state", snapshot(nodes=[node(labels=labels)])).level == "ok"


def test_a_note_with_which_the_next_upgrade_leaves_a_node_cordoned_is_found() -> None:
    noted = node()
    noted["metadata"]["annotations"] = {"nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable": "true"}
    finding = only("node_state", snapshot(nodes=[noted]))
    assert finding.level == "warning" and finding.message == wording(
        "1 GPU node with a stale annotation nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable, which a driver upgrade has left."
    )
    noted["metadata"]["labels"]["nvidia.com/gpu-driver-upgrade-state"] = "drain-required"
    assert only("node_state", snapshot(nodes=[noted])).level == "ok", "the operator removes it in the end"


def test_a_driver_on_the_host_is_fine_when_the_operator_installs_none() -> None:
    assert (
        only(
            "node_state",
            snapshot(nodes=[node(labels={"nvidia.com/gpu.deploy.driver": "pre-installed"})]),
            intent(**ON_HOSTS),
        ).level
        == "ok"
    )
