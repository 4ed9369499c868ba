# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal import node_cleanup
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal.node_cleanup import CleanupRequest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.marks import Holder
from inline_snapshot import snapshot as wording

STATE = "nvidia.com/gpu-driver-upgrade-state"
FOUND_CORDONED = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"


def node(labels: dict | None = None, notes: dict | None = None, **spec: t.Any) -> dict:
    metadata = {"name": "gpu-0000", "resourceVersion": "7", "labels": labels or {}, "annotations": notes or {}}
    return {"metadata": metadata, "spec": spec}


def test_a_node_that_the_stack_never_touched_gets_no_patch() -> None:
    plain = node({"kubernetes.io/hostname": "x", "example.com/nvidia.com": "y"}, {"example.com/note": "mine"})
    change = node_cleanup.change(plain, CleanupRequest(labels=True, nfd=True, taints=True))
    assert (change.lines, change.patch(plain)) == ([], None)


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("nvidia.com/gpu.present", "false", "goes"),
        ("nvidia.com/gpu.deploy.driver", "true", "goes"),
        ("nvidia.com/gpu.deploy.driver", "pre-installed", "goes"),
        ("nvidia.com/gpu.deploy.dra-driver", "", "goes"),
        ("nvidia.com/gpu.deploy.dcgm", "paused-for-mig-change", "goes"),
        ("nvidia.com/gpu.deploy.dcgm", "mine_paused-for-driver-upgrade", "mine"),
        ("nvidia.com/gpu.deploy.dcgm", "false", "stays"),
        ("nvidia.com/gpu.deploy.operands", "true", "stays"),
        ("nvidia.com/gpu.workload.config", "container", "stays"),
        ("nvidia.com/mig.config", "all-1g.10gb", "stays"),
        ("nvidia.com/mig.config", "all-disabled", "goes"),
        ("nvidia.com/mig.config.state", "success", "goes"),
        ("nvidia.com/mig-1g.10gb.count", "7", "goes"),
        ("nvidia.com/gpu.compute.major", "9", "goes"),
        ("nvidia.com/cuda.driver-version.full", "595.1", "goes"),
        ("nvidia.com/gpu.pool", "mine", "stays"),
        ("nvidia.com/device-plugin.config", "four", "stays"),
        ("nvidia.com/gpu-driver-upgrade.skip", "true", "stays"),
        ("nvidia.com/gpu-operator.driver.owner", "default", "goes"),
    ],
)
def test_labels_of_the_stack_go_and_those_of_users_stay(key: str, value: str, wanted: str) -> None:
    labels = node_cleanup.change(node({key: value}), CleanupRequest(labels=True)).labels
    assert labels == {"goes": {key: None}, "stays": {}, "mine": {key: "mine"}}[wanted]
    assert node_cleanup.of_users(node({key: value})) == ([] if wanted == "goes" else [key])
    assert bool(node_cleanup.of_the_stack(node({key: value}))) == (wanted != "stays")


def test_what_a_rollout_of_ours_holds_is_let_go_and_what_a_user_holds_is_not() -> None:
    skip = {"nvidia.com/gpu-driver-upgrade.skip": "true"}
    ours = node_cleanup.change(node(skip, {"gpuops.nvidia/driver-rollout": "held"}), CleanupRequest(labels=True))
    assert ours.labels == {"nvidia.com/gpu-driver-upgrade.skip": None}
    assert ours.annotations == ["gpuops.nvidia/driver-rollout"]
    held = node(skip, {"gpuops.nvidia/driver-rollout": "held"})
    assert node_cleanup.of_users(held) == [] and "nvidia.com/gpu-driver-upgrade.skip" in node_cleanup.of_the_stack(held)
    assert node_cleanup.of_users(node(skip)) == [
        "nvidia.com/gpu-driver-upgrade.skip"
    ] and not node_cleanup.of_the_stack(node(skip))
    assert node_cleanup.change(node(skip), CleanupRequest(labels=True)).lines == []


def test_only_what_is_wished_goes() -> None:
    both = node({"nvidia.com/gpu.present": "true", "feature.node.kubernetes.io/pci-10de.present": "true"})
    assert node_cleanup.change(both, CleanupRequest(nfd=True)).lines == [
        "label feature.node.kubernetes.io/pci-10de.present"
    ]
    assert node_cleanup.change(both, CleanupRequest(labels=True)).lines == ["label nvidia.com/gpu.present"]
    assert node_cleanup.change(both, CleanupRequest()).lines == []


