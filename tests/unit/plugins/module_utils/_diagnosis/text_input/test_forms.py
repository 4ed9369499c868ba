# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines as their programs wrote them, out of what terminals, runtimes and other tools have made of them."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.files.layout import Origin
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input import forms
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input.explain import explain
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import LINE_LENGTH

XID = "NVRM: Xid (PCI:0000:18:00): 79, pid=1, name=x, GPU has fallen off the bus."
TIME = "2026-05-01T10:00:00.123456789Z"


def found(text: str) -> dict[str, dict[str, t.Any]]:
    return {each["code"]: each for each in explain({"text": text, "path": None, "limit_mib": 1})["findings"]}


def test_parts_of_a_line_in_a_runtimes_log_are_one_line() -> None:
    lines = [
        f"{TIME} stderr P one ",
        f"{TIME} stderr P two ",
        f"{TIME} stderr F three",
        f"{TIME} stdout F four",
        "five",
    ]
    assert list(forms.joined(lines)) == ["one two three", "four", "five"]
    assert list(forms.joined([f"{TIME} stderr P cut"])) == ["cut"]


def test_a_message_of_the_journal_as_bytes_is_a_text() -> None:
    entry = {"MESSAGE": list(XID.encode() + b"\xfc"), "_TRANSPORT": "kernel", "_HOSTNAME": "gpu-7"}
    (line,) = forms.joined([json.dumps(entry)])
    assert json.loads(line)["MESSAGE"] == XID + "\ufffd"
    for broken in ('{"MESSAGE":[1,2', '{"MESSAGE":[999]}', '{"MESSAGE":["x"]}'):
        assert list(forms.joined([broken])) == [broken]
    assert found(json.dumps(entry))["XidOffTheBus"]["nodes"] == ("gpu-7",)


def test_a_line_that_a_terminal_has_wrapped_is_one_line() -> None:
    text = (
        "  Warning  FailedCreatePodSandBox  3s (x4 over 40s)  kubelet  Failed to create pod sandbox: no runtime\n"
        'for "nvidia" is configured\n'
    )
    assert [*found(text)] == ["NoNvidiaRuntimeHandler"]


@pytest.mark.parametrize(
    "lines",
    [
        ["a short line", "and another"],
        ["a" * 80 + " ends here.", "and another"],
        ["a" * 80, "Another begins with a capital"],
        ["a" * 80, "program: says this"],
        ["a" * 80, "time=2026 level=info"],
        ["a" * 80, "                an indented block"],
        [f"worker-0:12:34 [0] misc/net.cc:1 {'a' * 80}", "worker-0:12:34 [0] NCCL INFO -> 2"],
    ],
)
def test_lines_that_stay_apart(lines: list[str]) -> None:
    assert list(forms.unwrapped(lines)) == lines


def test_the_beginning_and_the_end_of_a_long_line() -> None:
    line = "b" + "x" * 5000 + "e"
    first, last = forms.ends(line)
    assert (first[0], last[-1], len(first), len(last)) == ("b", "e", LINE_LENGTH, LINE_LENGTH)
    assert forms.ends("short") == ("short",)
    assert [*found("x" * 20_000 + XID)] == ["XidOffTheBus"]


@pytest.mark.parametrize(
    "text",
    [
        f"gpu-1 | CHANGED | rc=0 >>\n[12.345678] NVRM: fine\ngpu-2 | FAILED | rc=1 >>\n[12.345678] {XID}\n",
        f"gpu-1: [12.345678] NVRM: fine\ngpu-2: [12.345678] {XID}\n",
        f"gpu-1: NVRM: fine\ngpu-2: {XID}\n",
    ],
)
def test_the_host_of_a_line_in_the_output_of_a_command_for_many_hosts(text: str) -> None:
    assert found(text)["XidOffTheBus"]["nodes"] == ("gpu-2",)


def test_the_pod_of_a_line_of_stern() -> None:
    text = "nvidia-device-plugin-daemonset-x7k2p nvidia-device-plugin E0904 09:35:53.754750 312 main.go:84] the moon is full"
    finding = found(text)["UnexplainedError"]
    assert finding["objects"] == ("pod nvidia-device-plugin-daemonset-x7k2p",)
    assert finding["cause"].startswith("The device plugin ")


@pytest.mark.parametrize(
    ("command", "source"),
    [
        (
            "$ kubectl logs -n gpu-operator nvidia-driver-x -c nvidia-driver-ctr",
            "pod nvidia-driver-x, container nvidia-driver-ctr",
        ),
        ("root@m1:~# kubectl -n gpu-operator logs pod/nvidia-dcgm-x7k2p", "pod nvidia-dcgm-x7k2p"),
        ("kubectl logs deploy/gpu-operator --tail 5", "pod gpu-operator"),
        ("the logs of the pod are here", ""),
        ("kubectl logs --help", ""),
    ],
)
def test_a_command_says_whose_log_the_lines_below_it_are(command: str, source: str) -> None:
    speakers = forms.Speakers(Origin())
    assert speakers.of(command).source == source
    assert speakers.of("panic: the moon is full").source == source
    assert speakers.of("user@host:~$ ls").source == "" and speakers.of("x").source == ""


def test_a_block_of_code_ends_what_a_command_said() -> None:
    speakers = forms.Speakers(Origin())
    assert speakers.of("kubectl logs nvidia-dcgm-x7k2p").source
    assert speakers.of("```").source == "" and speakers.of("x").source == ""


def test_a_file_whose_name_says_what_it_is_keeps_that() -> None:
    origin = Origin("unit", "journal of kubelet", "gpu-1")
    assert forms.Speakers(origin).of("kubectl logs nvidia-dcgm-x7k2p") == origin
