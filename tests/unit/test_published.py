# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""docs/reference/published.yml agrees with the lists of fields, and the page says what an installation collects."""

from __future__ import annotations

import re
import typing as t

import promql_parser
import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import counters, rule_groups
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import Thresholds

from scripts import published

RECORD: dict[str, t.Any] = yaml.safe_load(published.RECORD.read_text())
NAMED = {name for source in RECORD["sources"] for name in source["metrics"]}


def test_each_metric_is_known_or_recorded_as_nonexistent() -> None:
    assert {name for name in NAMED if not published.exists(name)} == set(RECORD["nonexistent"])


def test_what_to_use_instead_exists() -> None:
    assert [name for name in RECORD["nonexistent"].values() if name and not published.exists(name)] == []


@pytest.mark.parametrize("source", RECORD["sources"], ids=lambda source: source["title"])
def test_a_source_can_be_looked_up(source: dict[str, t.Any]) -> None:
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", source["repository"])
    assert re.fullmatch(r"[0-9a-f]{40}", source["revision"])
    assert source["metrics"] == sorted(set(source["metrics"]))
    assert set(source.get("mistakes", ())) <= set(RECORD["mistakes"])


@pytest.mark.parametrize("wrong", RECORD["mistakes"].values(), ids=RECORD["mistakes"])
def test_a_mistake_is_promql_and_its_alerts_exist(wrong: dict[str, t.Any]) -> None:
    promql_parser.parse(wrong["expression"])
    assert all(map(published.exists, counters.mentioned(wrong["expression"])))
    assert set(wrong["alerts"]) <= {alert.name for alert in rule_groups.alerts(Thresholds())}


@pytest.mark.parametrize("key", ["xid", "pcie"])
def test_what_should_not_be_counted_is_a_gauge(key: str) -> None:
    expression = RECORD["mistakes"][key]["expression"]
    assert re.match(r"rate|increase", expression)
    assert {counter.kind for counter in counters.described(counters.mentioned(expression))} == {"gauge"}


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("DCGM_FI_DEV_GPU_TEMP", "by default"),
        ("DCGM_FI_PROF_PIPE_FP64_ACTIVE", "with the preset `profiling`"),
        ("DCGM_FI_DEV_FB_TOTAL", "with `monitoring_fields`, or with a dashboard that names it"),
        ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "with `monitoring_fields`"),
        ("dcgm_fb_total", "never; use `DCGM_FI_DEV_FB_TOTAL`"),
        ("vGPUCorePercentage", "never"),
    ],
)
def test_the_page_says_how_a_metric_is_collected(name: str, how: str) -> None:
    row = next(line for line in published.page().splitlines() if line.startswith(f"| `{name}` |"))
    assert row.endswith(f"| {how} |")


def test_operators_that_know_a_metric_are_named() -> None:
    assert published.operators("DCGM_FI_DEV_GPU_TEMP") == "all"
    assert published.operators("DCGM_FI_DEV_CPU_TEMP_SHUTDOWN") == "v25.10"
    assert published.operators("dcgm_gpu_temp") == "none"
