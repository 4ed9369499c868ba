# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance.identity import (
    Match,
    find_all,
    without_cluster,
)
from inline_snapshot import snapshot as wording

KUBELET = {"present": True, "active": True, "by": "the process kubelet"}
REMEDY = (
    "Check that this is its cluster (gpuops_kubeconfig, gpuops_context, K8S_AUTH_*), name the node in "
    "host_change_node, or leave out the drain with host_change_drain: false."
)


def node(name: str, machine_id: str = "", uuid: str = "", address: str = "", **labels: str) -> dict[str, t.Any]:
    addresses = [{"type": "InternalIP", "address": address}] if address else []
    info = {"machineID": machine_id, "systemUUID": uuid}
    return {"metadata": {"name": name, "labels": labels}, "status": {"nodeInfo": info, "addresses": addresses}}


def host(name: str = "gpu1", kubelet: dict[str, t.Any] | None = None, **facts: t.Any) -> dict[str, t.Any]:
    return {"name": name, "names": [name], "kubelet": kubelet or {"present": False}, **facts}


def found(match: Match) -> tuple[str | None, tuple[str, ...]]:
    assert not match.failure
    return (match.node["metadata"]["name"] if match.node else None), match.by


EVERYTHING = {"machine_id": "m1", "system_uuid": "u1", "addresses": ["10.0.0.1", "fd00::1"]}


@pytest.mark.parametrize(
    ("nodes", "facts", "expected"),
    [
        pytest.param(
            [node("ip-10-0-0-1", "m1", "U1", "10.0.0.1"), node("gpu2", "m2", "u2", "10.0.0.2")],
            EVERYTHING,
            ("ip-10-0-0-1", ("machine ID", "system UUID", "address")),
            id="another name",
        ),
        pytest.param([node("gpu1")], EVERYTHING, ("gpu1", ("name",)), id="a node that says nothing but its name"),
        pytest.param([node("GPU1.example.com")], {}, ("GPU1.example.com", ("name",)), id="a full name"),
        pytest.param([node("x", **{"kubernetes.io/hostname": "gpu1"})], {}, ("x", ("name",)), id="the label"),
        pytest.param([node("x", address="fd00::1")], EVERYTHING, ("x", ("address",)), id="IPv6 only"),
        pytest.param([node("gpu1", "m9", "u9", "10.0.0.9")], EVERYTHING, (None, ()), id="a reused name"),
        pytest.param(
            [node("gpu0", "m1", "u0", "10.0.0.0"), node("gpu1", "m1", "u1", "10.0.0.1")],
            EVERYTHING,
            ("gpu1", ("machine ID", "system UUID", "address", "name")),
            id="cloned machine IDs",
        ),
        pytest.param([node("gpu0", "m1", "u0", "10.0.0.0")], EVERYTHING, (None, ()), id="only the clone is a node"),
        pytest.param(
            [node("gpu1", "m-old", "u1", "10.0.0.1")],
            EVERYTHING,
            ("gpu1", ("system UUID", "address", "name")),
            id="reinstalled",
        ),
        pytest.param(
            [node(f"gpu{n}", f"m{n}", "u1", f"10.0.0.{n}") for n in (1, 2)],
            EVERYTHING,
            ("gpu1", ("machine ID", "system UUID", "address", "name")),
            id="firmware with one UUID for all",
        ),
        pytest.param([], EVERYTHING, (None, ()), id="no node at all"),
    ],
)
def test_the_node_is_found_by_what_agrees(
    nodes: list[dict[str, t.Any]], facts: dict[str, t.Any], expected: tuple[str | None, tuple[str, ...]]
) -> None:
    assert found(find_all(nodes, [host(**facts)])["gpu1"]) == expected


def test_two_full_names_must_be_equal() -> None:
    nodes = [node("gpu1.rack2.example.com")]
    assert found(find_all(nodes, [host("gpu1.rack1.example.com")])["gpu1.rack1.example.com"]) == (None, ())
    assert (
        found(find_all(nodes, [host("gpu1.rack2.example.com")])["gpu1.rack2.example.com"])[0]
        == nodes[0]["metadata"]["name"]
    )
    assert found(find_all(nodes, [host("gpu1")])["gpu1"])[0] == "gpu1.rack2.example.com"


