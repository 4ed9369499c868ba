# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Commands that need the locks of apt and dpkg, which unattended-upgrades may hold for minutes after the first boot."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output

# apt's words (apt 1.8 to 3.0), and dpkg's own, which apt-mark passes on (dpkg 1.21).
_LOCKED = (
    "Could not get lock",
    "Unable to lock directory",
    "Unable to acquire the dpkg frontend lock",
    "locked by another process",
)
_RETRY_S = 5.0


def patiently(host: Host, command: t.Sequence[str], timeout_s: float, lock_timeout_s: float) -> Output:
    """Run a command, again and again while another program has a lock that it needs, for up to ``lock_timeout_s``.

    ``timeout_s`` is the longest time that one attempt may take.
    """
    deadline = time.monotonic() + lock_timeout_s
    while True:
        output = host.run(command, timeout_s)
        locked = not output.ok and any(text in output.stderr for text in _LOCKED)
        if not locked or time.monotonic() >= deadline:
            return output
        time.sleep(_RETRY_S)
