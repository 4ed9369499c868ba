# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Services that still run with a file from before a change.

Whoever changes a file that a service reads only at its start leaves a mark first, and removes it after the restart. So
the next run completes a run that was killed in between.
"""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host

RESTART_MARKS = "/var/lib/gpuops/restarts"
"""The folder of the marks, which are called like the units."""
_PROPERTIES = "ActiveState,ExecMainStartTimestampMonotonic"


def leave_mark(host: Host, unit: str) -> None:
    """Note that a unit is about to get a file that it reads only at its start."""
    host.write(f"{RESTART_MARKS}/{unit}", "A file of this service has changed, and it has not been restarted yet.\n")


def remove_mark(host: Host, unit: str) -> None:
    """Note that a unit has read its files."""
    host.remove(f"{RESTART_MARKS}/{unit}")


def owed(host: Host) -> list[str]:
    """Return the units that have a mark and have not been started since. One that is off will read its files anyway."""
    return [unit for unit in host.names(RESTART_MARKS) if not unit.startswith(".") and _is_owed(host, unit)]


def _is_owed(host: Host, unit: str) -> bool:
    output = host.run(["systemctl", "show", f"--property={_PROPERTIES}", unit])
    properties = dict(line.split("=", 1) for line in output.stdout.splitlines() if "=" in line)
    if properties.get("ActiveState") in ("inactive", "failed"):
        return False
    started = properties.get("ExecMainStartTimestampMonotonic", "")
    if not started.isdigit() or started == "0":
        return True
    return host.time_of(int(started) / 1e6) < host.changed_at(f"{RESTART_MARKS}/{unit}")
