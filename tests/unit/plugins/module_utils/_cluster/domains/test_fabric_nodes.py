# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains import fabric_nodes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains.fabric_nodes import FabricNode
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

from tests.unit.fakes.domains import LABEL, RACK, rack_node

NEW = (580, 95, 5)


def node(number: int, **changes: t.Any) -> FabricNode:
    given = {"clique": RACK, "driver": NEW, "domain": "", "has_channels": True, "is_cordoned": False, **changes}
    return FabricNode(name=f"gpu-{number}", **given)


def refused(needed: int, *nodes: FabricNode, in_one: bool = True, needs_newer: bool = True) -> GpuOpsError:
    with pytest.raises(GpuOpsError) as failure:
        fabric_nodes.refuse_too_few("research/job", needed, nodes, in_one, needs_newer)
    return failure.value


def allowed(needed: int, *nodes: FabricNode, in_one: bool = True, needs_newer: bool = True) -> list[str]:
    return fabric_nodes.refuse_too_few("research/job", needed, nodes, in_one, needs_newer)


@pytest.mark.parametrize(
    ("text", "numbers", "shown"),
    [
        ("570.158.01", (570, 158, 1), "570.158.01"),
        ("580.95.5", (580, 95, 5), "580.95.05"),
        ("565.77", (565, 77), "565.77"),
        ("570.158.01-1.el9", (570, 158, 1), "570.158.01"),
        ("", (), "unknown"),
        (None, (), "unknown"),
    ],
)
def test_labels_and_slices_write_a_version_differently(text: str | None, numbers: tuple[int, ...], shown: str) -> None:
    assert fabric_nodes.version(text) == numbers and fabric_nodes.shown(numbers) == shown


def test_a_node_is_described_by_its_labels_and_slices() -> None:
    label = {"nvidia.com/cuda.driver-version.full": "570.158.01"}
    labelled, taken = rack_node(0, **label), rack_node(1, clique="", **{LABEL: "other"})
    cordoned, far, other = {**rack_node(2), "spec": {"unschedulable": True}}, rack_node(3), rack_node(4, clique="")
    found = fabric_nodes.fabric_nodes(
        [labelled, taken, cordoned, far, other], {"gpu-0", "gpu-1", "gpu-2"}, {"gpu-1": "580.95.5"}
    )
    assert found == [
        node(0, driver=(570, 158, 1)),
        node(1, clique="", domain="other"),
        node(2, driver=(), is_cordoned=True),
        node(3, driver=(), has_channels=False),
    ]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"has_channels": False, "domain": "x"}, wording("the driver's plugin offers no channel there")),
        ({"domain": "x"}, "is in another ComputeDomain"),
        ({"is_cordoned": True}, "is cordoned"),
        ({"driver": (570, 158, 1)}, ""),
        ({"driver": ()}, ""),
        ({"driver": (570, 153, 2)}, "has driver 570.153.02, and ComputeDomains need 570.158.01"),
    ],
)
def test_why_a_domain_cannot_have_a_node(changes: t.Any, why: str) -> None:
    assert fabric_nodes.why_not(node(0, **changes), needs_newer=True) == why


def test_without_dns_names_an_older_driver_serves() -> None:
    assert fabric_nodes.why_not(node(0, driver=(565, 77)), needs_newer=False) == ""
    assert allowed(1, node(0, driver=(565, 77)), needs_newer=False) == []


def test_the_nodes_of_one_clique_and_one_driver_count() -> None:
    newer, other = {"driver": (590, 1, 1)}, {"clique": "1a2b.2"}
    nodes = [node(0), node(1), node(2, **newer), node(3, **other), node(4, domain="x")]
    assert [(row.clique, row.nodes, row.free) for row in fabric_nodes.rows(nodes, True)] == [
        (RACK, 4, 2),
        ("1a2b.2", 1, 1),
    ]
    assert fabric_nodes.rows(nodes, True)[0].as_result()["drivers"] == ["580.95.05", "590.1.01"]
    assert allowed(2, *nodes) == wording(
        ["Nodes of the NVLink clique 1a2b.1 have different drivers. Pods need nodes with one."]
    )
    failure = refused(3, *nodes)
    assert failure.reason == "ChecksFailed" and [row["free"] for row in failure.details["cliques"]] == [2, 1]
    assert failure.msg == wording(
        "ComputeDomain research/job needs 3 free nodes of one NVLink clique with one version of the driver, and 2 are there. Left out: gpu-4 (is in another ComputeDomain). Free nodes, update their drivers to one version, give a smaller num_nodes, or let it span cliques with one_clique: false."
    )
    assert allowed(3, *nodes, in_one=False) == allowed(2, *nodes)
    assert "one_clique" not in refused(4, *nodes, in_one=False).msg


def test_a_single_node_needs_no_smaller_number() -> None:
    failure = refused(1, node(0, is_cordoned=True))
    message = failure.msg
    assert failure.details["cliques"] == [{"clique": RACK, "nodes": 1, "free": 0, "drivers": ["580.95.05"]}]
    assert (
        "and 0 are there" in message
        and "gpu-0 (is cordoned)" in message
        and "num_nodes" not in message
        and "one_clique" not in message
    )


def test_no_node_offers_channels() -> None:
    assert "and 0 are there" in refused(1).msg and "container compute-domains" in refused(1).msg


def test_two_nodes_are_fewer_or_of_two_cliques() -> None:
    message = refused(2, node(0)).msg
    assert "num_nodes" in message and "one_clique: false" in message


def test_nodes_without_a_clique_count_only_if_none_is_known() -> None:
    assert "Without the label nvidia.com/gpu.clique: gpu-1." in refused(2, node(0), node(1, clique="")).msg
    assert allowed(2, node(0, clique=""), node(1, clique="")) == wording(
        [
            "No node has the label nvidia.com/gpu.clique, so whether nodes reach each other over NVLink is unknown. The DRA driver's plugin sets it with GPU_CLIQUE_LABEL_ENABLED=true, and GPU Feature Discovery does."
        ]
    )


def test_an_unknown_driver_counts_and_is_said() -> None:
    assert allowed(2, node(0), node(1, driver=())) == wording(
        [
            "The driver's version is unknown on gpu-1. ComputeDomains need 570.158.01 or newer, and one version in a clique."
        ]
    )
    assert allowed(1, node(0), node(1, driver=(), domain="x")) != [], "the drivers of the clique differ or are unknown"
