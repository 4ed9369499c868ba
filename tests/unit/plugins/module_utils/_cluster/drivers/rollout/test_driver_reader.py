# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import waiting
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_node import DriverNode
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_reader import (
    DriverReader,
    WantedDrivers,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_rollout import fleet_of
from inline_snapshot import snapshot as wording

from tests.unit.fakes import stack
from tests.unit.fakes.upgrades.drivers import NEW, OLD, DriverCluster, asked, driver_pod

ZERO, ONE = "gpu-0000", "gpu-0001"


def reader(cluster: DriverCluster, wanted: WantedDrivers | None = None) -> tuple[DriverReader, dict[str, DriverNode]]:
    cluster.operator_runs = False
    made = DriverReader(cluster.typed, wanted or WantedDrivers(stack.NAMESPACE))
    return made, made.look(fleet_of(cluster.typed, asked(), waiting.Noted()))


def test_nodes_without_a_driver_container_are_not_seen() -> None:
    cluster = DriverCluster(2)
    cluster.items[ONE]["metadata"]["labels"]["nvidia.com/gpu.deploy.driver"] = "pre-installed"
    cluster.pods = {key: pod for key, pod in cluster.pods.items() if ONE not in key}
    assert list(reader(cluster)[1]) == [ZERO]


def test_what_has_not_changed_is_the_same_object() -> None:
    cluster = DriverCluster(2)
    made, first = reader(cluster)
    fleet = fleet_of(cluster.typed, asked(), waiting.Noted())
    second = made.look(fleet)
    assert second[ZERO] is first[ZERO]
    cluster.items[ONE]["spec"] = {"unschedulable": True}
    third = made.look(fleet)
    assert third[ZERO] is first[ZERO] and third[ONE] is not first[ONE]


def test_a_pod_that_was_left_behind_counts_for_the_daemonset_that_takes_its_place() -> None:
    cluster = DriverCluster(1)
    cluster.pods[f"nvidia-driver-daemonset-{ZERO}-{OLD}"]["metadata"]["ownerReferences"] = []
    seen = reader(cluster)[1][ZERO]
    assert seen.driver.name == "nvidia-driver-daemonset" and not seen.is_current


def test_a_pod_without_any_daemonset_is_still_seen() -> None:
    cluster = DriverCluster(1)
    cluster.list = lambda path, **selectors: [cluster.policy] if "clusterpolicies" in path else []  # type: ignore[assignment]
    assert reader(cluster)[1][ZERO].driver.name == ""


def test_of_two_pods_the_one_that_stays_counts() -> None:
    cluster = DriverCluster(1)
    ending = driver_pod(ZERO, "590.1")
    ending["metadata"] |= {"deletionTimestamp": stack.LONG_AGO, "creationTimestamp": "2026-12-01T00:00:00Z"}
    cluster.add(ending)
    pod = reader(cluster)[1][ZERO].pod
    assert pod is not None and pod.revision == OLD


def test_a_daemonset_with_more_or_fewer_pods_blocks_the_operator() -> None:
    cluster = DriverCluster(2)
    assert reader(cluster)[1][ZERO].blocked == ""
    cluster.daemonset["status"]["desiredNumberScheduled"] = 1
    cluster.items[ONE]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    assert f"has 2 pods for 1 nodes ({ONE} is down: repair it" in reader(cluster)[1][ZERO].blocked
    cluster.daemonset["status"]["desiredNumberScheduled"] = 2
    cluster.pods = {key: pod for key, pod in cluster.pods.items() if f"daemonset-{ONE}" not in key}
    assert f"has 1 pods for 2 nodes (none on {ONE})" in reader(cluster)[1][ZERO].blocked


def test_the_declared_image_and_the_way_can_be_given() -> None:
    cluster = DriverCluster(1)
    seen = reader(cluster, WantedDrivers(stack.NAMESPACE, "", {ZERO: "other:1"}, automatic=False))[1][ZERO]
    assert seen.wanted_image == "other:1" and not seen.driver.automatic and seen.blocked == ""


def test_an_edit_counts_as_done_when_a_daemonset_shows_it_or_after_a_minute() -> None:
    cluster = DriverCluster(1)
    cluster.policy["metadata"]["creationTimestamp"] = "2027-01-15T07:59:50Z"  # ten seconds ago
    made, first = reader(cluster)
    assert not first[ZERO].has_acted
    cluster.clock += 60
    assert made.look(fleet_of(cluster.typed, asked(), waiting.Noted()))[ZERO].has_acted
    cluster.clock -= 60
    cluster.daemonset["metadata"]["creationTimestamp"] = "2027-01-15T07:59:51Z"
    assert reader(cluster)[1][ZERO].has_acted


def test_a_move_has_not_happened_while_the_daemonset_before_is_there() -> None:
    """The operator may write the new DaemonSet in the second of the last write, and remove the old one later."""
    cluster = DriverCluster(1)
    cluster.items[ZERO]["metadata"]["labels"]["nvidia.com/cuda.driver-version.full"] = NEW
    cluster.pods = {key: pod for key, pod in cluster.pods.items() if "driver" not in key}
    cluster.add(driver_pod(ZERO, NEW))
    seen = reader(cluster, WantedDrivers(stack.NAMESPACE, sources={ZERO: "NVIDIADriver b"}))[1][ZERO]
    assert seen.has_acted and seen.lacks(cluster.clock) == [
        wording("the operator to give it the driver of NVIDIADriver b")
    ]
    same = WantedDrivers(stack.NAMESPACE, sources={ZERO: "ClusterPolicy cluster-policy"})
    assert reader(cluster, same)[1][ZERO].lacks(cluster.clock) == []


def test_a_node_that_is_to_have_a_driver_is_seen_while_it_has_neither_a_pod_nor_a_daemonset() -> None:
    cluster = DriverCluster(1)
    cluster.pods, cluster.items[ZERO]["spec"] = {}, {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    cluster.list = lambda path, **selectors: [cluster.policy] if "clusterpolicies" in path else []  # type: ignore[assignment]
    assert reader(cluster)[1] == {}
    seen = reader(cluster, WantedDrivers(stack.NAMESPACE, sources={ZERO: "ClusterPolicy cluster-policy"}))[1][ZERO]
    assert seen.lacks(cluster.clock)[0] == wording("the operator to give it the driver of ClusterPolicy cluster-policy")
    assert seen.driver.kept_away_by(seen.node) == []
