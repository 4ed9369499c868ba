# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The fleet's series in a Prometheus: now, and over a time range.

A GPU may have several series with the same meaning: of a pair of servers, of a Service that is scraped twice, of
several pods. The server gives the largest of those whose labels agree, and the rest is done by GPU here.
"""

from __future__ import annotations

import collections
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics import gpu_series
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_past import (
    Steps,
    StepSeries,
    TimeRange,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_readings import (
    ENGINE_ACTIVE,
    GPU_UTIL,
    READ_METRICS,
    is_value,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_series import (
    GpuHolder,
    GpuKey,
    GpuSeries,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.prometheus_api import PrometheusApi
from ansible_collections.gpuops.nvidia.plugins.module_utils._exposition import MetricSample
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import promql
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_OF_GPU = (*promql.NODE, "instance", "gpu", *gpu_series.UUIDS, gpu_series.INSTANCE)
_KEPT = (*_OF_GPU, gpu_series.PROFILE, "modelName", *gpu_series.HOLDERS, gpu_series.CLOCK_EVENT)
"""The labels that tell GPUs, holders and nodes. All others may differ without meaning another GPU."""

_EXPORTERS_POD = re.compile(promql.EXPORTERS_PODS)
_DAEMONSET_POD = re.compile(r"(.+)-[a-z0-9]{5}")


class ExporterPods:
    """Knows the pods of the exporters, which Prometheus may name as if they held the GPUs that they watch.

    ``rows`` are those that run now. Their predecessors have the same name but for its last five letters.
    """

    def __init__(self, namespace: str, rows: t.Iterable[Json]) -> None:
        self._namespace = namespace
        self.nodes = {row["name"]: row["node"] for row in rows}
        found = (_DAEMONSET_POD.fullmatch(name) for name in self.nodes)
        self._sets = {each[1] for each in found if each}

    def have(self, holder: GpuHolder) -> bool:
        """Return whether a pod is an exporter's."""
        made = _DAEMONSET_POD.fullmatch(holder.pod)
        is_known = holder.pod in self.nodes or (made is not None and made[1] in self._sets)
        return (is_known and holder.namespace == self._namespace) or bool(_EXPORTERS_POD.fullmatch(holder.pod))


class FleetSeries(t.NamedTuple):
    """What a Prometheus has of the fleet's GPUs."""

    now: list[GpuSeries]
    highest: Steps
    means: Steps
    foreign: set[str]
    """What series call a node that this cluster does not have."""
    warnings: list[str]


class PrometheusFleet:
    """Reads the series of a cluster's GPUs. ``match`` are labels that each series has."""

    def __init__(
        self, api: PrometheusApi, match: t.Mapping[str, str], nodes: t.Collection[str], exporters: ExporterPods
    ) -> None:
        self._api, self._match, self._nodes, self._exporters = api, match, nodes, exporters
        self._foreign: set[str] = set()

    def read(self, time: TimeRange) -> FleetSeries:
        """Return the series of now, and the utilisation over a time range that ends now."""
        now, warnings = self._api.instant(self._now(), time.end)
        series = [each for found in now if (each := self._instant(found))]
        steps = []
        for how in ("max", "avg"):
            found, said = self._api.steps(self._over(how, time), time.first, time.end, time.step_s)
            steps.append(self._steps(found))
            warnings += said
        return FleetSeries(series, steps[0], steps[1], self._foreign, list(dict.fromkeys(warnings)))

    # ---- expressions

    def _now(self) -> str:
        return f"max by (__name__, {promql.JOB}, {', '.join(_KEPT)}) ({self._selector('|'.join(READ_METRICS))})"

    def _over(self, how: str, time: TimeRange) -> str:
        """Return the expression for the utilisation in each step in percent, by the better metric if a GPU has it."""

        def of(metric: str) -> str:
            return f"max by ({', '.join(_KEPT)}) ({how}_over_time({self._selector(metric)}[{time.step_s}s]))"

        return f"{of(ENGINE_ACTIVE)} * 100 or ({of(GPU_UTIL)} unless on ({', '.join(_OF_GPU)}) {of(ENGINE_ACTIVE)})"

    def _selector(self, names: str) -> str:
        matchers = "".join(f",{label}={_quoted(value)}" for label, value in sorted(self._match.items()))
        return f'{{__name__=~"{names}"{matchers}}}'

    # ---- series

    def _instant(self, found: t.Any) -> GpuSeries | None:
        try:
            return self._series(found, float(found["value"][1]))
        except (TypeError, KeyError, IndexError, ValueError, AttributeError):
            return None

    def _steps(self, answer: t.Iterable[t.Any]) -> Steps:
        gpus: dict[GpuKey, list[StepSeries]] = collections.defaultdict(list)
        for found in answer:
            try:
                series = self._series(found, 0.0)
                values = {round(moment): float(value) for moment, value in found["values"]}
            except (TypeError, KeyError, ValueError, AttributeError):
                continue
            known = {moment: min(100.0, value) for moment, value in values.items() if is_value(value)}
            if series and known:
                holder = series.holder
                gpus[series.key].append(StepSeries((holder.namespace, holder.pod) if holder else None, known))
        return gpus

    def _series(self, found: t.Any, value: float) -> GpuSeries | None:
        labels = {str(name): str(text) for name, text in found["metric"].items()}
        sample = MetricSample(labels.get("__name__", ""), labels, value)
        node = self._node(labels)
        series = gpu_series.of_prometheus(node, sample, self._exporters.have)
        if series and node not in self._nodes:
            self._foreign.add(node or labels.get("instance", ""))
            return None
        return series

    def _node(self, labels: t.Mapping[str, str]) -> str:
        """Return the node of a series. Without NODE_NAME, exporters give the name of their pod as that of the host."""
        named = [labels[label] for label in (*promql.NODE, "pod") if labels.get(label)]
        for name in named:
            if name in self._nodes or name in self._exporters.nodes:
                return str(self._exporters.nodes.get(name, name))
        return gpu_series.first_of(labels, promql.NODE)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
