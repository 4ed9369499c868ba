# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.publish import wishes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.hosts import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import table
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig.parted import LayoutEntry
from inline_snapshot import snapshot as wording

FULL = "layouts.mine.fill: no 1g.10gb fits on H100-80GB beside 1 x 7g.80gb."
A30_FILTER = ("0x20B710DE",)
B200_FILTER = ("0x290110DE",)


def on(*models: str) -> list[Host]:
    return [Host(name, {}, name, table.named(name), 4, "") for name in models]


def entries(target: t.Any, *models: str) -> tuple[LayoutEntry, ...]:
    return wishes.wishes({"mine": target})[0].entries(on(*models))


def plain(**counts: int) -> tuple[LayoutEntry, ...]:
    return (LayoutEntry(None, True, {name.replace("_", "."): count for name, count in counts.items()}),)


@pytest.mark.parametrize(
    ("target", "model", "counts"),
    [
        ({"fit": "2g.20gb"}, "H100-80GB", {"2g.20gb": 3}),
        ({"fit": "2g"}, "A30", {"2g.12gb": 2}),
        ({"fit": "1g"}, "H100-80GB", {"1g.10gb": 7}),
        ({"fit": "1g+me"}, "H100-80GB", {"1g.10gb+me": 1}),
        ({"fit": "1g-me"}, "RTX-PRO-6000", {"1g.24gb-me": 4}),
        ({"fit": "1c.3g.40gb"}, "H100-80GB", {"1c.3g.40gb": 6}),
        ({"balanced": True}, "A30", {"1g.6gb": 2, "2g.12gb": 1}),
        ({"mig_devices": {"3g": 1, "1g.10gb": 2}}, "H100-80GB", {"3g.40gb": 1, "1g.10gb": 2}),
        ({"mig_devices": {"3g": 1}, "fill": "1g"}, "H100-80GB", {"3g.40gb": 1, "1g.10gb": 4}),
        ({"mig_devices": {"1g": 2, "1g.10gb": 1}, "fill": "1g"}, "H100-80GB", {"1g.10gb": 7}),
        ({"mig_devices": {}, "fill": "4g"}, "A100-40GB", {"4g.20gb": 1}),
    ],
)
def test_a_target_is_worked_out_for_a_model(target: t.Any, model: str, counts: dict[str, int]) -> None:
    assert entries(target, model) == (LayoutEntry(None, True, counts),)


def test_models_get_filters_only_where_they_differ() -> None:
    assert entries({"fit": "2g"}, "A100-80GB", "H100-80GB") == plain(**{"2g_20gb": 3})
    assert entries({"fit": "1g"}, "A30", "B200") == (
        LayoutEntry(None, True, {"1g.6gb": 4}, A30_FILTER),
        LayoutEntry(None, True, {"1g.23gb": 7}, B200_FILTER),
    )


def test_entries_need_only_what_is_not_obvious() -> None:
    whole = {"device_filter": "0x233010DE", "mig-enabled": True, "mig-devices": {}}
    made = entries([{"mig_devices": {"1g.10gb": 7}}, {"devices": [0]}, whole])
    assert made == (
        LayoutEntry(None, True, {"1g.10gb": 7}),
        LayoutEntry((0,), False),
        LayoutEntry(None, True, {}, ("0x233010DE",)),
    )
    assert entries({"entries": [{}]}) == (LayoutEntry(None, False),)


def test_a_selector_has_texts() -> None:
    first, second = wishes.wishes({"a": {"fit": "1g", "node_selector": {"gpu": True, "rack": 7}}, "b": {"fit": "1g"}})
    assert (first.selector, second.selector) == ({"gpu": "true", "rack": "7"}, None)
    assert wishes.wishes(None) == []


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("2g", wording("layouts.mine: give a list of entries, or a mapping such as {fit: 2g.20gb}.")),
        (
            {"fitt": 1},
            "layouts.mine: there is no field 'fitt'; the fields are entries, fit, fill, mig_devices, balanced, "
            "node_selector.",
        ),
        ({}, wording("layouts.mine: give one of entries, fit, balanced and mig_devices, not none.")),
        (
            {"fit": "1g", "balanced": True},
            wording("layouts.mine: give one of entries, fit, balanced and mig_devices, not fit and balanced."),
        ),
        ({"fit": "1g", "fill": "1g"}, wording("layouts.mine: fill goes with mig_devices: as many as fit beside them.")),
        ({"balanced": False}, wording("layouts.mine: balanced is true, or left out.")),
        (
            {"fit": "1g", "node_selector": "a=b"},
            wording("layouts.mine.node_selector: give labels with their values, such as {pool: a100}."),
        ),
        (
            {"mig_devices": ["1g"]},
            wording("layouts.mine.mig_devices: give profiles with their counts, such as {3g.40gb: 1}."),
        ),
        (
            {"mig_devices": {"1g": 0}, "fill": "2g"},
            wording("layouts.mine.mig_devices: each count is a whole number from 1."),
        ),
        (
            {"mig_devices": {"1g": "2"}, "fill": "2g"},
            wording("layouts.mine.mig_devices: each count is a whole number from 1."),
        ),
        (
            {"mig_devices": {"7g": 1}, "fill": "1g"},
            FULL,
        ),
        ([7], wording("layouts.mine[0]: this is a number, but has to be a mapping.")),
        ({"entries": {}}, wording("layouts.mine: this is a mapping, but has to be a list of entries.")),
    ],
)
def test_a_mistake_is_named_with_its_place(target: t.Any, message: str) -> None:
    with pytest.raises(GpuOpsError) as error:
        entries(target, "H100-80GB")
    assert (error.value.msg, error.value.reason) == (message, "Invalid")


def test_a_target_needs_a_model_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GpuOpsError) as error:
        entries({"fit": "1g"})
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording("layouts.mine: no node that it is meant for has GPUs whose profiles are known.")
    two = table.Model("two", 2, (table.Profile("2g.2gb", 1, 2, 2, 2, (0,), 1),), ())
    with pytest.raises(GpuOpsError) as error:
        wishes.wishes({"mine": {"balanced": True}})[0].entries([Host("a", {}, "two", two, 1, "")])
    assert error.value.reason == "Invalid"
    assert error.value.msg == wording("layouts.mine: NVIDIA has no balanced mixture for two.")


@pytest.mark.parametrize("name", ["", "a b", "-a", "a" * 64, "a/b"])
def test_a_name_has_to_be_the_value_of_a_label(name: str) -> None:
    with pytest.raises(GpuOpsError, match="a layout's name is"):
        wishes.wishes({name: {"fit": "1g"}})


@pytest.mark.parametrize("name", ["1e5", "1.5E3", "1e-5"])
def test_a_name_is_no_number_to_the_mig_manager(name: str) -> None:
    """mig-parted v0.15.0 says that the layout 1e5 of a published file is not present."""
    with pytest.raises(GpuOpsError, match="the MIG manager would"):
        wishes.wishes({name: {"fit": "1g"}})
