# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import scrape_jobs


def test_exporters_and_operator_are_scraped_in_their_namespace() -> None:
    exporters, status, operator = scrape_jobs.configuration("gpus", "15s")["scrape_configs"]
    kept = {rule["source_labels"][0]: rule["regex"] for rule in exporters["relabel_configs"] if "regex" in rule}
    assert list(kept.values()) == ["nvidia-dcgm-exporter", "9400"]
    assert exporters["relabel_configs"][-1] == {
        "source_labels": ["__meta_kubernetes_pod_node_name"],
        "target_label": "node",
    }
    assert [rule["regex"] for rule in operator["relabel_configs"]] == ["gpu-operator", "8080"]
    assert [rule["regex"] for rule in status["relabel_configs"]] == ["nvidia-node-status-exporter", "8000"]
    for job in (exporters, status, operator):
        assert job["kubernetes_sd_configs"] == [{"role": "pod", "namespaces": {"names": ["gpus"]}}]
        assert job["scrape_interval"] == "15s"
