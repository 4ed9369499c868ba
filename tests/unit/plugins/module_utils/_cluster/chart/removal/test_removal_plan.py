# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal import removal_plan, removal_view
from inline_snapshot import snapshot as wording

from tests.unit.plugins.module_utils._cluster.chart.removal.conftest import (
    MARKS,
    NS,
    OTHERS,
    crd,
    daemonset,
    deployment,
)
from tests.unit.plugins.module_utils._cluster.chart.removal.store import Store

SCOPE = removal_view.ReleaseScope(NS, NS)


def seen(store: Store) -> removal_view.RemovalView:
    return removal_view.read(store, SCOPE)


def after(store: Store) -> removal_view.RemovalView:
    found = seen(store)
    return removal_plan.after_release(found, removal_plan.custom_resources(found)[0])


def left(found: removal_plan.Leftovers, what: str) -> list[str]:
    return [item.reason for item in found.left if item.what.startswith(what)]


def test_custom_resources_go_in_their_order_and_those_of_another_release_stay(stack: Store) -> None:
    stack.add("GPUCluster", "gpu-cluster", spec={})
    stack.add("NVIDIADriver", "theirs", metadata={"annotations": OTHERS}, spec={})
    gone, stayed = removal_plan.custom_resources(seen(stack))
    assert gone == [("GPUCluster", "gpu-cluster"), ("ClusterPolicy", "cluster-policy"), ("NVIDIADriver", "default")]
    assert [(item.what, item.names, item.reason) for item in stayed] == [
        ("NVIDIADriver", ["theirs"], wording("It belongs to the release nfd/nfd."))
    ]


def test_beside_another_operator_only_what_has_our_marks_is_ours(stack: Store) -> None:
    deployment(stack, "other", OTHERS)
    policy = stack.objects["/apis/nvidia.com/v1/clusterpolicies/cluster-policy"]
    assert removal_plan.custom_resources(seen(stack))[0] == []
    policy["metadata"]["annotations"] = MARKS
    gone, stayed = removal_plan.custom_resources(seen(stack))
    assert gone == [("ClusterPolicy", "cluster-policy")]
    assert "other/gpu-operator" in stayed[0].reason


def test_an_operator_in_our_namespace_without_marks_is_another_s(stack: Store) -> None:
    deployed = stack.objects[f"/apis/apps/v1/namespaces/{NS}/deployments/gpu-operator"]
    deployed["metadata"]["annotations"] = {}
    assert seen(stack).other_operators == [deployed]


def test_a_removal_interrupts_as_long_as_anything_hands_out_gpus(stack: Store, bare: Store) -> None:
    whole = seen(stack)
    assert removal_plan.interrupts(whole, [("ClusterPolicy", "x")]) and removal_plan.interrupts(whole, [])
    bare_sight = removal_view.RemovalView(SCOPE)
    assert not removal_plan.interrupts(bare_sight, [])
    orphan = {"metadata": {"name": "x", "labels": {"app.kubernetes.io/component": "nvidia-driver"}}}
    assert removal_plan.interrupts(dataclasses.replace(bare_sight, pods=[orphan]), [])
    owned = {"metadata": {**orphan["metadata"], "ownerReferences": [{"kind": "DaemonSet"}]}}
    assert removal_plan.orphans([owned]) == []


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
    assert (removal_plan.is_operators_crd(name), removal_plan.is_nfd_crd(name)) == (operators, nfd)


def test_a_crd_with_objects_or_of_another_release_stays(stack: Store) -> None:
    crd(stack, "gpuclusters.nvidia.com", "GPUCluster", annotations=OTHERS)
    found = removal_plan.leftovers(
        after(stack), ["crds"], {"nvidiadrivers.nvidia.com": 2, "clusterpolicies.nvidia.com": 0}, []
    )
    assert found.crds == ["clusterpolicies.nvidia.com"]
    assert sorted(left(found, "CRDs")) == [
        "The release nfd/nfd has installed them.",
        wording("Their removal was not asked for (nfd)."),
        wording("There are still 2 objects, which would go with it."),
    ]
    one = removal_plan.leftovers(after(stack), ["crds", "nfd"], {"nvidiadrivers.nvidia.com": 1}, [])
    assert left(one, "CRDs") == wording(
        ["There are still 1 object, which would go with it.", "The release nfd/nfd has installed them."]
    )
    assert "nodefeaturerules.nfd.k8s-sigs.io" in one.crds


def test_node_feature_discovery_of_another_installation_keeps_its_labels_and_crds(stack: Store) -> None:
    daemonset(stack, "worker", None, "nfd", "nfd/node-feature-discovery:v1", metadata={"annotations": OTHERS})
    found = removal_plan.leftovers(after(stack), removal_plan.LEFTOVERS, {}, [])
    assert left(found, "labels of Node") == [
        wording("Node Feature Discovery of another installation sets them (nfd/worker).")
    ]
    assert "nodefeaturerules.nfd.k8s-sigs.io" not in found.crds
    assert not any("feature.node" in line for change in found.nodes for line in change.lines)


def test_feature_discovery_of_another_installation_keeps_the_labels_of_the_stack(stack: Store) -> None:
    daemonset(stack, "gfd", None, "other", "nvcr.io/nvidia/gpu-feature-discovery:v1")
    found = removal_plan.leftovers(after(stack), ["labels"], {}, [])
    assert found.nodes == [] and not found.namespace_label
    assert left(found, "labels of the stack") == [
        wording("GPU Feature Discovery of another installation sets them (other/gfd).")
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
    found = removal_plan.leftovers(after(stack), ["namespace"], {}, contents)
    assert (found.namespace, left(found, "namespace")) == (goes, reason)


@pytest.mark.parametrize("name", ["default", "kube-system"])
def test_a_namespace_of_kubernetes_never_goes(bare: Store, name: str) -> None:
    bare.add("Namespace", name)
    found = removal_plan.leftovers(removal_view.read(bare, removal_view.ReleaseScope("x", name)), ["namespace"], {}, [])
    assert not found.namespace and left(found, "namespace") == [wording("Kubernetes or others use it, too.")]


def test_the_label_of_a_namespace_that_stays_goes_with_the_labels(stack: Store) -> None:
    assert removal_plan.leftovers(after(stack), ["labels"], {}, []).namespace_label
    assert not removal_plan.leftovers(after(stack), ["labels", "namespace"], {}, []).namespace_label
    assert not removal_plan.leftovers(after(stack), ["nfd"], {}, []).namespace_label
