# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold, rollout_notes

from tests.unit.fakes.stack import node
from tests.unit.plugins.module_utils._cluster.maintenance.nodes import NOW, held

KEY = "gpuops.nvidia/rollout-done.mig"
FAILED = "gpuops.nvidia/failed.mig"


def test_a_node_that_stays_held_says_why_without_a_taint() -> None:
    found = held(mig="2026-11-21T10:00:00Z bastion 00000001")
    patch = rollout_notes.failure_patch(found, "mig", "It broke:\nbadly.")
    assert patch == {"metadata": {"annotations": {FAILED: "It broke: badly"}, "resourceVersion": "7"}}
    after = hold.patched(found, patch)
    assert rollout_notes.failure_patch(after, "mig", "It broke: badly.") is None
    released = hold.release_patch(after, "mig", [])
    assert released and released["metadata"]["annotations"][FAILED] is None
    long = rollout_notes.failure_patch(found, "mig", "x" * 600)
    assert long and len(long["metadata"]["annotations"][FAILED]) == 500


def test_a_node_that_is_held_no_more_gets_no_reason() -> None:
    assert rollout_notes.failure_patch(node(), "mig", "It broke.") is None
    assert rollout_notes.failure_patch(held(reboot="x"), "mig", "It broke.") is None


def test_a_node_says_since_when_it_is_done_until_that_is_forgotten() -> None:
    found = node()
    assert rollout_notes.done_since(found, "mig") is None
    after = hold.patched(found, rollout_notes.done_patch(found, None, "mig", NOW))
    assert rollout_notes.done_since(after, "mig") == NOW and rollout_notes.done_since(after, "sharing") is None
    forgotten = hold.patched(after, rollout_notes.done_patch(after, None, "mig", None))
    assert KEY not in forgotten["metadata"]["annotations"]
    assert rollout_notes.done_patch(found, None, "mig", None) is None


def test_a_note_joins_the_end_of_a_hold() -> None:
    released = {"metadata": {"annotations": {"a": None}, "resourceVersion": "7"}, "spec": {"unschedulable": None}}
    made = rollout_notes.done_patch(node(), released, "mig", NOW)
    assert made == {
        "metadata": {"annotations": {"a": None, KEY: "2026-11-21T10:00:00Z"}, "resourceVersion": "7"},
        "spec": {"unschedulable": None},
    }
    assert rollout_notes.done_patch(node(), released, "mig", None) == released


def test_a_time_that_cannot_be_read_is_long_ago() -> None:
    found = node()
    found["metadata"]["annotations"] = {KEY: "yesterday"}
    assert rollout_notes.done_since(found, "mig") == 0.0