def test_the_patch_is_for_the_version_that_was_read() -> None:
    one = node({"nvidia.com/gpu.present": "true"}, {"nvidia.com/gpu-driver-upgrade-enabled": "true"})
    assert node_cleanup.change(one, CleanupRequest(labels=True)).patch(one) == {
        "metadata": {
            "labels": {"nvidia.com/gpu.present": None},
            "annotations": {"nvidia.com/gpu-driver-upgrade-enabled": None},
            "resourceVersion": "7",
        }
    }


def test_a_taint_of_ours_goes_and_one_of_somebody_else_stays() -> None:
    ours, other = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}, {"key": "team", "effect": "NoSchedule"}
    tainted = node({}, {"gpuops.nvidia/taints": '["nvidia.com/gpu:NoSchedule"]'}, taints=[ours, other])
    change = node_cleanup.change(tainted, CleanupRequest(taints=True))
    assert change.lines == ["taint nvidia.com/gpu:NoSchedule"]
    patch = change.patch(tainted) or {}
    assert patch["spec"] == {"taints": [other]} and patch["metadata"]["annotations"] == {"gpuops.nvidia/taints": None}


NOTE = "gpuops.nvidia/driver-rollout"
TURN = "turn 2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("labels", "notes", "is_lifted"),
    [
        ({STATE: "pod-restart-required"}, {}, True),
        ({STATE: "upgrade-failed"}, {}, True),
        ({STATE: "upgrade-done"}, {}, False),
        ({STATE: "upgrade-required"}, {}, False),
        ({}, {}, False),
        ({STATE: "upgrade-failed"}, {FOUND_CORDONED: "true"}, False),
        ({STATE: "upgrade-failed"}, {"gpuops.nvidia/maintenance.change": "x"}, False),
        ({STATE: "upgrade-failed"}, {"quarantineHealthEventIsCordoned": "True"}, False),
        ({STATE: "upgrade-failed"}, {"weave.works/kured-reboot-in-progress": "x"}, True),
        ({"nvidia.com/gpu.deploy.dcgm": "paused-for-driver-upgrade"}, {}, True),
        # The operator has removed its labels with its ClusterPolicy, and only our own notes say whose the cordon is.
        ({}, {NOTE: TURN}, True),
        ({}, {NOTE: f"{TURN} found cordoned"}, False),
        ({}, {NOTE: "held 2026-01-01T00:00:00Z"}, False),
        ({}, {NOTE: "done 2026-01-01T00:00:00Z"}, False),
        ({}, {"gpuops.nvidia/uninstall": "uncordon"}, True),
        ({}, {NOTE: TURN, "gpuops.nvidia/maintenance.change": "x"}, False),
        ({}, {NOTE: TURN, "quarantineHealthEventIsCordoned": "True"}, False),
    ],
)
def test_a_cordon_goes_only_if_an_upgrade_has_left_it(labels: dict, notes: dict, is_lifted: bool) -> None:
    cordoned = node(labels, notes, unschedulable=True)
    assert node_cleanup.lifts_cordon(cordoned, {}) is is_lifted
    change = node_cleanup.change(cordoned, CleanupRequest(cordons=True))
    assert any("cordon" in line for line in change.lines) is is_lifted
    assert ("spec" in (change.patch(cordoned) or {})) is is_lifted
    assert not node_cleanup.lifts_cordon(node(labels, notes), {})
    assert not node_cleanup.change(cordoned, CleanupRequest(labels=True, nfd=True)).uncordons
    noted = node_cleanup.note_patch(cordoned, {})
    assert bool(noted) is (is_lifted and "gpuops.nvidia/uninstall" not in notes)
    assert noted is None or node_cleanup.lifts_cordon(node({}, {**notes, **noted["metadata"]["annotations"]},
                                                           unschedulable=True), {})  # fmt: skip


def test_a_cordon_that_another_maintainer_needs_stays_and_is_named() -> None:
    kured = {"gpu-0000": (Holder("kured", "lock on DaemonSet kured"),)}
    cordoned = node({}, {NOTE: TURN, "gpuops.nvidia/uninstall": "uncordon"}, unschedulable=True)
    wishes = CleanupRequest(cordons=True, elsewhere=kured)
    assert node_cleanup.change(cordoned, wishes).patch(cordoned) is None
    assert node_cleanup.stays_cordoned(cordoned, kured) == "kured (lock on DaemonSet kured)"
    assert node_cleanup.stays_cordoned(cordoned, {}) == ""


