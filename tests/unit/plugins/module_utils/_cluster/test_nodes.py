# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.pods import requested_gpus

from tests.unit.stack import cpu_node, node

Json = dict[str, t.Any]
TAINT = {"key": "dedicated", "value": "training", "effect": "NoSchedule"}


def test_gpu_nodes() -> None:
    assert nodes.is_gpu_node(node()) and nodes.has_nfd_labels(cpu_node()) and not nodes.is_gpu_node(cpu_node())
    by_operator = {"metadata": {"name": "x", "labels": {"nvidia.com/gpu.present": "true"}}}
    assert nodes.is_gpu_node(by_operator) and not nodes.has_nfd_gpu_label(by_operator)
    assert not nodes.has_nfd_labels({"metadata": {"name": "x"}})


@pytest.mark.parametrize(
    ("label", "sandbox", "runs"),
    [
        (None, {}, True),
        ("vm-vgpu", {"enabled": False}, True),
        (None, {"enabled": True}, True),
        (None, {"enabled": True, "defaultWorkload": "vm-passthrough"}, False),
        ("container", {"enabled": True, "defaultWorkload": "vm-passthrough"}, True),
        ("nonsense", {"enabled": True, "defaultWorkload": "vm-vgpu"}, False),
    ],
)
def test_workload_kinds(label: str | None, sandbox: Json, runs: bool) -> None:
    item = {"metadata": {"name": "x", "labels": {"nvidia.com/gpu.workload.config": label} if label else {}}}
    assert nodes.runs_containers(item, {"sandboxWorkloads": sandbox}) is runs


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "dedicated", "operator": "Exists"}, True),
        ({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "dedicated", "value": "training"}, True),
        ({"key": "dedicated", "value": "other"}, False),
        ({"key": "another", "operator": "Exists"}, False),
        ({"value": "training"}, False),
    ],
)
def test_tolerations(toleration: Json, covers: bool) -> None:
    assert nodes.tolerates(toleration, TAINT) is covers


def test_what_the_daemonset_controller_tolerates_by_itself() -> None:
    item = node()
    item["spec"]["taints"] = [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "soft", "effect": "PreferNoSchedule"},
    ]
    assert nodes.untolerated(item, []) == []
    item["spec"]["taints"].append(TAINT)
    assert [nodes.format_taint(taint) for taint in nodes.untolerated(item, [])] == ["dedicated=training:NoSchedule"]
    assert nodes.format_taint({"key": "a", "effect": "NoExecute"}) == "a:NoExecute"


def test_selectors() -> None:
    assert nodes.matches(None, node()) and nodes.matches({"nvidia.com/gpu.present": "true"}, node())
    assert not nodes.matches({"nvidia.com/gpu.present": "false"}, node())


def test_a_selector_that_yaml_has_read_is_labels_again() -> None:
    assert nodes.selector_of({"a": True, "b": 7, "c": "x"}) == {"a": "true", "b": "7", "c": "x"}


def test_quantities() -> None:
    item = {
        "status": {
            "capacity": {
                "nvidia.com/gpu": "8",
                "nvidia.com/mig-1g.10gb": "7",
                "nvidia.com/gpu.shared": "1k",
                "nvidia.com/hostdev": "1",
            }
        }
    }
    assert nodes.gpu_quantities(item, "capacity") == {
        "nvidia.com/gpu": 8,
        "nvidia.com/mig-1g.10gb": 7,
        "nvidia.com/gpu.shared": 1000,
    }
    assert nodes.gpu_quantities({}, "capacity") == {}


def test_what_a_pod_holds() -> None:
    def container(number: str, field: str = "limits") -> Json:
        return {"resources": {field: {"nvidia.com/gpu": number, "cpu": "1"}}}

    assert requested_gpus({"containers": [container("1"), container("2"), {}]}) == {"nvidia.com/gpu": 3}
    assert requested_gpus({"containers": [container("1")], "initContainers": [container("4")]}) == {"nvidia.com/gpu": 4}
    assert requested_gpus({"containers": [container("0"), container("1", "requests")]}) == {"nvidia.com/gpu": 1}
