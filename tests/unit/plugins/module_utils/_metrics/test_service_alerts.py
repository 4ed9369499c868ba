# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import service_alerts
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import KUBE_STATE_METRICS, Thresholds

LIMITS = Thresholds()
EVERY = (*service_alerts.of_presence(), *service_alerts.of_stack(LIMITS), *service_alerts.of_use(LIMITS))


def test_what_concerns_no_node_is_told_during_maintenance_too() -> None:
    told = {alert.name for alert in EVERY if not alert.is_silent_in_maintenance}
    upgrades = {"GpuDriverUpgradeFailed", "GpuDriverUpgradeStuck"}
    assert told == {"GpuOperatorNotReady", "GpuPodsWaitWhileGpusAreFree", *upgrades}


def test_an_alert_says_what_has_to_be_scraped_beside_the_exporters() -> None:
    for alert in EVERY:
        asks = {"kube_" in alert.expression, "gpu_operator_" in alert.expression}
        assert (True in asks) == bool(alert.needs), alert.name
        of_nodes = "kube_" in alert.expression and "kube_node_labels" not in alert.expression
        assert of_nodes <= (KUBE_STATE_METRICS in alert.needs), alert.name
