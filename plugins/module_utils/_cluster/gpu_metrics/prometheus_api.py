# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Queries to a Prometheus, or to what speaks its HTTP API, such as Thanos, Mimir and VictoriaMetrics.

Source: https://prometheus.io/docs/prometheus/latest/querying/api. A message never contains a credential: it names the
server by its address alone, and errors of connections by their kind.
"""

from __future__ import annotations

import base64
import dataclasses
import http.client
import json
import socket
import ssl
import time
import typing as t
import zlib
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit

from ansible.module_utils.urls import open_url
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError, Reason
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line

_LONGEST_ANSWER = 256 * 1024**2
"""In bytes. What a fleet of 8,000 GPUs needs is a tenth of this."""
_PIECE = 1024**2
_LONGEST_ERROR = 300


@dataclasses.dataclass(frozen=True)
class PrometheusServer:
    """A Prometheus, and how it is reached."""

    url: str
    headers: t.Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    validate_certs: bool = True
    ca_path: str | None = None
    timeout_s: int = 60

    @property
    def name(self) -> str:
        """The server as messages name it."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


def basic(username: str, password: str) -> str:
    """Return the header of HTTP's basic authentication."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class QueryResult(t.NamedTuple):
    """The series of an answer, and what the server warns about."""

    series: list[t.Any]
    warnings: list[str]


class PrometheusApi:
    """Asks one Prometheus."""

    def __init__(self, server: PrometheusServer) -> None:
        self._server = server

    def now(self) -> int:
        """Return the server's time. Series end by its clock, whatever the clock of this machine says."""
        dummy, found = self._ask("query", {"query": "time()"}, "scalar")
        try:
            return int(float(found[0]))
        except (TypeError, ValueError, IndexError, OverflowError) as e:
            raise self._odd() from e

    def instant(self, query: str, moment: int) -> QueryResult:
        """Return the values of an expression at a moment."""
        warnings, found = self._ask("query", {"query": query, "time": moment}, "vector")
        return QueryResult(found, warnings)

    def steps(self, query: str, first: int, end: int, step_s: int) -> QueryResult:
        """Return the values of an expression at the end of each step."""
        asked = {"query": query, "start": first, "end": end, "step": step_s}
        warnings, found = self._ask("query_range", asked, "matrix")
        return QueryResult(found, warnings)

    def _ask(self, kind: str, query: t.Mapping[str, t.Any], wanted: str) -> tuple[list[str], list[t.Any]]:
        status, body = self._send(f"{self._server.url.rstrip('/')}/api/v1/{kind}?{urlencode(query)}")
        answer = _parsed(body)
        if status != 200:
            raise self._refused(status, answer)
        data = answer.get("data")
        if answer.get("status") != "success" or not isinstance(data, dict) or data.get("resultType") != wanted:
            raise self._odd()
        found = data.get("result")
        if not isinstance(found, list):
            raise self._odd()
        said = answer.get("warnings")
        return [one_line(each)[:_LONGEST_ERROR] for each in said] if isinstance(said, list) else [], found

    def _send(self, url: str) -> tuple[int, bytes]:
        deadline = time.monotonic() + self._server.timeout_s
        try:
            return self._reply(url, deadline)
        except (OSError, http.client.HTTPException, ValueError, EOFError, zlib.error) as e:
            message, reason = _cause(e)
            raise GpuOpsError(f"Prometheus at {self._server.name}: {message}.", reason=reason) from e

    def _reply(self, url: str, deadline: float) -> tuple[int, bytes]:
        server = self._server
        try:
            reply = open_url(
                url,
                headers={"Accept": "application/json", **server.headers},
                timeout=server.timeout_s,
                validate_certs=server.validate_certs,
                ca_path=server.ca_path,
                follow_redirects="safe",
                # Another server must not see them.
                unredirected_headers=list(server.headers),
                use_netrc=False,
            )
        except HTTPError as e:
            return e.code, self._body(e, deadline)
        return 200, self._body(reply, deadline)

    def _body(self, reply: t.Any, deadline: float) -> bytes:
        pieces, length = [], 0
        while piece := reply.read(_PIECE):
            pieces.append(piece)
            length += len(piece)
            if length > _LONGEST_ANSWER:
                raise GpuOpsError(
                    f"The answer of Prometheus at {self._server.name} is longer than {_LONGEST_ANSWER // 1024**2} MiB. "
                    "Choose the series of one cluster in prometheus.match.",
                    reason="ServerError",
                )
            if time.monotonic() > deadline:
                raise TimeoutError
        return b"".join(pieces)

    def _refused(self, status: int, answer: t.Mapping[str, t.Any]) -> GpuOpsError:
        name, said = self._server.name, one_line(answer.get("error") or "")[:_LONGEST_ERROR]
        why = f" ({said})" if said else ""
        known: dict[int, tuple[str, Reason]] = {
            400: (f"does not understand the query{why}. Check prometheus.match", "Invalid"),
            401: ("refuses the credentials. Check prometheus.token, or username and password", "Unauthorized"),
            403: (f"does not allow queries{why}. Check the rights of the user, and headers of tenants", "Forbidden"),
            404: ("has no API there. prometheus.url is the address before /api/v1", "NotFound"),
            422: (f"cannot answer the query{why}. Shorten prometheus.range, or narrow prometheus.match", "ServerError"),
            429: ("has too many queries. Try again later", "TooManyRequests"),
            503: (f"gave the query up{why}. Shorten prometheus.range, or try again later", "ServerError"),
        }
        text, reason = known.get(status, (f"failed with HTTP status {status}{why}. Look at its log", "ServerError"))
        return GpuOpsError(f"Prometheus at {name} {text}.", reason=reason, status=status)

    def _odd(self) -> GpuOpsError:
        return GpuOpsError(
            f"{self._server.name} does not answer like a Prometheus. prometheus.url is the address before /api/v1, and "
            "a page for logging in must not stand before it.",
            reason="ServerError",
        )


def _parsed(body: bytes) -> dict[str, t.Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _cause(error: Exception) -> tuple[str, Reason]:
    """Return why a connection failed and what to do, in words that are the same on every system, without secrets."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError) or "timed out" in str(reason):
        return "there was no answer in time. Raise prometheus.timeout, or shorten prometheus.range", "TimedOut"
    if isinstance(reason, ssl.SSLError) or "CERTIFICATE_VERIFY_FAILED" in str(reason):
        return "its certificate is not trusted, or it speaks no TLS. Check prometheus.ca_cert", "Unreachable"
    if isinstance(reason, (FileNotFoundError, PermissionError, IsADirectoryError)):
        return "the file of prometheus.ca_cert cannot be read", "Invalid"
    if isinstance(reason, socket.gaierror):
        return "its name is not known. Check prometheus.url", "Unreachable"
    if isinstance(reason, ConnectionRefusedError):
        return "the connection is refused. Check prometheus.url", "Unreachable"
    return f"the connection failed ({type(reason).__name__}). Check prometheus.url", "Unreachable"
