# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lists of fields against the record of what NVIDIA's exporters say to them, which scripts/field_lists.py writes."""

from __future__ import annotations

import csv
import json
import re
import typing as t

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import counters, dcgm_fields
from ansible_collections.gpuops.nvidia.plugins.modules import gpu_monitoring

from scripts import field_lists

CASES: dict[str, t.Any] = yaml.safe_load((field_lists.FIXTURES / "field_lists.yml").read_text())
RECORD: dict[str, t.Any] = json.loads((field_lists.FIXTURES / "field_lists.json").read_text())
EXPORTERS = sorted(RECORD)
OURS = gpu_monitoring.SPEC.options["fields"]["options"]["type"]["choices"]

NO_FIELDS = re.compile(
    r"DCGM_FI_(UNKNOWN|MAX_FIELDS|INTERNAL_FIELDS_0_\w+|(DEV_)?(FIRST|LAST)_\w+_FIELD_ID)|DCGM_FT_\w+"
)
"""Markers of go-dcgm beside its fields: ends of ranges of numbers, and types of values."""


def line_of(exporter: str) -> dcgm_fields.OperatorLine:
    major, minor = RECORD[exporter]["line"]
    return major, minor


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_the_names_of_a_line_are_those_that_its_exporter_takes(exporter: str) -> None:
    taken = set(RECORD[exporter]["names"])
    left_out = {name for name in taken if NO_FIELDS.fullmatch(name) or name.islower()}
    assert taken - left_out == dcgm_fields.names(line_of(exporter))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_the_exporter_takes_every_type_that_fields_may_have(exporter: str) -> None:
    """DCGM has no field with the values of a histogram or a summary."""
    assert set(RECORD[exporter]["kinds"]) - set(OURS) == {"histogram", "summary"}
    assert set(OURS) <= set(RECORD[exporter]["kinds"])


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("is_known", [True, False], ids=["known line", "unknown line"])
def test_the_exporter_takes_every_list_that_is_published(exporter: str, is_known: bool) -> None:
    """scripts/field_lists.py gives the whole lists to the reader, too, and stops if it refuses one."""
    published = [*field_lists.published(line_of(exporter) if is_known else None)]
    rows = {(name, kind) for text in published for name, kind, _help in csv.reader(text.splitlines())}
    assert {name for name, _kind in rows} <= set(RECORD[exporter]["names"])
    assert {kind for _name, kind in rows} <= set(RECORD[exporter]["kinds"])
    assert max(len(text.splitlines()) for text in published) == len(rows)


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("case", CASES["own"])
def test_own_fields_are_refused_where_the_exporter_refuses_them(case: str, exporter: str) -> None:
    said, wanted = RECORD[exporter]["own"][case], CASES["own"][case]
    fields = [dict(zip(("name", "type", "help"), row, strict=True)) for row in wanted["fields"]]
    if "error" in said or "why" in wanted:
        with pytest.raises(GpuOpsError):
            counters.own_counters(fields, line_of(exporter))
        return
    found = counters.own_counters(fields, line_of(exporter))
    assert counters.text_of(found) == said["text"]
    assert [[counter.name, counter.kind, counter.help.replace("\\", "/")] for counter in found] == said["collects"]


@pytest.mark.parametrize("case", [case for case, wanted in CASES["own"].items() if "why" in wanted])
def test_a_reason_is_given_only_where_an_exporter_takes_the_fields(case: str) -> None:
    assert any("collects" in RECORD[exporter]["own"][case] for exporter in EXPORTERS)


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("case", CASES["text"])
def test_the_metrics_of_a_list_are_those_that_the_exporter_reads(case: str, exporter: str) -> None:
    said = RECORD[exporter]["text"][case]
    if "collects" in said:
        metrics = [name for name, kind, _help in said["collects"] if kind != counters.LABEL_KIND]
        assert counters.names_in(CASES["text"][case]) == metrics
