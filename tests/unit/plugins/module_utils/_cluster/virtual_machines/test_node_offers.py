# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines import node_offers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.virtual_machines.node_offers import NodeOffers

from tests.unit.fakes.kubevirt import node


def offers(*nodes: dict) -> NodeOffers:
    return NodeOffers([node_offers.kept(each) for each in nodes])


def test_resources_for_containers_and_those_of_which_there_are_none_do_not_count() -> None:
    found = offers(
        node("a", GA102GL_A10="4", gpu="8", pgpu="1", GA100_A40="0", CACHE="10Gi"),
        node("b", GA102GL_A10="1k"),
        node("c"),
    )
    assert found.resources == {"nvidia.com/GA102GL_A10"} and found.of("nvidia.com/GA102GL_A10") == [4, 1000]
    assert found.of("nvidia.com/gpu") == [] and found.is_known


def test_what_nodes_for_machines_offer_is_told_from_the_rest() -> None:
    nodes = [
        node("a", GA102GL_A10="4", TU102_HIGH_DEFINITION_AUDIO_CONTROLLER="4"),
        node("b", "vm-vgpu", **{"NVIDIA_A10-12Q": "8"}),
        node("c", "container", AD102GL_L40S="2"),
        node("d", "", AD102GL_L40S="2"),
    ]
    nodes[0]["status"]["allocatable"]["devices.kubevirt.io/kvm"] = "1k"
    entries, unknown = offers(*nodes).for_machines()
    assert [str(entry) for entry in entries] == [
        "nvidia.com/GA102GL_A10 (10DE:2236)",
        "nvidia.com/NVIDIA_A10-12Q (NVIDIA A10-12Q)",
    ]
    assert unknown == ["nvidia.com/TU102_HIGH_DEFINITION_AUDIO_CONTROLLER"]


def test_a_refusal_is_not_an_empty_cluster() -> None:
    assert not NodeOffers([], "forbidden").is_known
