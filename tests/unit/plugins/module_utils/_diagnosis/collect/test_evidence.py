# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.operands import OPERANDS
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import engine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect import diagnose
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect.evidence import collect, without_cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect.reader import GapReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import held_devices
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, Gap
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from inline_snapshot import snapshot as wording

from tests.unit.fakes.api import (
    ALL_PODS,
    DAEMONSETS,
    EVENTS,
    NODES,
    PODS,
    POLICIES,
    FakeApi,
    Reply,
    refusal,
)
from tests.unit.fakes.health import with_health
from tests.unit.fakes.stack import NAMESPACE, cpu_node, daemonset, pod, progress, workload

DCGM = next(operand for operand in OPERANDS if operand.name == "dcgm")


def options(**given: t.Any) -> dict[str, t.Any]:
    return {**{name: spec["default"] for name, spec in diagnose.SPEC.options.items()}, **given}


@pytest.fixture
def evidence(api: FakeApi) -> t.Callable[..., Evidence]:
    return lambda **given: collect(GapReader(api.connection), options(**given))


def break_dcgm(api: FakeApi) -> None:
    """Let the pod of dcgm on the first node crash, with a log and an event."""
    item = next(each for each in api.lists[DAEMONSETS] if each["metadata"]["name"] == DCGM.daemonset)
    item["status"].update(progress(2, 2, 2, 1))
    crash = {"terminated": {"exitCode": 1}}
    status = {"name": DCGM.container, "restartCount": 2, "state": {"waiting": {}}, "lastState": crash}
    made = pod(daemonset(DCGM, 2), containerStatuses=[status])
    made["spec"]["containers"][0]["env"] = [{"name": "API_TOKEN", "value": "s3cret-of-a-pod"}]
    api.lists[PODS] = [made]
    api.table = [[made["metadata"]["name"], "0/1", "CrashLoopBackOff", "2", "1m", "", "gpu-0000"]]
    about = {"kind": "Pod", "name": made["metadata"]["name"], "namespace": NAMESPACE}
    api.lists[EVENTS] = [{"metadata": {}, "involvedObject": about, "reason": "BackOff", "message": "back-off"}]

    def answer(method: str, path: str) -> Reply | None:
        return (
            (200, t.cast(Json, "pull from https://bob:s3cret-of-a-log@x \x1b[31m")) if path.endswith("/log") else None
        )

    api.answer = answer


# ---- what is collected ----------------------------------------------------------------------------------------------


def test_a_stack_that_is_ready_needs_few_requests(api: FakeApi, evidence: t.Callable[..., Evidence]) -> None:
    found = evidence(allocated=False)
    assert found.stack is not None and found.stack["verdict"]["state"] == "ready"
    assert (found.pods, found.lines, found.preflight, found.gaps) == ([], [], [], [])
    assert len(found.objects["nodes"]) == 2
    assert "gpupods" not in found.objects
    assert found.taken.endswith("Z")
    assert sum(path == NODES for dummy, path, query in api.log) == 1
    assert len(api.log) < 35


def test_a_pod_in_trouble_is_read_with_its_log_and_events(api: FakeApi, evidence: t.Callable[..., Evidence]) -> None:
    break_dcgm(api)
    found = evidence()
    (whole,) = found.pods
    name = f"pod {NAMESPACE}/{whole['metadata']['name']}"
    assert TextLine("BackOff: back-off", "event", f"event of {name}", "gpu-0000", name) in found.lines
    (log,) = (line for line in found.lines if line.kind == "pod")
    assert log.source == f"{name}, container {DCGM.container}"
    assert (log.node, log.object) == ("gpu-0000", name)
    assert found.stack is not None
    assert found.stack["nodes"][0]["waiting_for"] == {"dcgm": "CrashLoopBackOff"}
    reason = found.stack["verdict"]["reasons"][0]
    assert reason["nodes"] == ["gpu-0000"]


def test_secrets_and_control_characters_stay_out(api: FakeApi, evidence: t.Callable[..., Evidence]) -> None:
    break_dcgm(api)
    api.lists[POLICIES][0]["spec"]["driver"]["env"] = [{"name": "PASSWORD", "value": "s3cret-of-a-spec"}]
    node = api.lists[NODES][0]
    node["metadata"]["annotations"] = {"proxy": "https://bob:s3cret-of-a-node@proxy", "api-token": "s3cret-of-one-more"}
    node["status"]["conditions"][0]["message"] = "reached https://bob:s3cret-of-a-condition@x"
    found = evidence()
    assert "s3cret" not in json.dumps([found.spec, found.pods, found.objects, [line.text for line in found.lines]])
    assert all("\x1b" not in line.text for line in found.lines)


def test_pods_that_wait_for_a_gpu_and_pods_that_have_one(api: FakeApi, evidence: t.Callable[..., Evidence]) -> None:
    waiting = workload("waits")
    waiting["spec"].pop("nodeName")
    waiting["status"]["phase"] = "Pending"
    api.lists[ALL_PODS] = [waiting, workload("has")]
    about = {"kind": "Pod", "name": "waits", "namespace": "default"}
    message = {"metadata": {}, "involvedObject": about, "reason": "FailedScheduling", "message": "0/2 nodes"}
    api.lists["/api/v1/namespaces/default/events"] = [message]
    found = evidence()
    assert [each["metadata"]["name"] for each in found.pods] == ["waits"]
    assert found.objects["gpupods"] == [
        {
            "namespace": "default",
            "name": "has",
            "node": "gpu-0000",
            "gpus": {"nvidia.com/gpu": 1},
            "is_bare": False,
            "keeps_data": False,
            "owner": "ReplicaSet/has",
            "ignores_cordons": False,
            "doubted": [],
        }
    ]
    assert any(line.text == "FailedScheduling: 0/2 nodes" for line in found.lines)


