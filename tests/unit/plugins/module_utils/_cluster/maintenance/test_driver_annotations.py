# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import (
    driver_annotations,
    hold_stamp,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.marks import Holder

from tests.unit.fakes import stack
from tests.unit.fakes.stack import NOW, Json
from tests.unit.fakes.upgrades.drivers import FOUND_CORDONED, SKIP, STATE


def node(state: str = "upgrade-required", note: str = "", skip: bool | None = None, cordoned: bool = False) -> Json:
    made = stack.node()
    made["metadata"]["resourceVersion"] = "7"
    made["metadata"]["annotations"] = {driver_annotations.NOTE: note} if note else {}
    made["metadata"]["labels"] |= {STATE: state}
    if skip if skip is not None else bool(note) and not note.startswith("turn"):
        made["metadata"]["labels"][SKIP] = "true"
    made["spec"] = {"unschedulable": True} if cordoned else {}
    return made


def nobody(dummy: Json) -> list[Holder]:
    return []


def parts(patch: Json | None) -> tuple[Json, str | None, t.Any]:
    """Return the labels, the kind of the note and the cordon of a patch."""
    assert patch is not None and patch["metadata"]["resourceVersion"] == "7"
    text = patch["metadata"].get("annotations", {}).get(driver_annotations.NOTE)
    return patch["metadata"]["labels"], text and text.partition(" ")[0], patch.get("spec", {}).get("unschedulable", "")


def test_a_note_says_what_when_and_why() -> None:
    note = driver_annotations.note_of(node(note=str(driver_annotations.Note("failed", NOW, "the image\nis gone."))))
    assert note == driver_annotations.Note("failed", NOW, "the image is gone")
    assert driver_annotations.note_of(node()) is None


@pytest.mark.parametrize("text", ["", "nonsense", "held yesterday", "turned 2026-01-01T00:00:00Z"])
def test_a_note_that_nobody_can_read_keeps_a_node_back(text: str) -> None:
    unreadable = node(skip=True)
    unreadable["metadata"]["annotations"] = {driver_annotations.NOTE: text}
    note = driver_annotations.note_of(unreadable)
    assert note is not None and note.kind == "held" and driver_annotations.is_ours(unreadable)


def test_a_label_without_a_note_is_a_users() -> None:
    assert driver_annotations.is_of_a_user(node(skip=True)) and not driver_annotations.is_ours(node(skip=True))
    assert driver_annotations.is_ours(node(note="held")) and not driver_annotations.is_of_a_user(node(note="held"))
    assert not driver_annotations.is_ours(node()) and not driver_annotations.is_of_a_user(node())


@pytest.mark.parametrize(
    ("begun", "made"),
    [
        (True, node("cordon-required")),
        (True, node("validation-required", "held 2026-01-01T00:00:00Z")),
        (True, node(note="turn 2026-01-01T00:00:00Z")),
        (False, node(note="turn 2026-01-01T00:00:00Z", skip=True)),
        (False, node("upgrade-done", "turn 2026-01-01T00:00:00Z")),
        (False, node("upgrade-failed", "turn 2026-01-01T00:00:00Z")),
        (False, node()),
    ],
)
def test_a_node_is_begun_once_it_has_its_turn_or_the_operator_works_on_it(begun: bool, made: Json) -> None:
    assert driver_annotations.is_begun(made) is begun


def test_a_node_is_kept_back_once() -> None:
    assert parts(driver_annotations.hold_patch(node(), NOW)) == ({SKIP: "true"}, "held", "")
    assert driver_annotations.hold_patch(node(note="held 2026-01-01T00:00:00Z"), NOW) is None
    assert driver_annotations.hold_patch(node(skip=True), NOW) is None, "a user's label stays a user's"
    assert driver_annotations.hold_patch(node("drain-required"), NOW) is None, (
        "an upgrade that has begun is not stopped"
    )


def test_asking_again_ends_a_pause_and_takes_a_failed_node_along() -> None:
    for kind in ("paused", "failed"):
        assert parts(driver_annotations.hold_patch(node(note=f"{kind} 2026-01-01T00:00:00Z why"), NOW))[1] == "held"


def test_a_pause_concerns_nodes_that_have_not_begun() -> None:
    assert parts(driver_annotations.pause_patch(node(note="held 2026-01-01T00:00:00Z"), NOW)) == (
        {SKIP: "true"},
        "paused",
        "",
    )
    assert driver_annotations.pause_patch(node(note="paused 2026-01-01T00:00:00Z"), NOW) is None
    assert driver_annotations.pause_patch(node(skip=True), NOW) is None
    assert driver_annotations.pause_patch(node("drain-required"), NOW) is None


