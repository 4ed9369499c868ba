# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal import plan, sight

from tests.unit.plugins.module_utils._cluster.chart.removal.conftest import (
    MARKS,
    NS,
    OTHERS,
    crd,
    daemonset,
    deployment,
)
from tests.unit.plugins.module_utils._cluster.chart.removal.store import Store

SCOPE = sight.Scope(NS, NS)


def seen(store: Store) -> sight.Sight:
    return sight.read(store, SCOPE)


def after(store: Store) -> sight.Sight:
    found = seen(store)
    return plan.after_release(found, plan.custom_resources(found)[0])


def left(found: plan.Leftovers, what: str) -> list[str]:
    return [item.reason for item in found.left if item.what == what]


def test_custom_resources_go_in_their_order_and_those_of_another_release_stay(stack: Store) -> None:
    stack.add("GPUCluster", "gpu-cluster", spec={})
    stack.add("NVIDIADriver", "theirs", metadata={"annotations": OTHERS}, spec={})
    gone, stayed = plan.custom_resources(seen(stack))
    assert gone == [("GPUCluster", "gpu-cluster"), ("ClusterPolicy", "cluster-policy"), ("NVIDIADriver", "default")]
    assert [(item.what, item.names, item.reason) for item in stayed] == [
        ("NVIDIADriver", ["theirs"], "It belongs to the release nfd/nfd.")
    ]


def test_beside_another_operator_only_what_has_our_marks_is_ours(stack: Store) -> None:
    deployment(stack, "other", OTHERS)
    policy = stack.objects["/apis/nvidia.com/v1/clusterpolicies/cluster-policy"]
    assert plan.custom_resources(seen(stack))[0] == []
    policy["metadata"]["annotations"] = MARKS
    gone, stayed = plan.custom_resources(seen(stack))
    assert gone == [("ClusterPolicy", "cluster-policy")]
    assert "other/gpu-operator" in stayed[0].reason


def test_an_operator_in_our_namespace_without_marks_is_ours(stack: Store) -> None:
    stack.objects[f"/apis/apps/v1/namespaces/{NS}/deployments/gpu-operator"]["metadata"]["annotations"] = {}
    assert seen(stack).other_operators == []


def test_a_removal_interrupts_as_long_as_anything_hands_out_gpus(stack: Store, bare: Store) -> None:
    whole = seen(stack)
    assert plan.interrupts(whole, [("ClusterPolicy", "x")]) and plan.interrupts(whole, [])
    bare_sight = sight.Sight(SCOPE)
    assert not plan.interrupts(bare_sight, [])
    orphan = {"metadata": {"name": "x", "labels": {"app.kubernetes.io/component": "nvidia-driver"}}}
    assert plan.interrupts(dataclasses.replace(bare_sight, pods=[orphan]), [])
    owned = {"metadata": {**orphan["metadata"], "ownerReferences": [{"kind": "DaemonSet"}]}}
    assert plan.orphans([owned]) == []


def test_the_prediction_keeps_what_is_not_ours(stack: Store) -> None:
    daemonset(stack, "theirs", None, namespace="other")
    mine = daemonset(stack, "own", None)
    found = after(stack)
    assert {item["metadata"]["name"] for item in found.daemonsets} == {"theirs", "own"}
    assert [pod["metadata"]["name"] for pod in found.pods] == ["own-0"] and found.operators == []
    assert mine["metadata"]["name"] == "own" and found.custom["ClusterPolicy"] == []


# ---- CRDs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "operators", "nfd"),
    [
        ("clusterpolicies.nvidia.com", True, False),
        ("computedomains.resource.nvidia.com", True, False),
        ("nodemaintenances.maintenance.nvidia.com", False, False),
        ("clusterpolicies.example.com", False, False),
        ("nicclusterpolicies.mellanox.com", False, False),
        ("nodefeatures.nfd.k8s-sigs.io", False, True),
    ],
)
def test_a_crd_is_known_by_its_whole_name(name: str, operators: bool, nfd: bool) -> None:
    assert (plan.is_operators_crd(name), plan.is_nfd_crd(name)) == (operators, nfd)


def test_a_crd_with_objects_or_of_another_release_stays(stack: Store) -> None:
    crd(stack, "gpuclusters.nvidia.com", "GPUCluster", annotations=OTHERS)
    found = plan.leftovers(after(stack), ["crds"], {"nvidiadrivers.nvidia.com": 2, "clusterpolicies.nvidia.com": 0}, [])
    assert found.crds == ["clusterpolicies.nvidia.com"]
    assert sorted(left(found, "CRDs")) == [
        "The release nfd/nfd has installed them.",
        "Their removal was not asked for (nfd).",
        "There are still 2 objects, which would go with it.",
    ]
    one = plan.leftovers(after(stack), ["crds", "nfd"], {"nvidiadrivers.nvidia.com": 1}, [])
    assert "There are still 1 object, which would go with it." in left(one, "CRDs")
    assert "nodefeaturerules.nfd.k8s-sigs.io" in one.crds


def test_node_feature_discovery_of_another_installation_keeps_its_labels_and_crds(stack: Store) -> None:
    daemonset(stack, "worker", None, "nfd", "nfd/node-feature-discovery:v1", metadata={"annotations": OTHERS})
    found = plan.leftovers(after(stack), plan.LEFTOVERS, {}, [])
    assert left(found, "labels of Node Feature Discovery") == [
        "Node Feature Discovery of another installation sets them (nfd/worker)."
    ]
    assert "nodefeaturerules.nfd.k8s-sigs.io" not in found.crds
    assert not any("feature.node" in line for change in found.nodes for line in change.lines)


def test_feature_discovery_of_another_installation_keeps_the_labels_of_the_stack(stack: Store) -> None:
    daemonset(stack, "gfd", None, "other", "nvcr.io/nvidia/gpu-feature-discovery:v1")
    found = plan.leftovers(after(stack), ["labels"], {}, [])
    assert found.nodes == [] and not found.namespace_label
    assert left(found, "labels of the stack") == [
        "GPU Feature Discovery of another installation sets them (other/gfd)."
    ]


# ---- the namespace ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("contents", "goes", "reason"),
    [
        ([], True, []),
        (["Secret a", "ConfigMap b", "Lease c"], True, []),
        (["Deployment own", "Secret a"], False, ["It also has Deployment own."]),
        (["release prometheus"], False, ["It also has release prometheus."]),
    ],
)
def test_the_namespace_goes_only_without_work_of_others(
    stack: Store, contents: list[str], goes: bool, reason: list[str]
) -> None:
    found = plan.leftovers(after(stack), ["namespace"], {}, contents)
    assert (found.namespace, left(found, "namespace")) == (goes, reason)


@pytest.mark.parametrize("name", ["default", "kube-system"])
def test_a_namespace_of_kubernetes_never_goes(bare: Store, name: str) -> None:
    bare.add("Namespace", name)
    found = plan.leftovers(sight.read(bare, sight.Scope("x", name)), ["namespace"], {}, [])
    assert not found.namespace and left(found, "namespace") == ["Kubernetes or others use it, too."]


def test_the_label_of_a_namespace_that_stays_goes_with_the_labels(stack: Store) -> None:
    assert plan.leftovers(after(stack), ["labels"], {}, []).namespace_label
    assert not plan.leftovers(after(stack), ["labels", "namespace"], {}, []).namespace_label
    assert not plan.leftovers(after(stack), ["nfd"], {}, []).namespace_label
