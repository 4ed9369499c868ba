# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import socket

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import hold_stamp
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.hold import (
    INITIALLY_CORDONED,
    Hold,
    failures_of,
    hold_of,
    hold_patch,
    is_held_elsewhere,
    leave_patch,
    patched,
    release_patch,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.hold_stamp import (
    PURPOSE_PREFIX,
    Stamp,
    has_stamp,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.marks import Holder
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError

from tests.unit.plugins.module_utils._cluster.maintenance.nodes import MINE, claim, held


def changes(patch: dict | None) -> tuple[dict, dict]:
    """Return a patch's annotations and spec."""
    assert patch and patch["metadata"]["resourceVersion"] == "7"
    return patch["metadata"]["annotations"], patch.get("spec", {})


def test_holding_a_node_cordons_it_and_remembers_that_it_was_not_cordoned() -> None:
    patch = hold_patch(held(cordoned=False, initially=None), claim(), ())
    assert changes(patch) == (
        {PURPOSE_PREFIX + "reboot": str(MINE), INITIALLY_CORDONED: "false"},
        {"unschedulable": True},
    )


def test_a_node_that_was_cordoned_before_is_marked_as_such() -> None:
    assert changes(hold_patch(held(initially=None), claim(), ()))[0][INITIALLY_CORDONED] == "true"


def test_a_node_that_is_held_for_the_purpose_needs_no_patch() -> None:
    assert hold_patch(held(reboot="earlier"), claim(), ()) is None


def test_a_second_purpose_keeps_the_initial_state_of_the_first() -> None:
    for initially in ("true", "false"):
        assert (
            INITIALLY_CORDONED not in changes(hold_patch(held(repair="earlier", initially=initially), claim(), ()))[0]
        )


def test_a_cordon_that_was_lifted_is_restored_for_the_maintenance_only() -> None:
    annotations, spec = changes(hold_patch(held(reboot="earlier", initially="true", cordoned=False), claim(), ()))
    assert (annotations, spec) == ({INITIALLY_CORDONED: "false"}, {"unschedulable": True})


def test_a_left_over_annotation_without_a_purpose_does_not_count() -> None:
    assert changes(hold_patch(held(cordoned=False, initially="true"), claim(), ()))[0][INITIALLY_CORDONED] == "false"


def test_the_last_purpose_restores_the_node_as_it_was() -> None:
    assert changes(release_patch(held(reboot="x"), "reboot", ())) == (
        {PURPOSE_PREFIX + "reboot": None, INITIALLY_CORDONED: None},
        {"unschedulable": None},
    )
    assert changes(release_patch(held(reboot="x", initially="true"), "reboot", ())) == (
        {PURPOSE_PREFIX + "reboot": None, INITIALLY_CORDONED: None},
        {},
    )


def test_a_purpose_that_is_not_the_last_leaves_the_cordon() -> None:
    assert changes(release_patch(held(reboot="x", repair="y"), "reboot", ())) == ({PURPOSE_PREFIX + "reboot": None}, {})


def test_a_node_that_is_not_held_for_the_purpose_is_left_alone() -> None:
    assert release_patch(held(initially=None), "reboot", ()) is None
    assert release_patch(held(repair="y"), "reboot", ()) is None


def test_a_patched_node_has_the_fields_of_the_patch() -> None:
    before = held(cordoned=False, initially=None)
    taken = patched(before, hold_patch(before, claim(), ()))
    assert hold_of(taken) == Hold(True, ("reboot",), False)
    assert hold_of(patched(before, None)) == Hold(False, (), False)
    given = patched(held(reboot="x"), release_patch(held(reboot="x"), "reboot", ()))
    assert hold_of(given) == Hold(False, (), False) and given["metadata"]["annotations"] == {}


# ---- stamps and leases --------------------------------------------------------------------------------------------

ELSEWHERE = "2026-11-21T09:30:00Z awx-7 00000000"


@pytest.mark.parametrize("text", ["", "by hand", "yesterday awx-7 00000000", "2026-11-21T09:30:00Z awx-7"])
def test_a_stamp_that_was_written_by_hand_is_resumed(text: str) -> None:
    node = held(reboot=text)
    assert hold_patch(node, claim(), ()) is None
    assert not is_held_elsewhere(node, claim())


def test_a_hold_by_another_machine_is_respected_until_its_lease_is_over() -> None:
    node = held(reboot=ELSEWHERE)
    with pytest.raises(GpuOpsError) as e:
        hold_patch(node, claim(), ())
    assert e.value.reason == "HeldElsewhere" and is_held_elsewhere(node, claim(lease_s=1801.0))
    assert not is_held_elsewhere(node, claim(lease_s=1800.0)) and not is_held_elsewhere(node, claim(take_over=True))
    assert not is_held_elsewhere(node, claim("repair")), "Another purpose is another job."


def test_a_hold_by_a_live_run_of_this_machine_is_respected_until_its_process_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = claim(stamp=Stamp(MINE.since, socket.gethostname(), "00000001"))
    node = held(reboot=f"2026-11-21T09:59:00Z {socket.gethostname()} 00000000-77-1")
    monkeypatch.setattr(hold_stamp, "_started", lambda process: "1")
    with pytest.raises(GpuOpsError, match=r"Another run holds gpu-0000 \(process 77 on ") as e:
        hold_patch(node, here, ())
    assert e.value.reason == "HeldElsewhere" and is_held_elsewhere(node, here)
    assert not is_held_elsewhere(node, dataclasses.replace(here, take_over=True))
    monkeypatch.setattr(hold_stamp, "_started", lambda process: "")
    assert not is_held_elsewhere(node, here) and hold_patch(node, here, ()) is None


def test_a_rollout_that_resumes_a_node_is_named_there_so_that_a_third_run_leaves_it_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = socket.gethostname()
    resuming = claim(stamp=Stamp(MINE.since, here, "00000001-78-2"), resumes=True)
    node = held(reboot=f"2026-11-21T09:59:00Z {here} 00000000-77-1")
    monkeypatch.setattr(hold_stamp, "_started", lambda process: "2" if process == "78" else "")
    monkeypatch.setattr("os.getpid", lambda: 78)
    taken = patched(node, hold_patch(node, resuming, ()))
    assert changes(hold_patch(node, resuming, ()))[0] == {
        PURPOSE_PREFIX + "reboot": f"2026-11-21T10:00:00Z {here} 00000000-78-2"
    }
    assert not has_stamp(taken, "reboot", resuming.stamp), "An earlier run has taken it."
    assert hold_patch(taken, resuming, ()) is None
    monkeypatch.setattr("os.getpid", lambda: 79)
    assert is_held_elsewhere(taken, claim(stamp=Stamp(MINE.since, here, "00000002-79-3"), resumes=True))


def test_whoever_takes_over_is_named_and_still_did_not_take_the_node_first() -> None:
    for changed in (claim(lease_s=60.0), claim(take_over=True)):
        annotations, spec = changes(hold_patch(held(reboot=ELSEWHERE), changed, ()))
        assert annotations == {PURPOSE_PREFIX + "reboot": "2026-11-21T10:00:00Z bastion 00000000"}
        assert spec == {"unschedulable": True}
    mine = held(reboot="2026-11-21T10:00:00Z bastion 00000000")
    assert hold_patch(mine, claim(), ()) is None and not has_stamp(mine, "reboot", MINE)


def test_a_lease_is_renewed_while_a_run_is_at_work() -> None:
    node = held(reboot="2026-11-21T09:30:00Z bastion 00000000")
    assert hold_patch(node, claim(), ()) is None and hold_patch(node, claim(renews=True, lease_s=3601.0), ()) is None
    patch = hold_patch(node, claim(renews=True), ())
    assert changes(patch)[0] == {PURPOSE_PREFIX + "reboot": "2026-11-21T10:00:00Z bastion 00000000"}
    mine = held(reboot="2026-11-21T09:30:00Z bastion 00000001")
    assert has_stamp(patched(mine, hold_patch(mine, claim(renews=True), ())), "reboot", MINE)
    assert hold_patch(held(reboot="by hand"), claim(renews=True), ()) is None


# ---- labels that are other than usual during a hold ----------------------------------------------------------------

SKIP, SWITCH = "nvidia.com/gpu-driver-upgrade.skip", "k8saas.nvidia.com/ManagedByNVSentinel"
WAITS = {"nvidia.com/gpu-driver-upgrade-state": "upgrade-required"}


def labelled(node: dict, **labels: str) -> dict:
    node["metadata"]["labels"] |= labels
    return node


def test_nvsentinel_is_paused_only_if_asked_and_back_afterwards() -> None:
    for before in ({}, {SWITCH: "true"}):
        node = labelled(held(cordoned=False, initially=None), **before)
        assert "labels" not in hold_patch(node, claim(), ())["metadata"]  # type: ignore[index]
        taken = patched(node, hold_patch(node, claim(pause_nvsentinel=True), ()))
        assert taken["metadata"]["labels"][SWITCH] == "false"
        assert hold_patch(taken, claim(pause_nvsentinel=True), ()) is None
        given = patched(taken, release_patch(taken, "reboot", ()))
        assert given["metadata"]["labels"].get(SWITCH) == before.get(SWITCH) and given["metadata"]["annotations"] == {}


def test_nvsentinel_that_a_user_has_paused_stays_paused() -> None:
    node = labelled(held(cordoned=False, initially=None), **{SWITCH: "false"})
    taken = patched(node, hold_patch(node, claim(pause_nvsentinel=True), ()))
    assert patched(taken, release_patch(taken, "reboot", ()))["metadata"]["labels"][SWITCH] == "false"


def test_a_later_call_can_pause_nvsentinel_on_a_node_that_is_held() -> None:
    patch = hold_patch(held(reboot=str(MINE)), claim(pause_nvsentinel=True), ())
    assert changes(patch) == ({"gpuops.nvidia/initial-state.managed-by-nvsentinel": ""}, {"unschedulable": True})
    assert patch["metadata"]["labels"] == {SWITCH: "false"}  # type: ignore[index]


def test_a_node_that_waits_for_its_driver_upgrade_does_not_jump_the_queue() -> None:
    node = labelled(held(cordoned=False, initially=None), **WAITS)
    taken = patched(node, hold_patch(node, claim(), ()))
    assert taken["metadata"]["labels"][SKIP] == "true" and taken["metadata"]["annotations"][FOUND] == "true"
    given = patched(taken, release_patch(taken, "reboot", ()))
    assert given["metadata"]["labels"] == node["metadata"]["labels"] and given["metadata"]["annotations"] == {}


def test_the_operator_remembers_that_a_waiting_node_was_cordoned_by_somebody_else() -> None:
    node = labelled(held(initially=None), **WAITS)
    assert FOUND not in changes(hold_patch(node, claim(), ()))[0]


def test_a_node_that_somebody_keeps_from_upgrades_is_not_touched() -> None:
    node = labelled(held(cordoned=False, initially=None), **WAITS, **{SKIP: "true"})
    taken = patched(node, hold_patch(node, claim(), ()))
    assert patched(taken, release_patch(taken, "reboot", ()))["metadata"]["labels"][SKIP] == "true"


# ---- other maintainers --------------------------------------------------------------------------------------------

FOUND = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
NVS_FOUND = "quarantineHealthEventCordonPreExisting"
LEFT = "gpuops.nvidia/left-cordoned"
NVSENTINEL = Holder("nvsentinel", "annotation", at_work=False)
KURED = Holder("kured", "lock", lifts=False)
KARPENTER = Holder("karpenter", "taint", needs_cordon=False)


def noted(node: dict, **notes: str) -> dict:
    node["metadata"]["annotations"] |= notes
    return node


@pytest.mark.parametrize("note", [FOUND, NVS_FOUND])
def test_a_cordon_that_others_found_is_handed_over_to_them(note: str) -> None:
    node = noted(held(reboot="x"), **{note: "True"})
    own = {PURPOSE_PREFIX + "reboot": None, INITIALLY_CORDONED: None}
    assert changes(release_patch(node, "reboot", [NVSENTINEL])) == ({**own, note: None, LEFT: "nvsentinel"}, {})
    assert changes(release_patch(node, "reboot", [])) == ({**own, note: None}, {"unschedulable": None})
    theirs = noted(held(reboot="x", initially="true"), **{note: "True"})
    assert changes(release_patch(theirs, "reboot", [NVSENTINEL])) == (own, {})


def test_a_cordon_is_left_for_those_who_do_not_lift_it_until_they_have_finished() -> None:
    node = held(reboot="x")
    left = patched(node, release_patch(node, "reboot", [KURED, KARPENTER]))
    assert hold_of(left) == Hold(True, (), False, True) and left["metadata"]["annotations"] == {LEFT: "kured"}
    assert release_patch(left, "any", [KURED]) is None
    assert changes(release_patch(left, "any", [])) == ({LEFT: None}, {"unschedulable": None})
    lifted = patched(left, {"spec": {"unschedulable": None}})
    assert changes(release_patch(lifted, "any", [KURED])) == ({LEFT: None}, {})


def test_a_later_cordon_of_somebody_else_is_not_taken_for_the_one_that_was_left() -> None:
    def cordoned(node: dict, since: str) -> dict:
        node["spec"]["taints"] = [
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": since}
        ]
        return node

    node = cordoned(held(reboot="x"), "2026-11-21T09:00:00Z")
    left = patched(node, release_patch(node, "reboot", [KURED]))
    assert left["metadata"]["annotations"] == {LEFT: "kured 2026-11-21T09:00:00Z"}
    assert changes(release_patch(left, "any", []))[1] == {"unschedulable": None}
    theirs = cordoned(noted(held(initially=None), **{LEFT: "kured 2026-11-21T09:00:00Z"}), "2026-11-21T09:30:00Z")
    assert changes(release_patch(theirs, "any", [])) == ({LEFT: None}, {})
    assert changes(hold_patch(theirs, claim(), ()))[0][INITIALLY_CORDONED] == "true"


def test_a_cordon_is_noted_as_left_only_if_somebody_needs_it() -> None:
    """One that lifts the cordon may have done so before it was set again for us."""
    assert changes(release_patch(held(reboot="x"), "reboot", [KURED, NVSENTINEL]))[0][LEFT] == "kured,nvsentinel"
    assert changes(release_patch(held(reboot="x"), "reboot", [KARPENTER]))[1] == {"unschedulable": None}
    assert LEFT not in changes(release_patch(held(reboot="x", cordoned=False), "reboot", [KURED]))[0]


def test_a_cordon_that_was_left_is_ours_when_the_node_is_held_again() -> None:
    left = noted(held(initially=None), **{LEFT: "kured"})
    taken = patched(left, hold_patch(left, claim(), ()))
    assert hold_of(taken) == Hold(True, ("reboot",), False) and LEFT not in taken["metadata"]["annotations"]
    assert not hold_of(patched(taken, release_patch(taken, "reboot", ()))).unschedulable


def test_a_quarantine_of_a_node_in_service_does_not_keep_it_out_afterwards() -> None:
    """Somebody has uncordoned a node whose driver upgrade has failed."""
    failed = Holder("gpu-operator", "label", at_work=False)
    node = held(cordoned=False, initially=None)
    taken = patched(node, hold_patch(node, claim(), [failed, KURED]))
    assert taken["metadata"]["annotations"]["gpuops.nvidia/initial-state.held-by"] == "gpu-operator"
    assert changes(release_patch(taken, "reboot", [failed]))[1] == {"unschedulable": None}
    assert changes(release_patch(taken, "reboot", [failed]))[0]["gpuops.nvidia/initial-state.held-by"] is None
    upgrading = Holder("gpu-operator", "label")
    assert changes(release_patch(taken, "reboot", [upgrading]))[1] == {}
    cordoned = held(initially=None)
    again = patched(cordoned, hold_patch(cordoned, claim(), [failed]))
    assert "gpuops.nvidia/initial-state.held-by" not in again["metadata"]["annotations"]


def test_a_node_is_cordoned_again_for_those_who_saw_our_cordon() -> None:
    free = held(cordoned=False, initially=None)
    assert changes(leave_patch(free, [KURED, NVSENTINEL])) == ({LEFT: "kured"}, {"unschedulable": True})
    assert leave_patch(free, [NVSENTINEL, KARPENTER]) is None
    assert leave_patch(held(initially=None), [KURED]) is None
    assert leave_patch(held(cordoned=False, repair="x"), [KURED]) is None


# ---- nodes that failed --------------------------------------------------------------------------------------------

WHY = "The driver 580.95.05 is installed, and its module cannot be loaded: Key was rejected by service"
OURS = {
    "key": "gpuops.nvidia/failed.reboot",
    "value": "The-driver-580.95.05-is-installed-and-its-module-cannot-be-load",
    "effect": "NoSchedule",
}
THEIRS = {"key": "dedicated", "value": "training", "effect": "NoSchedule"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def test_a_failure_taints_the_node_and_keeps_the_other_taints() -> None:
    found = held(reboot=str(MINE))
    found["spec"]["taints"] = [THEIRS, CORDON]
    patch = hold_patch(found, claim(failure=WHY), ())
    assert changes(patch) == (
        {"gpuops.nvidia/failed.reboot": WHY},
        {"taints": [THEIRS, CORDON, OURS]},
    )
    after = patched(found, patch)
    assert failures_of(after) == {"reboot": WHY} and hold_of(after).purposes == ("reboot",)
    assert hold_patch(after, claim(failure=WHY), ()) is None and hold_patch(after, claim(), ()) is None


def test_a_free_node_is_taken_and_tainted_at_once() -> None:
    annotations, spec = changes(hold_patch(held(cordoned=False, initially=None), claim(failure="x"), ()))
    assert sorted(annotations) == [
        "gpuops.nvidia/failed.reboot",
        "gpuops.nvidia/initial-state.unschedulable",
        "gpuops.nvidia/maintenance.reboot",
    ]
    assert spec["unschedulable"] is True and spec["taints"][0]["value"] == "x"


def test_a_new_reason_replaces_the_old_one() -> None:
    found = patched(held(reboot=str(MINE)), hold_patch(held(reboot=str(MINE)), claim(failure="old"), ()))
    spec = changes(hold_patch(found, claim(failure="new"), ()))[1]
    assert [taint["value"] for taint in spec["taints"]] == ["new"]


def test_the_end_of_a_purpose_removes_its_taint_only() -> None:
    found = held(reboot=str(MINE), repair="earlier")
    found["spec"]["taints"] = [THEIRS, OURS, {**OURS, "key": "gpuops.nvidia/failed.repair"}]
    found["metadata"]["annotations"]["gpuops.nvidia/failed.reboot"] = WHY
    annotations, spec = changes(release_patch(found, "reboot", ()))
    assert annotations == {"gpuops.nvidia/maintenance.reboot": None, "gpuops.nvidia/failed.reboot": None}
    assert spec == {"taints": [THEIRS, {**OURS, "key": "gpuops.nvidia/failed.repair"}]}


def test_the_last_taint_leaves_no_list_and_the_node_is_uncordoned() -> None:
    found = held(reboot=str(MINE))
    found["spec"]["taints"] = [OURS]
    assert changes(release_patch(found, "reboot", ()))[1] == {"unschedulable": None, "taints": None}


def test_a_taint_whose_hold_was_removed_by_hand_still_goes() -> None:
    found = held(cordoned=False, initially=None)
    found["spec"]["taints"] = [OURS]
    assert changes(release_patch(found, "reboot", ())) == ({}, {"taints": None})
    assert release_patch(found, "repair", ()) is None
