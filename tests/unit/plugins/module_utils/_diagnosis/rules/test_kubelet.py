# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPU nodes that run no pods. The words are those of pkg/kubelet/nodestatus and of the node lifecycle controller."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.all_rules import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input.explain import explain
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from inline_snapshot import snapshot as wording

from tests.unit import diagnosed
from tests.unit.diagnosed import NODE

SILENT = {"status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
NO_NETWORK = {
    "status": "False",
    "reason": "KubeletNotReady",
    "message": "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network "
    "plugin returns error: cni plugin not initialized",
}


def node(name: str = NODE, **ready: str) -> Json:
    pressure = {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory", "message": "x"}
    return {"metadata": {"name": name}, "spec": {}, "status": {"conditions": [pressure, {"type": "Ready", **ready}]}}


@pytest.mark.parametrize(
    ("ready", "code", "words"),
    [
        (
            SILENT,
            "NodeSilent",
            wording(
                "The cluster has lost contact with the node's kubelet (Kubelet stopped posting node status). The host is off, hangs, or does not reach the API server."
            ),
        ),
        (
            NO_NETWORK,
            "NodeNotReady",
            wording(
                "The node's kubelet says that it can run no pods: container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized."
            ),
        ),
        (
            {"status": "False"},
            "NodeNotReady",
            wording("The node's kubelet says that it can run no pods: it gives no reason."),
        ),
    ],
)
def test_the_condition_of_a_node_is_a_finding_with_its_words(ready: dict[str, str], code: str, words: str) -> None:
    waits = diagnosed.row(waiting_for={"dcgm": "Init:0/1"}, ready=False)
    reason = diagnosed.reason("NodesNotReady", f"1 of 1 GPU nodes ({NODE})", node=NODE)
    (finding,) = diagnosed.found(
        RULES, stack=diagnosed.stack(waits, reasons=[reason]), objects={"nodes": [node(**ready)]}
    ).values()
    assert (finding.code, finding.nodes) == (code, (NODE,))
    assert finding.cause == words
    assert finding.quotes[0].text.startswith(f"Ready: {ready['status']}, ")
    assert {each.code for each in finding.consequences} == {"NodesNotReady", "OperandWaiting"}


def test_a_node_that_is_ready_or_has_no_gpu_is_no_finding() -> None:
    ready = {"status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    stack = diagnosed.stack(diagnosed.row())
    assert diagnosed.found(RULES, stack=stack, objects={"nodes": [node(**ready), node("cpu-0000", **SILENT)]}) == {}
    assert diagnosed.found(RULES, stack=stack, objects={"nodes": [{"metadata": {"name": NODE}}]}) == {}


DESCRIBED = f"""\
Name:               {NODE}
Labels:             nvidia.com/gpu.present=true
Conditions:
  Type             Status  LastHeartbeatTime                 LastTransitionTime                Reason            Message
  ----             ------  -----------------                 ------------------                ------            -------
  MemoryPressure   False   Wed, 25 Nov 2026 22:25:36 +0000   Wed, 25 Nov 2026 22:25:36 +0000   KubeletHasMemory  enough
  Ready            False   Wed, 25 Nov 2026 22:25:36 +0000   Wed, 25 Nov 2026 22:25:36 +0000   KubeletNotReady   PLEG is
Capacity:
  nvidia.com/gpu:     8
Allocatable:
  nvidia.com/gpu:     8
System Info:
  Kernel Version:             6.8.0-31-generic
"""


def test_explain_reads_it_from_a_description() -> None:
    result = explain({"text": DESCRIBED, "path": "", "limit_mib": 1})
    assert [(each["code"], each["nodes"]) for each in result["findings"]] == [("NodeNotReady", (NODE,))], result["text"]
    well = DESCRIBED.replace("Ready            False ", "Ready            True  ")
    assert explain({"text": well, "path": "", "limit_mib": 1})["findings"] == []
