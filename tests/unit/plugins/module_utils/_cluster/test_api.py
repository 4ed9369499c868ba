# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a 429 of the API server means."""

from __future__ import annotations

import http.server
import threading
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import api
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError


class Handler(http.server.BaseHTTPRequestHandler):
    """Says 429 to the first ``refusals`` requests for /thing."""

    refusals = 0
    asked: t.ClassVar[list[str]] = []

    def _answer(self) -> None:
        status, body = 200, b'{"kind": "APIGroupList", "groups": []}'
        if self.path == "/thing":
            self.asked.append(self.command)
            if len(self.asked) <= self.refusals:
                status, body = 429, b'{"message": "storage is (re)initializing"}'
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == 429:
            self.send_header("Retry-After", "0.01")
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Cluster]:
    monkeypatch.setattr(Handler, "asked", [])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield Cluster({"host": f"http://127.0.0.1:{server.server_port}", "api_key": "x"})
        server.shutdown()


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_busy_api_server_is_asked_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr(Handler, "refusals", 2)
    assert b"groups" in cluster.request(method, "/thing")
    assert Handler.asked == [method] * 3


def test_a_post_is_sent_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "refusals", 1)
    with pytest.raises(GpuOpsError, match="storage is") as e:
        cluster.request("POST", "/thing", body={})
    assert e.value.reason == "TooManyRequests" and Handler.asked == ["POST"]


def test_patience_ends(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "refusals", 1000)
    monkeypatch.setattr(api, "THROTTLED_S", 0.05)
    with pytest.raises(GpuOpsError, match="storage is") as e:
        cluster.request("GET", "/thing")
    assert e.value.reason == "TooManyRequests" and 1 < len(Handler.asked) < 10
