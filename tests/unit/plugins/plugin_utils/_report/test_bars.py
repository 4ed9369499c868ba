# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How GPUs are drawn: a bar for each, with boxes for its instances and shares."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report import bars

from tests.support.fleets import A100, H100, L4, gpu, part, row

SIGNS = {"held": "#", "free": ".", "lost": "x", "empty": " ", "unknown": "?"}


def drawn(node: dict[str, t.Any], gpus: t.Sequence[dict[str, t.Any]] = ()) -> list[str]:
    """Return each bar as text: a sign for each unit of a box's width."""
    return ["|".join(SIGNS[box.state] * box.width for box in boxes) for boxes in bars.bars(node, gpus)]


@pytest.mark.parametrize(
    ("slice_", "expected"),
    [
        (part(4, 0), [".", ".", ".", "."]),
        (part(4, 3), ["#", "#", "#", "."]),
        (part(4, 2, allocatable=3), ["#", "#", ".", "x"]),
        (part(4, None), ["?", "?", "?", "?"]),
        (part(4, None, allocatable=3), ["?", "?", "?", "x"]),
        (part(2, 3, replicas=4), ["#|#|#|.", ".|.|.|."]),
        (part(2, 5, replicas=4, allocatable=6), ["#|#|#|#", "#|.|x|x"]),
        (part(1, 25, replicas=50), ["#|#|#|#|.|.|.|."]),
        (part(1, 1, replicas=50), ["#|.|.|.|.|.|.|."]),
        ({**part(3, 0), "devices": None, "replicas": None}, [".", ".", "."]),
    ],
)
def test_whole_gpus_and_shares_are_counted_from_the_left(slice_: dict[str, t.Any], expected: list[str]) -> None:
    assert drawn(row("gpu-0", H100, slice_)) == expected


def test_a_node_that_offers_nothing_has_lost_all() -> None:
    assert drawn(row("gpu-0", H100, gpus=2)) == ["x", "x"]
    assert drawn(row("gpu-0", H100, gpus=None), [gpu(0)]) == ["x"]


def test_claimed_gpus_are_not_counted() -> None:
    assert drawn(row("gpu-0", H100, gpus=2, claimable=True)) == ["?", "?"]


def test_no_node_draws_more_gpus_than_a_reader_counts() -> None:
    assert len(drawn(row("gpu-0", L4, part(500, 0)))) == bars.GPUS


# ---- MIG ------------------------------------------------------------------------------------------------------------


def test_instances_that_are_alike_on_all_gpus_lie_where_they_must() -> None:
    parts = part(2, 1, profile="3g.40gb"), part(4, 3, profile="1g.10gb")
    found = bars.bars(row("gpu-0", A100, *parts, gpus=2), ())
    assert [[(box.label, box.width, box.state) for box in boxes] for boxes in found] == [
        [("3g.40gb", 4, "held"), ("1g.10gb", 1, "held"), ("1g.10gb", 1, "held"), ("", 2, "empty")],
        [("3g.40gb", 4, "free"), ("1g.10gb", 1, "held"), ("1g.10gb", 1, "free"), ("", 2, "empty")],
    ]


def test_the_strategy_single_counts_instances_as_gpus() -> None:
    node = row("gpu-0", A100 + "-MIG-1g.10gb", part(14, 8, profile="1g.10gb"), gpus=14)
    assert drawn(node) == ["#|#|#|#|#|#|#| ", "#|.|.|.|.|.|.| "]


def test_a_host_knows_where_its_instances_lie() -> None:
    placed = [{"profile": "3g.40gb", "start": 4}, {"profile": "1g.10gb", "start": 1}]
    gpus = [gpu(0, mig={"mode": True, "gpu_instances": placed}), gpu(1)]
    parts = part(1, 0), part(1, 1, profile="3g.40gb"), part(1, 0, profile="1g.10gb")
    assert drawn(row("gpu-0", H100, *parts, gpus=2), gpus) == [" |.|  |####", "."]


@pytest.mark.parametrize(
    "mig",
    [
        {"mode": True, "gpu_instances": None},
        {"mode": True, "gpu_instances": [{"profile": "9g.90gb", "start": 0}]},
    ],
)
def test_a_host_that_does_not_know_leaves_it_to_the_counts(mig: dict[str, t.Any]) -> None:
    assert drawn(row("gpu-0", A100, part(7, 7, profile="1g.10gb"), gpus=1), [gpu(0, mig=mig)]) == ["#|#|#|#|#|#|#| "]


@pytest.mark.parametrize(
    ("product", "parts", "gpus"),
    [
        ("NVIDIA-X1", [part(2, 1, profile="1g.10gb")], 1),  # no such model
        (A100, [part(2, 1, profile="9g.90gb")], 2),  # no such profile
        (A100, [part(2, 1, profile="1g.10gb")], 3),  # not alike
        (A100, [part(2, 1, profile="7g.80gb")], 1),  # no room
    ],
)
def test_instances_of_unknown_places_stand_in_a_row(product: str, parts: list[t.Any], gpus: int) -> None:
    assert drawn(row("gpu-0", product, *parts, gpus=gpus)) == ["#|."]


def test_instances_that_are_missing_and_shared_are_told_apart() -> None:
    assert drawn(row("gpu-0", A100, part(7, 3, profile="1g.10gb", replicas=2, allocatable=10), gpus=1)) == [
        "#|#|.|.|.|x|x| "
    ]
    assert drawn(row("gpu-0", A100, part(7, None, profile="1g.10gb", allocatable=6), gpus=1)) == ["?|?|?|?|?|?|x| "]
