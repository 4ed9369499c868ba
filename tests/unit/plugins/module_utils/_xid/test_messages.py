# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.messages import (
    describe,
    needs_attention,
    parse_log,
    standing,
)
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import recorded

JOURNAL = recorded("logs/journal-ubuntu-22.04.txt")


def events(text: str) -> list[dict[str, t.Any]]:
    return [dataclasses.asdict(event) for event in parse_log(text)]


def event(message: str, gpu: str = "PCI:0000:9b:00") -> dict[str, t.Any]:
    (found,) = events(f"NVRM: Xid ({gpu}): {message}")
    return found


def switch(message: str) -> dict[str, t.Any]:
    (found,) = events(f"nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): {message}")
    return found


def short(text: str) -> list[tuple[str | None, str, str, int, str | None]]:
    return [(event.time, event.kind, event.gpu, event.code, event.meaning) for event in parse_log(text)]


def test_a_journal() -> None:
    assert short(JOURNAL) == [
        ("2026-02-14T09:17:02+0000", "xid", "0000:9b:00.0", 63, "GPU memory remapping event"),
        ("2026-02-14T09:17:05+0000", "xid", "0000:9b:00.0", 94, "Contained memory error"),
        ("2026-02-15T11:40:20+0000", "sxid", "0000:05:00.0", 12028, None),
        ("2026-02-16T02:11:37+0000", "xid", "0000:9b:00.0", 79, wording("GPU has fallen off the bus")),
        ("2026-02-16T02:11:38+0000", "xid", "0000:9b:00.0", 154, "GPU Recovery Action Changed"),
    ]
    lost = parse_log(JOURNAL)[3]
    assert (lost.action, lost.message) == (
        "RESTART_BM",
        wording("pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
    )


def test_a_ring_buffer_with_a_gpu_that_was_gone_when_the_driver_loaded() -> None:
    assert short(recorded("logs/dmesg-rhel-9.txt")) == [
        ("2026-03-02T06:30:12,308145+01:00", "xid", "0000:b3:00.0", 79, wording("GPU has fallen off the bus")),
        ("2026-03-02T07:00:00,000001+01:00", "xid", "0000:04:00.0", 145, "NVLINK: RLW Error"),
        ("2026-03-02T07:00:00,000002+01:00", "xid", "0000:04:00.0", 4711, None),
    ]


def test_a_ring_buffer_without_dates_and_an_old_drivers_message() -> None:
    assert short(recorded("logs/dmesg-uptime.txt")) == [
        ("351.004417 s after the boot", "xid", "0000:38:00.0", 13, "Graphics Engine Exception"),
        ("91134.558089 s after the boot", "xid", "0000:03:00.0", 31, "GPU memory page fault"),
        ("131453.740743 s after the boot", "sxid", "0000:a9:00.0", 20034, None),
    ]


def test_a_file_of_rsyslog_without_what_applications_say() -> None:
    assert short(recorded("logs/kern-rsyslog.txt")) == [
        ("Nov 21 03:10:44", "xid", "0000:18:00.0", 48, "Double Bit ECC Error"),
        ("Nov 22 05:11:38", "xid", "0000:9b:00.0", 79, wording("GPU has fallen off the bus")),
    ]
    iso = "2026-02-14T09:17:05.123456+00:00 gpu-7 kernel: [  12.5] NVRM: Xid (PCI:0000:9b:00): 48, pid=1, DBE"
    assert short(iso) == [("2026-02-14T09:17:05.123456+00:00", "xid", "0000:9b:00.0", 48, "Double Bit ECC Error")]


def test_a_gb200_whose_links_fail() -> None:
    """The lines are of a GB200, from the tests of leptonai/gpud."""
    found = events(recorded("logs/gb200.txt"))
    assert [
        (each["gpu"], each["code"], each["severity"], each["action"], each["recovery_action"]) for each in found
    ] == [
        ("0009:01:00.0", 149, "fatal", "RESET_GPU", None),
        ("0009:01:00.0", 154, None, "XID_154", "DRAIN_AND_RESET"),
        ("0008:01:00.0", 149, "fatal", "RESET_GPU", None),
        ("0019:01:00.0", 154, None, "XID_154", "GPU_RESET"),
    ]
    assert standing(found) == found


@pytest.mark.parametrize(
    ("device", "instances"),
    [
        ("PCI:0000:01:00", (None, None)),
        # In comments and format strings of kernel_rc.c and kern_gpu_error_cont_ga100.c
        ("PCI:0000:01:00 GPU-I:05", (5, None)),
        ("PCI:0000:01:00 GPU-I:05 GPU-CI:01", (5, 1)),
        ("PCI:0000:01:00 SOMETHING-NEW:7", (None, None)),
    ],
)
def test_a_gpu_with_mig(device: str, instances: tuple[int | None, int | None]) -> None:
    found = event("94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No", device)
    assert (found["gpu"], found["code"], found["action"]) == ("0000:01:00.0", 94, "RESTART_APP")
    assert (found["gpu_instance"], found["compute_instance"]) == instances


@pytest.mark.parametrize(
    ("message", "severity"),
    [
        ("22013, Non-fatal, Link 29 Minion Link DLREQ interrupt", "nonfatal"),
        ("20034, Fatal, Link 30 LTSSM Fault Up", "fatal"),
        ("12003, Correctable, Link 03 ingress header ECC limit", "correctable"),
        ("10003, something else", None),
    ],
)
def test_the_severity_of_an_error_of_a_switch(message: str, severity: str | None) -> None:
    found = switch(message)
    assert (found["severity"], found["action"], found["meaning"]) == (severity, None, None)
    assert needs_attention(found) is (severity == "fatal")


def test_the_lines_with_details_belong_to_the_error_before_them() -> None:
    """error_nvswitch.c writes the severity as a number, 1 for fatal, and the data in lines of their own."""
    line = "[1.0] nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): {}\n"
    text = (
        line.format("11012, Link 01 timeout")
        + line.format("11012, Severity 1 Engine instance 01 Sub-engine instance 00")
        + line.format("11012, Data {0x00000000, 0x00000001}")
        + line.format("12028, Non-fatal, Link 32 egress non-posted PRIV error (First)")
        + line.format("12028, Severity 0 Engine instance 32 Sub-engine instance 00")
        + line.format("20034, Severity 1 Engine instance 32 Sub-engine instance 00")
    )
    assert [(each["code"], each["severity"]) for each in events(text)] == [
        (11012, "fatal"),
        (12028, "nonfatal"),
        (20034, None),
    ]


@pytest.mark.parametrize(
    ("message", "severity", "attention"),
    [
        ("144, SAW_MVB Fatal XC0 i0 Link 00 (0x00000001 0x00000002)", "fatal", True),
        ("144, SAW_MVB Nonfatal XC0 i0 Link 00 (0x00000001 0x00000001)", "nonfatal", False),
        ("146, TLW_RX/TLW_RX_PIPE0 Fatal XC0 i0 Link 00 (0x0000000a)", "fatal", True),
        ("149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6)", "fatal", True),
        ("150, something new", None, True),
        ("79, Fatal is no word of this error", None, True),
    ],
)
def test_the_severity_of_an_error_of_nvlink_5(message: str, severity: str | None, attention: bool) -> None:
    assert event(message)["severity"] == severity
    assert needs_attention(event(message)) is attention


@pytest.mark.parametrize("code", [46, 48, 54, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 142, 143, 151, 155])
def test_errors_after_which_the_gpu_must_be_reset_or_examined_need_attention(code: int) -> None:
    assert needs_attention(event(f"{code}, x"))


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 78, 92, 94, 162, 4711])
def test_errors_that_nvidia_ignores_or_blames_on_software_need_no_attention(code: int) -> None:
    assert not needs_attention(event(f"{code}, x"))


