# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When alerts fire is tested by Prometheus's promtool: tests/integration/test_alert_rules.py."""

from __future__ import annotations

import dataclasses
import re

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import counters, dcgm_fields, rule_groups
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import Alert, Thresholds

LIMITS = Thresholds()
ALL = rule_groups.alerts(LIMITS)
NEWEST = (26, 7)


def test_names_are_unique() -> None:
    assert len(set(rule_groups.NAMES)) == len(ALL) == 28


@pytest.mark.parametrize("line", [None, (25, 10), (26, 3), NEWEST])
def test_an_alert_reads_only_what_the_exporter_of_its_line_knows(line: dcgm_fields.OperatorLine | None) -> None:
    on = rule_groups.chosen(LIMITS, (), line)
    fields = rule_groups.fields_of(on)
    assert fields <= dcgm_fields.names(line)
    assert counters.described(fields)
    assert ("GpuRecoveryAction" in {alert.name for alert in on}) == (line in ((26, 3), NEWEST))


def test_alerts_are_switched_off_by_name() -> None:
    on = rule_groups.chosen(LIMITS, ["GpuLost", "GpuRowRemapPending"], NEWEST)
    assert len(on) == len(ALL) - 2 and "DCGM_FI_DEV_ROW_REMAP_PENDING" not in rule_groups.fields_of(on)


def test_without_alerts_the_recordings_still_need_their_field() -> None:
    assert rule_groups.fields_of([]) == {"DCGM_FI_DEV_GPU_TEMP"}


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(GpuOpsError, match="There is no alert GpuGone, GpuOut") as error:
        rule_groups.chosen(LIMITS, ["GpuOut", "GpuLost", "GpuGone"], None)
    assert error.value.details["reason"] == "Invalid"


@pytest.mark.parametrize("alert", ALL, ids=lambda alert: alert.name)
def test_texts_name_labels_that_the_expression_keeps(alert: Alert) -> None:
    shown = set(re.findall(r"\$labels\.(\w+)", alert.summary))
    (kept,) = re.findall(r"^\(*(?:max|sum|count) by \(([^)]*)\)", alert.expression) or [""]
    of_node = "gpuops:node_gpus:count" in alert.expression
    assert shown <= {*kept.split(", "), *(["node"] if of_node else [])}
    assert all(text.endswith((".", "finished no node for 2h.")) for text in (alert.cause, alert.look, alert.remedy))


def test_rules_have_what_prometheus_needs() -> None:
    on = rule_groups.chosen(LIMITS, (), NEWEST)
    recordings, alerts = rule_groups.groups(on, LIMITS, {"team": "gpu", "severity": "none"})
    assert [rule["record"] for rule in recordings["rules"]] == [
        "gpuops:node_gpus:count",
        "gpuops:node_out_of_service:max",
    ]
    assert "[15m]" in recordings["rules"][1]["expr"]
    by_name = {rule["alert"]: rule for rule in alerts["rules"]}
    assert list(by_name) == [alert.name for alert in on]
    assert by_name["GpuLost"]["labels"] == {"team": "gpu", "severity": "critical"}
    assert by_name["GpuLost"]["for"] == "5m" and "keep_firing_for" not in by_name["GpuLost"]
    assert "for" not in by_name["GpuXidReset"] and by_name["GpuXidReset"]["keep_firing_for"] == "30m"
    assert by_name["GpuLost"]["annotations"]["runbook_url"].endswith("/reference/alerts.html#gpulost")
    silent = "unless on (node) (gpuops:node_out_of_service:max == 1)"
    for alert in on:
        assert by_name[alert.name]["expr"].endswith(silent) is alert.is_silent_in_maintenance


def test_thresholds_reach_the_rules() -> None:
    limits = Thresholds(7, "5h", "6m", "7h", "8m", "9m")
    text = str(rule_groups.groups(rule_groups.chosen(limits, (), NEWEST), limits, {}))
    for value in ("< 7", "'for': '5h'", "'for': '6m'", "[7h]", "'for': '8m'", "[9m]"):
        assert value in text, value
    assert len(dataclasses.fields(limits)) == 6
