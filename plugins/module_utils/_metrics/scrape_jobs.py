# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The scrape configuration for a Prometheus without its operator: the same targets and labels as a ServiceMonitor's."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

NODE_OF_POD = "__meta_kubernetes_pod_node_name"


def configuration(namespace: str, interval: str) -> Json:
    """Return the jobs for the exporters of GPUs and of nodes' status and for the operator, in its namespace."""
    node = {"source_labels": [NODE_OF_POD], "target_label": "node"}
    # The status of nodes has a label node of its own.
    jobs = {
        "nvidia-dcgm-exporter": ("9400", [node]),
        "nvidia-node-status-exporter": ("8000", []),
        "gpu-operator": ("8080", []),
    }
    return {"scrape_configs": [_job(app, port, more, namespace, interval) for app, (port, more) in jobs.items()]}


def _job(app: str, port: str, more: list[Json], namespace: str, interval: str) -> Json:
    keep = {
        "__meta_kubernetes_pod_label_app": app,
        "__meta_kubernetes_pod_container_port_number": port,
    }
    rules = [{"source_labels": [label], "regex": value, "action": "keep"} for label, value in keep.items()]
    return {
        "job_name": app,
        "scrape_interval": interval,
        "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": [namespace]}}],
        "relabel_configs": [*rules, *more],
    }