@pytest.mark.parametrize(
    ("message", "action"),
    [
        # The words differ between drivers, the numbers do not: gpu.c of 595 and messages of 610.
        ("GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "GPU_RESET"),
        ("GPU recovery action changed from 0x0 (None) to 0x1 (PF FLR)", "GPU_RESET"),
        ("GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "NODE_REBOOT"),
        ("GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)", "NODE_REBOOT"),
        ("GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)", "DRAIN_P2P"),
        ("GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", "DRAIN_AND_RESET"),
        ("GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", "NONE"),
        ("something new", None),
    ],
)
def test_what_the_driver_recommends(message: str, action: str | None) -> None:
    found = event(f"154, {message}")
    assert (found["recovery_action"], found["action"]) == (action, "XID_154")
    assert needs_attention(found) is (action != "NONE")


def test_only_the_newest_recommendation_for_a_gpu_stands() -> None:
    due = "154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)"
    reset = "154, GPU recovery action changed from 0x4 (Drain and Reset) to 0x1 (GPU Reset Required)"
    done = "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    first, second, other = event(due), event(reset), event(due, "PCI:0000:18:00")
    contained, gone = event("95, Uncontained"), event("79, GPU has fallen off the bus.")
    assert standing([contained, first, other, second]) == [contained, other, second]
    # The GPU was reset. A GPU that fell off the bus is not back by that.
    assert standing([contained, gone, first, other, second, event(done)]) == [gone, other]
    assert standing([event(done), contained]) == [contained]


def test_an_event_in_words() -> None:
    assert describe(event("79, x")) == wording("0000:9b:00.0: Xid 79 (GPU has fallen off the bus)")
    due = "154, GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)"
    assert describe(event(due)) == "0000:9b:00.0: Xid 154 (NODE_REBOOT)"
    assert describe(switch("20034, Fatal, Link 30 LTSSM Fault Up")) == (
        "0000:c1:00.0: SXid 20034 (Fatal, Link 30 LTSSM Fault Up)"
    )


LOADING = "[12.3] NVRM: The NVIDIA GPU 0000:07:00.0 (PCI ID: 10de:2330)\n"
GONE = "[99.0] NVRM: has fallen off the bus and is not responding to commands.\n"


def test_another_message_about_a_gpu_is_no_lost_gpu() -> None:
    unsupported = "NVRM: installed in this system is not supported by open nvidia.ko because it does not include GSP\n"
    assert parse_log(LOADING + f"[12.3] {unsupported}") == []
    assert [(event.gpu, event.code) for event in parse_log(LOADING + GONE)] == [("0000:07:00.0", 79)]


def test_a_log_that_begins_in_the_middle_of_a_message_names_no_gpu() -> None:
    assert parse_log(GONE) == []
    assert [event.code for event in parse_log(GONE + "[99.1] NVRM: Xid (PCI:0000:9b:00): 48, pid=1, DBE\n")] == [48]


def test_a_lost_gpu_is_reported_once() -> None:
    assert len(parse_log(LOADING + GONE + GONE)) == 1


LINES = st.lists(
    st.sampled_from([*JOURNAL.splitlines(), *recorded("logs/gb200.txt").splitlines(), LOADING.strip(), GONE.strip()])
)


@given(LINES, st.text())
def test_any_text_between_the_messages_leaves_them_as_they_are(lines: list[str], other: str) -> None:
    noise = "\n" + other.replace("Xid (", "").replace("NVRM: The NVIDIA GPU", "").replace("fallen", "") + "\n"
    assert parse_log(noise.join(lines)) == parse_log("\n".join(lines))


@given(st.text())
def test_any_message_is_read_or_ignored(text: str) -> None:
    for found in events(f"NVRM: Xid (PCI:0000:9b:00): {text}") + events(f"nvidia-nvswitch0: SXid ({text}): 1, {text}"):
        assert isinstance(describe(found), str)
        assert needs_attention(found) in (True, False)


def test_a_recommendation_is_a_hexadecimal_number() -> None:
    line = "[  10.1] NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x0 (None) to 0x{} (x)"
    found = [parse_log(line.format(text))[0].recovery_action for text in ("1", "a", "10")]
    assert found == ["GPU_RESET", "UNKNOWN_10", "UNKNOWN_16"]


def test_the_severity_belongs_to_the_newest_error_of_the_switch() -> None:
    name = "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0)"
    text = f"{name}: 12028, first\n{name}: 20034, second\n{name}: 20034, Severity 1 Engine instance 00\n"
    assert [(each["code"], each["severity"]) for each in events(text)] == [(12028, None), (20034, "fatal")]
