# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What Alertmanager has to know of the alerts, so that one cause is one message: what follows from what, and groups.

Fields are those of Alertmanager's configuration since 0.22, the first with ``matchers``.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import Alert
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class Follows:
    """Alerts that tell nothing new while one of the causes fires with the same values of the labels ``equal``."""

    causes: tuple[str, ...]
    effects: tuple[str, ...]
    equal: tuple[str, ...] = ("node",)


FOLLOWS = (
    Follows(("GpuXidReboot",), ("GpuLost", "GpuRecoveryAction", "GpuNvlinkRecovered")),
    Follows(
        ("GpuXidReboot", "GpuXidHardware", "GpuLost"),
        ("GpuXidReset", "GpuXidNvlink", "GpuXidApplication", "GpuNotAllocatable", "GpuExporterStuck"),
    ),
    Follows(("GpuXidReset", "GpuXidNvlink", "GpuRecoveryAction"), ("GpuXidApplication", "GpuNotAllocatable")),
    Follows(("GpuRowRemapFailed",), ("GpuEccUncorrectable", "GpuRowRemapPending"), ("node", "gpu")),
    Follows(("GpuExporterDown",), ("GpuExporterSilent", "GpuMetricsWithoutPods")),
    Follows(("GpuDriverUpgradeFailed",), ("GpuDriverUpgradeStuck", "GpuOperatorNotReady"), ()),
)
"""Of this collection's alerts. A message about one of the causes leads to a remedy that ends the effects, too."""

NODE_IS_AWAY = ("KubeNodeNotReady", "KubeNodeUnreachable")
"""Alerts of kubernetes-mixin (alerts/kubelet.libsonnet), which kube-prometheus-stack brings. They have a label node."""

_OURS = 'alertname=~"Gpu.+"'


def configuration(on: t.Iterable[Alert]) -> Json:
    """Return the parts to add to a configuration: a route without a receiver of its own, and the inhibitions."""
    names = {alert.name for alert in on}
    return {
        "route": {
            "routes": [
                {
                    # All nodes with the same trouble are one message. What needs hands is one message for each node.
                    "matchers": [_OURS],
                    "group_by": ["alertname"],
                    "routes": [{"matchers": ['severity="critical"'], "group_by": ["node"]}],
                }
            ]
        },
        "inhibit_rules": [*_inhibitions(names)],
    }


def _inhibitions(names: set[str]) -> t.Iterator[Json]:
    for each in FOLLOWS:
        causes, effects = ([name for name in listed if name in names] for listed in (each.causes, each.effects))
        if causes and effects:
            yield _inhibition(causes, [f'alertname=~"{"|".join(effects)}"'], each.equal)
    yield _inhibition(NODE_IS_AWAY, [_OURS, 'severity!="critical"'], ("node",))


def _inhibition(causes: t.Iterable[str], effects: list[str], equal: tuple[str, ...]) -> Json:
    rule: Json = {"source_matchers": [f'alertname=~"{"|".join(causes)}"'], "target_matchers": effects}
    return {**rule, "equal": [*equal]} if equal else rule
