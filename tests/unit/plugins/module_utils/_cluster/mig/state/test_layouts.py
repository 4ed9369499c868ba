# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.mig.state.layouts import Catalog, Source, fitting
from inline_snapshot import snapshot as wording

from tests.unit.fakes.mig import text


def test_a_node_uses_its_own_layouts_before_those_of_all_models() -> None:
    catalog = Catalog({"a-mig-config": text({"all-1g.10gb": {"1g.10gb": 7}}), "default-mig-parted-config": text()})
    assert list(catalog.of("a").layouts) == ["all-1g.10gb"] and catalog.of("a").name == "<node>-mig-config"
    assert "all-balanced" in catalog.of("b").layouts and catalog.of("b").name == "default-mig-parted-config"


def test_a_custom_map_replaces_both() -> None:
    catalog = Catalog({"a-mig-config": text(), "ours": text({"mine": {"3g.40gb": 2}})}, "ours")
    assert list(catalog.of("a").layouts) == ["mine"]


def test_equal_texts_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = Catalog({"a-mig-config": text(), "b-mig-config": text()})
    assert catalog.of("a").layouts is catalog.of("b").layouts


@pytest.mark.parametrize(
    ("maps", "said"),
    [
        ({}, wording("the ConfigMap default-mig-parted-config does not exist, so the MIG manager cannot start")),
        (
            {"a-mig-config": None},
            wording("the ConfigMap a-mig-config has no key config.yaml, so the MIG manager cannot start"),
        ),
        (
            {"a-mig-config": "version: v2"},
            wording(
                "the ConfigMap <node>-mig-config is refused by the MIG manager as a whole, for all of its layouts: version: this is 'v2', and only v1 exists"
            ),
        ),
        (
            {"a-mig-config": "{"},
            wording(
                'the ConfigMap <node>-mig-config is refused by the MIG manager as a whole, for all of its layouts: it is no YAML: while parsing a flow node did not find expected node content in "<unicode string>", line 2, column 1'
            ),
        ),
    ],
)
def test_a_map_that_cannot_be_used_says_why(maps: dict, said: str) -> None:
    assert Catalog(maps).of("a").why_not("all-1g.10gb") == said


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ("all-1g.10gb", ""),
        ("all-1g.10g", "The profile is 1g.10gb"),
        ("1g.10gb-2,3g.40gb-1", "mig_devices {1g.10gb: 2, 3g.40gb: 1}"),
        ("all-4g.40gb", "the ConfigMap m has no layout all-4g.40gb, such as all-"),
        ("xyz", "the ConfigMap m has no layout xyz, but a100-only, all-1g.10gb"),
    ],
)
def test_a_name_that_is_unknown_gets_the_right_form_or_what_is_near(layout: str, said: str) -> None:
    found = Source("m", Catalog({"default-mig-parted-config": text()}).of("a").layouts).why_not(layout)
    assert said in found and bool(found) is bool(said)


def test_what_fits_instead_is_listed() -> None:
    source = Catalog({"default-mig-parted-config": text()}).of("a")
    assert fitting(source, lambda name: "3g" in name) == "all-3g.40gb" and fitting(source, lambda name: False) == "none"
