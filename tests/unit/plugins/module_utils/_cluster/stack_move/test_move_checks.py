# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.driver_chart import SeparateDriver
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.installed_by import InstalledBy
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.eviction import EvictionPermits
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import GpuPod
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack_move import move_checks
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack_move.move_checks import MoveView

from tests.unit.fakes.claimed import GPUCLUSTER
from tests.unit.fakes.stack import Json, node, policy

HOST_DRIVER = {"driver": {"enabled": False}}


def found(target: str = "claims", spec: Json | None = None, **changes: t.Any) -> list[ClusterFinding]:
    facts: Json = {
        "target": target,
        "policy": policy(**(HOST_DRIVER if spec is None else spec)) if target == "claims" else None,
        "gpucluster": GPUCLUSTER if target == "device_plugin" else None,
        "nvidiadrivers": [],
        "gpu_nodes": [node(0), node(1)],
        "serves_claims": True,
        "has_crd": True,
        "domains": [],
        "quotas": [],
        "queues": [],
        "drivers": [],
        "has_cdi": False,
        "drops_sharing": False,
        "held": [],
        "permits": EvictionPermits(),
    }
    return list(move_checks.checks(MoveView(**{**facts, **changes})))


def levels(findings: list[ClusterFinding]) -> list[tuple[str, str]]:
    return [(finding.check, finding.level) for finding in findings]


def labelled(runtime: str = "containerd://2.1.4", **labels: str) -> Json:
    made = node(1)
    made["metadata"]["labels"] |= {key.replace("__", "/"): value for key, value in labels.items()}
    made["status"]["nodeInfo"]["containerRuntimeVersion"] = runtime
    return made


def test_nothing_is_in_the_way() -> None:
    assert found() == found("device_plugin") == []


def test_after_the_old_stack_is_gone_nothing_is_checked() -> None:
    assert found(policy=None, has_crd=False) == []
    assert found("device_plugin", gpucluster=None, domains=[{"metadata": {"name": "x"}}]) == []


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"has_crd": False}, "operator"),
        ({"serves_claims": False}, "kubernetes"),
        ({"spec": {**HOST_DRIVER, "sandboxWorkloads": {"enabled": True}}}, "virtual_machines"),
        ({"spec": {}}, "driver"),
        ({"spec": {"driver": {"useNvidiaDriverCRD": True}}}, "driver"),
    ],
)
def test_what_a_gpucluster_cannot_follow(changes: Json, check: str) -> None:
    [finding] = found(**changes)
    assert (finding.check, finding.level) == (check, "failure") and finding.remedy


TRAIN = GpuPod("ml", "train", "gpu-0001", {"nvidia.com/gpu": 1}, owner="ReplicaSet/train")


@pytest.mark.parametrize("target", ["claims", "device_plugin"])
@pytest.mark.parametrize(
    ("facts", "permits", "told"),
    [
        ({}, {}, None),
        ({"owner": "DaemonSet/agent", "ignores_cordons": True}, {"force": True}, "a drain leaves them"),
        ({"owner": "Node/gpu-0001", "ignores_cordons": True}, {"force": True}, "a drain leaves them"),
        ({"ignores_cordons": True}, {"force": True}, "tolerate cordons"),
        ({"owner": "", "is_bare": True}, {}, "no controller"),
        ({"owner": "", "is_bare": True, "ignores_cordons": True}, {"force": True}, None),
        ({"keeps_data": True}, {"force": True}, "emptyDir"),
        ({"keeps_data": True}, {"delete_emptydir_data": True}, None),
    ],
)
def test_pods_that_a_drain_would_leave(target: str, facts: Json, permits: Json, told: str | None) -> None:
    held = [dataclasses.replace(TRAIN, **facts)]
    findings = found(target, held=held, permits=EvictionPermits(**permits))
    if told is None:
        assert findings == []
    else:
        [finding] = findings
        assert (finding.check, finding.level, finding.nodes) == ("pods", "failure", ("gpu-0001",))
        assert told in finding.message and "ml/train on gpu-0001" in finding.message


def test_nodes_of_karpenter_are_a_warning() -> None:
    made = labelled()
    made["metadata"]["labels"]["karpenter.sh/nodepool"] = "gpus"
    [finding] = found(gpu_nodes=[node(0), made])
    assert (finding.check, finding.level, finding.nodes) == ("autoscaler", "warning", ("gpu-0001",))


def test_drivers_of_nvidiadrivers_and_of_hosts_stay() -> None:
    assert found(spec={"driver": {"useNvidiaDriverCRD": True}}, nvidiadrivers=[{"metadata": {"name": "x"}}]) == []


