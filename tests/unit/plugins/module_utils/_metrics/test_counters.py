# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import csv
import re

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import counters, dcgm_fields
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.counters import Counter
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot as wording

VENDORS_DEFAULT = """
gauge: SM_CLOCK MEM_CLOCK MEMORY_TEMP GPU_TEMP POWER_USAGE GPU_UTIL MEM_COPY_UTIL ENC_UTIL DEC_UTIL XID_ERRORS FB_FREE
gauge: FB_USED FB_RESERVED VGPU_LICENSE_STATUS ROW_REMAP_FAILURE PROF_GR_ENGINE_ACTIVE PROF_PIPE_TENSOR_ACTIVE
gauge: PROF_DRAM_ACTIVE PROF_PCIE_TX_BYTES PROF_PCIE_RX_BYTES
counter: TOTAL_ENERGY_CONSUMPTION PCIE_REPLAY_COUNTER NVLINK_BANDWIDTH_TOTAL UNCORRECTABLE_REMAPPED_ROWS
counter: CORRECTABLE_REMAPPED_ROWS
label: DRIVER_VERSION
"""
"""etc/dcp-metrics-included.csv of dcgm-exporter 4.5.3-4.8.2."""


def test_the_default_is_the_vendors() -> None:
    wanted = {}
    for line in VENDORS_DEFAULT.strip().splitlines():
        kind, _colon, names = line.partition(":")
        for name in names.split():
            plain = name.startswith("PROF_") or name == "DRIVER_VERSION"
            wanted["DCGM_FI_" + ("" if plain else "DEV_") + name] = kind
    assert {counter.name: counter.kind for counter in counters.DEFAULT} == wanted


@pytest.mark.parametrize("line", [(25, 10), (26, 3), (26, 7), None])
def test_every_preset_is_known_to_every_line_but_for_what_came_later(line: dcgm_fields.OperatorLine | None) -> None:
    every = [counter for preset in counters.PRESETS.values() for counter in preset]
    late = {"DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION"} if line in ((25, 10), None) else set()
    left = {counter.name for counter in every} - {
        counter.name for counter in counters.wanted(counters.PRESETS, (), (), line)
    }
    assert left == late
    assert {counter.kind for counter in every} == {"gauge", "counter", "label"}


