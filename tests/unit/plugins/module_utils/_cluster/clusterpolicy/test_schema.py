# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a CRD's schema says about fields."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import schema
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

ENV: Json = {"name": {"type": "string"}, "value": {"type": "string", "default": ""}}
SPEC: Json = {
    "type": "object",
    "properties": {
        "driver": {
            "type": "object",
            "properties": {
                "version": {"type": "string"},
                "enabled": {"type": "boolean"},
                "kernelModuleType": {"type": "string", "enum": ["auto", "open"], "default": "auto"},
                "maxUnavailable": {"x-kubernetes-int-or-string": True, "default": "25%"},
                "retries": {"type": "integer"},
                "env": {"type": "array", "items": {"type": "object", "properties": ENV}},
            },
        },
        "daemonsets": {
            "type": "object",
            "properties": {"labels": {"type": "object", "additionalProperties": {"type": "string"}}},
        },
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": {}}},
        "free": {"type": "object"},
        "hostPaths": {"type": "object", "default": {}, "properties": {"root": {"type": "string", "default": "/"}}},
    },
}
CRD = {"type": "object", "properties": {"spec": SPEC, "metadata": {"type": "object"}}}


@pytest.mark.parametrize(
    ("value", "unknown"),
    [
        ({"driver": {"version": "595", "env": [{"name": "A"}]}}, []),
        ({"driver": {"versoin": "595"}, "drivr": {}}, ["spec.driver.versoin", "spec.drivr"]),
        ({"driver": {"env": [{"name": "A"}, {"nmae": "B"}]}}, ["spec.driver.env[1].nmae"]),
        ({"daemonsets": {"labels": {"helm.sh/chart": "x"}}}, []),
        ({"open": {"anything": {"at": "all"}}}, []),
        ({"free": {"anything": 1}}, []),
        ({"driver": "no mapping"}, []),
    ],
)
def test_unknown_fields(value: Json, unknown: list[str]) -> None:
    assert schema.unknown_fields(value, SPEC, "spec") == unknown


@pytest.mark.parametrize(
    ("field", "value", "accepted"),
    [
        ("spec.driver.version", {"driver": {"version": "595"}}, True),
        ("spec.driver.version", {"driver": {"version": 595}}, False),
        ("spec.driver.enabled", {"driver": {"enabled": False}}, True),
        ("spec.driver.retries", {"driver": {"retries": 3}}, True),
        ("spec.driver.retries", {"driver": {"retries": True}}, False),
        ("spec.driver.kernelModuleType", {"driver": {"kernelModuleType": "open"}}, True),
        ("spec.driver.kernelModuleType", {"driver": {"kernelModuleType": "shut"}}, False),
        ("spec.driver.maxUnavailable", {"driver": {"maxUnavailable": 2}}, True),
        ("spec.driver.maxUnavailable", {"driver": {"maxUnavailable": [2]}}, False),
        ("spec.driver.env[0].name", {"driver": {"env": [{"name": "A"}]}}, True),
        ("spec.driver.env[0].nmae", {"driver": {"env": [{"nmae": "A"}]}}, False),
        ("spec.driver", {"driver": {"env": []}}, True),
        ("spec.driver.versoin", {"driver": {"versoin": "595"}}, False),
        ("spec.nothing.at.all", {"nothing": {"at": {"all": 1}}}, False),
        ("spec.driver.version", {"driver": None}, False),
    ],
)
def test_a_field_is_accepted_if_it_exists_and_its_value_fits(field: str, value: Json, accepted: bool) -> None:
    assert schema.accepts(field, {"spec": value}, CRD) is accepted


def test_fields_can_be_set_aside_and_put_back() -> None:
    item: Json = {"spec": {"driver": {"version": "595", "env": [1]}, "mig": "odd"}}
    fields = ["spec.driver.env[0].name", "spec.absent.field", "spec.mig.strategy"]
    assert schema.without(item, fields) == {"spec": {"driver": {"version": "595"}, "mig": "odd"}}
    assert schema.with_fields({"spec": {}}, ["spec.driver.env[0].name"], item) == {"spec": {"driver": {"env": [1]}}}
    kept = {"spec": {"driver": {"image": "x"}, "mig": 1}}
    assert schema.with_fields(kept, ["spec.driver.version"], item)["spec"]["driver"] == {"image": "x", "version": "595"}
    assert item == {"spec": {"driver": {"version": "595", "env": [1]}, "mig": "odd"}}


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        ({"hostPaths": {"root": "/host"}}, {"hostPaths": {"root": "/host"}}),
        ({}, {"hostPaths": {"root": "/"}}),
        (
            {
                "driver": {"version": "1", "kernelModuleType": None, "env": [{"name": "A"}, 1]},
                "odd": 1,
                "hostPaths": {},
            },
            {
                "driver": {
                    "version": "1",
                    "kernelModuleType": "auto",
                    "maxUnavailable": "25%",
                    "env": [{"name": "A", "value": ""}, 1],
                },
                "odd": 1,
                "hostPaths": {"root": "/"},
            },
        ),
    ],
)
def test_defaults_are_filled_in(value: t.Any, filled: t.Any) -> None:
    assert schema.with_defaults(value, SPEC) == filled


def test_another_crd_drops_adds_and_completes_fields() -> None:
    known = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "x"}}}
    live, source = {"metadata": {}, "spec": {"old": 1}}, {"metadata": {}, "spec": {"a": "new"}}
    assert schema.completed(live, source, ["spec.a"], known) == (
        {"metadata": {}, "spec": {"a": "new", "b": "x"}},
        ["spec.old"],
    )


def test_a_null_needs_a_default_or_a_field_that_accepts_it() -> None:
    text = {"type": "string"}
    fields = {
        "plain": text,
        "filled": {**text, "default": "x"},
        "nullable": {**text, "nullable": True},
        "list": {"type": "array", "items": {"type": "object", "properties": {"name": text}}},
    }
    known = {"type": "object", "properties": fields}
    value = {"plain": None, "filled": None, "nullable": None, "other": None, "list": [{"name": "a"}, {"name": None}]}
    assert schema.refused_nulls(value, known, "spec") == ["spec.plain", "spec.list[1].name"]
    assert schema.refused_nulls({"plain": "a"}, known, "spec") == schema.refused_nulls(value, {}, "spec") == []
