# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the alerts of a fleet cost a real Prometheus, beside the rules that NVIDIA's operator brings for OpenShift."""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import statistics
import sys
import tempfile
import threading
import time
import typing as t
from pathlib import Path

sys.path.append(f"{sys.prefix}/share")
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import counters, rule_groups
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import GPUS_OF_NODE, Thresholds

from lab import prometheus
from lab.cluster.api import Json
from lab.cluster.nodes.agents import exporter
from lab.cluster.nodes.fleet import NOTE

OPERATORS_RECORDINGS = {
    "accelerator_gpu_utilization": "DCGM_FI_DEV_GPU_UTIL",
    "accelerator_memory_used_bytes": "DCGM_FI_DEV_MEM_COPY_UTIL",
    "accelerator_memory_total_bytes": "DCGM_FI_DEV_FB_TOTAL",
    "accelerator_power_usage_watts": "DCGM_FI_DEV_POWER_USAGE",
    "accelerator_temperature_celsius": "DCGM_FI_DEV_GPU_TEMP",
    "accelerator_sm_clock_hertz": "DCGM_FI_DEV_SM_CLOCK",
    "accelerator_memory_clock_hertz": "DCGM_FI_DEV_MEM_CLOCK",
}
"""All rules about GPUs that the operator has: ``assets/state-dcgm-exporter/1000_prometheus_rule_openshift.yaml`` of
https://github.com/NVIDIA/gpu-operator at a22dbf671. It makes them on OpenShift alone."""

GPUS, SCRAPED_S, EVALUATED_S, EVALUATIONS = 8, 30, 30, 5
LIMITS = Thresholds()
ON = rule_groups.chosen(LIMITS, (), (26, 7))
OURS = rule_groups.groups(ON, LIMITS, {})
THEIRS = {
    "name": "theirs",
    "rules": [
        {"record": name, "expr": field, "labels": {"vendor": "nvidia"}} for name, field in OPERATORS_RECORDINGS.items()
    ],
}
FIELDS = exporter.parsed(
    counters.text_of(
        counters.wanted(
            ("default", "health"), rule_groups.fields_of(ON) | {*OPERATORS_RECORDINGS.values()}, (), (26, 7)
        )
    )
)
KUBERNETES = {"instance": "kube-state-metrics:8080", "job": "kube-state-metrics"}

_WINDOW = re.compile(r"([\w:]+)(?:\{[^{}]*\})?\[(\d+)([mhd])\]")
_SECONDS = {"m": 60, "h": 3600, "d": 86400}


def compared(nodes: int) -> dict[str, t.Any]:
    """Compare how long one evaluation of all alerts takes with one of the operator's recordings, on the same series.

    A Prometheus reads the exporters of all nodes, whose GPUs are all in use. What the alerts look back on is there
    from the beginning.
    """
    fleet = _Fleet(nodes)
    with tempfile.TemporaryDirectory() as folder, fleet.serving() as configuration:
        samples, data = Path(folder, "samples"), Path(folder, "data")
        with samples.open("w") as file:
            file.writelines(fleet.past(int(time.time())))
        # One block for all. promtool reads the whole text again for each.
        options = ("--quiet", "--max-block-duration=96h")
        blocks = ("tsdb", "create-blocks-from", "openmetrics", *options, samples, data)
        status, said = prometheus.promtool(*blocks, timeout=1200)
        samples.unlink()
        if status:
            raise SystemExit(f"promtool does not take the past of the fleet: {said}")
        with prometheus.running(configuration, {"groups": [*OURS, THEIRS]}, data=data) as server:
            _until_read(server, nodes)
            seconds = _evaluations(server)
            series = server.ask("status/tsdb")["headStats"]["numSeries"]
    return {
        "ours_s": round(sum(seconds[group["name"]] for group in OURS), 3),
        "theirs_s": round(seconds[THEIRS["name"]], 3),
        "nodes": nodes,
        "alerts": len(ON),
        "series": series,
    }


