# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring.monitoring_request import request_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import Thresholds
from inline_snapshot import snapshot as wording

DEFAULTS: dict[str, t.Any] = {
    "state": "present",
    "policy_name": "",
    "namespace": "",
    "presets": ["default"],
    "fields": [],
    "alerts": True,
    "alerts_off": [],
    "thresholds": None,
    "alert_labels": {},
    "dashboards": {},
    "scrape": True,
    "interval": "30s",
    "prometheus": "",
    "labels": {},
    "job_directory": "",
    "wait": True,
    "wait_timeout": 600,
    "progress_path": None,
}


def test_what_is_not_given_keeps_its_default() -> None:
    given = {"temperature_margin": 0, "idle_after": None, "grace": "1h30m"}
    request = request_of({**DEFAULTS, "thresholds": given, "labels": {"a": 1}})
    assert request.thresholds == Thresholds(temperature_margin=0, grace="1h30m")
    assert request.labels == {"a": "1"} and not request.is_absent
    assert request_of({**DEFAULTS, "state": "absent"}).is_absent
    assert request_of(DEFAULTS).thresholds == Thresholds()


def test_dashboards_are_texts_or_data() -> None:
    found = request_of({**DEFAULTS, "dashboards": {"a": '{"x": 1}', "b": {"y": 2}}}).dashboards
    assert found == {"a": '{"x": 1}', "b": '{"y": 2}'}


@pytest.mark.parametrize("path", ["/run/jobs", "/run//jobs/", "/run/./jobs"])
def test_the_folder_of_jobs_is_written_in_one_way(path: str) -> None:
    assert request_of({**DEFAULTS, "job_directory": path}).job_directory == "/run/jobs"
    assert request_of(DEFAULTS).job_directory == ""


@pytest.mark.parametrize(
    "path", ["jobs", "/", "//", "//run/jobs", "/run/../jobs", "/run/a\nb", "~/jobs", "/run/{{ x }}"]
)
def test_what_is_no_folder_is_refused(path: str) -> None:
    with pytest.raises(GpuOpsError, match=r"^job_directory is "):
        request_of({**DEFAULTS, "job_directory": path})


@pytest.mark.parametrize("text", ["1y2w3d4h5m6s7ms", "10m", "90s", "7ms"])
def test_a_duration_is_taken_as_it_is_written(text: str) -> None:
    assert request_of({**DEFAULTS, "interval": text}).interval == text


@pytest.mark.parametrize("text", ["", "0", "30", "0h0m", "30m1h", "1h1h", "1.5h", "-1h", "1h ", "soon"])
def test_what_prometheus_takes_for_no_duration_is_refused(text: str) -> None:
    with pytest.raises(GpuOpsError, match=r"^thresholds\.idle_after is "):
        request_of({**DEFAULTS, "thresholds": {"idle_after": text}})


@pytest.mark.parametrize("name", ["__name__", "1a", "a.b", ""])
def test_what_prometheus_takes_for_no_label_is_refused(name: str) -> None:
    assert request_of({**DEFAULTS, "alert_labels": {"_Team1": "a"}}).alert_labels == {"_Team1": "a"}
    with pytest.raises(GpuOpsError, match=r"^alert_labels: "):
        request_of({**DEFAULTS, "alert_labels": {name: "a"}})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"interval": "30 s"},
            wording("interval is '30 s': give a duration of Prometheus above zero, such as 30s or 1h30m."),
        ),
        (
            {"thresholds": {"grace": "soon"}},
            wording("thresholds.grace is 'soon': give a duration of Prometheus above zero, such as 30s or 1h30m."),
        ),
        ({"labels": {"a": {}}}, wording("labels.a is no text: labels have texts as values, such as 'true' in quotes.")),
        (
            {"alert_labels": {"b": []}},
            wording("alert_labels.b is no text: labels have texts as values, such as 'true' in quotes."),
        ),
        (
            {"labels": {"a": True}},
            wording("labels.a is no text: labels have texts as values, such as 'true' in quotes."),
        ),
        (
            {"labels": {"a": None}},
            wording("labels.a is no text: labels have texts as values, such as 'true' in quotes."),
        ),
        (
            {"alert_labels": {"my-team": "gpu"}},
            wording(
                "alert_labels: 'my-team' is no name for a label in Prometheus. Use letters, digits and underscores."
            ),
        ),
        (
            {"thresholds": {"grace": "0m"}},
            wording("thresholds.grace is '0m': give a duration of Prometheus above zero, such as 30s or 1h30m."),
        ),
        (
            {"dashboards": {"Fleet": "{}"}},
            wording("dashboards: 'Fleet' is no name for a ConfigMap. Use a-z, 0-9 and hyphens."),
        ),
        (
            {"dashboards": {"fleet": "{"}},
            wording(
                "dashboards.fleet is no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)."
            ),
        ),
        ({"dashboards": {"fleet": "[]"}}, wording("dashboards.fleet is no JSON object, as Grafana writes dashboards.")),
    ],
)
def test_what_cannot_be_meant_is_named(options: dict[str, t.Any], said: str) -> None:
    with pytest.raises(GpuOpsError) as error:
        request_of({**DEFAULTS, **options})
    assert (error.value.msg, error.value.details["reason"]) == (said, "Invalid")
