# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.hold import (
    INITIALLY_CORDONED,
    PURPOSE_PREFIX,
    Hold,
    has_stamp,
    hold_of,
    hold_patch,
    new_stamp,
    patched,
    release_patch,
)

from tests.unit.plugins.module_utils._cluster.maintenance.nodes import held


def changes(patch: dict | None) -> tuple[dict, dict]:
    """Return a patch's annotations and spec."""
    assert patch and patch["metadata"]["resourceVersion"] == "7"
    return patch["metadata"]["annotations"], patch.get("spec", {})


def test_holding_a_node_cordons_it_and_remembers_that_it_was_not_cordoned() -> None:
    patch = hold_patch(held(cordoned=False, initially=None), "reboot", "me")
    assert changes(patch) == ({PURPOSE_PREFIX + "reboot": "me", INITIALLY_CORDONED: "false"}, {"unschedulable": True})


def test_a_node_that_was_cordoned_before_is_marked_as_such() -> None:
    assert changes(hold_patch(held(initially=None), "reboot", "me"))[0][INITIALLY_CORDONED] == "true"


def test_a_node_that_is_held_for_the_purpose_needs_no_patch() -> None:
    assert hold_patch(held(reboot="earlier"), "reboot", "me") is None


def test_a_second_purpose_keeps_the_initial_state_of_the_first() -> None:
    for initially in ("true", "false"):
        assert (
            INITIALLY_CORDONED
            not in changes(hold_patch(held(repair="earlier", initially=initially), "reboot", "me"))[0]
        )


def test_a_cordon_that_was_lifted_is_restored_for_the_maintenance_only() -> None:
    annotations, spec = changes(hold_patch(held(reboot="earlier", initially="true", cordoned=False), "reboot", "me"))
    assert (annotations, spec) == (
        {PURPOSE_PREFIX + "reboot": "me", INITIALLY_CORDONED: "false"},
        {"unschedulable": True},
    )


def test_a_left_over_annotation_without_a_purpose_does_not_count() -> None:
    assert changes(hold_patch(held(cordoned=False, initially="true"), "reboot", "me"))[0][INITIALLY_CORDONED] == "false"


def test_the_last_purpose_restores_the_node_as_it_was() -> None:
    assert changes(release_patch(held(reboot="x"), "reboot")) == (
        {PURPOSE_PREFIX + "reboot": None, INITIALLY_CORDONED: None},
        {"unschedulable": None},
    )
    assert changes(release_patch(held(reboot="x", initially="true"), "reboot")) == (
        {PURPOSE_PREFIX + "reboot": None, INITIALLY_CORDONED: None},
        {},
    )


def test_a_purpose_that_is_not_the_last_leaves_the_cordon() -> None:
    assert changes(release_patch(held(reboot="x", repair="y"), "reboot")) == ({PURPOSE_PREFIX + "reboot": None}, {})


def test_a_node_that_is_not_held_for_the_purpose_is_left_alone() -> None:
    assert release_patch(held(initially=None), "reboot") is None
    assert release_patch(held(repair="y"), "reboot") is None


def test_a_patched_node_has_the_fields_of_the_patch() -> None:
    before = held(cordoned=False, initially=None)
    taken = patched(before, hold_patch(before, "reboot", "me"))
    assert hold_of(taken) == Hold(True, ("reboot",), False)
    assert hold_of(patched(before, None)) == Hold(False, (), False)
    given = patched(held(reboot="x"), release_patch(held(reboot="x"), "reboot"))
    assert hold_of(given) == Hold(False, (), False) and given["metadata"]["annotations"] == {}


def test_a_stamp_tells_one_run_from_another() -> None:
    stamp = new_stamp()
    assert stamp.count(" ") == 2 and stamp != new_stamp()
    assert has_stamp(held(reboot=stamp), "reboot", stamp)
    assert not has_stamp(held(reboot="other"), "reboot", stamp) and not has_stamp(held(repair=stamp), "reboot", stamp)