class _Fleet:
    """What exporters and kube-state-metrics say of a fleet in full use, from one server on loopback."""

    def __init__(self, nodes: int) -> None:
        self._nodes = [f"gpu-{number:04d}" for number in range(nodes)]

    def page(self, node: str) -> str:
        """Return what the exporter of a node answers."""
        notes = {f"{NOTE}model": "H100", f"{NOTE}gpus": str(GPUS)}
        pod = {"name": f"train-{node}", "namespace": "team", "container": "main"}
        facts: Json = {"metadata": {"name": node, "annotations": notes}}
        return exporter.metrics(facts, FIELDS, dict.fromkeys(range(GPUS), pod))

    def of_kubernetes(self) -> str:
        """Return what kube-state-metrics answers."""
        resource = 'resource="nvidia_com_gpu"'
        lines = []
        for node in self._nodes:
            pod = f'namespace="team",pod="train-{node}"'
            lines += [
                f'kube_node_status_{kind}{{node="{node}",{resource}}} {GPUS}' for kind in ("capacity", "allocatable")
            ]
            lines += [f'kube_node_spec_unschedulable{{node="{node}"}} 0']
            lines += [f'kube_pod_container_resource_requests{{{pod},node="{node}",container="main",{resource}}} {GPUS}']
            lines += [
                f'kube_pod_status_phase{{{pod},phase="{phase}"}} {int(phase == "Running")}'
                for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown")
            ]
        return "\n".join([*sorted(lines), ""])

    def past(self, now: int) -> t.Iterator[str]:
        """Yield the series that rules look back on, as a text of OpenMetrics: as far back as they look."""
        series: dict[str, list[tuple[str, str]]] = {}
        for page, target in ((self.of_kubernetes(), KUBERNETES), *((self.page(n), _target(n)) for n in self._nodes)):
            scraped = ",".join(f'{name}="{value}"' for name, value in target.items())
            for name, labels, value in re.findall(r"^(\w+)\{(.*)\} (\S+)$", page, re.MULTILINE):
                series.setdefault(name, []).append((f"{labels},{scraped}", value))
        series[GPUS_OF_NODE] = [(f'node="{node}"', str(GPUS)) for node in self._nodes]
        for metric, seconds in sorted(_windows().items()):
            times = range(now - seconds, now, SCRAPED_S)
            yield f"# TYPE {metric} unknown\n"
            for labels, value in series.get(metric, ()):
                step = 1 if metric.endswith("CONSUMPTION") else 0
                yield from (f"{metric}{{{labels}}} {float(value) + step * (at - now)} {at}\n" for at in times)
        yield "# EOF\n"

    @contextlib.contextmanager
    def serving(self) -> t.Iterator[Json]:
        """Serve the metrics during a block, and give the configuration with which a Prometheus reads them."""
        fleet = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.strip("/")
                body = (fleet.of_kubernetes() if name == "kubernetes" else fleet.page(name)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: t.Any) -> None:
                """Log nothing."""

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_address[1]}"
        targets = [
            {"targets": [address], "labels": {**_target(node), "__metrics_path__": f"/{node}"}} for node in self._nodes
        ]
        cluster = [{"targets": [address], "labels": {**KUBERNETES, "__metrics_path__": "/kubernetes"}}]
        try:
            yield {
                "global": {"scrape_interval": f"{SCRAPED_S}s", "evaluation_interval": f"{EVALUATED_S}s"},
                "scrape_configs": [
                    {"job_name": "nvidia-dcgm-exporter", "static_configs": targets},
                    {"job_name": "kube-state-metrics", "honor_labels": True, "static_configs": cluster},
                ],
            }
        finally:
            server.shutdown()


def _target(node: str) -> dict[str, str]:
    return {"instance": f"{node}:9400", "job": "nvidia-dcgm-exporter", "node": node}


def _windows() -> dict[str, int]:
    """Return how many seconds the rules look back on each metric."""
    found: dict[str, int] = {}
    for metric, number, unit in _WINDOW.findall(json.dumps(OURS)):
        found[metric] = max(found.get(metric, 0), int(number) * _SECONDS[unit])
    return found


def _until_read(server: prometheus.Prometheus, nodes: int, timeout_s: float = 300) -> None:
    """Wait until all exporters and kube-state-metrics have been read twice, so that all rules have their series."""
    deadline = time.monotonic() + timeout_s
    while (up := server.values("count(count_over_time(up[5m]) > 1)")) == [] or int(up[0]["value"][1]) <= nodes:
        if time.monotonic() > deadline:
            raise SystemExit(f"Prometheus has not read all exporters after {timeout_s:.0f} s: {up}")
        time.sleep(2)


def _evaluations(server: prometheus.Prometheus) -> dict[str, float]:
    """Return the median of what each group took in some evaluations. Exit if a rule fails or an alert fires."""
    found: dict[str, dict[str, float]] = {}
    while not found or min(map(len, found.values())) < EVALUATIONS:
        for group in server.ask("rules")["groups"]:
            found.setdefault(group["name"], {})[group["lastEvaluation"]] = group["evaluationTime"]
            bad = [rule["name"] for rule in group["rules"] if rule["health"] != "ok" or rule.get("state") == "firing"]
            if bad:
                raise SystemExit(f"Rules fail, or fire on a fleet without a fault: {', '.join(bad)}")
        time.sleep(2)
    return {name: statistics.median(times.values()) for name, times in found.items()}
