# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import collections
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.platforms import recognition
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.platforms.known_platforms import UNKNOWN_PRESETS

FIXTURES = Path(__file__).parents[4] / "fixtures" / "platforms"
PUBLISHED = yaml.safe_load((FIXTURES / "nodes.yml").read_text())


def node(published: dict) -> dict:
    """The Node object, as far as it was published."""
    info = {
        "osImage": published.get("os_image"),
        "kernelVersion": published.get("kernel"),
        "kubeletVersion": published.get("kubelet"),
        "containerRuntimeVersion": published.get("runtime"),
    }
    metadata = {"name": "n", "labels": published.get("labels"), "annotations": published.get("annotations")}
    return {
        "metadata": {key: value for key, value in metadata.items() if value is not None},
        "spec": {"providerID": published["provider"]} if "provider" in published else {},
        "status": {"nodeInfo": {key: value for key, value in info.items() if value is not None}},
    }


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda each: each["source"])
def test_a_published_node_is_recognised_as_what_it_is_and_as_nothing_else(published: dict) -> None:
    assert list(recognition.recognise(node(published)).names) == published["platforms"]


def test_each_platform_that_people_publish_has_several_witnesses() -> None:
    witnesses = collections.Counter(name for each in PUBLISHED for name in each["platforms"])
    assert {name for name, count in witnesses.items() if count < 3} == {"eks_auto", "aks", "cos", "amazon_linux"}
    assert "dgx_os" not in witnesses


def test_dgx_os_is_a_dgx_with_ubuntu_and_nvidias_kernel() -> None:
    dgx = {
        "os_image": "Ubuntu 22.04.4 LTS",
        "kernel": "5.15.0-1053-nvidia",
        "labels": {"nvidia.com/gpu.machine": "NVIDIA-DGX-H100"},
    }
    assert recognition.recognise(node(dgx)).names == ("dgx_os",)
    assert recognition.recognise(node({**dgx, "kernel": "5.15.0-94-generic"})).names == ()
    assert recognition.recognise(node({**dgx, "labels": {"nvidia.com/gpu.machine": "PowerEdge-R7525"}})).names == ()
    assert recognition.recognise(node({**dgx, "os_image": "Rocky Linux 9.4"})).names == ()


def test_openshift_is_known_by_its_api_too() -> None:
    plain = node({"os_image": "Red Hat Enterprise Linux 9.4"})
    assert recognition.recognise(plain).names == ()
    found = recognition.recognise(plain, {"apps", "config.openshift.io"})
    assert (found.names, found.title, found.presets) == (("openshift",), "OpenShift", ("openshift",))


@pytest.mark.parametrize("kubelet", ["v1.30.0-eks-1-30-8", "v1.30.0-eks-abcdef01", "v1.30.0"])
def test_eks_anywhere_is_not_eks(kubelet: str) -> None:
    assert recognition.recognise(node({"kubelet": kubelet})).names == ()


def test_the_system_decides_about_the_preset_and_contradictions_leave_none() -> None:
    flatcar = recognition.recognise(node({"os_image": "Flatcar Container Linux", "kubelet": "v1.34.1+rke2r1"}))
    assert (flatcar.title, flatcar.presets) == ("Flatcar on RKE2", ("flatcar",))
    auto = {"kubelet": "v1.34.4-eks-f69f56f", "labels": {"eks.amazonaws.com/compute-type": "auto"}}
    assert recognition.recognise(node(auto)).presets == ()
    both = recognition.recognise(node({"kubelet": "v1.34.1+rke2r1", "labels": {"eks.amazonaws.com/nodegroup": "a"}}))
    assert both.is_ambiguous and both.presets == () and both.title == "EKS/RKE2"
    systems = recognition.recognise(node({"os_image": "Bottlerocket OS 1.50.0", "kernel": "6.1.1", **auto}))
    assert systems.is_ambiguous and systems.presets == ()
    alone = recognition.recognise(node({"os_image": "Flatcar Container Linux"}))
    assert alone.is_known and not alone.is_ambiguous
    unknown = recognition.recognise(node({}))
    assert not unknown.is_known and unknown.title == "" and unknown.presets == UNKNOWN_PRESETS


def test_nodes_are_grouped_by_what_they_are() -> None:
    rke2, other = node({"kubelet": "v1.34.1+rke2r1"}), node({})
    found = recognition.grouped([rke2, other, rke2], ())
    assert [(group.names, len(members)) for group, members in found.items()] == [(("rke2",), 2), ((), 1)]
