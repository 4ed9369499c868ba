# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A registry of images in this process, with the token flow that nvcr.io documents."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import threading
import typing as t
from urllib.parse import parse_qs, urlsplit

Auth = t.Literal["none", "basic", "token"]

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


class FakeRegistry:
    """``answer`` sees each request first and may return a status. If it returns None, the images answer."""

    user, password, token = "$oauthtoken", "s3cret-of-a-test", "bearer-of-a-test"

    def __init__(self) -> None:
        self.host = ""
        self.auth: Auth = "none"
        self.anonymous = False
        """Whether the token service gives a token to anybody, as nvcr.io does for public images."""
        self.images: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.log: list[tuple[str, str, str]] = []
        """Each request, with its header Authorization."""
        self.answer: t.Callable[[str, str], int | None] = lambda method, path: None
        self.realm = ""

    def push(self, repository: str, tag: str, *architectures: str) -> None:
        """Publish an image: with architectures, as an index of them."""
        kind = INDEX if architectures else MANIFEST
        body = {"manifests": [{"platform": {"architecture": name, "os": "linux"}} for name in architectures]}
        self.images[repository, tag] = (kind, json.dumps(body).encode())

    @property
    def basic(self) -> str:
        """The header of the right credentials."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    def handle(self, method: str, target: str, authorization: str) -> tuple[int, dict[str, str], bytes]:
        """Answer one request."""
        url = urlsplit(target)
        self.log.append((method, target, authorization))
        special = self.answer(method, url.path)
        if special is not None:
            return special, {}, b""
        if url.path == "/proxy_auth":
            return self._token(authorization, {key: value[0] for key, value in parse_qs(url.query).items()})
        repository, dummy, tag = url.path.removeprefix("/v2/").partition("/manifests/")
        refused = self._refused(repository, authorization)
        if refused:
            return 401, {"WWW-Authenticate": refused}, b""
        found = self.images.get((repository, tag))
        return (200, {"Content-Type": found[0]}, found[1]) if found else (404, {}, b"")

    def _token(self, authorization: str, query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if not (self.anonymous or (authorization == self.basic and query.get("account") == self.user)):
            return 401, {}, b""
        return (
            200,
            {"Content-Type": "application/json"},
            json.dumps({"token": self.token, "scope": query["scope"]}).encode(),
        )

    def _refused(self, repository: str, authorization: str) -> str:
        if self.auth == "basic" and authorization != self.basic:
            return 'Basic realm="test"'
        if self.auth == "token" and authorization != f"Bearer {self.token}":
            realm = self.realm or f"http://{self.host}/proxy_auth"
            return f'Bearer realm="{realm}",scope="repository:{repository}:pull",service="registry"'
        return ""


def _handler(registry: FakeRegistry) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            status, headers, body = registry.handle(self.command, self.path, self.headers.get("Authorization", ""))
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = _answer  # noqa: N815 - the names that http.server calls

        def log_message(self, *args: object) -> None:
            pass

    return Handler


@contextlib.contextmanager
def serving() -> t.Iterator[FakeRegistry]:
    """Run a registry for the duration of a ``with`` block."""
    registry = FakeRegistry()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(registry)) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        registry.host = f"127.0.0.1:{server.server_port}"
        yield registry
        server.shutdown()
