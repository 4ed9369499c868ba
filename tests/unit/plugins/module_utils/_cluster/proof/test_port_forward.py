# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Port forwarding over a real websocket: a small server that speaks the API server's side of it."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import socketserver
import struct
import threading
import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.proof import port_forward
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

PORT = struct.pack("<H", 9400)


def frame(payload: bytes, opcode: int = 2) -> bytes:
    """Return a websocket frame as a server sends it."""
    size = bytes([len(payload)]) if len(payload) < 126 else b"\x7e" + struct.pack(">H", len(payload))
    return bytes([0x80 | opcode]) + size + payload


OPENED = frame(b"\x00" + PORT) + frame(b"\x01" + PORT)
CLOSE = frame(struct.pack(">H", 1000), 8)


class Answer(t.NamedTuple):
    """How the server answers: with a refusal, or with frames."""

    frames: bytes = b""
    refusal: bytes = b""


class Handler(socketserver.StreamRequestHandler):
    """One connection: the upgrade, the request's frame, then the answer."""

    def handle(self) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.rfile.readline()
            if not line:
                return
            head += line
        if b"upgrade: websocket" not in head.lower():  # the client library requests it when it connects
            body = b'{"kind": "APIGroupList", "groups": []}'
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + body)
            return
        server = t.cast("Server", self.server)
        server.heads.append(head.decode())
        if server.answer.refusal:
            self.wfile.write(server.answer.refusal)
            return
        key = next(
            line.split(b": ")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key")
        )
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
        self.wfile.write(b"Sec-WebSocket-Accept: " + accept + b"\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n")
        server.requests.append(self._received())
        self.wfile.write(server.answer.frames)
        with contextlib.suppress(OSError):
            self.rfile.read(1)

    def _received(self) -> bytes:
        size = self.rfile.read(2)[1] & 0x7F
        mask = self.rfile.read(4)
        return bytes(byte ^ mask[place % 4] for place, byte in enumerate(self.rfile.read(size)))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    answer = Answer()

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.heads: list[str] = []
        self.requests: list[bytes] = []


@pytest.fixture
def server() -> t.Iterator[Server]:
    with Server() as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.shutdown()


def get(server: Server, answer: Answer, timeout_s: float = 5) -> tuple[int, bytes]:
    server.answer = answer
    cluster = Cluster({"host": f"http://127.0.0.1:{server.server_address[1]}", "api_key": "token-1"})
    return port_forward.get(cluster, "ns", "pod-1", 9400, "/metrics", timeout_s)


def test_an_answer_with_a_length_ends_without_a_close(server: Server) -> None:
    http = b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    assert get(
        server, Answer(OPENED + frame(b"\x00" + http[:20]) + frame(b"ping", 9) + frame(b"\x00" + http[20:]))
    ) == (200, b"hello")
    assert server.requests == [b"\x00GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n"]
    upgrade = server.heads[-1]
    assert upgrade.startswith("GET /api/v1/namespaces/ns/pods/pod-1/portforward?ports=9400 HTTP/1.1\r\n")
    assert "authorization: Bearer token-1\r\n" in upgrade and "v4.channel.k8s.io" in upgrade


def test_an_answer_without_a_length_ends_with_the_close(server: Server) -> None:
    assert get(server, Answer(OPENED + frame(b"\x00HTTP/1.0 503 No\r\n\r\n" + b"x" * 300) + CLOSE)) == (503, b"x" * 300)


def test_an_answer_without_an_end_is_cut_off(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_forward, "ANSWER_BYTES", 100)
    http = OPENED + frame(b"\x00HTTP/1.0 200 OK\r\n\r\n") + frame(b"\x00" + b"x" * 100)
    with pytest.raises(GpuOpsError) as error:
        get(server, Answer(http), timeout_s=5)
    assert error.value.reason == "PortForwardFailed"
    assert error.value.msg == wording(
        "Port 9400 of pod pod-1 does not answer through the API server: its answer is longer than 0 MiB."
    )


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        (
            OPENED + frame(b"\x01connection refused to port 9400"),
            wording("Port 9400 of pod pod-1 does not answer through the API server: connection refused to port 9400."),
        ),
        (
            OPENED + CLOSE,
            wording(
                "Port 9400 of pod pod-1 does not answer through the API server: it closed the connection without an answer."
            ),
        ),
        (
            OPENED + frame(b"\x00SSH-2.0-x") + CLOSE,
            wording("Port 9400 of pod pod-1 does not answer through the API server: it did not answer with HTTP."),
        ),
        (
            OPENED + frame(b"\x00HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nhalf") + CLOSE,
            wording("Port 9400 of pod pod-1 does not answer through the API server: its answer broke off."),
        ),
        (OPENED, wording("Port 9400 of pod pod-1 does not answer through the API server: Connection timed out.")),
    ],
    ids=["refused", "closed", "not-http", "broken-off", "silent"],
)
def test_a_failure_behind_the_api_server_is_reported(server: Server, frames: bytes, words: str) -> None:
    with pytest.raises(GpuOpsError) as e:
        get(server, Answer(frames), timeout_s=0.5)
    assert e.value.msg == words
    assert e.value.reason == "PortForwardFailed"


def test_a_refusal_names_the_missing_permission(server: Server) -> None:
    # This is all that the API server says if only `create` is missing.
    said = b'{"kind":"Status","message":"pods \\"pod-1\\" is forbidden: "}'
    head = (
        b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: "
        + str(len(said)).encode()
        + b"\r\n\r\n"
    )
    with pytest.raises(GpuOpsError) as e:
        get(server, Answer(refusal=head + said))
    assert e.value.reason == "Forbidden"
    assert e.value.msg == wording(
        "No permission to forward ports of pods in ns. Grant get and create on pods/portforward."
    )
    assert e.value.details["status"] == 403


def test_another_refusal_is_passed_on(server: Server) -> None:
    head = b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 34\r\n\r\n"
    with pytest.raises(GpuOpsError, match=r"pods .pod-1. not found") as e:
        get(server, Answer(refusal=head + b'{"message":"pods \'pod-1\' not found"}'))
    assert e.value.reason == "NotFound"
