# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import version_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.slimmer import Slimmer

from tests.unit.fakes.stack import node
from tests.unit.plugins.module_utils._cluster.stack.test_nodes import TAINT


def test_a_slim_node_answers_every_question_as_the_whole_node_does() -> None:
    whole = node()
    whole["spec"] = {"unschedulable": True, "taints": [TAINT], "providerID": "x", "podCIDR": "10.0.0.0/24"}
    whole["metadata"] |= {
        "annotations": {"kured": "reboot", "nfd.node.kubernetes.io/feature-labels": "x"},
        "managedFields": [{"manager": "kubelet"}],
        "resourceVersion": "17",
    }
    whole["status"] |= {"images": [{"names": ["a"]}], "addresses": []}
    whole["status"]["conditions"] = [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"}]
    whole["status"]["nodeInfo"]["swap"] = {"capacity": 1}
    slim = Slimmer()(whole)
    assert slim == {
        "metadata": {
            "name": "gpu-0000",
            "resourceVersion": "17",
            "labels": whole["metadata"]["labels"],
            "annotations": {"kured": "reboot"},
        },
        "spec": {"unschedulable": True, "taints": [TAINT]},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "capacity": {"cpu": "64", "nvidia.com/gpu": "8"},
            "allocatable": {"cpu": "64", "nvidia.com/gpu": "8"},
            "nodeInfo": {
                "kernelVersion": "6.8.0-31-generic",
                "containerRuntimeVersion": "containerd://2.1.4",
                "osImage": "Ubuntu 24.04 LTS",
            },
        },
    }


def test_a_node_without_a_status_can_be_slimmed() -> None:
    slim = Slimmer()({"metadata": {"name": "gpu-0000"}})
    assert not nodes.is_ready(slim) and nodes.gpu_quantities(slim, "capacity") == {} and slim["spec"] == {}


def test_equal_texts_of_slim_nodes_are_one() -> None:
    slim = Slimmer()
    first, second = (slim(json.loads(json.dumps(node(number)))) for number in range(2))
    key = "nvidia.com/gpu.product"
    assert first["metadata"]["labels"][key] is second["metadata"]["labels"][key]


def test_a_slim_node_keeps_its_version() -> None:
    made = node()
    made["metadata"]["resourceVersion"] = "17"
    assert version_of(Slimmer()(made)) == 17
    del made["metadata"]["resourceVersion"]
    assert version_of(Slimmer()(made)) == 0
