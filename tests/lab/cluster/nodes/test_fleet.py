# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fleets: what their files may contain, and the nodes that they make."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cluster import LabError
from lab.cluster.nodes.fleet import FLEETS, load


@pytest.mark.parametrize("name", sorted(path.stem for path in FLEETS.glob("*.yaml")))
def test_every_fleet_makes_distinct_nodes(name: str) -> None:
    fleet = load(name)
    names = [node["metadata"]["name"] for node in fleet.nodes("v1.36.0")]
    assert len(names) == len(set(names)) == fleet.size


def test_default_fleet() -> None:
    nodes = list(load(None).nodes("v1.36.0"))
    assert [node["metadata"]["name"] for node in nodes] == ["gpu-0000", "gpu-0001", "gpu-0002", "gpu-0003"]
    assert {node["metadata"]["annotations"]["lab.gpuops.nvidia/gpus"] for node in nodes} == {"8"}
    assert {node["status"]["nodeInfo"]["osImage"] for node in nodes} == {"Ubuntu 24.04"}
    assert not any("nvidia.com/gpu" in node["status"]["capacity"] for node in nodes), (
        "Without a device plugin, a node offers no GPUs."
    )


def test_mixed_fleet() -> None:
    nodes = {node["metadata"]["name"]: node for node in load("mixed").nodes("v1.36.0")}
    assert nodes["gpu-0006"]["spec"]["taints"][0]["key"] == "nvidia.com/gpu"
    assert nodes["gpu-0006"]["metadata"]["annotations"]["lab.gpuops.nvidia/gpus"] == "1"
    assert nodes["cpu-0001"]["metadata"]["annotations"]["lab.gpuops.nvidia/gpus"] == "0"
    assert nodes["gpu-0005"]["status"]["nodeInfo"]["osImage"] == "Red Hat Enterprise Linux 9.4"


def test_preset_labels(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("nfd: preset\npools: [{model: T4}, {model: null}]")
    gpu, cpu = (node["metadata"]["labels"] for node in load(str(path)).nodes("v1.36.0"))
    assert gpu["feature.node.kubernetes.io/pci-10de.present"] == "true"
    assert "feature.node.kubernetes.io/pci-10de.present" not in cpu
    assert cpu["feature.node.kubernetes.io/system-os_release.VERSION_ID"] == "24.04"


def test_number_of_nodes() -> None:
    assert load("default", 7).size == 7
    with pytest.raises(LabError, match="--nodes needs a fleet with one pool"):
        load("mixed", 7)
    with pytest.raises(LabError, match="at least 1"):
        load(None, 0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[", "is not YAML"),
        ("pools: []", "a list `pools`"),
        ("pools: [x]", r"pools\[0\] must be a mapping"),
        ("pools: [{}]\nnfd: maybe", "nfd is 'maybe'"),
        ("pools: [{}]\nnodes: 3", "unknown key 'nodes'"),
        ("pools: [{}, {modell: H100}]", r"pools\[1\] has an unknown key 'modell'"),
        ("pools: [{model: H900}]", r"pools\[0\].model is 'H900'"),
        ("pools: [{count: 0}]", r"pools\[0\].count"),
        ("pools: [{gpus: many}]", r"pools\[0\].gpus"),
        ("pools: [{clique: 7}]", r"pools\[0\].clique is 7"),
        ("objects: moon\npools: [{}]", "objects is 'moon'; it must be one of gke, openshift"),
        ("pools: [{os: beos5}]", r"pools\[0\].os is 'beos5'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    with pytest.raises(LabError, match=sentence):
        load(str(path))


def test_a_fabric_is_noted_on_the_machines_that_it_joins(tmp_path: Path) -> None:
    clique = "7c1a4c5e-3b5d-4f0e-9a8e-0f2b6f1d2c3a.1"
    path = tmp_path / "fleet.yaml"
    path.write_text(f"pools: [{{clique: {clique}}}, {{model: L40S}}]")
    notes = [node["metadata"]["annotations"] for node in load(str(path)).nodes("v1.36.0")]
    assert [each.get("lab.gpuops.nvidia/clique") for each in notes] == [clique, None]


def test_a_node_of_a_platform_has_its_marks(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    pool = "os_image: Talos (v1), kubelet: +x1, provider: 'aws:///', offers_gpus: true, annotations: {a: b}, gpus: 2"
    path.write_text(f"objects: gke\npools: [{{{pool}}}]")
    fleet = load(str(path))
    (node,) = fleet.nodes("v1.36.0")
    info = node["status"]["nodeInfo"]
    assert (info["osImage"], info["kubeletVersion"], fleet.objects) == ("Talos (v1)", "v1.36.0+x1", "gke")
    assert node["spec"] == {"providerID": "aws:///gpu-0000"} and node["metadata"]["annotations"]["a"] == "b"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == node["status"]["capacity"]["nvidia.com/gpu"] == "2"


def test_a_fleet_that_does_not_exist() -> None:
    with pytest.raises(LabError, match="There is no fleet 'huge': give a file, or one of aks, bottlerocket, default"):
        load("huge")
