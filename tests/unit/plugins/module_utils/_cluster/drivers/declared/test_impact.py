# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import impact
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.drivers_view import DriversView
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.impact import State
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import node

SPEC: dict[str, t.Any] = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "1.2.3"}
AUTOMATIC = {"upgradePolicy": {"autoUpgrade": True}}


def seen(line: tuple[int, int] | None = (26, 7), nodes: int = 1) -> DriversView:
    made = DriversView("gpu-operator", None, None, [], True, [node(number) for number in range(nodes)], [], None, 0.0)
    made.__dict__["line"] = line
    return made


def policy(**driver: t.Any) -> State:
    return State(
        "cluster-policy", {"driver": {**SPEC, **AUTOMATIC, **driver}}, [], bool(driver.get("useNvidiaDriverCRD"))
    )


def pools(*drivers: dict) -> State:
    return State("cluster-policy", {"driver": {"useNvidiaDriverCRD": True}}, list(drivers), True)


def driver(name: str = "default", **spec: t.Any) -> dict:
    return {"metadata": {"name": name}, "spec": {**SPEC, "default": not spec.get("nodeSelector"), **spec}}


def only(before: State, after: State, line: tuple[int, int] | None = (26, 7)) -> impact.Effect:
    (effect,) = impact.effects(before, after, seen(line))
    return effect


def test_another_version_replaces_the_driver() -> None:
    effect = only(policy(), policy(version="4.5.6"))
    assert effect.action == "replace" and effect.interrupts and effect.why == "driver.version changes"
    assert effect.image == "nvcr.io/nvidia/driver:4.5.6-ubuntu24.04" and effect.source == "ClusterPolicy cluster-policy"
    effect = only(pools(driver()), pools(driver(version="4.5.6", kernelModuleType="open")))
    assert effect.action == "replace" and effect.why.endswith("version change") and len(effect.changes) == 2


@pytest.mark.parametrize(("line", "action"), [((26, 7), "restart"), ((26, 3), "replace"), (None, "replace")])
def test_what_does_not_concern_the_driver_itself_starts_its_pod_again(line: t.Any, action: str) -> None:
    assert only(policy(), policy(imagePullPolicy="Always"), line).action == action
    assert only(pools(driver()), pools(driver(imagePullPolicy="Always")), line).action == action


def test_the_policy_of_upgrades_is_in_no_pod() -> None:
    assert only(policy(), policy(upgradePolicy={"autoUpgrade": True, "maxUnavailable": 3})).action == "nothing"
    assert only(pools(driver()), pools(driver(upgradePolicy={"maxUnavailable": 3}))).action == "nothing"


def test_without_automatic_upgrades_this_module_replaces_the_pods() -> None:
    off = {"upgradePolicy": {"autoUpgrade": False}}
    effect = only(policy(**off), policy(version="4.5.6", **off))
    assert effect.action == "replace" and effect.automatic is False
    effect = only(pools(driver(**off)), pools(driver(version="4.5.6", **off)))
    assert effect.action == "replace" and effect.automatic is False


def test_a_move_replaces_the_driver_of_every_node() -> None:
    effect = only(policy(), pools(driver()))
    assert (
        effect.action == "replace"
        and effect.why == "the driver moves from ClusterPolicy cluster-policy to NVIDIADriver default"
    )
    assert only(pools(driver()), policy()).action == "replace"


def test_a_node_that_changes_its_nvidiadriver_gets_the_other_driver_at_once() -> None:
    effect = only(pools(driver()), pools(driver(), driver("b", nodeSelector={"nvidia.com/gpu.present": "true"})))
    assert effect.action == "replace" and effect.changes[0].effect == impact.AT_ONCE


def test_a_node_that_nothing_has_any_more_loses_its_driver() -> None:
    effect = only(pools(driver()), pools())
    assert effect.action == "remove" and effect.interrupts and effect.source == ""
    assert only(pools(), pools()).action == "nothing"
    assert only(policy(enabled=False), policy()).why == wording(
        "ClusterPolicy cluster-policy installs a driver here for the first time"
    )


def test_nodes_without_changes_are_told_too() -> None:
    found = impact.effects(policy(), policy(), seen(nodes=2))
    assert [(effect.node, effect.action) for effect in found] == [("gpu-0000", "nothing"), ("gpu-0001", "nothing")]


def test_a_changed_module_beside_the_driver_replaces_it() -> None:
    before = State("p", {"driver": {**SPEC, **AUTOMATIC}, "gdrcopy": {"enabled": True, "version": "1"}}, [], False)
    after = State("p", {"driver": {**SPEC, **AUTOMATIC}, "gdrcopy": {"enabled": True, "version": "2"}}, [], False)
    assert only(before, after).why == "gdrcopy.version changes"


def test_a_node_that_loses_its_owner_has_no_new_one() -> None:
    labelled = driver("a", nodeSelector={"pool": "a"})
    sight = seen()
    sight.gpu_nodes[0]["metadata"]["labels"]["pool"] = "a"
    (effect,) = impact.effects(pools(labelled), pools(driver("a", nodeSelector={"pool": "b"})), sight)
    (change,) = effect.changes
    assert (effect.action, change.before, change.after) == ("remove", "NVIDIADriver a", None)
