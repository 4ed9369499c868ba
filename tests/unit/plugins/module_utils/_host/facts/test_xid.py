# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.xid import (
    GPU_ACTIONS,
    LIMIT,
    XIDS,
    kernel_log,
    needs_attention,
    parse_log,
    xid,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Output

from tests.unit.fakes.host import FakeHost, recorded

JOURNAL = recorded("logs/journal-ubuntu-22.04.txt")


def short(text: str) -> list[tuple[str | None, str, str, int, str | None]]:
    return [(event.time, event.kind, event.gpu, event.code, event.meaning) for event in parse_log(text)]


def test_a_journal() -> None:
    assert short(JOURNAL) == [
        ("2026-02-14T09:17:02+0000", "xid", "0000:9b:00.0", 63, "GPU memory remapping event"),
        ("2026-02-14T09:17:05+0000", "xid", "0000:9b:00.0", 94, "Contained memory error"),
        ("2026-02-15T11:40:20+0000", "sxid", "0000:05:00.0", 12028, None),
        ("2026-02-16T02:11:37+0000", "xid", "0000:9b:00.0", 79, "GPU has fallen off the bus"),
        ("2026-02-16T02:11:38+0000", "xid", "0000:9b:00.0", 154, "GPU Recovery Action Changed"),
    ]
    lost = parse_log(JOURNAL)[3]
    assert (lost.action, lost.message) == ("RESTART_BM", "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")


def test_a_ring_buffer_with_a_gpu_that_was_gone_when_the_driver_loaded() -> None:
    assert short(recorded("logs/dmesg-rhel-9.txt")) == [
        ("2026-03-02T06:30:12,308145+01:00", "xid", "0000:b3:00.0", 79, "GPU has fallen off the bus"),
        ("2026-03-02T07:00:00,000001+01:00", "xid", "0000:04:00.0", 145, "NVLINK: RLW Error"),
        ("2026-03-02T07:00:00,000002+01:00", "xid", "0000:04:00.0", 4711, None),
    ]


def test_a_ring_buffer_without_dates_and_an_old_drivers_message() -> None:
    assert short(recorded("logs/dmesg-uptime.txt")) == [
        ("351.004417 s after the boot", "xid", "0000:38:00.0", 13, "Graphics Engine Exception"),
        ("91134.558089 s after the boot", "xid", "0000:03:00.0", 31, "GPU memory page fault"),
        ("131453.740743 s after the boot", "sxid", "0000:a9:00.0", 20034, None),
    ]


def test_a_journal_with_host_names() -> None:
    assert short(
        "2026-02-14T09:17:05+0000 gpu-7 kernel: NVRM: Xid (PCI:0000:9b:00): 48, pid=1, DBE (double bit error)"
    )[0][3:] == (48, "Double Bit ECC Error")


def test_a_gpu_with_mig() -> None:
    (event,) = parse_log("[1.0] NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9).\n")
    assert (event.gpu, event.code, event.meaning) == ("0000:01:00.0", 94, "Contained memory error")


@pytest.mark.parametrize("code", [13, 31, 43, 45, 48, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140, 154])
def test_common_codes_have_a_meaning_and_an_action(code: int) -> None:
    assert all(XIDS[code])


@pytest.mark.parametrize("code", [48, 62, 64, 74, 79, 95, 109, 119, 120, 140, 143, 145, 158])
def test_errors_after_which_the_gpu_must_be_reset_or_examined_need_attention(code: int) -> None:
    assert needs_attention({"kind": "xid", "code": code, "message": ""})


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 92, 94, 4711])
def test_errors_that_nvidia_ignores_or_blames_on_the_application_need_no_attention(code: int) -> None:
    assert not needs_attention({"kind": "xid", "code": code, "message": ""})


def test_an_error_of_a_switch_is_not_an_xid() -> None:
    assert not needs_attention({"kind": "sxid", "code": 79, "message": ""})


def test_a_recommended_recovery_needs_attention_until_it_is_withdrawn() -> None:
    due = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    done = "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    assert needs_attention({"kind": "xid", "code": 154, "message": due})
    assert not needs_attention({"kind": "xid", "code": 154, "message": done})


def test_each_action_on_the_gpu_is_in_the_table() -> None:
    assert {action for _meaning, action in XIDS.values()} >= GPU_ACTIONS