def test_a_kubelet_without_a_node_is_a_failure_that_names_what_comes_near() -> None:
    nodes = [node("gpu-01", "m9", "u9", "10.0.0.9"), node("db-1")]
    match = find_all(nodes, [host("gpu01", KUBELET, **EVERYTHING)])["gpu01"]
    assert match.failure == (
        wording(
            "gpu01 runs a kubelet (the process kubelet), and no node of the cluster fits it (similar: gpu-01). Check that this is its cluster (gpuops_kubeconfig, gpuops_context, K8S_AUTH_*), name the node in host_change_node, or leave out the drain with host_change_drain: false."
        )
    )


def test_a_kubelet_whose_name_is_another_machines_is_told_so() -> None:
    left = {"present": True, "active": False, "by": "/var/lib/kubelet/pki"}
    match = find_all([node("gpu1", "m9", "u9", "10.0.0.9")], [host("gpu1", left, **EVERYTHING)])["gpu1"]
    assert match.failure == (
        wording(
            "gpu1 has a kubelet (/var/lib/kubelet/pki), and no node of the cluster fits it: gpu1 has the same name, but another machine ID and system UUID and address. Check that this is its cluster (gpuops_kubeconfig, gpuops_context, K8S_AUTH_*), name the node in host_change_node, or leave out the drain with host_change_drain: false."
        )
    )


def test_the_users_word_wins() -> None:
    nodes = [node("gpu1", "m1", "u1", "10.0.0.1"), node("other")]
    assert found(find_all(nodes, [host(node="other", **EVERYTHING)])["gpu1"]) == ("other", ("your word",))
    assert found(find_all(nodes, [host(node="gone")])["gpu1"]) == (None, ())
    assert find_all(nodes, [host(kubelet=KUBELET, node="othr")])["gpu1"].failure == (
        wording(
            "gpu1 runs a kubelet (the process kubelet), and the cluster has no node othr (similar: other). Check that this is its cluster (gpuops_kubeconfig, gpuops_context, K8S_AUTH_*), name the node in host_change_node, or leave out the drain with host_change_drain: false."
        )
    )


def test_a_host_that_may_be_two_nodes_is_not_guessed() -> None:
    nodes = [node("a", "m1"), node("b", "m1")]
    assert find_all(nodes, [host("gpu1", machine_id="m1", names=[])])["gpu1"].failure == (
        wording("gpu1 may be any of the nodes a, b. Name the right one in host_change_node.")
    )


def test_two_hosts_that_would_be_one_node_are_refused() -> None:
    hosts = [host("gpu1", addresses=["10.0.0.1"]), host("vip", addresses=["10.0.0.1"], names=["gpu1"]), host("x")]
    matches = find_all([node("gpu1", address="10.0.0.1")], hosts)
    message = wording("gpu1, vip would all be the node gpu1. Name their nodes in host_change_node.")
    assert [matches[name].failure for name in ("gpu1", "vip", "x")] == [message, message, ""]


def test_without_any_cluster_only_a_kubelet_is_a_riddle() -> None:
    matches = without_cluster([host("bare"), host("gpu1", KUBELET)])
    assert matches["bare"] == Match()
    assert matches["gpu1"].failure == (
        wording(
            "Cannot tell which node gpu1 is: it runs a kubelet (the process kubelet), and no cluster is configured. Set "
            "gpuops_kubeconfig, gpuops_context or K8S_AUTH_*, or leave out the drain with host_change_drain: false."
        )
    )


def test_a_thousand_hosts_find_their_nodes() -> None:
    numbers = range(1000)
    nodes = [node(f"ip-{n}", f"m{n}", "same", f"10.0.{n // 250}.{n % 250}") for n in numbers]
    hosts = [
        host(f"gpu{n}", KUBELET, machine_id=f"m{n}", system_uuid="same", addresses=[f"10.0.{n // 250}.{n % 250}"])
        for n in numbers
    ]
    matches = find_all(nodes, hosts)
    assert [found(matches[f"gpu{n}"])[0] for n in (0, 999)] == ["ip-0", "ip-999"]
