# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kinds of the Prometheus operator on a lab, and a real Prometheus that scrapes the lab's exporters."""

from __future__ import annotations

import json
import tempfile
import typing as t
from pathlib import Path

from lab.cluster import Lab, monitoring

Json = dict[str, t.Any]

GROUP = "monitoring.coreos.com"
KINDS = {"prometheuses": "Prometheus", "servicemonitors": "ServiceMonitor", "prometheusrules": "PrometheusRule"}


def _crd(plural: str, kind: str) -> Json:
    """Return a definition that takes any spec: the operator's own schemas are not part of this project."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    metadata = {"name": f"{plural}.{GROUP}"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def install_kinds(lab: Lab) -> None:
    """Let the lab serve the kinds of the Prometheus operator."""
    apply(lab, *(_crd(plural, kind) for plural, kind in KINDS.items()))
    lab.kubectl("wait", "--for=condition=Established", "--timeout=30s", *(f"crd/{plural}.{GROUP}" for plural in KINDS))


def remove_kinds(lab: Lab) -> None:
    """Take the kinds away, with all of their objects."""
    lab.kubectl("delete", "--ignore-not-found", *(f"crd/{plural}.{GROUP}" for plural in KINDS))


def prometheus_object(name: str, **spec: t.Any) -> Json:
    """Return a Prometheus object in the namespace monitoring."""
    metadata = {"name": name, "namespace": "monitoring"}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Prometheus", "metadata": metadata, "spec": spec}


def apply(lab: Lab, *items: Json) -> None:
    """Apply objects."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"apiVersion": "v1", "kind": "List", "items": list(items)}, file)
        file.flush()
        lab.kubectl("apply", "--server-side", "-f", str(Path(file.name)))


def status_targets(lab: Lab) -> list[Json]:
    """Return Prometheus's static targets: the exporter of each node's status, as far as there are any."""
    return [{"targets": [f"127.0.0.1:{port}"]} for port in monitoring.status_ports(lab).values()]


def exporter_targets(lab: Lab) -> list[Json]:
    """Return Prometheus's static targets: the exporter of each node, with the labels of a scraped pod.

    What the ServiceMonitor's relabelings do in a cluster is done with the same rules in `scrape_configuration`.
    """
    found = []
    for name, port in monitoring.dcgm_ports(lab).items():
        labels = {
            "__meta_kubernetes_pod_node_name": name,
            "namespace": "gpu-operator",
            "pod": f"nvidia-dcgm-exporter-{name}",
            "container": "nvidia-dcgm-exporter",
            "service": "nvidia-dcgm-exporter",
        }
        found.append({"targets": [f"127.0.0.1:{port}"], "labels": labels})
    return found


def scrape_configuration(lab: Lab, relabelings: list[Json], *, honor_labels: bool = False) -> Json:
    """Return a configuration of Prometheus that scrapes the lab's exporters as the Prometheus operator would."""
    names = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    rules = [{names.get(key, key): value for key, value in rule.items()} for rule in relabelings]
    job = {
        "job_name": "nvidia-dcgm-exporter",
        "honor_labels": honor_labels,
        "static_configs": exporter_targets(lab),
        "relabel_configs": rules,
    }
    return {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "scrape_configs": [job]}