@pytest.mark.parametrize(("version", "level"), [("570.158.01", "failure"), ("580.65.06", None), ("", "warning")])
def test_the_driver_must_be_new_enough(version: str, level: str | None) -> None:
    one = labelled()
    one["metadata"]["labels"]["nvidia.com/cuda.driver-version.full"] = version
    assert levels(found(gpu_nodes=[node(0), one])) == ([("driver", level)] if level else [])


@pytest.mark.parametrize(
    ("runtime", "in_the_way"),
    [
        ("containerd://2.0.0", False),
        ("containerd://1.7.28", True),
        ("cri-o://1.34.0", False),
        ("docker://27.0", True),
        ("", True),
    ],
)
def test_the_runtime_must_know_cdi(runtime: str, in_the_way: bool) -> None:
    findings = found(gpu_nodes=[node(0), labelled(runtime)])
    assert levels(findings) == [("runtime", "failure")] * in_the_way
    assert all(finding.nodes == ("gpu-0001",) for finding in findings)


def test_cdi_in_an_older_containerd_is_the_users_word() -> None:
    assert found(gpu_nodes=[labelled("containerd://1.7.28")], has_cdi=True) == []
    assert len(found(gpu_nodes=[labelled("docker://27.0")], has_cdi=True)) == 1


def test_sharing_is_given_up_only_on_request() -> None:
    shared = [labelled(nvidia__="", **{"nvidia.com__gpu.sharing-strategy": "time-slicing"})]
    spec = {**HOST_DRIVER, "devicePlugin": {"config": {"name": "sharing"}}}
    [finding] = found(spec=spec, gpu_nodes=shared)
    assert (finding.check, finding.level) == ("sharing", "failure") and "ConfigMap sharing" in finding.message
    assert levels(found(gpu_nodes=shared, drops_sharing=True)) == [("sharing", "warning")]


def test_layouts_and_quotas_are_told() -> None:
    divided = [labelled(**{"nvidia.com__mig.config": "all-1g.10gb"})]
    quotas = [
        {"metadata": {"namespace": "ml", "name": "gpus"}, "spec": {"hard": {"requests.nvidia.com/gpu": "4"}}},
        {"metadata": {"namespace": "ml", "name": "cpus"}, "spec": {"hard": {"cpu": "4"}}},
        {"metadata": {"namespace": "ml", "name": "none"}, "spec": {}},
    ]
    findings = found(gpu_nodes=divided, quotas=quotas)
    assert levels(findings) == [("mig", "warning"), ("quotas", "warning")]
    assert "ml/gpus" in findings[1].message and "ml/cpus" not in findings[1].message


def test_on_the_way_back() -> None:
    domains = [{"metadata": {"namespace": "ml", "name": "nvl72"}}]
    assert levels(found("device_plugin", domains=domains)) == [("compute_domains", "failure")]
    dynamic = {**GPUCLUSTER, "spec": {"draDriver": {"featureGates": {"DynamicMIG": True}}}}
    assert levels(found("device_plugin", gpucluster=dynamic)) == [("mig", "warning")]
    assert found("device_plugin", gpucluster={**GPUCLUSTER, "spec": {}}) == []


def queue(name: str, *resources: str) -> Json:
    flavors = [{"name": "default", "resources": [{"name": each, "nominalQuota": "8"} for each in resources]}]
    groups = [{"coveredResources": list(resources), "flavors": flavors}]
    return {"metadata": {"name": name}, "spec": {"resourceGroups": groups}}


def test_queues_of_kueue_that_count_gpus_of_the_plugin_are_named() -> None:
    queues = [
        queue("training", "cpu", "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"),
        queue("web", "cpu"),
        queue("claimed", "gpus.example.com"),
        {"metadata": {"name": "empty"}, "spec": {}},
    ]
    (finding,) = found(queues=queues)
    assert (finding.check, finding.level) == ("kueue", "warning") and "deviceClassMappings" in finding.remedy
    assert "training (nvidia.com/gpu, nvidia.com/mig-1g.10gb)." in finding.message
    assert found(queues=queues[1:]) == found("device_plugin", queues=queues) == []


def test_queues_that_nobody_may_list_are_unknown() -> None:
    (finding,) = found(queues=None)
    assert (finding.check, finding.level) == ("kueue", "warning") and "unknown" in finding.message


def test_a_driver_of_its_own_chart_is_in_the_way_and_the_way_out_is_said() -> None:
    (finding,) = found(drivers=[SeparateDriver(("dra/plugin",), InstalledBy("Helm", "dra/mine"))])
    assert (finding.check, finding.level) == ("other_driver", "failure")
    assert "helm uninstall mine --namespace dra." in finding.remedy
