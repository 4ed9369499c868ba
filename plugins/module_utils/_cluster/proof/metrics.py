# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Ask every DCGM exporter for its metrics, and judge whether they cover the node's GPUs."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _exposition
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import exporter_answers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof.exporter_answers import ExporterAnswer
from ansible_collections.gpuops.nvidia.plugins.module_utils._exposition import MetricSample
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.promql import JOB as _JOB
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few, one_line
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class NodeMetrics:
    """The report of one node's exporter, and the verdict on it."""

    node: str
    ok: bool = False
    reason: str = ""
    pod: str | None = None
    gpus: int = 0
    expected_gpus: int | None = None
    metrics: list[str] = dataclasses.field(default_factory=list)
    jobs: list[str] = dataclasses.field(default_factory=list)
    job_problem: str = ""


def exporter_info(cluster: Cluster, options: t.Mapping[str, t.Any]) -> Json:
    """Ask the exporters and count the answers; return the module's result."""
    refuse_below(options, parallel=1, timeout=1, port=1)
    rows = ask_all(cluster, options)
    good = sum(row.ok for row in rows)
    return {
        "ok": bool(rows) and good == len(rows),
        "reason": _explain(rows),
        "results": [dataclasses.asdict(row) for row in rows],
        "summary": {"nodes": len(rows), "ok": good, "failed": len(rows) - good, "gpus": sum(row.gpus for row in rows)},
    }


def ask_all(cluster: Cluster, options: t.Mapping[str, t.Any]) -> list[NodeMetrics]:
    """Ask the exporter of every chosen node, ``parallel`` at a time."""
    fleet = exporter_answers.read_fleet(cluster, options)
    return exporter_answers.ask_each(cluster, options, fleet, lambda answer: _judged(answer, options["metrics"]))


def _judged(answer: ExporterAnswer, wanted: t.Iterable[str]) -> NodeMetrics:
    if answer.reason or answer.pod is None:
        return NodeMetrics(answer.node, reason=answer.reason, pod=answer.pod, expected_gpus=answer.expected_gpus)
    return judge(answer.node, answer.pod, answer.status, answer.text, expected=answer.expected_gpus, wanted=wanted)


def _explain(rows: list[NodeMetrics]) -> str:
    """Return one line that says which nodes are not ok and why, or an empty string."""
    if not rows:
        return (
            "No node runs a DCGM exporter, and no node is labelled to run one. "
            "Check dcgmExporter.enabled, namespace and label_selector."
        )
    bad = [f"{row.node}: {one_line(row.reason)}" for row in rows if not row.ok]
    return f"{first_few(bad, separator='; ')}." if bad else ""


# ---- the verdict on one answer ------------------------------------------------------------------------------------


def judge(node: str, pod: str, status: int, text: str, *, expected: int | None, wanted: t.Iterable[str]) -> NodeMetrics:
    """Judge the answer of one exporter."""
    samples = [each for each in _exposition.read(text).samples if each.name.startswith("DCGM_")]
    gpus, metrics = len(uuids(samples)), sorted({each.name for each in samples})
    reason = fault(status, gpus, expected)
    missing = [name for name in wanted if name not in metrics]
    if missing and not reason:
        reason = f"The exporter does not report {', '.join(missing)}. Check dcgmExporter.config."
    jobs = sorted({each.labels[_JOB] for each in samples if each.labels.get(_JOB)})
    return NodeMetrics(node, not reason, reason, pod, gpus, expected, metrics, jobs, _job_problem(samples))


def _job_problem(samples: t.Iterable[MetricSample]) -> str:
    """Return which files of jobs make series without a job, or the same series twice, or an empty string."""
    empty, seen, twice = set(), set(), set()
    for each in samples:
        if _JOB in each.labels:
            gpu, series = each.labels.get("gpu", ""), (each.name, *sorted(each.labels.items()))
            empty |= set() if each.labels[_JOB] else {gpu}
            twice |= {gpu} if series in seen else set()
            seen.add(series)
    said = [f"an empty line for GPU {gpu}" for gpu in sorted(empty)]
    said += [f"the same job twice for GPU {gpu}" for gpu in sorted(twice - empty)]
    return f"The files of jobs have {first_few(said)}." if said else ""


def uuids(samples: t.Iterable[MetricSample]) -> set[str]:
    """Return the GPUs that samples name. Exporters with the old names of labels write ``uuid``."""
    named = (each.labels.get("UUID") or each.labels.get("uuid") for each in samples)
    return {uuid for uuid in named if uuid}


_JOB_FILES = (
    "If it reads files of jobs (dcgmExporter.hpcJobMapping), one has vanished in a scrape: write each beside its place "
    "and rename it, and empty it instead of deleting it. Otherwise look at its log."
)
"""Source: ``internal/pkg/transformation/hpc.go`` of https://github.com/NVIDIA/dcgm-exporter (d5e5f51)."""


def fault(status: int, gpus: int, expected: int | None) -> str:
    """Return what is wrong with an answer that names so many GPUs, or an empty string."""
    if status == 500:
        return f"The exporter answered with HTTP status 500. {_JOB_FILES}"
    if status != 200:
        return f"The exporter answered with HTTP status {status}."
    if gpus == 0:
        return "The exporter reports no GPU. Look at its log; DCGM may not reach the driver."
    if expected is not None and gpus != expected:
        return f"The exporter reports {gpus} GPUs, but the node has {expected}."
    return ""
