# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.node_work import (
    FAILED,
    HeldRow,
    NodeWork,
)
from inline_snapshot import snapshot as wording


def test_a_wait_counts_from_its_beginning() -> None:
    made = HeldRow()
    for waits_for, now in (("x", 1.0), ("x", 2.0), ("y", 3.0)):
        made.wait(waits_for, now)
    assert (made.waits_for, made.since) == ("y", 3.0)


def test_a_node_that_stays_held_says_so_in_its_reason() -> None:
    made = HeldRow()
    made.fail("It broke.")
    made.keep("mig")
    assert (made.step, made.failed, made.kept) == (FAILED, True, True)
    assert made.reason == wording("It broke. It stays cordoned for the purpose mig.")


def test_a_kind_of_change_must_say_how_it_is_applied_and_proved() -> None:
    assert NodeWork.__abstractmethods__ == {
        "look", "consult", "begin", "advance", "illness", "describe", "progress",
    }  # fmt: skip
