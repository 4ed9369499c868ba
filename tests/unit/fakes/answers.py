# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server that gives prepared answers, whatever is asked."""

from __future__ import annotations

import contextlib
import http.server
import threading
import typing as t
from urllib.parse import urlsplit

DATE = "Sun, 22 Nov 2026 12:00:00 GMT"


class Handler(http.server.BaseHTTPRequestHandler):
    """Gives the answers to the requests after the connection's first, then an empty object forever."""

    answers: t.ClassVar[list[tuple[int, bytes, dict[str, str]]]] = []
    asked: t.ClassVar[list[str]] = []
    headers_seen: t.ClassVar[list[list[tuple[str, str]]]] = []

    def _answer(self) -> None:
        status, body, headers = 200, b'{"kind": "APIGroupList", "groups": []}', {}
        if urlsplit(self.path).path not in ("/api", "/apis", "/version"):
            self.asked.append(f"{self.command} {self.path}")
            self.headers_seen.append([(name.lower(), value) for name, value in self.headers.items()])
            status, body, headers = self.answers.pop(0) if self.answers else (200, b"{}", {})
        self.send_response_only(status)
        for name, value in {"Content-Length": str(len(body)), "Date": DATE, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - the names that http.server calls

    def log_message(self, *args: object) -> None:
        pass


@contextlib.contextmanager
def serving() -> t.Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
