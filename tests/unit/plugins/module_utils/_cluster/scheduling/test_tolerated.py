# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.scheduling import tolerated
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import node, policy, workload

TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}
EVICTING = {"key": "team", "value": "a", "effect": "NoExecute"}
GPU = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
TEAM = {"key": "team", "operator": "Exists"}


def daemonset(name: str, tolerations: list[dict] | None = None, labels: t.Any = None, **pod: t.Any) -> dict:
    spec = {**pod, **({"tolerations": tolerations} if tolerations else {})}
    return {
        "metadata": {"name": name, "namespace": "kube-system", "labels": labels or {}},
        "spec": {"template": {"spec": spec}},
    }


NFD = {"app.kubernetes.io/name": "node-feature-discovery", "role": "worker"}


def refused(guests: list[tolerated.Guest], *taints: dict) -> str:
    with pytest.raises(GpuOpsError) as error:
        tolerated.refuse(guests, [(node(), list(taints))])
    assert error.value.reason == "NotTolerated"
    return error.value.msg


def test_the_operands_tolerate_their_default_taint_and_no_other() -> None:
    guests = tolerated.of_stack([policy()], [], [])
    tolerated.refuse(guests, [(node(), [GPU])])
    message = refused(guests, GPU, TAINT)
    assert message == wording(
        "The operands would not tolerate the taint team=a:NoSchedule on gpu-0000, so GPUs would be lost there. Add {key: team, operator: Exists, effect: NoSchedule} to daemonsets.tolerations of ClusterPolicy cluster-policy, which replaces the default nvidia.com/gpu and so must also have what it has now."
    )
    assert "the taint team=a:NoSchedule" in refused(guests, TAINT, TAINT | {"key": "later"}), "the first one is named"


def test_a_list_in_the_cluster_policy_replaces_the_default() -> None:
    guests = tolerated.of_stack([policy(daemonsets={"tolerations": [TEAM]})], [], [])
    tolerated.refuse(guests, [(node(), [TAINT])])
    assert "taint nvidia.com/gpu:NoSchedule" in refused(guests, GPU)


def test_a_driver_of_an_nvidiadriver_inherits_nothing_but_has_the_default() -> None:
    driver = {"metadata": {"name": "a100"}, "spec": {"nodeSelector": {"nvidia.com/gpu.present": "true"}}}
    guests = tolerated.of_stack([policy(daemonsets={"tolerations": [TEAM]})], [], [driver])
    message = refused(guests, TAINT)
    assert message.startswith("The driver of NVIDIADriver a100 would not tolerate")
    assert "spec.tolerations of NVIDIADriver a100" in message
    tolerated.refuse(guests[1:], [(node(), [GPU])])
    elsewhere = {**driver, "spec": {"nodeSelector": {"pool": "other"}}}
    tolerated.refuse(tolerated.of_stack([], [], [elsewhere]), [(node(), [TAINT])])


def test_a_gpucluster_counts_where_there_is_no_cluster_policy() -> None:
    gpucluster = {"metadata": {"name": "gpu-cluster"}, "spec": {"daemonsets": {"tolerations": [GPU | TEAM]}}}
    assert "GPUCluster gpu-cluster" in refused(tolerated.of_stack([], [gpucluster], []), TAINT | {"key": "other"})
    assert len(tolerated.of_stack([policy()], [gpucluster], [])) == 1


def test_node_feature_discovery_must_tolerate_and_others_are_named() -> None:
    owned = daemonset("nvidia-dcgm")
    owned["metadata"]["ownerReferences"] = [{"apiVersion": "nvidia.com/v1"}]
    listed = [daemonset("nfd-worker", [GPU], NFD), daemonset("nfd-master", labels=NFD | {"role": "master"}), owned]
    discovery, others = tolerated.of_daemonsets([*listed, daemonset("cni", [{"operator": "Exists"}])])
    assert "node-feature-discovery.worker.tolerations" in refused(discovery, TAINT)
    planned: tolerated.Planned = [(node(), [TAINT])]
    assert tolerated.rejecting(others, planned) == ["DaemonSet kube-system/nfd-master"]


def test_a_daemonset_that_does_not_run_on_the_node_need_not_tolerate() -> None:
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "x", "operator": "Exists"}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    listed = [
        daemonset("a", nodeSelector={"pool": "x"}),
        daemonset("b", affinity=affinity),
        daemonset("c", nodeSelector={"nvidia.com/gpu.deploy.dcgm": "false"}),
    ]
    assert tolerated.rejecting(tolerated.of_daemonsets(listed)[1], [(node(), [TAINT])]) == [
        "DaemonSet kube-system/c",
    ]


def test_a_mild_taint_keeps_nobody_away() -> None:
    mild = TAINT | {"effect": "PreferNoSchedule"}
    assert tolerated.untolerated([mild], []) == [] and not tolerated.keeps_away(mild)


def pod(name: str, gpus: int = 1, *tolerations: dict) -> dict:
    made = workload(name, gpus=gpus)
    made["spec"]["tolerations"] = list(tolerations)
    return made


def holds(item: dict) -> bool:
    return item["metadata"]["name"] != "web"


def test_pods_that_stay_but_cannot_come_back_are_named_if_they_hold_gpus() -> None:
    found = tolerated.displaced([pod("train"), pod("web", 0), pod("fine", 1, TEAM)], [TAINT], holds)
    assert found == ([], ["default/train"])


def test_pods_are_evicted_that_tolerate_not_at_all_or_only_for_some_time() -> None:
    soon = {"key": "team", "operator": "Exists", "tolerationSeconds": 300}
    found = tolerated.displaced([pod("web", 0), pod("soon", 1, soon), pod("fine", 1, TEAM)], [EVICTING], holds)
    assert found == (["default/soon", "default/web"], [])
