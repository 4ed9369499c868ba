# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.disruption import Interruption
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.checks import placing
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.driver_request import (
    DriverRequest,
    Move,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.drivers_view import DriversView
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.impact import AT_ONCE, Effect
from inline_snapshot import snapshot as wording

from tests.unit.fakes.stack import node, workload

SKIP = "nvidia.com/gpu-driver-upgrade.skip"


def seen(line: tuple[int, int] | None = (26, 7), spec: dict | None = None, nodes: int = 2) -> DriversView:
    policy = {"metadata": {"name": "cluster-policy"}, "spec": spec or {}}
    made = DriversView("gpu-operator", policy, None, [], True, [node(number) for number in range(nodes)], [], None, 0.0)
    made.__dict__["line"] = line
    return made


def driver(name: str, **spec: t.Any) -> dict:
    return {"metadata": {"name": name}, "spec": spec}


def owners(*drivers: dict) -> list[tuple[str, str]]:
    return [(item.level, item.message) for item in placing.owners(drivers, seen())]


def moving(move: Move, sight: DriversView) -> list[t.Any]:
    return list(placing.move(DriverRequest("NVIDIADriver", {}, {}, move=move), sight))


def test_each_node_with_one_driver_is_ok() -> None:
    assert owners(driver("a", default=True)) == [
        ("ok", wording("Each of 2 nodes belongs to exactly one NVIDIADriver."))
    ]


def test_conflicts_name_the_drivers_and_what_follows() -> None:
    ((level, message),) = owners(driver("a"), driver("b"))[:1]
    assert level == "failure" and message.startswith("NVIDIADrivers a, b all select node gpu-0000. The operator then")
    assert owners(driver("a", default=True), driver("b", default=True))[0][1].startswith("NVIDIADrivers a, b all have")
    reserved = driver("a", nodeSelector={"nvidia.com/gpu-operator.driver.owner": "a"})
    assert "which is reserved" in owners(reserved)[0][1]


def test_nodes_without_a_driver_and_drivers_without_a_node_are_found() -> None:
    found = owners(driver("a", nodeSelector={"pool": "none"}))
    assert [level for level, dummy in found] == ["failure", "warning"] and found[1][1] == wording(
        "No node belongs to NVIDIADriver a, which is reported as ready all the same."
    )


def test_nothing_is_said_about_a_move_that_does_not_happen() -> None:
    assert moving("", seen((25, 10))) == []


def test_only_a_new_operator_lets_the_pods_stay() -> None:
    (found,) = moving("to NVIDIADriver", seen((26, 3)))
    assert found.level == "failure" and "The operator is v26.3. Before v26.7" in found.message
    assert "an unknown version" in moving("to NVIDIADriver", seen(None))[0].message
    assert [item.level for item in moving("to NVIDIADriver", seen())] == ["ok"]
    assert [item.level for item in moving("to ClusterPolicy", seen((26, 3)))] == ["ok"]


def test_nodes_that_a_user_keeps_are_told_and_ours_are_not() -> None:
    sight = seen()
    for item in sight.nodes:
        item["metadata"]["labels"][SKIP] = "true"
    sight.nodes[1]["metadata"]["annotations"] = {"gpuops.nvidia/driver-rollout": "held"}
    found = moving("to NVIDIADriver", sight)
    assert [item.level for item in found] == ["warning", "ok"] and found[0].nodes == ("gpu-0000",)


def test_a_cluster_with_virtual_machines_is_moved_by_hand() -> None:
    (found,) = moving("to NVIDIADriver", seen(spec={"sandboxWorkloads": {"enabled": True}}))
    assert found.level == "failure" and found.message == wording(
        "sandboxWorkloads.enabled switches the operator's upgrades off, so no driver pod would be replaced."
    )


def test_nodes_between_two_nvidiadrivers_must_be_empty() -> None:
    change = Interruption("the driver's owner", "NVIDIADriver a", "NVIDIADriver b", AT_ONCE)
    effects = [Effect("gpu-0000", "replace", changes=(change,)), Effect("gpu-0001", "replace")]
    (found,) = placing.emptiness(effects, [workload("a"), workload("b", number=1)])
    assert "default/a" in found.message and "default/b" not in found.message and found.nodes == ("gpu-0000",)
    assert list(placing.emptiness(effects, None)) == [] and list(placing.emptiness(effects, [])) == []


def test_nodes_without_a_driver_are_not_called_covered() -> None:
    one = [node(0), node(1)]
    one[1]["metadata"]["labels"]["pool"] = "b"
    sight = seen()
    sight.gpu_nodes[:] = one
    found = [item.level for item in placing.owners([driver("a", nodeSelector={"pool": "b"})], sight)]
    assert found == ["failure"]
