# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metrics of the DCGM exporters and of the node status exporters.

Each exporter of a node has a server on loopback, and a PortForward object for each of its pods leads there. A forwarded
connection does not name its pod, so the nodes cannot share a server.
"""

from __future__ import annotations

import functools
import http.server
import threading
import typing as t

from lab.cluster.api import Api, Json
from lab.cluster.nodes.agents import exporter, node_status
from lab.cluster.nodes.agents.facts import note
from lab.cluster.nodes.fleet import NOTE

PORT, STATUS_PORT = 9400, 8000
FORWARDS = "/apis/kwok.x-k8s.io/v1alpha1/namespaces/{}/portforwards"


ReadText = t.Callable[[str, str], "Json | None"]
Answer = t.Callable[[], str]


class Metrics:
    """The servers of all nodes, each started when an exporter of the node is first ready."""

    def __init__(self, api: Api, read: ReadText) -> None:
        """Make the servers. ``read`` returns the data of a ConfigMap by namespace and name."""
        self._api, self._read = api, read
        self._ports: dict[tuple[str, int], int] = {}
        self._answers: dict[tuple[str, int], Answer] = {}
        """What the exporters answer, by node and port."""
        self._lists: dict[str, tuple[exporter.Field, ...]] = {}
        """The list of each exporter's pod, which reads it once, by the pod's UID."""
        self._forwarded: set[str] = set()
        self._lock = threading.Lock()

    def serve(self, node: Json, exporters: list[Json], pods: list[Json]) -> None:
        """Make the exporters of a node serve metrics."""
        for pod in exporters:
            held = exporter.held_gpus(pods, int(note(node, "gpus")))
            image, jobs = pod["spec"]["containers"][0]["image"], exporter.jobs_of(node, pod)
            claimed = exporter.claimed_gpus(pod, pods)
            answer = functools.partial(exporter.metrics, node, self._fields(pod), held, image, jobs, claimed)
            self._offer(node, pod, PORT, "metrics-port", answer)

    def serve_status(self, node: Json, exporters: list[Json], is_validated: bool) -> None:
        """Make the exporters of a node's status serve metrics."""
        for pod in exporters:
            answer = functools.partial(node_status.metrics, node, is_validated)
            self._offer(node, pod, STATUS_PORT, "status-port", answer)

    def _offer(self, node: Json, pod: Json, own_port: int, written: str, answer: Answer) -> None:
        """Let a pod answer at a port. Tests find the server by a note of the node."""
        meta, name = pod["metadata"], node["metadata"]["name"]
        key = (name, own_port)
        self._answers[key] = answer
        with self._lock:
            if meta["uid"] in self._forwarded:
                return
            self._forwarded.add(meta["uid"])
            port = self._ports.get(key) or self._listen(key)
        self._api.merge(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {f"{NOTE}{written}": str(port)}}})
        self._forward(meta, own_port, port)

    def _fields(self, pod: Json) -> tuple[exporter.Field, ...]:
        uid, config_map = pod["metadata"]["uid"], exporter.list_of(pod)
        if uid not in self._lists:
            data = (self._read(pod["metadata"]["namespace"], config_map) or {}) if config_map else {}
            text = data.get(exporter.LIST_KEY)
            self._lists[uid] = exporter.BUILT_IN if text is None else exporter.parsed(text)
        return self._lists[uid]

    def _listen(self, key: tuple[str, int]) -> int:
        answers = self._answers

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = self.path.rstrip("/") == "/metrics"
                body = answers[key]().encode() if found else b""
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: t.Any) -> None:
                """Log nothing."""

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 3600}, daemon=True).start()
        port = int(server.server_address[1])
        self._ports[key] = port
        return port

    def _forward(self, meta: Json, own_port: int, port: int) -> None:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        forward = {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "PortForward",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "ownerReferences": [owner]},
            "spec": {"forwards": [{"ports": [own_port], "target": {"address": "127.0.0.1", "port": port}}]},
        }
        self._api.apply(f"{FORWARDS.format(meta['namespace'])}/{meta['name']}", forward, "lab-agents")
