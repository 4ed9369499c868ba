# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""An alert rule as data: when it fires, and what a person does about it."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import counters, dcgm_fields

Severity = t.Literal["critical", "warning", "info"]


@dataclasses.dataclass(frozen=True)
class Thresholds:
    """Where a value becomes an alert. Times are durations of Prometheus, temperatures degrees Celsius."""

    temperature_margin: int = 3
    """Degrees left until the GPU slows down by itself, by the GPU's own limit."""
    idle_after: str = "2h"
    """How long a pod may hold a GPU without using it."""
    waiting_after: str = "30m"
    """How long a pod may wait although there are enough free GPUs in sum."""
    upgrade_stuck_after: str = "2h"
    """How long an upgrade of drivers may go without a finished node. The operator's own alert waits as long at most."""
    not_ready_after: str = "30m"
    """How long the operator may not be ready. Its own alert, on OpenShift, waits 30 minutes to an hour."""
    grace: str = "15m"
    """How long a node that came back from a cordon is not judged."""


@dataclasses.dataclass(frozen=True)
class Alert:
    """A rule: when it fires, and the text for people.

    ``since`` is the first line of the operator whose exporters have the metrics. ``needs`` names what has to be
    scraped beside the exporters.
    """

    name: str
    severity: Severity
    expression: str
    lasts: str
    summary: str
    cause: str
    look: str
    remedy: str
    is_silent_in_maintenance: bool = True
    keeps_firing: str = ""
    since: dcgm_fields.OperatorLine = dcgm_fields.OLDEST_LINE
    needs: tuple[str, ...] = ()

    @property
    def fields(self) -> frozenset[str]:
        """The DCGM fields that the exporters have to collect for it."""
        return counters.mentioned(self.expression)


KUBE_STATE_METRICS = "kube-state-metrics"
NODE_LABELS = (
    "kube-state-metrics with --metric-labels-allowlist="
    "nodes=[nvidia.com/mig.config.state,nvidia.com/gpu.sharing-strategy]"
)
OPERATORS_METRICS = "the operator's metrics"
NODE_STATUS = "the node status exporter (nodeStatusExporter.enabled of the ClusterPolicy)"

GPUS_OF_NODE = "gpuops:node_gpus:count"
"""Recorded: how many GPUs the exporter of each node reports."""
OUT_OF_SERVICE = "gpuops:node_out_of_service:max"
"""Recorded: 1 for each node that is cordoned, or was until a short time ago."""

OF_GPU = "GPU {{ $labels.gpu }} of node {{ $labels.node }}"
"""The beginning of a summary, which Prometheus fills in."""
DIAGNOSE = "Run `playbooks/diagnose.yml`."
