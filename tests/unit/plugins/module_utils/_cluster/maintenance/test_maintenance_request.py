# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import maintenance_request
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.eviction import EvictionPermits
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.plugins.module_utils._cluster.maintenance.nodes import DEFAULTS, NOW, asked


def test_the_options_are_read_once_into_what_every_step_takes() -> None:
    made = asked(nodes=["b", "a", "b"], evict="all", force=True, grace_period=5, timeout=7, progress_path="/tmp/x")
    assert (made.nodes, made.selector, made.evicts_all, made.timeout_s) == (("b", "a"), None, True, 7)
    assert (made.grace_period_s, made.progress_path, made.state) == (5, "/tmp/x", "drained")
    assert made.permits == EvictionPermits(force=True), "this module has no option allow_disruption"
    assert asked(node_selector={"rack": 7, "gpu": True}).selector == {"rack": "7", "gpu": "true"}
    assert asked(nodes=[]).nodes == (), "no node is another choice than all that are held"


def test_a_claim_says_what_the_options_ask_of_a_hold() -> None:
    made = asked(lease=60, take_over=True, taint_reason="no\n driver").claim(NOW)
    assert (made.purpose, made.now, made.lease_s, made.take_over) == ("reboot", NOW, 60, True)
    assert made.failure == "no driver" and not made.pause_nvsentinel and made.stamp.machine


def test_a_drain_of_another_module_takes_its_own_time_and_purpose() -> None:
    given = {key: value for key, value in DEFAULTS.items() if key not in ("evict", "timeout", "state", "nodes")}
    made = maintenance_request.drain_request_of({**given, "drain_timeout": 7, "timeout": 5}, "some-purpose")
    assert (made.state, made.purpose, made.evicts_all, made.timeout_s) == ("drained", "some-purpose", False, 7)
    strict = {**given, "drain_timeout": 7, "allow_disruption": False, "evict": "all"}
    made = maintenance_request.drain_request_of(strict, "some-purpose")
    assert made.evicts_all and not made.permits.disruption


@pytest.mark.parametrize("purpose", ["", "Reboot", "a/b", "-a", "a-", "a" * 41])
def test_a_purpose_must_fit_into_an_annotation(purpose: str) -> None:
    with pytest.raises(GpuOpsError, match=r"^purpose must be"):
        asked(purpose=purpose)


def test_a_negative_grace_period_is_refused() -> None:
    asked(purpose="a" * 40, grace_period=0)
    with pytest.raises(GpuOpsError) as error:
        asked(grace_period=-1)
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording("grace_period is -1: give 0 or more.")


@pytest.mark.parametrize("name", ["timeout", "parallel", "max_in_maintenance", "lease", "skip_wait_for_delete_timeout"])
def test_impossible_numbers_are_refused(name: str) -> None:
    asked(**{name: 1})
    with pytest.raises(GpuOpsError, match=f"^{name} is 0: give 1 or more"):
        asked(**{name: 0})


def test_a_reason_to_stay_away_is_not_given_when_a_node_comes_back() -> None:
    asked(state="drained", taint_reason="no driver")
    asked(state="restored")
    with pytest.raises(GpuOpsError) as error:
        asked(state="restored", taint_reason="no driver")
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording(
        "taint_reason needs state=cordoned or state=drained; state=restored removes the taint."
    )
