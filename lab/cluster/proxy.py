# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A proxy on loopback between a client and an API server, which answers chosen requests itself.

It stands before a lab, or before a server of a unit test. A client needs no credentials: the proxy uses its own.
"""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import http.server
import json
import re
import socket
import ssl
import struct
import threading
import time
import typing as t
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from lab.cluster.controlplane import pki
from lab.cluster.lab import Lab

_HOP = {"connection", "transfer-encoding", "content-length", "host", "keep-alive", "authorization"}
_WITHOUT_BODY = (http.HTTPStatus.NO_CONTENT, http.HTTPStatus.NOT_MODIFIED)
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter."
)


@dataclass(frozen=True)
class Answer:
    """What the proxy answers in place of the server."""

    status: int
    body: str
    headers: t.Mapping[str, str] = field(default_factory=dict)


def too_many_requests(retry_after: str = "1") -> Answer:
    """Return the answer of API Priority and Fairness when the server is busy."""
    headers = {"Content-Type": "text/plain; charset=utf-8", "Retry-After": retry_after}
    return Answer(429, "Too many requests, please try again later.\n", headers)


def expired(token: str = "") -> Answer:
    """Return the answer to a page of a list whose token is too old, with a token to continue with if one is given."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {"continue": token} if token else {},
        "status": "Failure",
        "message": _EXPIRED,
        "reason": "Expired",
        "code": 410,
    }
    return Answer(410, json.dumps(status), {"Content-Type": "application/json"})


def unavailable(seconds: float = 1) -> Answer:
    """Return the page of a load balancer without a server behind it. It names the end of the wait as a date."""
    headers = {"Content-Type": "text/html", "Retry-After": email.utils.formatdate(time.time() + seconds, usegmt=True)}
    return Answer(503, "<html><body><h1>503 Service Unavailable</h1></body></html>\n", headers)


def failed() -> Answer:
    """Return the answer of an API server whose etcd elects a leader."""
    status = {"kind": "Status", "status": "Failure", "message": "etcdserver: leader changed", "code": 500}
    return Answer(500, json.dumps(status), {"Content-Type": "application/json"})


def unauthorized() -> Answer:
    """Return the answer to a token that has expired."""
    status = {"kind": "Status", "status": "Failure", "message": "Unauthorized", "reason": "Unauthorized", "code": 401}
    return Answer(401, json.dumps(status), {"Content-Type": "application/json"})


@dataclass(frozen=True)
class Passage:
    """A way to the server that is slow, or on which the answer is lost: the connection is reset in its place."""

    delay_s: float = 0.0
    is_lost: bool = False


Disturbance = Answer | Passage


def kind_of(method: str, target: str) -> str:
    """Return what a request does, without names and namespaces: ``PATCH nodes/NAME``, ``POST pods/NAME/eviction``."""
    url = urlsplit(target)
    words = url.path.strip("/").split("/")
    words = words[2:] if words[0] == "api" else words[3:]
    if not words:
        return f"{method} {url.path}"
    if words[0] == "namespaces" and len(words) > 2:
        words = words[2:]
    what = "/".join([words[0], *["NAME" for dummy in words[1:2]], *words[2:]])
    query = parse_qs(url.query)
    marks = [word for word, name in (("dry run", "dryRun"), ("watch", "watch"), ("page", "continue")) if name in query]
    return " ".join([method, what, *marks])


@dataclass
class _Rule:
    answer: Disturbance
    times: int
    method: str
    target: str

    def fits(self, method: str, target: str) -> bool:
        return self.times > 0 and self.method in ("", method) and re.search(self.target, target) is not None