@pytest.mark.parametrize(
    ("notes", "reason"),
    [
        ({"gpuops.nvidia/maintenance.mig": "x"}, "maintenance (mig)"),
        ({NOTE: f"{TURN} found cordoned"}, wording("a reason that was there before its driver upgrade")),
        ({"gpuops.nvidia/left-cordoned": "kured"}, wording("a reason that was there before its driver upgrade")),
        ({FOUND_CORDONED: "true"}, wording("a reason that was there before its driver upgrade")),
        ({}, ""),
        ({NOTE: TURN}, ""),
    ],
)
def test_a_node_with_our_mark_that_stays_cordoned_has_a_reason(notes: dict, reason: str) -> None:
    assert node_cleanup.stays_cordoned(node({}, notes, unschedulable=True), {}) == reason
    assert node_cleanup.stays_cordoned(node({}, notes), {}) == ""


def test_what_an_upgrade_has_paused_is_set_back_with_its_cordon() -> None:
    skip, dcgm = "nvidia.com/gpu-driver-upgrade.skip", "nvidia.com/gpu.deploy.dcgm"
    left = node({skip: "true", dcgm: "paused-for-driver-upgrade"}, {NOTE: TURN}, unschedulable=True)
    change = node_cleanup.change(left, CleanupRequest(cordons=True))
    assert change.labels == {skip: None, dcgm: "true"} and change.annotations == [NOTE]
    assert change.lines == [
        f"label {skip}",
        f"pause of label {dcgm}",
        f"annotation {NOTE}",
        wording("cordon of the driver upgrade"),
    ]


def test_the_note_of_a_removal_goes_with_a_cordon_that_somebody_else_has_lifted() -> None:
    free = node({}, {"gpuops.nvidia/uninstall": "uncordon"})
    change = node_cleanup.change(free, CleanupRequest(cordons=True))
    assert change.annotations == ["gpuops.nvidia/uninstall"] and not change.uncordons


@pytest.mark.parametrize(
    ("labels", "notes", "state"),
    [
        ({STATE: "pod-restart-required"}, {}, "pod-restart-required"),
        ({STATE: "upgrade-required"}, {NOTE: TURN}, "upgrade-required"),
        ({STATE: "upgrade-required"}, {}, ""),
        ({STATE: "upgrade-failed"}, {}, ""),
        ({}, {NOTE: TURN}, ""),
    ],
)
def test_an_upgrade_that_has_begun_and_not_ended_is_cut_off(labels: dict, notes: dict, state: str) -> None:
    assert node_cleanup.in_upgrade(node(labels, notes)) == state


@pytest.mark.parametrize(
    ("mark", "is_ours"), [("four 2026-01-01T00:00:00Z", True), ("two 2026-01-01T00:00:00Z", False), (None, False)]
)
def test_a_sharing_label_goes_if_our_mark_has_its_value(mark: str | None, is_ours: bool) -> None:
    key, notes = "nvidia.com/device-plugin.config", {"gpuops.nvidia/sharing": mark} if mark else {}
    shared = node({key: "four"}, notes)
    change = node_cleanup.change(shared, CleanupRequest(labels=True))
    assert change.labels == ({key: None} if is_ours else {}) and change.annotations == [*notes]
    assert node_cleanup.of_users(shared) == ([] if is_ours else [key])
    assert (key in node_cleanup.of_the_stack(shared)) is is_ours


@pytest.mark.parametrize(
    ("layout", "mark", "is_ours"),
    [
        ("all-1g.10gb", "all-1g.10gb", True),
        ("all-1g.10gb", "all-2g.20gb", False),
        ("all-1g.10gb", None, False),
    ],
)
def test_a_layout_goes_if_our_mark_has_its_name_and_our_notes_always_go(
    layout: str, mark: str | None, is_ours: bool
) -> None:
    key, notes = "nvidia.com/mig.config", {"gpuops.nvidia/gpus": "8", "gpuops.nvidia/gpu-product": "H100"}
    divided = node({key: layout}, {**notes, **({"gpuops.nvidia/mig": mark} if mark else {})})
    change = node_cleanup.change(divided, CleanupRequest(labels=True))
    assert change.labels == ({key: None} if is_ours else {})
    assert set(change.annotations) == set(divided["metadata"]["annotations"])
    assert node_cleanup.of_layouts(divided) == ([key] if is_ours else [])
    assert node_cleanup.of_users(divided) == ([] if is_ours else [key])
    assert (key in node_cleanup.of_the_stack(divided)) is is_ours


def test_whole_gpus_are_not_divided_and_their_label_counts_once() -> None:
    key = "nvidia.com/mig.config"
    whole = node({key: "all-disabled"}, {"gpuops.nvidia/mig": "all-disabled"})
    assert node_cleanup.of_layouts(whole) == []
    assert node_cleanup.of_the_stack(whole) == [key, "gpuops.nvidia/mig"]
