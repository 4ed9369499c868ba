# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""One HTTP request to a pod's port through the API server's port forwarding. It needs no network path to the pod."""

from __future__ import annotations

import re
import time

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection.streams import Stream
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line

# Port forwarding over a websocket (k8s.io/kubelet/pkg/cri/streaming/portforward/websocket.go): the first byte of a
# frame is its channel, and the first frame of each channel only repeats the port.
_PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1

ANSWER_BYTES = 64 * 1024**2
"""How long an answer may be. The metrics of 16 GPUs with 56 MIG devices have about 1 MB."""


def get(cluster: Cluster, namespace: str, pod: str, port: int, path: str, timeout_s: float) -> tuple[int, bytes]:
    """GET ``path`` from a pod's HTTP port; return the status code and the body. All this may take ``timeout_s``."""
    address = namespaced("v1", namespace, "pods", pod) + f"/portforward?ports={port}"
    request = f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n"  # HTTP/1.0 has no chunked answers
    deadline = time.monotonic() + timeout_s
    try:
        with cluster.stream(address, _PROTOCOL, timeout_s) as stream:
            stream.send(bytes([_DATA]) + request.encode())
            return _http_answer(_receive(stream, deadline))
    except GpuOpsError as e:
        if e.reason != "Forbidden":
            raise
        # The API server does not say which of the two verbs is missing.
        msg = f"No permission to forward ports of pods in {namespace}. Grant get and create on pods/portforward."
        raise GpuOpsError(msg, **e.details) from e
    except (OSError, ValueError) as e:
        raise GpuOpsError(
            f"Port {port} of pod {pod} does not answer through the API server: {one_line(e)}.",
            reason="PortForwardFailed",
        ) from e


def _receive(stream: Stream, deadline: float) -> bytes:
    """Return what the port sends until it closes, or until an HTTP answer that states its length is complete."""
    received, opened = bytearray(), set[int]()
    while not _is_complete(received):
        frame = stream.receive(deadline - time.monotonic())
        if frame is None:
            break
        channel, data = frame[0], frame[1:]
        if channel not in opened:
            opened.add(channel)
        elif channel == _ERROR:
            raise ValueError(data.decode("utf-8", "replace"))
        else:
            received += data
        if len(received) > ANSWER_BYTES:
            raise ValueError(f"its answer is longer than {ANSWER_BYTES // 1024**2} MiB")
    return bytes(received)


def _is_complete(answer: bytearray) -> bool:
    """Return whether all of an answer is there that states its length. It does not copy the answer, which grows."""
    missing = _missing(answer)
    return missing is not None and missing <= 0


def _missing(answer: bytes | bytearray) -> int | None:
    """Return how many bytes of an answer are still to come, or None if it does not state its length."""
    end = answer.find(b"\r\n\r\n")
    length = re.search(rb"(?im)^content-length:\s*(\d{1,15})", answer[:end]) if end >= 0 else None
    return None if length is None else int(length[1]) - (len(answer) - end - 4)


def _http_answer(answer: bytes) -> tuple[int, bytes]:
    head, dummy, body = answer.partition(b"\r\n\r\n")
    status = re.match(rb"HTTP/\d\.\d (\d{3})", head)
    if status is None:
        raise ValueError("it did not answer with HTTP" if answer else "it closed the connection without an answer")
    if (_missing(answer) or 0) > 0:
        raise ValueError("its answer broke off")
    return int(status[1]), body
