# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the GPUs of a fleet do now and who holds them, from the exporters themselves or from a Prometheus."""

from __future__ import annotations

import collections
import dataclasses
import typing as t
from datetime import UTC, datetime

from ansible_collections.gpuops.nvidia.plugins.module_utils import _exposition
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics import (
    gpu_past,
    gpu_readings,
    gpu_series,
    gpu_usage,
    metrics_request,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_past import (
    GpuPast,
    Steps,
    TimeRange,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_readings import GpuReading
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_series import GpuSeries
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_usage import UsedGpu
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.metrics_request import (
    PrometheusRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.prometheus_api import PrometheusApi
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.prometheus_fleet import (
    ExporterPods,
    FleetSeries,
    PrometheusFleet,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import exporter_answers, metrics
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.exporter_answers import (
    ExporterAnswer,
    ExporterFleet,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import GpuPod, gpu_pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import with_warnings
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class NodeReport:
    """Whether the metrics of a node are there, and cover its GPUs."""

    node: str
    ok: bool
    reason: str
    pod: str | None
    gpus: int
    expected_gpus: int | None
    unread_lines: int = 0


@dataclasses.dataclass(frozen=True)
class _Found:
    """What a source has said."""

    reports: list[NodeReport]
    series: list[GpuSeries]
    time: TimeRange | None = None
    highest: Steps = dataclasses.field(default_factory=dict)
    means: Steps = dataclasses.field(default_factory=dict)
    warnings: list[str] = dataclasses.field(default_factory=list)

    def past_of(self, reading: GpuReading) -> GpuPast:
        """Return what the source remembers of a GPU."""
        return gpu_past.past_of(reading, self.highest, self.means, self.time) if self.time else gpu_past.NO_PAST


def metrics_info(cluster: Cluster, options: Options, holders: t.Sequence[GpuPod] | None = None) -> Json:
    """Return the module's result. ``holders`` are the pods with GPUs, for a caller that has listed them."""
    request = metrics_request.request_of(options)
    fleet = exporter_answers.read_fleet(cluster, options)
    if holders is None:
        holders = gpu_pods(cluster, options["namespace"]) if options["allocated"] else []
    asked = request.prometheus
    found = _from_exporters(cluster, options, fleet) if asked is None else _from_prometheus(asked, options, fleet)
    nodes = {report.node for report in found.reports}
    readings = gpu_readings.readings(found.series)
    missing = gpu_usage.unnamed(readings, (pod for pod in holders if pod.node in nodes))
    readings = gpu_usage.without_guesses(readings, missing)
    gpus = [gpu_usage.used(each, found.past_of(each), request.rule) for each in readings]
    return with_warnings(_result(found, gpus, missing, request.rule), found.warnings)


def _result(found: _Found, gpus: t.Sequence[UsedGpu], missing: t.Sequence[GpuPod], rule: gpu_usage.IdleRule) -> Json:
    silent = sum(not report.gpus for report in found.reports)
    return {
        "source": "exporters" if found.time is None else "prometheus",
        "time_range": None if found.time is None else _time_range(found.time),
        "gpus": list(map(gpu_usage.gpu_row, gpus)),
        "namespaces": gpu_usage.namespace_rows(gpus, missing, rule),
        "idle_holders": gpu_usage.idle_rows(gpus, rule),
        "unnamed_pods": [
            {"namespace": pod.namespace, "name": pod.name, "node": pod.node, "gpus": dict(pod.gpus)} for pod in missing
        ],
        "unknown": gpu_usage.unknown_rows(gpus),
        "nodes": [dataclasses.asdict(report) for report in found.reports],
        "summary": {
            "nodes": len(found.reports),
            "nodes_without_metrics": silent,
            **gpu_usage.summary(gpus, rule),
        },
    }


def _time_range(time: TimeRange) -> Json:
    return {"begin": _moment(time.first - time.step_s), "end": _moment(time.end), "step_s": time.step_s}


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# ---- the exporters ------------------------------------------------------------------------------------------------


def _from_exporters(cluster: Cluster, options: Options, fleet: ExporterFleet) -> _Found:
    answers = exporter_answers.ask_each(cluster, options, fleet, _read)
    return _Found([report for report, dummy in answers], [each for dummy, series in answers for each in series])


def _read(answer: ExporterAnswer) -> tuple[NodeReport, list[GpuSeries]]:
    if answer.reason:
        return NodeReport(answer.node, False, answer.reason, answer.pod, 0, answer.expected_gpus), []
    read = _exposition.read(answer.text if answer.status == 200 else "")
    count = len(metrics.uuids(read.samples))
    reason = metrics.fault(answer.status, count, answer.expected_gpus)
    report = NodeReport(answer.node, not reason, reason, answer.pod, count, answer.expected_gpus, read.unread)
    wanted = (each for each in read.samples if each.name in gpu_readings.READ_METRICS)
    return report, [each for sample in wanted if (each := gpu_series.of_exporter(answer.node, sample))]


# ---- a Prometheus -------------------------------------------------------------------------------------------------


def _from_prometheus(asked: PrometheusRequest, options: Options, fleet: ExporterFleet) -> _Found:
    api = PrometheusApi(asked.server)
    exporters = ExporterPods(options["namespace"], fleet.pods)
    time = TimeRange(api.now(), asked.range_s)
    read = PrometheusFleet(api, asked.match, fleet.nodes, exporters).read(time)
    chosen = exporter_answers.targets(fleet, options["nodes"])
    if options["nodes"] is None:
        chosen = {**dict.fromkeys(each.key.node for each in read.now), **chosen}
    series = [each for each in read.now if each.key.node in chosen]
    gpus: dict[str, set[str]] = collections.defaultdict(set)
    for each in series:
        gpus[each.key.node].add(each.key.uuid or each.key.gpu)
    seen = gpu_past.last_seen(read.highest)
    reports = [_remembered(name, chosen[name], len(gpus[name]), fleet, seen.get(name)) for name in sorted(chosen)]
    return _Found(reports, series, time, read.highest, read.means, _warnings(read))


def _remembered(name: str, pod: Json | None, gpus: int, fleet: ExporterFleet, seen: int | None) -> NodeReport:
    """Return whether a Prometheus has metrics of all GPUs of a node."""
    expected = exporter_answers.expected_gpus(fleet.nodes.get(name))
    reason = ""
    if name not in fleet.nodes:
        reason = "There is no such node."
    elif not gpus and seen is not None:
        reason = f"Prometheus has had no metrics of the node's GPUs since {_moment(seen)}. Look at its exporter."
    elif not gpus:
        reason = "Prometheus has no metrics of the node's GPUs. Look at its target, and at prometheus.match."
    elif expected is not None and gpus != expected:
        reason = f"Prometheus has metrics of {gpus} GPUs, but the node has {expected}."
    return NodeReport(name, not reason, reason, pod["name"] if pod else None, gpus, expected)


def _warnings(read: FleetSeries) -> list[str]:
    said = [f"Prometheus warns: {text}. What it answers may be incomplete." for text in read.warnings]
    if read.foreign:
        names = first_few(sorted(read.foreign))
        said.append(f"Prometheus has GPUs of nodes that this cluster does not have, which are left out: {names}.")
    return said
