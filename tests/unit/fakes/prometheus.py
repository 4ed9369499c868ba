# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server that answers a module's queries as Prometheus would. What its language means is tested with a real one."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import json
import threading
import typing as t
from urllib.parse import parse_qs, urlsplit

NOW = 1_764_244_800
"""The server's time: 2025-11-27, 12:00 UTC."""

Reply = tuple[int, bytes, dict[str, str]]
Labels = dict[str, str]


class FakePrometheus:
    """``now`` are the series of now. ``highest`` and ``means`` are those of steps, as pairs of labels and points.

    ``answer`` sees the kind and the parameters of each request first, and may reply itself.
    """

    def __init__(self) -> None:
        self.url = ""
        self.now: list[tuple[Labels, float]] = []
        self.highest: list[tuple[Labels, dict[int, float]]] = []
        self.means: list[tuple[Labels, dict[int, float]]] = []
        self.warnings: list[str] = []
        self.answer: t.Callable[[str, Labels], Reply | None] = lambda kind, asked: None
        self.log: list[tuple[str, Labels, dict[str, str]]] = []

    def handle(self, target: str, headers: dict[str, str]) -> Reply:
        """Answer one request."""
        url = urlsplit(target)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        kind = url.path.rpartition("/api/v1/")[2]
        self.log.append((kind, asked, headers))
        return self.answer(kind, asked) or succeeded(*self._result(kind, asked), self.warnings)

    def _result(self, kind: str, asked: Labels) -> tuple[str, t.Any]:
        if asked["query"] == "time()":
            return "scalar", [NOW, str(NOW)]
        if kind == "query":
            return "vector", [{"metric": labels, "value": [NOW, str(value)]} for labels, value in self.now]
        found = self.means if "avg_over_time" in asked["query"] else self.highest
        return "matrix", [
            {"metric": labels, "values": [[moment, str(value)] for moment, value in points.items()]}
            for labels, points in found
        ]


def succeeded(kind: str, result: t.Any, warnings: t.Sequence[str] = ()) -> Reply:
    """Return a compressed answer with a result."""
    said = {"warnings": list(warnings)} if warnings else {}
    answer = {"status": "success", "data": {"resultType": kind, "result": result}, **said}
    return 200, gzip.compress(json.dumps(answer).encode()), {"Content-Encoding": "gzip"}


def failed(status: int, error: str = "") -> Reply:
    """Return an answer with an error."""
    return status, json.dumps({"status": "error", "errorType": "x", "error": error}).encode(), {}


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """Say nothing of clients that hang up: some tests let them give up."""


@contextlib.contextmanager
def serving() -> t.Iterator[FakePrometheus]:
    """Serve a fake Prometheus for the duration of a ``with`` block."""
    fake = FakePrometheus()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body, headers = fake.handle(
                self.path, {name.lower(): value for name, value in self.headers.items()}
            )
            self.send_response_only(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with _Server(("127.0.0.1", 0), Handler) as server:
        fake.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield fake
        finally:
            server.shutdown()