def test_a_turn_takes_the_label_off_and_cordons() -> None:
    assert parts(driver_annotations.turn_patch(node(note="held 2026-01-01T00:00:00Z"), NOW)) == (
        {SKIP: None},
        "turn",
        True,
    )


def test_a_failed_node_is_sent_back_to_the_beginning() -> None:
    patch = driver_annotations.turn_patch(
        node("upgrade-failed", "failed 2026-01-01T00:00:00Z", skip=False, cordoned=True), NOW
    )
    assert parts(patch) == ({STATE: "upgrade-required"}, "turn", True)
    assert FOUND_CORDONED not in (patch or {})["metadata"]["annotations"], "that cordon was the operator's"


def test_the_cordon_of_somebody_else_is_noted_for_the_operator() -> None:
    patch = driver_annotations.turn_patch(node(note="held 2026-01-01T00:00:00Z", cordoned=True), NOW)
    notes = (patch or {})["metadata"]["annotations"]
    assert notes[FOUND_CORDONED] == "true" and notes[driver_annotations.NOTE].endswith(driver_annotations.WAS_CORDONED)
    known = node(note="held 2026-01-01T00:00:00Z", cordoned=True)
    known["metadata"]["annotations"][FOUND_CORDONED] = "true"
    notes = (driver_annotations.turn_patch(known, NOW) or {})["metadata"]["annotations"]
    assert FOUND_CORDONED not in notes and notes[driver_annotations.NOTE].endswith(driver_annotations.WAS_CORDONED)


def test_a_note_of_a_cordon_that_is_lifted_by_now_does_not_leave_the_node_cordoned() -> None:
    lifted = node(note="held 2026-01-01T00:00:00Z")
    lifted["metadata"]["annotations"][FOUND_CORDONED] = "true"
    notes = (driver_annotations.turn_patch(lifted, NOW) or {})["metadata"]["annotations"]
    assert notes[FOUND_CORDONED] is None and not notes[driver_annotations.NOTE].endswith(
        driver_annotations.WAS_CORDONED
    )
    for state in ("", "upgrade-done", "upgrade-failed"):
        left = node(state, skip=False)
        left["metadata"]["annotations"] = {FOUND_CORDONED: "true"}
        assert (driver_annotations.repair_patch(left) or {})["metadata"]["annotations"] == {FOUND_CORDONED: None}


@pytest.mark.parametrize(
    "made", [node("upgrade-done", cordoned=True), node("pod-restart-required", skip=False), node("upgrade-done")]
)
def test_a_note_of_a_cordon_that_is_there_or_of_an_upgrade_that_runs_stays(made: Json) -> None:
    if made["metadata"]["labels"][STATE] != "upgrade-done" or made["spec"].get("unschedulable"):
        made["metadata"].setdefault("annotations", {})[FOUND_CORDONED] = "true"
    assert not driver_annotations.would_stay_cordoned(made) and driver_annotations.repair_patch(made) is None


@pytest.mark.parametrize(
    "made",
    [
        node("upgrade-done", "held 2026-01-01T00:00:00Z"),
        node(note="paused 2026-01-01T00:00:00Z"),
        node(note="turn 2026-01-01T00:00:00Z"),
        node(skip=True),
    ],
)
def test_nobody_gets_a_turn_early_twice_or_against_somebodys_wish(made: Json) -> None:
    assert driver_annotations.turn_patch(made, NOW) is None


def test_a_parked_node_serves_and_waits_for_another_try() -> None:
    patch = driver_annotations.park_patch(node("upgrade-failed", cordoned=True), NOW, "bare pod", nobody)
    assert parts(patch) == ({SKIP: "true", STATE: "upgrade-required"}, "failed", None)


def test_a_parked_node_keeps_a_cordon_that_others_need() -> None:
    busy = Holder("kured", "lock")
    made = driver_annotations.park_patch(node("upgrade-failed", cordoned=True), NOW, "why", lambda dummy: [busy])
    assert "spec" not in (made or {})
    found = node("upgrade-failed", cordoned=True)
    found["metadata"]["annotations"][FOUND_CORDONED] = "true"
    assert "spec" not in (driver_annotations.park_patch(found, NOW, "why", nobody) or {})
    held = node("upgrade-failed", cordoned=True)
    held["metadata"]["annotations"][hold_stamp.PURPOSE_PREFIX + "reboot"] = "2026-01-01T00:00:00Z here run"
    assert "spec" not in (driver_annotations.park_patch(held, NOW, "why", nobody) or {})


