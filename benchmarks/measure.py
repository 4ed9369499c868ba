# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`measure.py COMMAND...`: run a command, print status, seconds, seconds of a core and peak memory (MB) as JSON.

The output of the command goes to stderr. This is a separate, small process because Linux counts the peak memory of the
parent process as memory of the child, too.
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
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "megabytes": usage.ru_maxrss // 1024,
    },
    sys.stdout,
)
