# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The rules for Prometheus: recordings, and the alerts that are switched on.

What a planned change explains is silent: a node that is cordoned, by this collection or by anybody else, and for
`Thresholds.grace` after it came back. Errors of the hardware are told on such a node, too. Names of the metrics beside
DCGM's: kube-state-metrics (``docs/metrics`` of https://github.com/kubernetes/kube-state-metrics) and the operator's
``controllers/operator_metrics.go``.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import error_alerts, service_alerts
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import (
    GPUS_OF_NODE,
    OUT_OF_SERVICE,
    Alert,
    Thresholds,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.counters import mentioned
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.dcgm_fields import OLDEST_LINE, OperatorLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.promql import NODE, by_node
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

RUNBOOKS = "https://gpuops.github.io/gpuops.nvidia/main/reference/alerts.html"

_SEEN = "DCGM_FI_DEV_GPU_TEMP"
"""The field that each GPU has, whatever it does."""


def alerts(limits: Thresholds) -> tuple[Alert, ...]:
    """Return all alerts, by subject."""
    return (
        *error_alerts.of_errors(),
        *error_alerts.of_clocks(limits),
        *service_alerts.of_presence(),
        *service_alerts.of_stack(limits),
        *service_alerts.of_use(limits),
    )


NAMES = tuple(alert.name for alert in alerts(Thresholds()))


def chosen(limits: Thresholds, off: t.Collection[str], line: OperatorLine | None) -> list[Alert]:
    """Return the alerts that are switched on and that an operator line has the metrics for.

    An unknown line counts as the oldest: one field that an exporter does not know stops the exporter of each node.
    """
    unknown = sorted(set(off) - set(NAMES))
    if unknown:
        raise GpuOpsError(f"There is no alert {first_few(unknown)}. Choose from {', '.join(NAMES)}.", reason="Invalid")
    return [each for each in alerts(limits) if each.name not in off and (line or OLDEST_LINE) >= each.since]


def fields_of(on: t.Iterable[Alert]) -> frozenset[str]:
    """Return the DCGM fields that these alerts, and the recordings below them, read."""
    return frozenset({_SEEN}).union(*(mentioned(alert.expression) for alert in on))


def groups(on: t.Sequence[Alert], limits: Thresholds, labels: t.Mapping[str, str]) -> list[Json]:
    """Return the groups of rules, in the form of Prometheus's files and of PrometheusRule objects.

    ``labels`` are added to each alert.
    """
    rules = [_rule(alert, labels) for alert in on]
    return [{"name": "gpuops-recordings", "rules": _recordings(limits)}, {"name": "gpuops-alerts", "rules": rules}]


def _recordings(limits: Thresholds) -> list[Json]:
    of_node = ", ".join(NODE)
    seen = by_node(f"count by ({of_node}) (max by ({of_node}, gpu, UUID) ({_SEEN}))")
    cordoned = f"max by (node) (max_over_time(kube_node_spec_unschedulable[{limits.grace}]))"
    return [{"record": GPUS_OF_NODE, "expr": seen}, {"record": OUT_OF_SERVICE, "expr": cordoned}]


def _rule(alert: Alert, labels: t.Mapping[str, str]) -> Json:
    silent = f" unless on (node) ({OUT_OF_SERVICE} == 1)" if alert.is_silent_in_maintenance else ""
    rule: Json = {"alert": alert.name, "expr": f"({alert.expression}){silent}" if silent else alert.expression}
    rule |= {"for": alert.lasts} if alert.lasts != "0m" else {}
    rule |= {"keep_firing_for": alert.keeps_firing} if alert.keeps_firing else {}
    rule["labels"] = {**labels, "severity": alert.severity}
    rule["annotations"] = {
        "summary": alert.summary,
        "description": f"{alert.cause} {alert.remedy}",
        "runbook_url": f"{RUNBOOKS}#{alert.name.lower()}",
    }
    return rule
