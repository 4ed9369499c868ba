# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Findings from errors of GPUs. The lines are published; each test names the address."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.xid import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

from tests.unit.diagnosed import NODE, found, row, stack

GONE = "NVRM: Xid (PCI:0000:a1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
"""https://github.com/akash-network/support/issues/209"""


def kernel(*texts: str, node: str = NODE) -> list[TextLine]:
    return [TextLine(text, "kernel", "kernel log", node) for text in texts]


def host(**facts: t.Any) -> dict[str, Json]:
    return {NODE: {"facts": {"driver": {"version": "580.95.05"}, **facts}}}


def gpu(address: str = "0000:a1:00.0", **more: t.Any) -> Json:
    return {"pci_address": address, "architecture": "Hopper", "lost": False, "recovery_action": None, **more}


def event(code: int, message: str, **more: t.Any) -> Json:
    return {
        "time": "2026-11-20T04:12:09+0000", "kind": "xid", "gpu": "0000:a1:00.0", "gpu_instance": None,
        "compute_instance": None, "code": code, "severity": None, "meaning": None, "action": None,
        "recovery_action": None, "message": message, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "code", "severity"),
    [
        ((GONE,), "XidOffTheBus", "failure"),
        (
            # https://github.com/NVIDIA/NVSentinel/issues/155
            (
                "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0",
                "               NVRM: (PCI ID: 10de:26b5) installed in this system has",
                "               NVRM: fallen off the bus and is not responding to commands.",
            ),
            "XidOffTheBus",
            "failure",
        ),
        (
            # https://github.com/NVIDIA/nvidia-docker/issues/849
            (
                "[Mon Oct 29 12:07:39 2018] NVRM: Xid (PCI:0000:8a:00): 48, An uncorrectable double bit error (DBE) "
                "has been detected on GPU in the framebuffer at partition 4, subpartition 1.",
                "[Mon Oct 29 12:07:40 2018] NVRM: Xid (PCI:0000:8a:00): 63, Dynamic Page Retirement: New page retired, "
                "reboot to activate (0x00000000002ce8ac).",
            ),
            "XidMemory",
            "failure",
        ),
        (
            # https://github.com/akash-network/support/issues/244
            ("NVRM: Xid (PCI:0000:00:08): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1). RST: No",),
            "XidContained",
            "warning",
        ),
        (
            # https://github.com/NVIDIA/open-gpu-kernel-modules/issues/829
            ("NVRM: Xid (PCI:0000:06:00): 120, GSP task exception: store access page fault (cause:0xf)",),
            "XidReset",
            "failure",
        ),
        (
            # https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1151, and NVIDIA's words for a reboot
            (GONE.replace("79", "154").partition(": 154")[0] + ": 154, GPU recovery action changed from 0x0 (None) to "
             "0x2 (Node Reboot Required)",),
            "XidReboot",
            "failure",
        ),
        (
            # https://github.com/leptonai/gpud/blob/main/components/accelerator/nvidia/xid/kmsg_extended_test.go
            (
                "NVRM: Xid (PCI:0008:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 "
                "0x00000000 0x00000000 0x00000000 0x00000000)",
            ),
            "XidNvlink",
            "failure",
        ),
        (
            # https://github.com/leptonai/gpud/pull/1174
            (
                "NVRM: Xid (PCI:0018:01:00): 145, RLW_SRC_TRACK Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008 "
                "0x00000001 0x00000000 0x00100000 0x00000004)",
            ),
            "XidNvlinkNonfatal",
            "warning",
        ),
        (
            # https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1150
            (
                "kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous "
                "Xid 149",
            ),
            "XidBehindCleanup",
            "warning",
        ),
        (
            # https://github.com/leptonai/gpud/blob/main/components/accelerator/nvidia/sxid/kmsg.go
            ("nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",),
            "XidSwitch",
            "failure",
        ),
        (
            # https://github.com/doitsujin/dxvk/issues/1766
            ("kernel: NVRM: Xid (PCI:0000:01:00): 32, pid=315883, Channel ID 000000ab intr 00040000",),
            "XidApplication",
            "warning",
        ),
        (("NVRM: Xid (PCI:0000:01:00): 54, Auxiliary power",), "XidCheck", "warning"),
        (("NVRM: Xid (PCI:0000:01:00): 142, NVENC3 error",), "XidService", "failure"),
        # https://pastebin.com/0V6EmtkY
        (("NVRM: Xid (PCI:0000:01:00): 56, pid='<unknown>', CMDre 00000003 0000017c",), "XidUnknown", "warning"),
    ],
)  # fmt: skip
def test_each_case_is_a_finding_with_its_lines(lines: tuple[str, ...], code: str, severity: str) -> None:
    findings = found(RULES, *kernel(*lines))
    assert list(findings) == [code]
    finding = findings[code]
    assert (finding.severity, finding.nodes) == (severity, (NODE,))
    assert {quote.text for quote in finding.quotes} & {line.strip() for line in lines}
    assert "{" not in finding.cause + finding.remedy
    assert ("SXid " in finding.cause + finding.remedy) == (code == "XidSwitch")
    # The same lines, pasted without a word about where they come from.
    assert list(found(RULES, *lines)) == [code]


@pytest.mark.parametrize(
    "line",
    [
        "kernel: NVRM: Xid (PCI:0000:00:05): 43, pid=1045242, name=pt_main_thread, Ch 00000008",
        "NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate.",
        "r8169 0000:03:00.0 eth0: RTL8125B, 58:47:ca:7b:55:71, XID 641, IRQ 51",
        "nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Non-fatal, Link 44 Minion Link DLREQ interrupt",
        "NVRM: The NVIDIA GPU 0000:07:00.0 (PCI ID: 10de:2330) installed in this system is not supported",
        "the GPU has fallen off the bus, somebody writes",
    ],
)
def test_near_misses_stay_silent(line: str) -> None:
    assert found(RULES, *kernel(line)) == {}


