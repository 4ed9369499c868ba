# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Websockets to the Kubernetes API, for the few tasks that need them."""

from __future__ import annotations

import contextlib
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import request_errors
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

try:
    import websocket
except ImportError:
    HAS_WEBSOCKET = False
else:
    HAS_WEBSOCKET = True


class StreamTarget(t.Protocol):
    """What a websocket needs of an `connect.Connection`."""

    @property
    def host(self) -> str:
        """The API server's URL."""

    def headers(self) -> dict[str, str]:
        """Return the headers of every request."""

    def websocket(self, url: str) -> Json:
        """Return the options with which the websocket library connects to a URL."""


class Stream:
    """An open websocket. Failures raise `OSError`; see `opened`."""

    def __init__(self, connection: t.Any) -> None:
        self._connection = connection

    def send(self, data: bytes) -> None:
        """Send one binary frame."""
        self._connection.send_binary(data)

    def receive(self, timeout_s: float) -> bytes | None:
        """Return the next frame that carries data, or None if the other side closes the connection."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._connection.settimeout(max(deadline - time.monotonic(), 0.001))
            opcode, frame = t.cast("tuple[int, bytes]", self._connection.recv_data(control_frame=True))
            if opcode == websocket.ABNF.OPCODE_CLOSE:
                return None
            if opcode == websocket.ABNF.OPCODE_BINARY and frame:
                return frame


@contextlib.contextmanager
def opened(connection: StreamTarget, path: str, protocol: str, timeout_s: float) -> t.Iterator[Stream]:
    """Open a websocket at ``path`` for the duration of a ``with`` block.

    A refusal by the API server raises a `GpuOpsError`, as in `Cluster.request`. A connection that breaks or times out
    raises an `OSError`.
    """
    if not HAS_WEBSOCKET:
        raise request_errors.missing()
    try:
        with contextlib.closing(_connect(connection, path, protocol, timeout_s)) as made:
            yield Stream(made)
    except websocket.WebSocketBadStatusException as e:
        raise request_errors.refused(e.status_code, e.resp_body, "GET", path, connection.host) from e
    except websocket.WebSocketException as e:
        raise ConnectionError(str(e)) from e


def _connect(connection: StreamTarget, path: str, protocol: str, timeout_s: float) -> t.Any:
    """Connect with the connection's credentials. The client library's own function has no time-out."""
    url = f"{connection.host.replace('http', 'ws', 1)}{path}"
    return websocket.create_connection(
        url,
        header=[f"{key}: {value}" for key, value in connection.headers().items()],
        subprotocols=[protocol],
        timeout=timeout_s,
        redirect_limit=0,  # The library would send the token along, to whatever address, also without TLS.
        **connection.websocket(url),
    )
