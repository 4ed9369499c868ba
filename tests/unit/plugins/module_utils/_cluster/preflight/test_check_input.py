# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from tests.unit.plugins.module_utils._cluster.preflight.clusters import bare, intent, node, snapshot


def test_a_helm_value_is_found_by_its_path() -> None:
    wanted = intent(driver={"enabled": False, "version": None}, text="x")
    assert wanted.value("driver.enabled", True) is False and not wanted.manages_driver
    assert wanted.value("driver.version", "default") == "default"
    assert wanted.value("driver.version.deeper", 1) == wanted.value("text.deeper", 1) == wanted.value("none", 1) == 1


def test_all_nodes_are_candidates_until_one_has_a_gpu_label() -> None:
    control_plane = bare("cp", labels={"node-role.kubernetes.io/control-plane": ""})
    unlabelled = snapshot(nodes=[control_plane, bare("worker")])
    assert [item["metadata"]["name"] for item in unlabelled.candidates] == ["worker"]
    assert not unlabelled.nfd_ran and unlabelled.severity == "warning"
    labelled = snapshot(nodes=[control_plane, bare("worker"), node("gpu")])
    assert [item["metadata"]["name"] for item in labelled.candidates] == ["gpu"]
    assert labelled.nfd_ran and labelled.severity == "failure"


def test_until_then_a_platform_may_say_which_nodes_have_gpus() -> None:
    hinted = bare("p5", labels={"node.kubernetes.io/instance-type": "p5.48xlarge"})
    found = snapshot(nodes=[bare("m7i", image="Amazon Linux 2023"), hinted])
    assert [item["metadata"]["name"] for item in found.candidates] == ["p5"]
    assert found.severity == "warning" and not found.gpu_nodes
    labelled = snapshot(nodes=[hinted, node("gpu")])
    assert [item["metadata"]["name"] for item in labelled.candidates] == ["gpu"]
