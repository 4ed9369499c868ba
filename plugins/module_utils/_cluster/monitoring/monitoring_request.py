# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the options of gpu_monitoring ask for, checked once."""

from __future__ import annotations

import dataclasses
import json
import posixpath
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import Thresholds
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_DURATION = re.compile("".join(rf"(?:\d+{unit})?" for unit in ("y", "w", "d", "h", "m", "s", "ms")))
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_FOLDER = re.compile(r"/(?!/)[\w.@%+/ -]*")
DEFAULT_FOLDER = "/var/lib/dcgm-exporter/job-mapping"
"""The operator's own default (``DefaultDCGMJobMappingDir`` in ``api/nvidia/v1/clusterpolicy_types.go``)."""
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")


@dataclasses.dataclass(frozen=True)
class MonitoringRequest:
    """The normalised options."""

    is_absent: bool
    policy_name: str
    namespace: str
    presets: tuple[str, ...]
    fields: tuple[Json, ...]
    has_alerts: bool
    alerts_off: tuple[str, ...]
    thresholds: Thresholds
    alert_labels: dict[str, str]
    dashboards: dict[str, str]
    scrapes: bool
    interval: str
    prometheus: str
    labels: dict[str, str]
    job_directory: str
    waits: bool
    timeout_s: float
    progress_path: str | None


def request_of(options: t.Mapping[str, t.Any]) -> MonitoringRequest:
    """Return what the options ask for. Raise GpuOpsError for what cannot be meant."""
    return MonitoringRequest(
        is_absent=options["state"] == "absent",
        policy_name=options["policy_name"],
        namespace=options["namespace"],
        presets=tuple(options["presets"]),
        fields=tuple(options["fields"]),
        has_alerts=options["alerts"],
        alerts_off=tuple(options["alerts_off"]),
        thresholds=_thresholds(options["thresholds"] or {}),
        alert_labels=_alert_labels(options["alert_labels"]),
        dashboards=_dashboards(options["dashboards"]),
        scrapes=options["scrape"],
        interval=_duration("interval", options["interval"]),
        prometheus=options["prometheus"],
        labels=_texts("labels", options["labels"]),
        job_directory=_directory(options["job_directory"]),
        waits=options["wait"],
        timeout_s=options["wait_timeout"],
        progress_path=options["progress_path"],
    )


def _thresholds(given: t.Mapping[str, t.Any]) -> Thresholds:
    chosen = {name: value for name, value in given.items() if value is not None}
    for name, value in chosen.items():
        if isinstance(value, str):
            _duration(f"thresholds.{name}", value)
    return Thresholds(**chosen)


def _duration(option: str, text: str) -> str:
    """Return a duration. Prometheus refuses a file of rules with a range of no length."""
    if not _DURATION.fullmatch(text) or not text.strip("0ywdhms"):
        raise GpuOpsError(
            f"{option} is {text!r}: give a duration of Prometheus above zero, such as 30s or 1h30m.", reason="Invalid"
        )
    return text


def _directory(path: str) -> str:
    """Return the folder of job files without a slash at its end, or an empty string."""
    cleaned = posixpath.normpath(path) if path else ""
    if cleaned and (not _FOLDER.fullmatch(cleaned) or cleaned == "/" or ".." in path.split("/")):
        raise GpuOpsError(
            f"job_directory is {path!r}: give the absolute path of a folder on the nodes, such as {DEFAULT_FOLDER}.",
            reason="Invalid",
        )
    return cleaned


def _alert_labels(given: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return the labels of alerts. Prometheus refuses a file of rules with a name that it does not take."""
    wrong = [key for key in given if not _LABEL.fullmatch(key)]
    if wrong:
        raise GpuOpsError(
            f"alert_labels: {wrong[0]!r} is no name for a label in Prometheus. Use letters, digits and underscores.",
            reason="Invalid",
        )
    return _texts("alert_labels", given)


def _texts(option: str, given: t.Mapping[str, t.Any]) -> dict[str, str]:
    wrong = [key for key, value in given.items() if value is None or isinstance(value, (bool, dict, list))]
    if wrong:
        raise GpuOpsError(
            f"{option}.{wrong[0]} is no text: labels have texts as values, such as 'true' in quotes.", reason="Invalid"
        )
    return {str(key): str(value) for key, value in given.items()}


def _dashboards(given: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return the dashboards as texts of JSON, by name."""
    found = {}
    for name, value in given.items():
        if not _NAME.fullmatch(name):
            raise GpuOpsError(
                f"dashboards: {name!r} is no name for a ConfigMap. Use a-z, 0-9 and hyphens.", reason="Invalid"
            )
        found[name] = value if isinstance(value, str) else json.dumps(value)
        try:
            parsed = json.loads(found[name])
        except ValueError as error:
            raise GpuOpsError(f"dashboards.{name} is no JSON: {error}.", reason="Invalid") from error
        if not isinstance(parsed, dict):
            raise GpuOpsError(f"dashboards.{name} is no JSON object, as Grafana writes dashboards.", reason="Invalid")
    return found
