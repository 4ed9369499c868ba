# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Texts that nobody has sorted become evidence."""

from __future__ import annotations

import dataclasses
import json
import re
import time

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import engine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.all_rules import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input.gather import Gatherer
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input.wanted_lines import KEPT_LINES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import LINE_LENGTH
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import printable
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PATTERNS = sorted({pattern for rule in RULES for pattern in rule.patterns}, key=lambda each: each.regex.pattern)
LITERALS = [pattern.literal for pattern in PATTERNS]

TICKET = """\
# GPU pods are stuck

```
$ kubectl get pods -n gpu-operator -o wide
NAME                                   READY   STATUS     RESTARTS     AGE   IP         NODE   NOMINATED NODE
nvidia-device-plugin-daemonset-tltdv   0/1     Init:0/1   0            3m    <none>     gpu1   <none>
nvidia-driver-daemonset-abcde          1/1     Running    2 (5m ago)   3m    10.0.0.2   gpu1   <none>
```

```
Name:                 nvidia-device-plugin-daemonset-tltdv
Namespace:            gpu-operator
Node:                 gpu1/10.36.40.65
Status:               Pending
Init Containers:
  toolkit-validation:
    State:          Waiting
      Reason:       PodInitializing
Events:
  Type     Reason                  Age   From      Message
  ----     ------                  ----  ----      -------
  Warning  FailedCreatePodSandBox  4m    kubelet   failed to get sandbox runtime: no runtime for "nvidia" is configured
```

    LAST SEEN   TYPE      REASON      OBJECT       MESSAGE
    4m          Warning   BackOff     pod/other    Back-off restarting failed container nvidia-driver-ctr

and the kernel says
Nov 20 04:12:09 gpu2 kernel: NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', GPU has fallen off the bus.
"""


def gathered(*texts: tuple[str, str]) -> Evidence:
    gatherer = Gatherer(LITERALS)
    for name, text in texts:
        gatherer.take(name, text)
    return gatherer.evidence()


def test_a_ticket_with_a_table_a_description_events_and_a_log() -> None:
    gatherer = Gatherer(LITERALS)
    assert gatherer.take("ticket.md", TICKET) == ["row of pods (2)", "description of a pod", "event"]
    evidence = gatherer.evidence()
    assert [pod["spec"]["nodeName"] for pod in evidence.pods] == ["gpu1"]
    assert evidence.stack is not None
    assert evidence.stack["nodes"][0]["waiting_for"] == {"device-plugin": "Init:0/1"}
    lines = {(line.kind, line.source, line.node) for line in evidence.lines}
    assert ("event", "event of pod gpu-operator/nvidia-device-plugin-daemonset-tltdv", "gpu1") in lines
    assert ("event", "event of pod other", "") in lines
    assert ("kernel", "kernel log", "gpu2") in lines
    codes = {finding.code for finding in engine.diagnose(evidence, RULES).findings}
    assert {"NoNvidiaRuntimeHandler", "XidOffTheBus"} <= codes


def test_a_row_of_pods_alone_is_read() -> None:
    gatherer = Gatherer(LITERALS)
    text = "it says:\nnvidia-operator-validator-7x9kd   0/1   Init:0/4   0   12m\nwhat now?"
    assert gatherer.take("ticket.md", text) == ["row of pods"]
    codes = {finding.code for finding in engine.diagnose(gatherer.evidence(), RULES).findings}
    assert codes == {"OperandWaiting"}


def test_the_layout_of_the_operators_must_gather() -> None:
    pods = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "nvidia-driver-daemonset-abcde", "namespace": "gpu-operator", "uid": "1"},
                "spec": {"nodeName": "gpu1", "containers": [{"name": "nvidia-driver-ctr"}]},
                "status": {
                    "phase": "Running",
                    "containerStatuses": [
                        {
                            "name": "nvidia-driver-ctr",
                            "ready": False,
                            "restartCount": 3,
                            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        }
                    ],
                },
            }
        ],
    }
    policy = {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": {"driver": {"env": [{"name": "A_TOKEN", "value": "hunter22"}]}},
        "status": {"namespace": "gpu-operator"},
    }
    pod = "nvidia-driver-daemonset-abcde"
    log = f"[pod/{pod}/nvidia-driver-ctr] modprobe: ERROR: could not insert 'nvidia': No such device"
    evidence = gathered(
        ("x/gpu_operand_pods.yaml", yaml.safe_dump(pods)),
        ("x/cluster_policy.yaml", yaml.safe_dump(policy)),
        ("x/gpu_operand_pod_nvidia-driver-daemonset-abcde.log", log),
    )
    assert evidence.stack is not None and evidence.stack["policy"] == "cluster-policy"
    assert evidence.stack["nodes"][0]["waiting_for"] == {"driver": "CrashLoopBackOff"}
    assert evidence.spec["driver"]["env"][0]["value"] == "VALUE_HIDDEN"
    (line,) = (line for line in evidence.lines if line.kind == "pod")
    assert (line.node, line.object) == ("gpu1", "pod nvidia-driver-daemonset-abcde")
    assert line.source == "pod nvidia-driver-daemonset-abcde, container nvidia-driver-ctr"


