# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Free ports on loopback."""

from __future__ import annotations

import random
import socket

from lab.errors import LabError

# Below the range from which systems take the local ports of outgoing connections (Linux 32768, macOS 49152). The API
# server opens dozens of connections to etcd, and one of them could take a port that a component is about to use.
_RANGE = range(20000, 32000)


def free(count: int) -> list[int]:
    """Return ``count`` different ports that no process listens on."""
    found: list[int] = []
    for port in random.sample(_RANGE, len(_RANGE)):
        if len(found) == count:
            return found
        if is_free(port):
            found.append(port)
    raise LabError(f"There are fewer than {count} free ports between {_RANGE.start} and {_RANGE.stop} on 127.0.0.1.")


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
