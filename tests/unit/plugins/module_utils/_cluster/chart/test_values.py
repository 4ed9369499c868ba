# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.chart import ChartFiles, read_chart
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.values import check_values, opposite, without
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording


def unknown(values: dict, folder: Path) -> dict[str, str]:
    return dict(check_values(values, read_chart(str(folder))))


def test_known_values_pass(folder: Path) -> None:
    values = {
        "driver": {
            "version": "1",
            "livenessProbe": {"periodSeconds": 1},
            "nodeSelector": {"any": "thing"},
            "env": [{"name": "a"}],
        },
        "operator": {"annotations": {"mine": "x"}, "resources": {"requests": {"cpu": 1}}},
        "validator": {"cuda": {"env": []}},
        "node-feature-discovery": {"worker": {"anything": 1}},
        "renamed": {"x": 1},
        "global": {"y": 1},
        "nfd": {"enabled": False},
    }
    assert unknown(values, folder) == {}


def test_misspelt_values_are_named_with_a_suggestion(folder: Path) -> None:
    found = unknown(
        {"driver": {"verison": "1"}, "drivers": {}, "operator": {"logging": {"lvel": "x"}}, "zzz": 1}, folder
    )
    assert found == {
        "driver.verison": "Did you mean driver.version?",
        "drivers": "Did you mean driver?",
        "operator.logging.lvel": "Did you mean operator.logging.level?",
        "zzz": wording("Helm ignores it. Remove it or correct its name."),
    }


def test_a_commonly_suggested_wrong_field_is_answered_with_the_right_one(folder: Path) -> None:
    assert (
        "driver.kernelModuleType"
        in unknown({"driver": {"useOpenKernelModules": True}}, folder)["driver.useOpenKernelModules"]
    )


@pytest.mark.parametrize("value", ["precompiled", True, ["open"]])
def test_an_impossible_kernel_module_type_is_refused(folder: Path, value: object) -> None:
    with pytest.raises(GpuOpsError, match=r"driver.usePrecompiled") as e:
        unknown({"driver": {"kernelModuleType": value}}, folder)
    assert e.value.reason == "ValuesRefused"


@pytest.mark.parametrize("values", [{"driver": None}, {"driver": "text"}, {"driver": {"kernelModuleType": "open"}}])
def test_blocks_of_the_wrong_type_do_not_break_the_check(values: dict) -> None:
    assert check_values(values, ChartFiles({}, {"driver": {"kernelModuleType": "auto"}}, "")) == []


@pytest.mark.parametrize("value", [{"enabled": False}, True])
def test_a_name_that_is_far_from_every_other_gets_no_suggestion(folder: Path, value: object) -> None:
    hint = unknown({"cert-manager": value}, folder)["cert-manager"]
    assert "Did you mean" not in hint and "needs no cert-manager" in hint


def test_values_without_one_of_them_keep_the_rest() -> None:
    given = {"a": {"b": {"c": 1, "d": 2}}, "e": 3}
    assert without(given, "a.b.c") == {"a": {"b": {"d": 2}}, "e": 3}
    assert without(given, "a.b") == {"a": {}, "e": 3} and without(given, "e") == {"a": {"b": {"c": 1, "d": 2}}}


@pytest.mark.parametrize(
    ("value", "turned"),
    [(False, True), ({"enabled": False, "size": 1}, {"enabled": True, "size": 1}), ({"size": 1}, None), ("x", None)],
)
def test_only_switches_have_an_opposite(value: object, turned: object) -> None:
    wanted = None if turned is None else {"a": {"b": turned, "c": 1}}
    assert opposite({"a": {"b": value, "c": 1}}, "a.b") == wanted
