# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which GPU and which pod a sample of the DCGM exporter is about, whatever its labels are called. Pure.

Sources: ``internal/pkg/rendermetrics/render_metrics.go`` and ``internal/pkg/transformation/kubernetes.go`` of
https://github.com/NVIDIA/dcgm-exporter (4.5.3-4.8.2), and answers of earlier exporters in its issues.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._exposition import MetricSample
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import promql

UUIDS = ("UUID", "uuid")
"""The second one is the old name (``DCGM_EXPORTER_USE_OLD_NAMESPACE``)."""
PROFILE, INSTANCE = "GPU_I_PROFILE", "GPU_I_ID"
"""What only instances of MIG have."""

_OWN = ("namespace", "pod", "container")
_OLD = ("pod_namespace", "pod_name", "container_name")
_FOREIGN = ("exported_namespace", "exported_pod", "exported_container")
"""What Prometheus makes of the exporter's labels if those of the scraped pod win (``honorLabels: false``)."""

HOLDERS = (*_OWN, *_OLD, *_FOREIGN)
CLOCK_EVENT = "clock_event"


class GpuHolder(t.NamedTuple):
    """A container that has a GPU."""

    namespace: str
    pod: str
    container: str


class GpuKey(t.NamedTuple):
    """What tells GPUs and instances of MIG apart. ``instance`` is empty for a whole GPU."""

    node: str
    gpu: str
    uuid: str
    instance: str = ""

    @property
    def whole(self) -> GpuKey:
        """The GPU that an instance is a part of, or this GPU."""
        return self._replace(instance="")


class GpuSeries(t.NamedTuple):
    """A value of one GPU or instance. ``is_named`` is false if the labels do not tell who holds it."""

    key: GpuKey
    metric: str
    value: float
    holder: GpuHolder | None = None
    is_named: bool = True
    model: str = ""
    profile: str = ""
    event: str = ""
    job: str = ""


def of_exporter(node: str, sample: MetricSample) -> GpuSeries | None:
    """Return a sample from a node's exporter as the series of a GPU, or None if it is about no GPU."""
    return _series(node, sample, (_OWN, _OLD), lambda holder: False)


def of_prometheus(node: str, sample: MetricSample, is_exporters: t.Callable[[GpuHolder], bool]) -> GpuSeries | None:
    """Return a sample from a Prometheus as the series of a GPU, or None if it is about no GPU.

    ``pod`` may be the scraped pod, which is the exporter's. It holds nothing.
    """
    return _series(node, sample, (_FOREIGN, _OLD, _OWN), is_exporters)


def _series(
    node: str,
    sample: MetricSample,
    shapes: t.Iterable[tuple[str, str, str]],
    is_exporters: t.Callable[[GpuHolder], bool],
) -> GpuSeries | None:
    labels = sample.labels
    gpu, uuid = labels.get("gpu", ""), first_of(labels, UUIDS)
    if not gpu and not uuid:
        return None
    shape = next((each for each in shapes if labels.get(each[0]) and labels.get(each[1])), _OWN)
    named = GpuHolder(*(labels.get(label, "") for label in shape))
    holds = named.pod and not is_exporters(named)
    return GpuSeries(
        GpuKey(node, gpu, uuid, labels.get(INSTANCE, "")),
        sample.name,
        sample.value,
        named if holds else None,
        not sample.repeated.intersection(shape),
        labels.get("modelName", ""),
        labels.get(PROFILE, ""),
        labels.get(CLOCK_EVENT, ""),
        labels.get(promql.JOB, ""),
    )


def first_of(labels: t.Mapping[str, str], names: t.Iterable[str]) -> str:
    """Return the first of these labels that has a value, or an empty string."""
    return next((labels[name] for name in names if labels.get(name)), "")
