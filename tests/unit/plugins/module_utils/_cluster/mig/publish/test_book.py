# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.publish import book
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.hosts import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.layouts import Source
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import parted, table
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.parted import LayoutEntry, Layouts
from inline_snapshot import snapshot as wording

A100_FILTER = ("0x20B010DE", "0x20B110DE", "0x20F110DE", "0x20F610DE")
H100_FILTER = ("0x233010DE", "0x233110DE", "0x232210DE", "0x232410DE")


def host(name: str, model: str = "H100-80GB", layout: str = "", count: int | None = 2) -> Host:
    return Host(
        name,
        {},
        model,
        table.model_of(model) or next((m for m in table.MODELS if m.name == model), None),
        count,
        layout,
    )


def all_of(**counts: int) -> tuple[LayoutEntry, ...]:
    return (LayoutEntry(None, True, {name.replace("_", "."): count for name, count in counts.items()}),)


STATIC: Layouts = {
    "all-1g.10gb": (
        LayoutEntry(None, True, {"1g.10gb": 7}, ("0x233010DE",)),
        LayoutEntry(None, True, {"1g.10gb": 4}, ("0x20B010DE",)),
    ),
    "all-1g.6gb": all_of(**{"1g_6gb": 4}),
}


def test_static_layouts_stay_as_they_are_where_they_mean_the_same() -> None:
    made = book.vendors([host("a"), host("b", "A100-40GB")], {}, STATIC)
    assert made["all-1g.10gb"] == STATIC["all-1g.10gb"]
    assert made["all-1g.6gb"] == STATIC["all-1g.6gb"]
    assert made["all-4g.20gb"] == all_of(**{"4g_20gb": 1})
    assert made["all-disabled"] == (LayoutEntry(None, False),)


def test_a_static_layout_comes_before_the_table() -> None:
    static = {"all-balanced": (LayoutEntry(None, True, {"1g.10gb": 3}, ("0x233010DE",)),)}
    made = book.vendors([host("a"), host("b", "A30")], {}, static)["all-balanced"]
    assert parted.resolve(made, host("a").gpus())[0].counts == {"1g.10gb": 3}
    assert parted.resolve(made, host("b", "A30").gpus())[0].counts == {"1g.6gb": 2, "2g.12gb": 1}


def test_without_static_layouts_models_that_differ_get_filters() -> None:
    made = book.vendors([host("a"), host("b", "A100-40GB")], {}, {})
    assert made["all-1g.10gb"] == (
        LayoutEntry(None, True, {"1g.10gb": 4}, A100_FILTER),
        LayoutEntry(None, True, {"1g.10gb": 7}, H100_FILTER),
    )
    assert book.vendors([], {}, STATIC) == STATIC


def test_what_a_node_has_generated_comes_first() -> None:
    own = {"all-1g.10gb": all_of(**{"1g_10gb": 6}), "all-odd": all_of(**{"1g_10gb": 1})}
    made = book.vendors([host("a"), host("c", "X")], {"a": own, "c": {"all-x": all_of(**{"1g_9gb": 1})}}, STATIC)
    assert made["all-1g.10gb"] == all_of(**{"1g_10gb": 6})
    assert (made["all-odd"], made["all-x"]) == (own["all-odd"], all_of(**{"1g_9gb": 1}))


def test_a_layout_is_checked_once_for_nodes_that_are_alike() -> None:
    entries = (*all_of(**{"3g_40gb": 3}), LayoutEntry((0,), False))
    wrong, unchecked = book.check("mine", entries, [host("a"), host("b"), host("c", "X"), host("d", count=None)])
    assert wrong == [
        "layouts.mine[0]: H100-80GB holds at most 2 x 3g.40gb, and 3 are wanted (nodes a, b)",
        "layouts.mine[0]: H100-80GB holds at most 2 x 3g.40gb, and 3 are wanted (nodes d)",
    ]
    assert unchecked == [
        "mine on c: the profiles of X are unknown",
        wording("mine on d: no label tells how many GPUs there are"),
    ]
    assert book.check("mine", all_of(**{"3g_40gb": 2}), [host("d", count=None)]) == ([], [])


def test_filters_say_for_which_nodes_a_layout_is_meant() -> None:
    fleet = [host("a"), host("b", "A100-40GB")]
    filtered = (LayoutEntry(None, True, {}, A100_FILTER),)
    assert [each.name for each in book.meant_for(filtered, fleet, False)] == ["b"]
    assert len(book.meant_for(filtered, fleet, True)) == 2
    assert len(book.meant_for((*filtered, LayoutEntry(None, False)), fleet, False)) == 2


def refuse(fleet: list[Host], before: Layouts, after: Layouts) -> None:
    def source(dummy: str) -> Source:
        return Source("x", before)

    book.refuse_broken(fleet, source, lambda dummy: after, "This")


def test_a_layout_in_use_goes_on() -> None:
    mine, same = {"mine": all_of(**{"1g_10gb": 7})}, {"mine": (LayoutEntry((0, 1), True, {"1g.10gb": 7}),)}
    fleet = [host("a", layout="mine"), host("b", layout="gone-already"), host("c")]
    refuse(fleet, mine, mine)
    # Other words, but the same for two GPUs.
    refuse(fleet, mine, same)


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (
            {},
            wording(
                "This would take away the layout in use on a (mine). Give these nodes another layout first (mig_config), or choose another name."
            ),
        ),
        (
            {"mine": all_of(**{"1g_10gb": 6})},
            wording(
                "This would change the layout in use on a (mine). Give these nodes another layout first (mig_config), or choose another name."
            ),
        ),
    ],
)
def test_a_layout_in_use_is_neither_gone_nor_other(after: Layouts, message: str) -> None:
    with pytest.raises(GpuOpsError) as error:
        refuse([host("a", layout="mine"), host("b")], {"mine": all_of(**{"1g_10gb": 7})}, after)
    assert error.value.msg == message
    details: t.Any = error.value.details
    assert (error.value.reason, details["nodes"]) == ("NodesBusy", ["a"])


def test_the_whole_book_can_be_read_again() -> None:
    made = book.vendors([host(model.name, model.name) for model in table.MODELS], {}, {})
    assert parted.read(parted.plain(made)) == made
    for model in table.MODELS:
        gpus = [parted.NodeGpu(0, model)]
        for name, entries in parted.generated([model]).items():
            assert parted.resolve(made[name], gpus) == parted.resolve(entries, gpus), (model.name, name)
