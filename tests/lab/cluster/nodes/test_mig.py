# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the lab's MIG manager makes of a configuration."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml

from lab.cluster.nodes.agents import mig
from lab.nvml.profiles import TABLES

Json = dict[str, t.Any]
RECORDED = Path(__file__).parents[3] / "unit/fixtures/mig/generated_layouts.jsonl"
H100 = "0x233010DE"
SLICED: Json = {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}


def entries(*items: Json) -> list[mig.Entry]:
    return mig.read(yaml.safe_dump({"version": "v1", "mig-configs": {"x": list(items)}}))["x"]


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ({"devices": "all"}, "missing required field: mig-enabled"),
        ({"mig-enabled": False}, "missing required field: devices"),
        ({**SLICED, "gpus": 1}, "unexpected field: gpus"),
        ({**SLICED, "mig-enabled": "yes"}, "not a boolean"),
        ({**SLICED, "mig-enabled": False}, "MIG devices included"),
        ({"devices": "all", "mig-enabled": True}, "missing required field 'mig-devices'"),
        ({**SLICED, "mig-devices": ["1g.10gb"]}, "not a mapping"),
        ({**SLICED, "mig-devices": {"1g": 1}}, "invalid format for '1g'"),
        ({**SLICED, "mig-devices": {"4c.3g.40gb": 1}}, "invalid format"),
        ({**SLICED, "mig-devices": {"1g.10gb": -1}}, "invalid count"),
        ({**SLICED, "mig-devices": {"1g.10gb": 0}}, "all counts"),
        ({**SLICED, "devices": "some"}, "'devices'"),
        ({**SLICED, "devices": ["0"]}, "'devices'"),
        ({**SLICED, "device-filter": 3}, "'device-filter'"),
    ],
)
def test_an_entry_that_mig_parted_refuses(item: Json, problem: str) -> None:
    with pytest.raises(mig.ConfigError, match=problem):
        entries(item)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[", "unmarshal error"),
        ("", "not a mapping"),
        ("mig-configs: {}", "missing 'version' field"),
        ("version: v2", "unknown version"),
        ("version: v1\nother: 1", "unexpected field: other"),
        ("version: v1", "at least one entry in 'mig-configs'"),
        ("version: v1\nmig-configs: {a: []}", "at least one entry in 'a'"),
        ("version: v1\nmig-configs: {a: [1]}", "not a mapping"),
    ],
)
def test_a_file_that_mig_parted_refuses(text: str, problem: str) -> None:
    with pytest.raises(mig.ConfigError, match=problem):
        mig.read(text)


def test_what_mig_parted_accepts_though_no_gpu_can_do_it() -> None:
    entries({**SLICED, "mig-devices": {"7g.80gb": 9}}, {**SLICED, "mig-devices": {"9g.99gb": 1}})
    (entry,) = entries({**SLICED, "device-filter": "garbage"})
    assert not entry.matches(0, H100)


@pytest.mark.parametrize(
    ("counts", "possible"),
    [
        ({"1g.10gb": 7}, True),
        ({"1g.10gb": 8}, False),
        ({"3g.40gb": 2}, True),
        ({"3g.40gb": 2, "1g.10gb": 1}, False),
        ({"4g.40gb": 1, "3g.40gb": 1}, True),
        ({"4g.40gb": 2}, False),
        ({"2g.20gb": 3, "1g.10gb": 1}, True),
        ({"1g.20gb": 4}, True),
        ({"1g.10gb+me": 2}, False),
        ({"1g.10gb+me": 1, "1g.10gb": 6}, True),
        ({"1c.3g.40gb": 6}, True),
        ({"1c.3g.40gb": 7}, False),
        ({"1g.5gb": 1}, False),
    ],
)
def test_instances_must_find_places(counts: dict[str, int], possible: bool) -> None:
    assert mig.fits(counts, TABLES["h100"]) is possible


def test_an_application_that_does_not_fit_destroys_the_instances() -> None:
    layout: mig.Layout = [{"1g.10gb": 7}, {"1g.10gb": 7}]
    wanted = entries({**SLICED, "devices": [0], "mig-devices": {"4g.40gb": 2}})
    assert mig.apply(wanted, layout, H100, TABLES["h100"]) == ([{}, {"1g.10gb": 7}], False)


def test_a_profile_that_the_gpu_lacks_is_no_failure_and_no_instance_exists() -> None:
    wanted = entries({**SLICED, "mig-devices": {"1g.10gb": 3, "1g.5gb": 1}})
    after, well = mig.apply(wanted, [None, {"1g.10gb": 7}], H100, TABLES["h100"])
    assert (after, well) == ([{}, {}], True)
    assert not mig.applied(wanted, after, H100)


def test_a_gpu_that_no_entry_names_is_never_as_asked() -> None:
    wanted = entries({**SLICED, "devices": [0]})
    after, well = mig.apply(wanted, [None, None], H100, TABLES["h100"])
    assert (after, well) == ([{"1g.10gb": 7}, None], True)
    assert not mig.applied(wanted, after, H100)


def test_a_filter_chooses_the_model() -> None:
    wanted = entries(
        {**SLICED, "device-filter": ["0x20B210DE", H100.lower()]}, {"devices": "all", "mig-enabled": False}
    )
    assert mig.apply(wanted[:1], [None], H100, TABLES["h100"]) == ([{"1g.10gb": 7}], True)
    assert mig.applied(wanted[:1], [{"1g.10gb": 7}], H100)
    assert not mig.applied(wanted, [{"1g.10gb": 7}], H100), "The last entry that names a GPU decides."


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_generated_layout_fits(table: str) -> None:
    layouts = mig.read(mig.generated(TABLES[table]))
    assert {"all-disabled", "all-enabled", "all-balanced"} < layouts.keys()
    for wanted in layouts.values():
        after, well = mig.apply(wanted, [None, None], "", TABLES[table])
        assert well
        assert mig.applied(wanted, after, "")


@pytest.mark.parametrize(
    ("model", "table"),
    [
        ("A30", "a30"),
        ("A100-40GB", "a100-40gb"),
        ("A100-80GB", "a100-80gb"),
        ("H100-80GB", "h100"),
        ("H200", "h200"),
        ("B200", "b200"),
    ],
)
def test_a_manager_generates_what_mig_parted_generates(model: str, table: str) -> None:
    recorded = {item["model"]: item["layouts"] for item in map(json.loads, RECORDED.read_text().splitlines())}
    assert yaml.safe_load(mig.generated(TABLES[table]))["mig-configs"] == recorded[model]


def test_the_shipped_map_names_a_model_where_models_differ() -> None:
    layouts = mig.read(mig.default_map())
    assert [entry.filters for entry in layouts["all-1g.6gb"]] == [None]
    balanced = {entry.filters: dict(entry.counts) for entry in layouts["all-balanced"]}
    assert balanced["0x20B710DE",] == {"1g.6gb": 2, "2g.12gb": 1}
    assert balanced[H100,] == {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}