def test_names_are_found_in_expressions() -> None:
    assert counters.mentioned("fields that begin with DCGM_FI_PROF_ and DCGM_FI_PROF_.*") == set()
    text = 'max by (gpu) (DCGM_FI_DEV_GPU_TEMP{a="DCGM_FI_X"}) + DCGM_EXP_XID_ERRORS_COUNT / my_DCGM_FI_DEV_FB_FREE'
    assert counters.mentioned(text) == {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_X", "DCGM_EXP_XID_ERRORS_COUNT"}


def test_what_is_wanted_is_presets_then_needs_then_the_users_own() -> None:
    own = Counter("DCGM_FI_DEV_GPU_TEMP", "gauge", "Mine.")
    found = counters.wanted(["default"], {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_TOTAL"}, [own], (26, 7))
    assert len(found) == 27 and own in found
    assert found[-1].name == "DCGM_FI_DEV_FB_TOTAL"
    assert counters.wanted([], [], [], None) == []


def test_a_need_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(GpuOpsError) as error:
        counters.wanted([], {"DCGM_FI_DEV_FAN_SPEED"}, [], (26, 7))
    assert error.value.msg == wording(
        "The type of DCGM_FI_DEV_FAN_SPEED is not known: give name, type and help in fields."
    )


def test_a_need_of_an_unknown_type_is_met_by_a_field_of_the_users() -> None:
    own = Counter("DCGM_FI_DEV_FAN_SPEED", "gauge", "Speed.")
    assert counters.wanted([], {"DCGM_FI_DEV_FAN_SPEED"}, [own], (26, 7)) == [own]


def test_of_an_unknown_line_only_the_users_own_counters_may_be_too_new() -> None:
    own = counters.own_counters([field("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION")], None)
    assert counters.wanted([], {"DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION"}, [], None) == []
    assert counters.wanted(["health"], [], own, None)[-1:] == own


def field(name: str = "DCGM_FI_DEV_FB_TOTAL", kind: str = "gauge", text: str = "Memory.") -> dict[str, str]:
    return {"name": name, "type": kind, "help": text}


def test_own_fields_are_taken_with_their_ends_trimmed() -> None:
    assert counters.own_counters([field(" DCGM_FI_DEV_FB_TOTAL ", text=" All memory ")], None) == [
        Counter("DCGM_FI_DEV_FB_TOTAL", "gauge", "All memory")
    ]


@pytest.mark.parametrize(("name", "kind"), [("DCGM_EXP_XID_ERRORS_COUNT", "gauge"), ("DCGM_FI_DEV_SERIAL", "label")])
def test_metrics_of_the_exporter_itself_and_labels_are_taken(name: str, kind: str) -> None:
    assert counters.own_counters([field(name, kind)], None) == [Counter(name, kind, "Memory.")]


@pytest.mark.parametrize(
    ("fields", "line", "said"),
    [
        (
            [field("DCGM_FI_DEV_FB_TOTL")],
            (26, 7),
            wording(
                "fields[0].name: the exporter of v26.7 has no field 'DCGM_FI_DEV_FB_TOTL', use DCGM_FI_DEV_FB_TOTAL or DCGM_FI_DEV_BAR1_TOTAL."
            ),
        ),
        (
            [field("nvidia_gpu_temperature")],
            None,
            wording(
                "fields[0].name: the exporter of this operator has no field 'nvidia_gpu_temperature', look it up in DCGM's list of fields."
            ),
        ),
        (
            [field("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION")],
            (25, 10),
            wording(
                "fields[0].name: the exporter of v25.10 has no field 'DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION', look it up in DCGM's list of fields."
            ),
        ),
        ([field(text="")], None, wording("fields[0].help: give DCGM_FI_DEV_FB_TOTAL a help text of one line.")),
        ([field(text="one\ntwo")], None, wording("fields[0].help: give DCGM_FI_DEV_FB_TOTAL a help text of one line.")),
        (
            [field(), field("DCGM_EXP_XID_ERRORS_COUNT", "label")],
            None,
            wording(
                "fields[1].type: DCGM_EXP_XID_ERRORS_COUNT is a metric of the exporter itself, use gauge or counter."
            ),
        ),
        ([field(), field(kind="counter")], None, wording("fields: DCGM_FI_DEV_FB_TOTAL is there 2 times; keep one.")),
    ],
    ids=["near", "far", "too old", "no help", "two lines", "own label", "twice"],
)
def test_wrong_fields_are_named(fields: list[dict[str, str]], line: dcgm_fields.OperatorLine | None, said: str) -> None:
    with pytest.raises(GpuOpsError) as error:
        counters.own_counters(fields, line)
    assert (error.value.msg, error.value.details["reason"]) == (said, "Invalid")


def test_everything_wrong_is_told_at_once() -> None:
    with pytest.raises(GpuOpsError) as error:
        counters.own_counters([field("A", text=""), field("B")], None)
    assert len(error.value.details["problems"]) == 3


def test_a_list_has_three_columns_and_quotes_what_would_add_one() -> None:
    text = counters.text_of([Counter("DCGM_A", "gauge", 'a, "b" \\ c'), Counter("DCGM_B", "label", "plain")])
    assert text == 'DCGM_A,gauge,"a, ""b"" / c"\nDCGM_B,label,plain\n'
    assert counters.names_in("# DCGM_C, gauge, no\n" + text + "broken\n") == ["DCGM_A"]


STRICT_LINE = re.compile(r'[A-Z0-9_]+,(?:gauge|counter|label),(?:[^",\r\n]*|"(?:[^"]|"")*")')
"""Three columns as Go's encoding/csv takes them: a quote is in a quoted column only, and doubled there."""


@given(st.lists(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1), min_size=1))
def test_every_help_text_survives_the_list(helps: list[str]) -> None:
    written = counters.text_of([Counter(f"DCGM_{number}", "gauge", text) for number, text in enumerate(helps)])
    assert all(map(STRICT_LINE.fullmatch, written.removesuffix("\n").split("\n")))
    rows = list(csv.reader(written.splitlines()))
    assert [row[2] for row in rows] == [text.replace("\\", "/") for text in helps]


def test_another_content_has_another_digest() -> None:
    assert counters.digest("a") != counters.digest("b") and len(counters.digest("a")) == 8
