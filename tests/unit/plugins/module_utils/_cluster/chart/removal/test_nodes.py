# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal import nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.removal.nodes import Wishes

STATE = "nvidia.com/gpu-driver-upgrade-state"
FOUND_CORDONED = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"


def node(labels: dict | None = None, notes: dict | None = None, **spec: t.Any) -> dict:
    metadata = {"name": "gpu-0000", "resourceVersion": "7", "labels": labels or {}, "annotations": notes or {}}
    return {"metadata": metadata, "spec": spec}


def test_a_node_that_the_stack_never_touched_gets_no_patch() -> None:
    plain = node({"kubernetes.io/hostname": "x", "example.com/nvidia.com": "y"}, {"example.com/note": "mine"})
    change = nodes.change(plain, Wishes(labels=True, nfd=True, taints=True))
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
    labels = nodes.change(node({key: value}), Wishes(labels=True)).labels
    assert labels == {"goes": {key: None}, "stays": {}, "mine": {key: "mine"}}[wanted]
    assert nodes.of_users(node({key: value})) == ([] if wanted == "goes" else [key])
    assert bool(nodes.of_the_stack(node({key: value}))) == (wanted != "stays")


def test_what_a_rollout_of_ours_holds_is_let_go_and_what_a_user_holds_is_not() -> None:
    skip = {"nvidia.com/gpu-driver-upgrade.skip": "true"}
    ours = nodes.change(node(skip, {"gpuops.nvidia/driver-rollout": "held"}), Wishes(labels=True))
    assert ours.labels == {"nvidia.com/gpu-driver-upgrade.skip": None}
    assert ours.annotations == ["gpuops.nvidia/driver-rollout"]
    held = node(skip, {"gpuops.nvidia/driver-rollout": "held"})
    assert nodes.of_users(held) == [] and "nvidia.com/gpu-driver-upgrade.skip" in nodes.of_the_stack(held)
    assert nodes.of_users(node(skip)) == ["nvidia.com/gpu-driver-upgrade.skip"] and not nodes.of_the_stack(node(skip))
    assert nodes.change(node(skip), Wishes(labels=True)).lines == []


def test_only_what_is_wished_goes() -> None:
    both = node({"nvidia.com/gpu.present": "true", "feature.node.kubernetes.io/pci-10de.present": "true"})
    assert nodes.change(both, Wishes(nfd=True)).lines == ["label feature.node.kubernetes.io/pci-10de.present"]
    assert nodes.change(both, Wishes(labels=True)).lines == ["label nvidia.com/gpu.present"]
    assert nodes.change(both, Wishes()).lines == []


def test_the_patch_is_for_the_version_that_was_read() -> None:
    one = node({"nvidia.com/gpu.present": "true"}, {"nvidia.com/gpu-driver-upgrade-enabled": "true"})
    assert nodes.change(one, Wishes(labels=True)).patch(one) == {
        "metadata": {
            "labels": {"nvidia.com/gpu.present": None},
            "annotations": {"nvidia.com/gpu-driver-upgrade-enabled": None},
            "resourceVersion": "7",
        }
    }


def test_a_taint_of_ours_goes_and_one_of_somebody_else_stays() -> None:
    ours, other = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}, {"key": "team", "effect": "NoSchedule"}
    tainted = node({}, {"gpuops.nvidia/taints": '["nvidia.com/gpu:NoSchedule"]'}, taints=[ours, other])
    change = nodes.change(tainted, Wishes(taints=True))
    assert change.lines == ["taint nvidia.com/gpu:NoSchedule"]
    patch = change.patch(tainted) or {}
    assert patch["spec"] == {"taints": [other]} and patch["metadata"]["annotations"] == {"gpuops.nvidia/taints": None}


@pytest.mark.parametrize(
    ("labels", "notes", "is_stranded"),
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
    ],
)
def test_a_cordon_goes_only_if_the_stack_has_left_it(labels: dict, notes: dict, is_stranded: bool) -> None:
    cordoned = node(labels, notes, unschedulable=True)
    assert nodes.is_stranded(cordoned) is is_stranded
    change = nodes.change(cordoned, Wishes(labels=True))
    assert ("cordon of the driver upgrade" in change.lines) is is_stranded
    assert ("spec" in (change.patch(cordoned) or {})) is is_stranded
    assert not nodes.is_stranded(node(labels, notes))
    assert not nodes.change(cordoned, Wishes(nfd=True)).uncordons
