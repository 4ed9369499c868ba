# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import engine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import adopted
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Finding, RuleSighting
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, View
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from inline_snapshot import snapshot as wording

from tests.unit import diagnosed


def stack(*reasons: Json, **waiting_for: Json) -> Json:
    rows = [{"name": name.replace("_", "-"), "waiting_for": found} for name, found in waiting_for.items()]
    return {"nodes": rows, "verdict": {"reasons": list(reasons)}}


def reason(code: str, **fields: object) -> Json:
    return {"level": "progressing", "code": code, "message": f"{code} it is.", "remedy": "", "operand": None, **fields}


def seen(evidence: Evidence) -> list[RuleSighting]:
    return list(adopted(View(evidence)))


def findings(evidence: Evidence) -> list[Finding]:
    return engine.diagnose(evidence, []).findings


# ---- operands -------------------------------------------------------------------------------------------------------


def test_an_operand_that_is_not_ready_is_seen_on_its_node() -> None:
    (found,) = findings(Evidence(stack=stack(gpu_1={"dcgm": "CrashLoopBackOff"}, gpu_2={})))
    assert (found.code, found.nodes) == ("OperandWaiting", ("gpu-1",))
    assert found.cause == wording("The pod of dcgm is CrashLoopBackOff, and no rule knows why.")


def test_operands_that_wait_for_the_driver_are_no_findings_of_their_own() -> None:
    waiting = {"driver": "CrashLoopBackOff", "container-toolkit": "Init:0/1", "operator-validator": "Init:0/4"}
    (found,) = findings(Evidence(stack=stack(gpu_1=waiting)))
    assert "driver is CrashLoopBackOff" in found.cause
    assert [each.code for each in found.consequences] == ["OperandWaiting"]


def test_an_operand_with_a_trouble_of_its_own_is_a_finding_beside_the_driver() -> None:
    waiting = {"driver": "CrashLoopBackOff", "dcgm-exporter": "ImagePullBackOff"}
    assert len(findings(Evidence(stack=stack(gpu_1=waiting)))) == 2


def test_what_no_rule_understands_is_quoted_from_the_log() -> None:
    name = "nvidia-dcgm-x7k2p"
    pod = {"metadata": {"name": name, "namespace": "gpu-operator"}, "spec": {"nodeName": "gpu-1"}}
    texts = ("first", "", "last but one", "last")
    lines = [TextLine(text, "pod", "its log", "gpu-1", f"pod gpu-operator/{name}") for text in texts]
    (found,) = findings(Evidence(stack=stack(gpu_1={"dcgm": "Error"}), pods=[pod], lines=lines))
    assert found.objects == (f"pod gpu-operator/{name}",)
    assert [quote.text for quote in found.quotes] == ["dcgm: Error", "last but one", "last"]


# ---- the verdict ----------------------------------------------------------------------------------------------------


def test_a_reason_keeps_its_code_words_and_level() -> None:
    levels = {"failed": "failure", "progressing": "warning", "note": "ok"}
    for level, severity in levels.items():
        given = reason("NodesCordoned", level=level, remedy="Uncordon them.", node="gpu-1")
        (found,) = findings(Evidence(stack=stack(given)))
        assert (found.code, found.title, found.severity) == ("NodesCordoned", "Nodes cordoned", severity)
        assert (found.cause, found.remedy) == ("NodesCordoned it is.", "Uncordon them.")
        assert found.nodes == ("gpu-1",)
        assert found.as_result()["url"].endswith("main/reference/verdict.html")


def test_a_reason_about_several_nodes_is_seen_on_each() -> None:
    given = reason("MIGFailed", node="gpu-1", nodes=["gpu-1", "gpu-2"])
    assert findings(Evidence(stack=stack(given)))[0].nodes == ("gpu-1", "gpu-2")


def test_a_reason_about_pods_that_are_known_by_node_is_left_out() -> None:
    given = reason("CrashLoopBackOff", operand="dcgm", pod="nvidia-dcgm-x", node="gpu-1")
    codes = [each.rule.code for each in seen(Evidence(stack=stack(given, gpu_1={"dcgm": "CrashLoopBackOff"})))]
    assert codes == ["OperandWaiting"]
    assert [each.rule.code for each in seen(Evidence(stack=stack(given)))] == ["CrashLoopBackOff"]


@pytest.mark.parametrize(
    ("code", "title"),
    [
        ("MIGFailed", "MIG failed"),
        ("NoAllocatableGPUs", "No allocatable GPUs"),
        ("NoNVIDIADriver", "No NVIDIA driver"),
        ("CRDMissing", "CRD missing"),
        ("odd", "odd"),
    ],
)
def test_a_code_as_words(code: str, title: str) -> None:
    assert findings(Evidence(stack=stack(reason(code))))[0].title == title


# ---- checks ---------------------------------------------------------------------------------------------------------


def check(level: str, **fields: object) -> Json:
    return {"check": "other_stacks", "level": level, "message": "Another stack.", "remedy": "Remove it.", **fields}


def test_findings_of_the_checks_are_taken_over_unless_they_are_harmless() -> None:
    found = seen(Evidence(preflight=[check("failure", nodes=["gpu-1", "gpu-2"]), check("ok"), check("warning")]))
    assert [(each.rule.code, each.sighting.node, each.rule.severity) for each in found] == [
        ("PreflightOtherStacks", "gpu-1", "failure"),
        ("PreflightOtherStacks", "gpu-2", "failure"),
        ("PreflightOtherStacks", "", "warning"),
    ]


def test_findings_of_a_host_are_about_its_node() -> None:
    (found,) = findings(Evidence(hosts={"gpu-1": {"preflight": [check("failure"), check("ok")]}}))
    assert (found.code, found.nodes, found.title) == (
        "HostPreflightOtherStacks",
        ("gpu-1",),
        "Check of the host: other stacks",
    )
    assert found.as_result()["url"].endswith("main/tasks/preflight.html")


def test_the_operators_own_state_is_named_in_words() -> None:
    reasons = [diagnosed.reason("StateNotReady", "The state is notReady"), diagnosed.reason("NodesCordoned", "x")]
    found = diagnosed.found((), stack=diagnosed.stack(diagnosed.row(), reasons=reasons))
    assert {each.title for each in found.values()} == {
        wording("The operator does not call the stack ready"),
        "Nodes cordoned",
    }
