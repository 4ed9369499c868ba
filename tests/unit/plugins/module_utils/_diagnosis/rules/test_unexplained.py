# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The floor: what is said of errors that no rule explains, and where it stays silent."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.all_rules import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input.explain import explain
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine

from tests.unit import diagnosed
from tests.unit.diagnosed import NODE

PLUGIN = ("nvidia-device-plugin-daemonset-x7k2p", "nvidia-device-plugin")
KLOG = "E0904 09:35:53.754750     312 main.go:84] error starting plugins: unable to find the blue thing"
OFF_THE_BUS = "NVRM: Xid (PCI:0000:18:00): 79, pid=1, name=x, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("text", "component"),
    [
        (KLOG, "The device plugin"),
        ('time="2026-05-01T10:00:00Z" level=fatal msg="nvidia-mig-manager: the moon is full"', "The MIG manager"),
        ('{"level":"error","controller":"clusterpolicy-controller","error":"the moon is full"}', "The GPU Operator"),
        ("nvidia-container-cli: mount error: the moon could not be mounted", "The container toolkit"),
        ("[Mon May 01 2026 10:00:00] [ERROR] [tid 12] nv-fabricmanager: the moon is full", "The fabric manager"),
        ("nvidia-imex[12]: ERROR: the moon is full", "IMEX"),
        ("Error: error creating driver: the moon is full", "The DRA driver for GPUs"),
        ("node-1:12:34 [0] transport/net.cc:42 NCCL WARN the moon could not be reached", "NCCL"),
        ("Error: INSTALLATION FAILED: the moon is full", "Helm"),
        ("RuntimeError: CUDA error: the moon is full", "A CUDA program"),
    ],
)
def test_an_error_of_a_known_component_is_quoted_with_what_is_known_of_it(text: str, component: str) -> None:
    found = diagnosed.found(RULES, text)
    assert [*found] == ["UnexplainedError"]
    finding = found["UnexplainedError"]
    assert (finding.severity, finding.certainty) == ("warning", "possible")
    assert finding.cause.startswith(f"{component} ") and finding.quotes[0].text == text
    assert finding.remedy.endswith(".") and "unknown" not in finding.cause + finding.remedy


def test_errors_of_one_component_are_one_finding_and_the_fatal_one_is_first() -> None:
    lines = [diagnosed.log(text, *PLUGIN) for text in (KLOG, "panic: the moon is full", "cannot open the moon")]
    finding = diagnosed.found(RULES, *lines)["UnexplainedError"]
    assert [quote.text for quote in finding.quotes] == ["panic: the moon is full", KLOG, "cannot open the moon"]
    assert finding.nodes == (NODE,)


def test_a_program_that_nothing_names_is_said_to_be_unknown() -> None:
    found = diagnosed.found(RULES, "ERROR: the moon is full")
    assert [*found] == ["UnknownError"]
    assert (found["UnknownError"].severity, found["UnknownError"].certainty) == ("ok", "possible")


def test_it_is_silent_where_a_rule_has_found_a_failure() -> None:
    lines = [TextLine(OFF_THE_BUS, "kernel", "kernel log", NODE), diagnosed.log(KLOG, *PLUGIN)]
    assert [*diagnosed.found(RULES, *lines)] == ["XidOffTheBus"]
    elsewhere = diagnosed.log(KLOG, *PLUGIN, node="gpu-0007")
    assert diagnosed.found(RULES, lines[0], elsewhere)["UnexplainedError"].nodes == ("gpu-0007",)


@pytest.mark.parametrize(
    "text",
    [
        "I0904 09:35:53.754750     312 main.go:84] failed to find it, nvidia-device-plugin goes on",
        'time="2026-05-01T10:00:00Z" level=info msg="nvidia-container-toolkit: not found"',
        '{"level":"info","controller":"clusterpolicy-controller","msg":"not found, creating"}',
        "[INFO] nv-fabricmanager: not supported on this machine",
        "nvidia-device-plugin: done with 0 errors, nothing failed",
        '{"level":"error","msg":"Reconciler error","controller":"clusterpolicy-controller","error":"Operation cannot be '
        'fulfilled: the object has been modified; please apply your changes to the latest version and try again"}',
        'E1128 08:00:00.123456  1234 controller.go:145] "Failed to ensure lease exists, will retry" err="gpu-1"',
        "kernel: nvidia: module verification failed: signature and/or required key missing - tainting kernel",
        "the fan is loud",
    ],
)
def test_harmless_lines(text: str) -> None:
    assert not diagnosed.found(RULES, text)


def test_what_the_kernel_of_a_live_host_says_is_left_to_rules() -> None:
    line = TextLine("kernel: nvidia 0000:17:00.0: cannot find the moon", "kernel", "kernel log", NODE)
    assert [*diagnosed.found(RULES, line)] == ["UnexplainedError"]
    assert not diagnosed.found(RULES, line, stack=diagnosed.stack(diagnosed.row()))


def test_errors_without_gpus_do_not_count_on_a_cluster() -> None:
    """The kubelet of a healthy node logs errors of its own."""
    line = TextLine("E0904 09:35:53.754750 312 kubelet.go:84] the moon is full", "unit", "journal of kubelet", NODE)
    assert not diagnosed.found(RULES, line, stack=diagnosed.stack(diagnosed.row()))
    assert [*diagnosed.found(RULES, line)] == ["UnexplainedError"]


@pytest.mark.parametrize(
    "text",
    [
        "health.go:142] Error waiting for event: ERROR_UNKNOWN",
        "2024-05-24 10:22:29.245 ERROR [5231:5273] [[Moon]] Rise() returned Object is in an undefined state",
    ],
)
def test_a_line_whose_head_was_cut_off_and_one_of_dcgm(text: str) -> None:
    assert [*explained(text)] in (["UnknownError"], ["UnexplainedError"])


def explained(text: str) -> dict[str, str]:
    """Return the codes and certainties of a pasted text."""
    found = explain({"text": text, "path": "", "limit_mib": 1})["findings"]
    return {each["code"]: each["certainty"] for each in found}


def test_people_tell_of_trouble_in_their_own_words() -> None:
    assert explained("Since Monday the GPU Operator of node-1 crashes whenever the moon is full.") == {
        "TroubleToldInWords": "possible"
    }
    assert explained("The moon fails to rise.") == {}
    assert explained("ERROR: the moon is full\nThe GPU is stuck.") == {"UnknownError": "possible"}


TABLE = """NAME                          READY   STATUS    RESTARTS   AGE
nvidia-dcgm-exporter-46bnm    1/1     Running   0          25h
"""


def test_a_log_right_below_a_table_of_pods_is_read() -> None:
    assert explained(f'{TABLE}time=2025-06-06T06:31:16Z level=ERROR msg="the moon is full"') == {
        "UnknownError": "possible"
    }
    assert explained(TABLE) == {}
