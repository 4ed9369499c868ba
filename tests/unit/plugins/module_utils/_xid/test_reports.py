# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.reports import Moment, from_facts, from_lines, moment
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot as wording


@pytest.mark.parametrize(
    ("text", "clock", "seconds"),
    [
        ("2026-02-14T09:17:02+0000", "calendar", 1771060622.0),
        ("2026-02-14T10:17:02.5+01:00", "calendar", 1771060622.5),
        ("2025-01-21T04:41:44,283302+00:00", "calendar", 1737434504.283302),
        ("2026-02-14 09:17:02", "calendar", 1771060622.0),
        ("12.5 s after the boot", "uptime", 12.5),
        ("Wed Jul 31 23:14:18 2024", "date", 1722467658.0),
        ("Feb 29 00:00:01", "syslog", 951782401.0),
    ],
)
def test_each_form_of_a_time_is_read(text: str, clock: str, seconds: float) -> None:
    found = moment(text)
    assert found and (found.clock, round(found.seconds, 6)) == (clock, seconds)


@pytest.mark.parametrize(
    "text", [None, "", "yesterday", "2026-13-41T00:00:00Z", "0000-01-01T00:00:00Z", "Foo 40 99:99:99"]
)
def test_a_time_that_cannot_be_read_is_unknown(text: str | None) -> None:
    assert moment(text) is None


@given(st.text(max_size=60))
def test_any_text_is_a_time_or_none(text: str) -> None:
    assert moment(text) is None or isinstance(moment(text), Moment)


def test_lines_are_kept_as_they_are() -> None:
    """https://github.com/akash-network/support/issues/209"""
    lines = [
        "[Fri Apr  5 21:29:39 2024] NVRM: GPU at PCI:0000:a1:00: GPU-979426f2-893a-7cbb-c4cf-81472f89a462",
        "[Fri Apr  5 21:29:39 2024] NVRM: Xid (PCI:0000:a1:00): 79, pid='<unknown>', GPU has fallen off the bus.",
        "[Fri Apr  5 21:29:39 2024] NVRM: GPU 0000:a1:00.0: GPU has fallen off the bus.",
    ]
    first, second = from_lines("gpu-1", lines, "kernel log")
    assert (first.line, second.line) == (lines[1], lines[2])
    assert {(each.machine, each.event.gpu, each.event.code) for each in (first, second)} == {
        ("gpu-1", "0000:a1:00.0", 79)
    }
    assert first.at == second.at == moment("Fri Apr  5 21:29:39 2024")


def test_a_log_that_anyone_may_write_to_is_read_strictly() -> None:
    forged = ["Nov 22 10:00:00 host user: NVRM: Xid (PCI:0000:01:00): 79, x"]
    assert len(from_lines("", forged)) == 1
    assert from_lines("", forged, anywhere=False) == []


def test_the_facts_of_a_host_are_reports_too() -> None:
    fact: dict[str, t.Any] = {
        "time": "2026-11-20T04:12:09+0000", "kind": "xid", "gpu": "0000:18:00.0", "gpu_instance": None,
        "compute_instance": None, "code": 79, "severity": None, "meaning": "GPU has fallen off the bus",
        "action": "RESTART_BM", "recovery_action": None, "message": "GPU has fallen off the bus.",
    }  # fmt: skip
    (report,) = from_facts("gpu-1", [fact])
    assert report.line == wording(
        "2026-11-20T04:12:09+0000 NVRM: Xid (PCI:0000:18:00.0): 79, GPU has fallen off the bus."
    )
    assert (report.key, report.source) == (("xid", 79), "kernel log")
