# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a command, with all that it prints on stderr, and print its status, seconds and peak memory (MB) as JSON: `measure.py COMMAND...`.

A process of its own, and a small one: Linux counts what the starting process held at its peak as the started one's, too.
"""

from __future__ import annotations

import json
import os
import sys
import time

started = time.monotonic()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)])
_, status, usage = os.wait4(pid, 0)
json.dump(
    {
        "status": os.waitstatus_to_exitcode(status),
        "seconds": time.monotonic() - started,
        "megabytes": usage.ru_maxrss // 1024,
    },
    sys.stdout,
)