def test_the_layout_of_oc_adm_must_gather() -> None:
    folder = "must-gather.local/quay-io/namespaces/gpus/pods/nvidia-driver-x/ctr/ctr/logs"
    log = "2026-11-20T04:12:09.1Z modprobe: ERROR: could not insert 'nvidia': No such device"
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "gpu1"}, "status": {}}
    evidence = gathered(
        (f"{folder}/current.log", log),
        ("must-gather.local/quay-io/cluster-scoped-resources/core/nodes/gpu1.yaml", yaml.safe_dump(node)),
        ("must-gather.local/quay-io/namespaces/gpus/core/pods.yaml", "apiVersion: v1\nitems: []\nkind: PodList\n"),
    )
    assert [(line.source, line.object) for line in evidence.lines] == [
        ("pod gpus/nvidia-driver-x, container ctr", "pod gpus/nvidia-driver-x")
    ]
    assert [item["metadata"]["name"] for item in evidence.objects["nodes"]] == ["gpu1"]


def test_a_single_object_does_not_show_that_there_are_no_others() -> None:
    daemonset = {"kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": {"name": "a", "namespace": "n"}, "spec": {}}
    assert "daemonsets" not in gathered(("a.json", json.dumps(daemonset))).objects
    listed = {"kind": "List", "items": [daemonset]}
    assert len(gathered(("a.json", json.dumps(listed, indent=1))).objects["daemonsets"]) == 1


def test_a_bug_report_names_its_host() -> None:
    report = (
        "____________\n\nStart of NVIDIA bug report log file.  Please include this file\n\n"
        "nvidia-bug-report.sh Version: 1\n\nDate: x\nuname: Linux gpu7 6.8.0-31-generic #1 SMP x86_64\n"
        "____________\n\n==============NVSMI LOG==============\nDriver Version        : 595.91.07\n"
        "GPU 00000000:18:00.0\n    Product Name        : NVIDIA H100\n____________\n\ndmesg:\n\n"
        "[   12.123456] NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.\n"
    )
    evidence = gathered(("nvidia-bug-report.log", report))
    assert [line.node for line in evidence.lines if line.kind == "kernel"] == ["gpu7"]
    assert evidence.hosts["gpu7"]["facts"]["gpus"][0]["product"] == "NVIDIA H100"


def test_an_object_has_the_namespace_of_its_folder_but_a_node_has_none() -> None:
    for kind, namespace in (("Pod", "n"), ("Node", None)):
        item: Json = {"kind": kind, "metadata": {"name": "a"}, "spec": {}, "status": {}}
        assert Gatherer(LITERALS).add_object(item, False, "n")
        assert item["metadata"].get("namespace") == namespace


@pytest.mark.parametrize("lines", [2, 3])
def test_a_text_that_begins_like_a_description_is_read_as_lines_if_it_is_short(lines: int) -> None:
    text = "\n".join(["Name:   x", "Status: NVRM: Xid (PCI:0000:18:00): 79, x", "Other:  x"][:lines])
    gatherer = Gatherer(LITERALS)
    assert gatherer.take("x.txt", text) == []
    assert len(gatherer.evidence().lines) == 1


def test_json_that_is_no_object_is_read_as_lines() -> None:
    line = '{"apiVersion": "v1", "kind": "x", "log": "NVRM: Xid (PCI:0000:18:00): 79, x"'
    assert [each.text for each in gathered(("x.log", f"{line}\n{line}")).lines] == [line, line]


def test_an_object_of_the_api_counts_more_than_its_description() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "n", "uid": "1"}, "status": {"phase": "Failed"}}
    text = "Name:   p\nNamespace:   n\nNode:  gpu1/1\nStatus:  Running\nContainers:\n  c:\n    Ready:  True\n"
    for order in ([("a", json.dumps(pod)), ("b", text)], [("b", text), ("a", json.dumps(pod))]):
        assert [each["status"]["phase"] for each in gathered(*order).pods] == ["Failed"]


def test_only_lines_are_kept_that_a_pattern_could_match_and_not_too_many() -> None:
    log = "nothing to see\n" * 10_000 + "NVRM: Xid (PCI:0000:18:00): 79, x\n" * (KEPT_LINES + 50)
    assert len(gathered(("x.log", log)).lines) == KEPT_LINES


def test_lines_of_logs_in_json_are_logs() -> None:
    log = '{"level":"error","msg":"NVRM: Xid (PCI:0000:18:00): 79","kind":"x"}\n' * 2
    assert len(gathered(("x.log", log)).lines) == 2


# ---- hostile text -------------------------------------------------------------------------------------------------


def all_texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in all_texts(part)]
    return [text for item in value for text in all_texts(item)] if isinstance(value, (list, tuple)) else []