def test_a_failure_is_noted_once() -> None:
    patch = driver_annotations.fail_patch(node("upgrade-failed", cordoned=True), NOW, "the image is gone")
    assert parts(patch) == ({}, "failed", "")
    noted = node("upgrade-failed", str(driver_annotations.Note("failed", NOW, "the image is gone")), skip=False)
    assert driver_annotations.fail_patch(noted, NOW + 5, "the image is gone") is None


def test_a_done_node_loses_label_and_note_unless_a_wave_needs_the_note() -> None:
    assert parts(driver_annotations.done_patch(node("upgrade-done", "held 2026-01-01T00:00:00Z"), NOW)) == (
        {SKIP: None},
        None,
        "",
    )
    kept = driver_annotations.done_patch(node("upgrade-done", "turn 2026-01-01T00:00:00Z"), NOW, keeps=True)
    assert parts(kept) == ({}, "done", "")
    assert (
        driver_annotations.done_patch(node("upgrade-done", "done 2026-01-01T00:00:00Z", skip=False), NOW, keeps=True)
        is None
    )
    assert driver_annotations.done_patch(node("upgrade-done", skip=True), NOW) is None, "a user's label stays"


def test_letting_go_removes_what_is_ours_only() -> None:
    assert parts(driver_annotations.let_go_patch(node(note="held 2026-01-01T00:00:00Z"))) == ({SKIP: None}, None, "")
    assert driver_annotations.let_go_patch(node(skip=True)) is None


def test_a_node_with_a_current_driver_is_let_go_without_an_upgrade_that_is_due() -> None:
    held = "held 2026-01-01T00:00:00Z"
    due = node("upgrade-required", note=held)
    assert parts(driver_annotations.free_patch(due)) == ({SKIP: None, STATE: None}, None, "")
    assert parts(driver_annotations.free_patch(node("upgrade-done", note=held))) == ({SKIP: None}, None, "")
    assert driver_annotations.free_patch(node("upgrade-required", skip=True)) is None, "that is a user's"


def test_operands_that_stayed_paused_get_their_value_back() -> None:
    key, plugin = "nvidia.com/gpu.deploy.dcgm", "nvidia.com/gpu.deploy.device-plugin"
    paused = node("upgrade-done")
    paused["metadata"]["labels"] |= {key: "paused-for-driver-upgrade", plugin: "mine_paused-for-driver-upgrade"}
    assert driver_annotations.paused_operands(paused) == {key: "true", plugin: "mine"}
    assert (driver_annotations.repair_patch(paused) or {})["metadata"]["labels"] == {key: "true", plugin: "mine"}
    paused["metadata"]["labels"][STATE] = "pod-restart-required"
    assert driver_annotations.paused_operands(paused) == {} and driver_annotations.repair_patch(paused) is None, (
        "the upgrade needs them away"
    )
    paused["metadata"]["labels"] |= {STATE: "upgrade-done", key: "paused-for-mig-change", plugin: "true"}
    assert driver_annotations.repair_patch(paused) is None, "that pause is the MIG manager's"


def test_the_operator_is_called_by_a_node_that_is_done_or_kept_back() -> None:
    kept = node(note="held 2026-01-01T00:00:00Z")
    for made in (node("upgrade-done", skip=False), kept):
        assert (driver_annotations.wake_patch(made) or {})["metadata"]["labels"] == {STATE: None}


@pytest.mark.parametrize(
    "made",
    [
        node("upgrade-done", cordoned=True),
        node(note="held 2026-01-01T00:00:00Z", cordoned=True),
        node("", skip=False),
        node(note="turn 2026-01-01T00:00:00Z", skip=False),
        node(skip=True),
        node("pod-restart-required", "turn 2026-01-01T00:00:00Z", skip=False),
        node("upgrade-failed", "failed 2026-01-01T00:00:00Z", skip=False),
    ],
)
def test_the_operator_is_not_called_by_a_node_to_which_that_could_do_anything(made: Json) -> None:
    assert driver_annotations.wake_patch(made) is None


def test_a_node_with_a_pod_that_was_left_behind_is_marked_only_while_it_is_kept_back() -> None:
    held = "held 2026-01-01T00:00:00Z"
    for state in ("", "upgrade-done"):
        assert (driver_annotations.require_patch(node(state, held)) or {})["metadata"]["labels"] == {
            STATE: "upgrade-required"
        }
    assert driver_annotations.require_patch(node("upgrade-required", held)) is None
    assert driver_annotations.require_patch(node("upgrade-done", held, skip=False)) is None, (
        "the operator would begin with it"
    )
    assert driver_annotations.require_patch(node("upgrade-done", skip=True)) is None, "a user keeps it back"