def test_a_gpu_whose_health_the_kubelet_does_not_know_is_a_gap(
    api: FakeApi, evidence: t.Callable[..., Evidence]
) -> None:
    api.lists[ALL_PODS] = [
        with_health(workload("train-0"), "nvidia.com/gpu", ("GPU-0", "Unknown"), ("GPU-1", "Unhealthy")),
        with_health(workload("train-1"), "nvidia.com/gpu", ("GPU-2", "Healthy")),
    ]
    found = evidence()
    (gap,) = (gap for gap in found.gaps if "health" in gap.what)
    assert "default/train-0" in gap.what and "train-1" not in gap.what
    assert [finding.code for finding in engine.diagnose(found, held_devices.RULES).findings] == ["HeldGPUUnhealthy"]
    assert not [gap for gap in evidence(allocated=False).gaps if "health" in gap.what]


def test_more_pods_than_are_read_are_a_gap(api: FakeApi, evidence: t.Callable[..., Evidence]) -> None:
    break_dcgm(api)
    api.table += [["nvidia-dcgm-abcd1", "0/1", "CrashLoopBackOff", "2", "1m", "", "gpu-0001"]]
    found = evidence(max_pods=1)
    assert [gap.what for gap in found.gaps] == ["the logs of 1 more pods of nvidia-dcgm (CrashLoopBackOff)"]


def test_nodes_keep_what_rules_read(api: FakeApi, evidence: t.Callable[..., Evidence]) -> None:
    node = api.lists[NODES][0]
    node["spec"]["providerID"] = "aws://1"
    node["status"] |= {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "images": [{}]}
    node["status"]["conditions"].append({"type": "MemoryPressure", "status": "True", "lastHeartbeatTime": "now"})
    api.lists[NODES].append(cpu_node())
    kept = evidence().objects["nodes"]
    assert kept[0]["spec"]["providerID"] == "aws://1"
    assert kept[0]["status"]["conditions"][1] == {"type": "MemoryPressure", "status": "True"}
    assert kept[0]["status"]["addresses"] and "images" not in kept[0]["status"]
    assert len(kept) == 3


# ---- what cannot be read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [NODES, POLICIES, DAEMONSETS, PODS])
def test_without_a_part_of_the_stack_the_verdict_is_unknown(
    api: FakeApi, evidence: t.Callable[..., Evidence], path: str
) -> None:
    break_dcgm(api)
    api.answer = lambda method, asked: refusal(403, "no") if asked == path else None
    found = evidence()
    assert found.stack is not None
    assert (found.stack["verdict"]["state"], found.stack["verdict"]["reasons"]) == ("unknown", [])
    assert found.gaps
    kind = path.rpartition("/")[2]
    assert kind not in found.objects or kind == "daemonsets"  # those of all namespaces


def test_one_kind_that_is_refused_leaves_the_rest(api: FakeApi, evidence: t.Callable[..., Evidence]) -> None:
    break_dcgm(api)
    log = api.answer
    api.answer = lambda method, path: refusal(403, "no") if path == EVENTS else log(method, path)
    found = evidence()
    assert [gap.what for gap in found.gaps] == ["events in gpu-operator"]
    assert "events" not in found.objects
    assert len(found.pods) == 1 and any(line.kind == "pod" for line in found.lines)
    assert found.stack is not None and found.stack["verdict"]["state"] == "progressing"


def test_who_holds_gpus_may_be_unknown(api: FakeApi, evidence: t.Callable[..., Evidence]) -> None:
    api.answer = lambda method, path: refusal(403, "no") if path == ALL_PODS else None
    found = evidence()
    assert {gap.what for gap in found.gaps} == {"which pods hold GPUs", "pods"}
    assert "gpupods" not in found.objects
    assert found.stack is not None and found.stack["verdict"]["state"] == "ready"


def test_a_kind_that_the_judge_may_miss_is_a_gap_and_no_reason(
    api: FakeApi, evidence: t.Callable[..., Evidence]
) -> None:
    api.answer = lambda method, path: refusal(403, "no") if path.endswith("/gpuclusters") else None
    found = evidence()
    assert [gap.what for gap in found.gaps] == ["gpuclusters"]
    assert found.stack is not None and found.stack["verdict"]["reasons"] == []


def test_an_api_server_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(GpuOpsError) as error:
        collect(GapReader({"host": "http://127.0.0.1:1", "api_key": "x"}), options())
    assert error.value.reason == "Unreachable"
    assert error.value.msg == wording(
        "Cannot reach the Kubernetes API: HTTPConnection(host='127.0.0.1', port=1): Failed to establish a new connection: [Errno 111] Connection refused. Check that the API server runs and that the kubeconfig's server address and certificate authority are right."
    )


def test_hosts_speak_without_a_cluster() -> None:
    given = {"gpu-1": {"facts": {"driver": {}}, "lines": ["a \x1b[31m line"]}}
    found = without_cluster({"hosts": given}, "It is away.")
    assert found.stack is None
    assert found.hosts == {"gpu-1": {"facts": {"driver": {}}}}
    assert found.lines[0].text == "a \\x1b[31m line"
    assert found.gaps == [Gap("the cluster", "It is away.")]