def test_html_and_escapes_in_names_are_only_text() -> None:
    name = "<script>alert(1)</script>\x1b[31m"
    pod = {"kind": "Pod", "metadata": {"name": name, "namespace": "n"}, "status": {"reason": name, "message": name}}
    event = {
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": name, "name": name},
        "message": name,
    }
    evidence = gathered(("a.json", json.dumps(pod)), ("b.json", json.dumps(event)))
    lines = dataclasses.asdict(evidence)["lines"]
    assert all(printable(text) == text for text in all_texts(lines))
    assert "<script>" in lines[0]["object"]


@pytest.mark.parametrize(
    "item",
    [
        {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": 7}, "status": {"containerStatuses": ["x"]}},
        {"kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": 7}, "status": {"conditions": [7]}},
        {"kind": "Event", "metadata": {"name": "e"}, "involvedObject": [], "message": 7},
        {"kind": "ClusterPolicy", "metadata": {"name": "c"}, "spec": {"driver": []}, "status": {}},
        {"kind": "List", "items": {"a": 1}, "metadata": {"name": "x"}},
    ],
)
def test_objects_of_another_form_are_a_gap_and_no_failure(item: dict[str, object]) -> None:
    engine.diagnose(gathered(("a.json", json.dumps({"kind": "List", "items": [item]}))), RULES)


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("ResourceSlice", {"spec": {"driver": "gpu.nvidia.com", "devices": [{}]}}),
        ("ResourceClaim", {"status": {"allocation": {"devices": {"results": [{}]}}}}),
    ],
)
def test_odd_slices_and_claims_are_a_gap_and_no_empty_list(kind: str, part: dict[str, object]) -> None:
    item = {"kind": kind, "metadata": {"namespace": "a", "name": "x"}, **part}
    evidence = gathered(("a.json", json.dumps({"kind": "List", "items": [item]})))
    assert len(evidence.gaps) == 1 and not evidence.objects
    engine.diagnose(evidence, RULES)


PIECES = st.sampled_from(
    [
        *("Name:   x", "Namespace:   n", "Node:   gpu1/1", "Containers:", "  c:", "    State:   Waiting", "Events:"),
        *("NAME   READY   STATUS   RESTARTS   AGE", "a   0/1   Pending   0   1m", "```", "---", "apiVersion: v1"),
        *("kind: List", "items:", "- kind: Pod", "  metadata: {name: x}", '{"kind": "Pod", "metadata": {"name": "x"}}'),
        *("==============NVSMI LOG==============", "GPU 00000000:18:00.0", "    Product Name   : x", "{", "[", "}"),
        *("LAST SEEN   TYPE   REASON   OBJECT   MESSAGE", "1m   Warning   X   pod/y   z", "    Limits:", "Taints:   :"),
        *("NVRM: Xid (PCI:0000:18:00): 79, x", "\x1b[31m", "\x00", "Start of NVIDIA bug report log file", "a: &a [*a]"),
        *(
            "NVRM: Xid (PCI:0000:18:00): ",
            "Labels:   a=b",
            "Annotations:   a: b",
            "System Info:",
            "Conditions:",
            "  - -",
        ),
    ]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(PIECES, st.text(max_size=60)), max_size=30))
def test_no_text_makes_the_diagnosis_fail_or_print_control_characters(pieces: list[str]) -> None:
    evidence = gathered(("x", "\n".join(pieces)))
    findings = [each.as_result() for each in engine.diagnose(evidence, RULES).findings]
    shown = [{key: each[key] for key in ("cause", "remedy", "quotes")} for each in findings]
    assert all(printable(text) == text for text in all_texts([shown, dataclasses.asdict(evidence)["lines"]]))


def test_no_pattern_takes_long_on_any_line() -> None:
    """A regular expression that backtracks would let a single line stop the diagnosis."""
    assert len(PATTERNS) > 100
    slowest = (0.0, "", "")
    for pattern in PATTERNS:
        words = re.findall(r"[A-Za-z ]{4,}", pattern.regex.pattern)
        for piece in (pattern.literal, " ", "a", "0", "a ", "0:", ".", "'", "/", "a.", ": ", *words):
            line = f"{pattern.literal} {piece * (LINE_LENGTH // len(piece))}"[:LINE_LENGTH]
            started = time.process_time()
            pattern.regex.search(line)
            slowest = max(slowest, (time.process_time() - started, pattern.regex.pattern, piece))
    print(f"The slowest of {len(PATTERNS)} patterns took {slowest[0] * 1000:.1f} ms: {slowest[1:]}")
    assert slowest[0] < 1, slowest


@pytest.mark.wide  # a time depends on the machine
@pytest.mark.parametrize("line", ["a: >", "Name:   x", "apiVersion: v1", "NAME READY STATUS RESTARTS AGE", "===="])
def test_many_beginnings_of_objects_that_never_come_take_no_time(line: str) -> None:
    started = time.monotonic()
    gathered(("x.txt", f"{line}\n\n" * 50_000))
    assert time.monotonic() - started < 8
