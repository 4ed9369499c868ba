# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import pools

from tests.unit.fakes.stack import cpu_node, node

OS_ID = "feature.node.kubernetes.io/system-os_release.ID"
OS_VERSION = "feature.node.kubernetes.io/system-os_release.VERSION_ID"
LINE = (26, 7)


def labelled(number: int, **labels: t.Any) -> dict:
    made = node(number)
    made["metadata"]["labels"] |= {key.replace("__", "/"): value for key, value in labels.items()}
    return made


def on(number: int, system: str, version: str) -> dict:
    made = node(number)
    made["metadata"]["labels"] |= {OS_ID: system, OS_VERSION: version}
    return made


def driver(name: str, **spec: t.Any) -> dict:
    own = {"repository": "nvcr.io/nvidia", "image": "driver", "version": "595.91.07", "default": False}
    return {"metadata": {"name": name}, "spec": {**own, **spec}}


def names(nodes: t.Iterable[dict]) -> list[str]:
    return [item["metadata"]["name"] for item in nodes]


@pytest.mark.parametrize(
    ("value", "has"), [("true", True), ("paused-for-driver-upgrade", True), ("false", False), ("pre-installed", False)]
)
def test_driver_containers_run_where_the_operator_wants_them(value: str, has: bool) -> None:
    made = node()
    made["metadata"]["labels"]["nvidia.com/gpu.deploy.driver"] = value
    assert pools.has_driver_container(made) is has


def test_a_node_without_gpus_or_switched_off_has_no_driver_container() -> None:
    assert not pools.has_driver_container(cpu_node())
    made = node()
    made["metadata"]["labels"]["nvidia.com/gpu.deploy.operands"] = "false"
    assert not pools.has_driver_container(made)


def test_a_node_belongs_to_the_driver_that_selects_it_or_to_the_default() -> None:
    drivers = [driver("rest", default=True), driver("a", nodeSelector={"pool": "a"})]
    found = pools.owners(drivers, [labelled(0, pool="a"), node(1)])
    assert found == pools.Owners({"gpu-0000": "a", "gpu-0001": "rest"})


def test_conflicts_and_uncovered_nodes_are_found() -> None:
    drivers = [driver("a", nodeSelector={"pool": "a"}), driver("b", nodeSelector={"zone": "b"})]
    nodes = [labelled(0, pool="a", zone="b"), labelled(1, pool="a", zone="b"), node(2)]
    found = pools.owners(drivers, nodes)
    assert found.overlaps == {"gpu-0000": ["a", "b"]}, "one example for each pair"
    assert names(found.uncovered) == ["gpu-0002"] and found.defaults == () and found.reserved == ()
    reserved = driver("c", nodeSelector={"nvidia.com/gpu-operator.driver.owner": "c"})
    found = pools.owners([driver("a", default=True), driver("b", default=True), reserved], nodes)
    assert found.defaults == ("a", "b") and found.reserved == ("c",) and found.of["gpu-0000"] == "a"


def test_a_driver_without_a_selector_takes_every_node() -> None:
    found = pools.owners([driver("all"), driver("a", nodeSelector={"pool": "a"})], [labelled(0, pool="a")])
    assert found.overlaps == {"gpu-0000": ["a", "all"]}


def test_nvidiadrivers_have_a_pool_for_each_system_and_kernel() -> None:
    nodes = [on(0, "ubuntu", "24.04"), on(1, "rhel", "9.4"), on(2, "rhel", "9.6"), on(3, "ubuntu", "22.04")]
    found = pools.of_drivers([driver("all", default=True)], nodes, LINE)
    assert [(pool.system, names(pool.nodes)) for pool in found] == [
        ("rhel9", ["gpu-0001", "gpu-0002"]), ("ubuntu22.04", ["gpu-0003"]), ("ubuntu24.04", ["gpu-0000"]),
    ]  # fmt: skip
    assert len(pools.of_drivers([driver("all", default=True)], nodes, (26, 3))) == 4
    nodes[0]["metadata"]["labels"]["feature.node.kubernetes.io/kernel-version.full"] = "6.8.0-99-generic"
    found = pools.of_drivers([driver("all", default=True, usePrecompiled=True, version="595")], nodes, LINE)
    assert [pool.kernel for pool in found] == ["6.8.0-31-generic", "6.8.0-31-generic", "6.8.0-99-generic"]
    assert found[2].images == ["nvcr.io/nvidia/driver:595-6.8.0-99-generic-ubuntu24.04"]


def test_a_clusterpolicy_has_the_system_of_its_first_node_for_all() -> None:
    nodes = [on(1, "rhel", "9.4"), on(0, "ubuntu", "24.04")]
    (pool,) = pools.of_policy("cluster-policy", driver("x")["spec"], nodes, LINE)
    assert pool.system == "ubuntu24.04" and names(pools.misfits(pool, LINE)) == ["gpu-0001"]
    assert str(pool.source) == "ClusterPolicy cluster-policy" and pools.of_policy("x", {}, [], LINE) == []
    (pool,) = pools.of_policy("cluster-policy", driver("x", version="sha256:abc")["spec"], nodes, LINE)
    assert pools.misfits(pool, LINE) == [], "a digest is for no system that its name would tell"


def test_the_architectures_of_a_pool_are_those_of_its_nodes() -> None:
    nodes = [node(0), node(1)]
    nodes[0]["status"]["nodeInfo"]["architecture"] = "arm64"
    (pool,) = pools.of_policy("cluster-policy", driver("x")["spec"], nodes, LINE)
    assert pool.architectures == {"arm64"}


def test_nodes_without_labels_of_their_system_are_found() -> None:
    bare = node()
    del bare["metadata"]["labels"][OS_VERSION]
    assert names(pools.unlabelled([bare, node(1)])) == ["gpu-0000"]
