# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How steps are planned and carried out is tested with the module: tests/unit/plugins/modules/test_gpu_monitoring.py."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring import monitoring_objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring.monitoring_objects import (
    CONFIG_MAP,
    ObjectStep,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.monitoring.prometheus_choice import MONITOR, RULES

MAP = monitoring_objects.manifest(CONFIG_MAP, "gpus", "a", "policy", {"x": "y"}, data={"k": "v"})


def test_an_object_has_the_mark_whatever_labels_are_given() -> None:
    labels = {"x": "y", "app.kubernetes.io/managed-by": "gpuops.nvidia", "gpuops.nvidia/monitoring": "policy"}
    assert MAP["metadata"] == {"name": "a", "namespace": "gpus", "labels": labels}
    stolen = monitoring_objects.manifest(CONFIG_MAP, "gpus", "a", "policy", {"gpuops.nvidia/monitoring": "other"})
    assert stolen["metadata"]["labels"]["gpuops.nvidia/monitoring"] == "policy"


def test_it_goes_with_its_policy() -> None:
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "p", "uid": "u"}}
    assert monitoring_objects.owned(MAP, policy)["metadata"]["ownerReferences"] == [
        {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": "p", "uid": "u"}
    ]
    assert "ownerReferences" not in MAP["metadata"]


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (CONFIG_MAP, "/api/v1/namespaces/gpus/configmaps"),
        (MONITOR, "/apis/monitoring.coreos.com/v1/namespaces/gpus/servicemonitors"),
        (RULES, "/apis/monitoring.coreos.com/v1/namespaces/gpus/prometheusrules"),
    ],
)
def test_paths(kind: monitoring_objects.ObjectKind, path: str) -> None:
    assert monitoring_objects.path_of(kind, "gpus") == path
    assert monitoring_objects.path_of(kind, "gpus", "a") == f"{path}/a"


def test_the_monitors_scrape_the_exporters_and_the_operator() -> None:
    exporters, status, operator = monitoring_objects.monitors("gpus", "policy", {"release": "kps"}, "15s")
    (endpoint,) = exporters["spec"]["endpoints"]
    assert endpoint["port"] == "gpu-metrics" and endpoint["interval"] == "15s"
    assert endpoint["relabelings"][0]["targetLabel"] == "node"
    assert set(endpoint["relabelings"][1]["regex"].split("|")) >= {"pod", "namespace", "container"}
    assert operator["spec"]["endpoints"] == [{"port": "gpu-operator-metrics", "path": "/metrics", "interval": "15s"}]
    assert status["spec"]["endpoints"] == [{"port": "node-status", "path": "/metrics", "interval": "15s"}]
    apps = ("nvidia-dcgm-exporter", "nvidia-node-status-exporter", "gpu-operator")
    for made, app in zip((exporters, status, operator), apps, strict=True):
        assert made["spec"]["selector"] == {"matchLabels": {"app": app}} and made["spec"]["jobLabel"] == "app"
        assert made["spec"]["namespaceSelector"] == {"matchNames": ["gpus"]}
        assert made["metadata"]["labels"]["release"] == "kps"


def test_grafanas_sidecar_finds_a_dashboard_by_its_label() -> None:
    made = monitoring_objects.dashboard("gpus", "policy", "fleet", "{}")
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert made["metadata"]["annotations"] == {"grafana_folder": "GPUs"}
    assert (made["metadata"]["name"], made["data"]) == ("gpuops-dashboard-fleet", {"fleet.json": "{}"})


def test_what_others_write_into_an_object_is_no_change() -> None:
    seen = {**MAP, "metadata": {**MAP["metadata"], "resourceVersion": "7", "managedFields": []}, "status": {}}
    assert not ObjectStep(CONFIG_MAP, seen, MAP, MAP).changed
    assert ObjectStep(CONFIG_MAP, {**MAP, "data": {}}, MAP, MAP).changed
    assert ObjectStep(CONFIG_MAP, None, MAP, MAP).changed and ObjectStep(CONFIG_MAP, MAP, None).changed
    assert ObjectStep(CONFIG_MAP, MAP, None).title == "ConfigMap gpus/a"
