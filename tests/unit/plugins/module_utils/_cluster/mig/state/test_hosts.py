# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state import hosts
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import parted, table

from tests.unit.fakes.stack import cpu_node, node

KEYS = {"product": "nvidia.com/gpu.product", "count": "nvidia.com/gpu.count", "capable": "nvidia.com/mig.capable"}


def labelled(number: int = 0, **labels: str | None) -> dict[str, t.Any]:
    made = node(number)
    for name, value in labels.items():
        made["metadata"]["labels"][KEYS.get(name, name)] = value
    made["metadata"]["labels"] = {k: v for k, v in made["metadata"]["labels"].items() if v is not None}
    return made


def test_only_nodes_that_mig_can_divide_count() -> None:
    found = hosts.hosts([node(), labelled(1, capable="false"), labelled(2, capable=None), cpu_node()])
    assert [(each.name, each.model, each.count, each.layout) for each in found] == [
        ("gpu-0000", table.named("H100-80GB"), 8, "")
    ]


def test_where_the_number_is_unknown_the_gpus_that_are_named_exist() -> None:
    (found,) = hosts.hosts([labelled(count=None)])
    assert [gpu.index for gpu in found.gpus()] == [0]
    assert len(found.gpus([parted.LayoutEntry((0, 5), False), parted.LayoutEntry(None, False)])) == 6
    (known,) = hosts.hosts([node()])
    assert len(known.gpus([parted.LayoutEntry((11,), False)])) == 8


def test_a_selector_picks_nodes() -> None:
    found = hosts.hosts([node(), labelled(1, pool="a")])
    assert [each.name for each in hosts.chosen(found, {"pool": "a"})] == ["gpu-0001"]
    assert len(hosts.chosen(found, None)) == len(hosts.chosen(found, {})) == 2


def test_nodes_that_are_alike_are_one_group() -> None:
    nodes = [
        node(),
        node(1),
        labelled(2, count="4"),
        labelled(3, product="NVIDIA-H100"),
        labelled(4, product="NVIDIA-X"),
    ]
    found = hosts.hosts([*nodes, labelled(5, product="NVIDIA-H100-PCIe"), labelled(6, product="NVIDIA-A30")])
    assert [[each.name[-1] for each in group] for group in hosts.alike(found)] == [
        ["0", "1", "5"],
        ["2"],
        ["3"],
        ["4"],
        ["6"],
    ]
    assert [model.name for model in hosts.models(found)] == ["A30", "H100-80GB"]