def test_of_many_errors_only_the_newest_are_kept() -> None:
    flood = "".join(f"[{second}.0] NVRM: Xid (PCI:0000:38:00): 13, number {second}\n" for second in range(LIMIT + 50))
    facts = xid(Output(flood), "dmesg").facts
    assert len(facts) == LIMIT
    assert facts[-1]["message"] == f"number {LIMIT + 49}"


@pytest.mark.parametrize(
    ("journal", "source", "events"),
    [
        (Output(JOURNAL), "journalctl", 5),
        (Output("", "", "journalctl ended with 1: no message"), "journalctl", 0),
        (Output("", "No journal files were found.\n", None), "dmesg", 3),
        (Output("", "Failed to open journal", "journalctl ended with 1: Failed to open journal"), "dmesg", 3),
        (Output("", "", "journalctl did not answer within 10 s"), "dmesg", 3),
        (Output("", "", "journalctl is not installed"), "dmesg", 3),
    ],
)
def test_the_ring_buffer_is_read_if_the_journal_has_no_answer(
    tmp_path: Path, journal: Output, source: str, events: int
) -> None:
    section = xid(*kernel_log(FakeHost(tmp_path, journalctl=journal, dmesg=recorded("logs/dmesg-uptime.txt"))))
    assert section.sources[""] == {"source": source, "reason": None}
    assert len(section.facts) == events


def test_a_log_that_may_not_be_read(tmp_path: Path) -> None:
    denied = Output(error="dmesg ended with 1: dmesg: read kernel buffer failed: Operation not permitted")
    section = xid(*kernel_log(FakeHost(tmp_path, dmesg=denied)))
    assert section.facts is None
    assert section.sources[""] == {"source": None, "reason": denied.error}


ACTIONS = {
    None,
    "CHECK_MECHANICALS",
    "CHECK_UVM",
    "CONTACT_SUPPORT",
    "IGNORE",
    "RESET_GPU",
    "RESTART_APP",
    "RESTART_BM",
    "RESTART_VM",
    "UPDATE_SWFW",
    "WORKFLOW_NVLINK5_ERR",
    "WORKFLOW_NVLINK_ERR",
    "WORKFLOW_XID_45",
    "WORKFLOW_XID_48",
    "XID_154",
}
"""The words of the column "Resolution Bucket" in NVIDIA's catalog."""


@pytest.mark.parametrize("code", sorted(XIDS))
def test_each_code_has_a_meaning_and_an_action_of_nvidias_catalog(code: int) -> None:
    meaning, action = XIDS[code]
    assert len(meaning) > 5
    assert action in ACTIONS


LOADING = "[12.3] NVRM: The NVIDIA GPU 0000:07:00.0 (PCI ID: 10de:2330)\n"


def test_another_message_about_a_gpu_is_no_lost_gpu() -> None:
    unsupported = "NVRM: installed in this system is not supported by open nvidia.ko because it does not include GSP\n"
    assert parse_log(LOADING + f"[12.3] {unsupported}") == []
    gone = "[99.0] NVRM: has fallen off the bus and is not responding to commands.\n"
    assert [(event.gpu, event.code) for event in parse_log(LOADING + gone)] == [("0000:07:00.0", 79)]


def test_a_log_that_begins_in_the_middle_of_a_message_names_no_gpu() -> None:
    rest = "[99.0] NVRM: has fallen off the bus and is not responding to commands.\n"
    assert parse_log(rest) == []
    assert [event.code for event in parse_log(rest + "[99.1] NVRM: Xid (PCI:0000:9b:00): 48, pid=1, DBE\n")] == [48]


def test_a_lost_gpu_is_reported_once() -> None:
    gone = "[99.0] NVRM: has fallen off the bus and is not responding to commands.\n"
    assert len(parse_log(LOADING + gone + gone)) == 1


def test_only_messages_since_the_boot_are_read(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, dmesg="")
    kernel_log(host)
    assert host.ran == [
        [
            "journalctl",
            "--dmesg",
            "--boot",
            "--grep=NVRM|SXid",
            "--lines=5000",
            "--output=short-iso",
            "--no-hostname",
            "--no-pager",
            "--quiet",
        ],
        ["dmesg", "--time-format=iso"],
    ]