def test_lines_of_pods_and_events_are_no_kernel_log() -> None:
    assert (
        found(RULES, TextLine(GONE, "pod", "pod a/b, container c", NODE), TextLine(GONE, "event", "event", NODE)) == {}
    )


def test_the_facts_of_a_host_count_before_its_lines() -> None:
    facts = host(gpus=[gpu()], xid=[event(13, "Graphics Exception")])
    assert list(found(RULES, *kernel(GONE), hosts=facts)) == ["XidApplication"]
    unknown = host(gpus=[gpu()], xid=None)
    assert list(found(RULES, *kernel(GONE), hosts=unknown)) == ["XidOffTheBus"]


def test_a_lost_gpu_and_the_drivers_order_need_no_line() -> None:
    lost = found(RULES, hosts=host(gpus=[gpu(lost=True)], xid=[]))["XidOffTheBus"]
    assert lost.certainty == "certain"
    assert (lost.objects, lost.quotes[0].source) == (("GPU 0000:a1:00.0",), "facts of the host")
    order = found(RULES, hosts=host(gpus=[gpu(recovery_action="NODE_REBOOT")], xid=[event(95, "Uncontained")]))
    assert "NODE_REBOOT" in order["XidReboot"].cause
    assert found(RULES, hosts=host(gpus=[gpu(recovery_action="NONE")], xid=[event(95, "Uncontained")])) == {}


def test_a_cleanup_alone_is_nothing_on_a_host_without_nvswitches() -> None:
    facts = {"gpus": [gpu()], "xid": [event(45, "Ch 8")]}
    assert found(RULES, hosts=host(**facts, nvswitches=[])) == {}
    assert list(found(RULES, hosts=host(**facts, nvswitches=[{"pci_address": "0000:07:00.0"}]))) == ["XidCheck"]
    assert list(found(RULES, hosts=host(**facts, fabric={"kind": "nvlink5"}))) == ["XidCheck"]


CLEANUP = "NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid {}"
NETIR = (
    "NVRM: Xid (PCI:0000:dc:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 0x00000000 "
    "0x00000000 0x00000000 0x00000000)"
)


def test_a_cleanup_names_an_error_that_is_not_in_the_log() -> None:
    findings = found(RULES, *kernel(CLEANUP.format(149), CLEANUP.format(145).replace("dc", "ed"), CLEANUP.format(149)))
    (finding,) = findings.values()
    assert finding.code == "XidBehindCleanup"


def test_a_cleanup_whose_error_is_in_the_log_says_nothing_of_its_own() -> None:
    assert list(found(RULES, *kernel(NETIR, CLEANUP.format(149)))) == ["XidNvlink"]
    elsewhere = NETIR.replace("dc:00", "ba:00")
    assert list(found(RULES, *kernel(elsewhere, CLEANUP.format(149)))) == ["XidNvlink"]
    order = "NVRM: Xid (PCI:0000:dc:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    assert list(found(RULES, *kernel(CLEANUP.format(149), order))) == ["XidReset"]
    assert found(RULES, *kernel("NVRM: Xid (PCI:0000:dc:00): 43, pid=1, name=python3, Ch 1 after previous Xid")) == {}


def test_a_gpu_off_the_bus_explains_what_its_node_lacks() -> None:
    nodes = stack(row(waiting_for={"device-plugin": "Init:0/1"}, ready=False))
    findings = found(RULES, *kernel(GONE), stack=nodes)
    assert list(findings) == ["XidOffTheBus"]
    assert [each.code for each in findings["XidOffTheBus"].consequences] == ["OperandWaiting"]


def test_the_same_fault_on_many_nodes_is_one_finding() -> None:
    lines = [line for number in range(40) for line in kernel(GONE, node=f"gpu-{number:04}")]
    findings = found(RULES, *lines)
    assert list(findings) == ["XidOffTheBus"]
    assert len(findings["XidOffTheBus"].nodes) == 40


def test_logs_of_unknown_machines_are_not_mixed() -> None:
    lines = [
        TextLine(f"NVRM: Xid (PCI:0000:01:00): {code}, x", "text", f"{name}, line 7")
        for name, code in (("a", 79), ("b", 45))
    ]
    findings = found(RULES, *lines)
    assert set(findings) == {"XidOffTheBus", "XidCheck"}
    assert {finding.nodes for finding in findings.values()} == {()}


def test_a_flood_of_errors_hides_no_fault() -> None:
    flood = [f"[{number}.0] NVRM: Xid (PCI:0000:18:00): 31, pid={number}, name=a, fault" for number in range(500)]
    assert set(found(RULES, *kernel(*flood, f"[501.0] {GONE}"))) == {"XidApplication", "XidOffTheBus"}


def test_each_rule_has_sources_and_words() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES) == 13
    assert all(source.startswith("https://") for rule in RULES for source in rule.sources)


def test_how_often_an_error_came_is_said_from_the_second_time_on() -> None:
    text = "[{}.000000] NVRM: Xid (PCI:0000:a1:00): 48, DBE"
    once, twice = (found(RULES, *kernel(*(text.format(at) for at in times))) for times in ((10,), (10, 9000)))
    assert not any("It happened" in each.cause + each.remedy for each in once.values())
    assert any("It happened 2 times" in each.cause + each.remedy for each in twice.values())
