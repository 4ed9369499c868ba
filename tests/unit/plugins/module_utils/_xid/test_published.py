# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Published kernel logs are judged as NVIDIA's catalog judges them."""

from __future__ import annotations

import collections
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid import cases, reports
from ansible_collections.gpuops.nvidia.plugins.module_utils._xid.advice import DISRUPTIVE

FIXTURES = Path(__file__).parents[3] / "fixtures" / "xid"
OURS = {
    "CHECK_MECHANICALS": "check the machine",
    "CONTACT_SUPPORT": "service",
    "IGNORE": "nothing",
    "RESET_GPU": "reset the GPU",
    "RESTART_APP": "restart the application",
    "RESTART_BM": "reboot",
    "RESTART_FM": "check the machine",
    "RESTART_VM": "reboot",
}
"""What we call each of NVIDIA's actions. The fabric manager is a part of the machine."""
APPLICATION = frozenset({8, 13, 31, 32, 37, 38, 39, 40, 41, 43, 44, 45, 60, 68, 69, 70, 80, 94, 137, 141})
AGREEMENT = 0.98


class Log(t.NamedTuple):
    """Published lines of one incident, and NVIDIA's action."""

    name: str
    action: str
    text: str


def published() -> list[Log]:
    found = []
    for path in sorted(FIXTURES.glob("*.yml")):
        for entry in yaml.safe_load(path.read_text()):
            for number, log in enumerate(entry["logs"], start=1):
                found.append(Log(f"{entry['source']} ({number})", log["action"], log["text"]))
    return found


def outcomes(text: str) -> set[str]:
    return {case.outcome for case in cases.judge(reports.from_lines("", text.splitlines()))}


def test_published_logs_get_the_action_of_nvidias_catalog(capsys: pytest.CaptureFixture[str]) -> None:
    logs = published()
    wrong = [log for log in logs if outcomes(log.text) != {OURS[log.action]}]
    counts = collections.Counter(log.action for log in logs)
    with capsys.disabled():
        print(f"\nPublished logs of Xids: {len(logs)}, judged as the catalog does: {len(logs) - len(wrong)}")
        print(", ".join(f"{action} {count}" for action, count in sorted(counts.items())))
        for log in wrong:
            print(f"differs: {log.name}: {log.action}, and we say {sorted(outcomes(log.text))}")
    assert len(logs) >= 150
    assert len(logs) - len(wrong) >= AGREEMENT * len(logs)


def test_no_published_error_of_an_application_drains_resets_or_reboots() -> None:
    drained, seen = [], 0
    for log in published():
        for case in cases.judge(reports.from_lines("", log.text.splitlines())):
            if case.kind == "xid" and set(case.codes) <= APPLICATION:
                seen += 1
                drained += [log.name] if case.outcome in DISRUPTIVE else []
    assert seen > 35
    assert drained == []


def test_each_published_log_has_its_address() -> None:
    assert all(log.name.startswith("https://") for log in published())
    assert all("Xid" in log.text or "fallen off the bus" in log.text for log in published())