class Proxy:
    """A running proxy. ``log`` has each request as method and target, and the status that it got.

    The status is negative if its client never saw it.
    """

    def __init__(self, upstream: str, context: ssl.SSLContext | None) -> None:
        self.upstream, self.context = urlsplit(upstream), context
        self.url = ""
        self.kubeconfig = Path()
        self.log: list[tuple[str, str, int]] = []
        self.disturbed: list[str] = []
        """The kinds of requests that were disturbed since the last `disturb_each_kind`, in their order."""
        self._rules: list[_Rule] = []
        self._each: tuple[Disturbance, ...] = ()
        self._lock = threading.Lock()

    def answer(self, answer: Disturbance, *, times: int = 1, method: str = "", target: str = "") -> None:
        """Answer the next requests of a method whose path and query match a pattern."""
        with self._lock:
            self._rules.append(_Rule(answer, times, method, target))

    def disturb_each_kind(self, *how: Disturbance) -> None:
        """Disturb the next request of each kind once, in turns, but for those of Helm. See `kind_of`."""
        with self._lock:
            self._each, self.disturbed = how, []

    def forget(self) -> None:
        """Pass every request on again."""
        with self._lock:
            self._each = ()
            self._rules.clear()

    def chosen(self, method: str, target: str, agent: str = "") -> Disturbance | None:
        """Return what happens to a request; None to pass it on."""
        with self._lock:
            kind = kind_of(method, target)
            rule = next((rule for rule in self._rules if rule.fits(method, target)), None)
            if rule is not None:
                rule.times -= 1
                self.disturbed.append(kind)
                return rule.answer
            if not self._each or kind in self.disturbed or agent.startswith("Helm/"):
                return None
            self.disturbed.append(kind)
            return self._each[(len(self.disturbed) - 1) % len(self._each)]

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection to the server."""
        host, port = self.upstream.hostname or "", self.upstream.port
        if self.context:
            return http.client.HTTPSConnection(host, port, timeout=310, context=self.context)
        return http.client.HTTPConnection(host, port, timeout=310)


def _passed(headers: t.Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP}


def _reset(connection: socket.socket) -> None:
    """End a connection. Without lingering, that is a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _handler(proxy: Proxy) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = proxy.chosen(self.command, self.path, self.headers.get("User-Agent") or "")
            if isinstance(answer, Answer):
                proxy.log.append((self.command, self.path, answer.status))
                self._head(answer.status, {**answer.headers, "Content-Length": str(len(answer.body.encode()))})
                self.wfile.write(answer.body.encode())
                return
            passage = answer or Passage()
            time.sleep(passage.delay_s)
            (self._lose if passage.is_lost else self._pass_on)(body)

        def _lose(self, body: bytes) -> None:
            """Let the server do what it is asked, and reset the connection in place of its answer."""
            with contextlib.closing(proxy.connect()) as server:
                server.request(self.command, self.path, body or None, _passed(self.headers))
                proxy.log.append((self.command, self.path, -server.getresponse().status))
            self.close_connection = True
            _reset(self.connection)

        def _pass_on(self, body: bytes) -> None:
            with contextlib.closing(proxy.connect()) as server:
                server.request(self.command, self.path, body or None, _passed(self.headers))
                reply = server.getresponse()
                proxy.log.append((self.command, self.path, reply.status))
                kept = {name: value for name, value in reply.getheaders() if name.lower() not in _HOP}
                if reply.status in _WITHOUT_BODY:
                    self._head(reply.status, kept)
                    return
                self._head(reply.status, {**kept, "Transfer-Encoding": "chunked"})
                while chunk := reply.read1(65536):  # A watch yields its events as they come.
                    self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                self.wfile.write(b"0\r\n\r\n")

        def _head(self, status: int, headers: t.Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the names that http.server calls

        def log_message(self, *args: object) -> None:
            pass

    return Handler


@contextlib.contextmanager
def before(upstream: str | Lab) -> t.Iterator[Proxy]:
    """Run a proxy before a server, or before a lab, for which it writes ``proxy.kubeconfig`` too."""
    proxy = Proxy(upstream.site.server, _admin(upstream)) if isinstance(upstream, Lab) else Proxy(upstream, None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(proxy)) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        proxy.url = f"http://127.0.0.1:{server.server_port}"
        if isinstance(upstream, Lab):
            path = upstream.folder / f"proxy-{server.server_port}.kubeconfig"
            ca = upstream.authority.ca.cert
            proxy.kubeconfig = pki.kubeconfig(path, server=proxy.url, ca=ca, user="proxy", token="none")  # noqa: S106
        yield proxy
        server.shutdown()


def _admin(lab: Lab) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(lab.authority.ca.cert))
    certificate = lab.authority.folder / "admin.crt"
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    return context
