# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""NVIDIA's services on the host: their packages, whether they run, and whether their version is the driver's.

And the files from which the roles tell what they have set up there.
"""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host import software
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import restarts
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.nvidia_packages import SERVICES
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.section import Section, known_from, known_if, unknown
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import all_printable

SERVICE_UNITS = tuple(service.unit for service in SERVICES.values())

# If the fabric manager's start script runs NVLSM, NVLSM has no unit.
_PROCESSES = {"nvlsm": "nvlsm"}
# NVLSM's versions are independent of the driver's. The persistence daemon works with every driver, and Debian's is
# older than its driver.
_OWN_VERSIONS = ("nvlsm", "persistenced")
ROLE_FILES = {
    "change": "/var/lib/gpuops/change.json",
    "masked_units": "/var/lib/gpuops/masked_units",
    "persistenced_dropin": "/etc/systemd/system/nvidia-persistenced.service.d/gpuops.conf",
    "imex_nodes": "/etc/nvidia-imex/nodes_config.cfg",
}
"""The records of the roles ``host_change`` and ``host_driver``, and the files that ``host_driver`` sets up."""
PERSISTENCED_UNIT = "/lib/systemd/system/nvidia-persistenced.service"
"""The unit of the package. On all systems, /lib/systemd has such units, also where it leads to /usr/lib/systemd."""
_DROPIN_HEADER = "# Written by gpuops.nvidia.host_driver: persistence mode is on from boot on.\n"
_PERSISTENCE_OFF = "--no-persistence-mode"
_ENABLED = ("enabled", "enabled-runtime", "static", "generated")


def services(host: Host, packages: Output, units: Output, driver_version: str | None) -> Section:
    """Return the facts of every service."""
    installed, states = software.parse_packages(packages.stdout), software.parse_units(units.stdout)
    reason = packages.error or units.error
    facts, sources = {}, {}
    for name, service in SERVICES.items():
        package = next((found for found in sorted(installed) if service.provides(found)), None)
        version = installed.get(package or "")
        facts[name] = {
            "package": package,
            "version": version,
            "active": (software.is_active(states, service.unit) or _has_process(host, name)) if units.ok else None,
            "enabled": states.get(service.unit, {}).get("UnitFileState") in _ENABLED if units.ok else None,
            "matches_driver": _matches_driver(name, version, driver_version),
        }
        sources[name] = unknown(reason) if reason else known_from("systemd, packages")
    return Section(facts, sources)


def files(host: Host) -> Section:
    """Return the text of each file of the roles, or None for one that is absent or that cannot be read.

    It is the whole text: a line too many is a difference to what a role writes. The unit of the persistence daemon is
    there as the drop-in that it needs. ``restarts`` are the units that have not read a file that has changed.
    """
    paths = {**ROLE_FILES, "persistenced_needs": PERSISTENCED_UNIT}
    facts: dict[str, t.Any] = {name: _text(host, path) for name, path in paths.items()}
    facts["change"] = _harmless(facts["change"])
    unit = facts["persistenced_needs"]
    facts["persistenced_needs"] = None if unit is None else persistenced_dropin(unit)
    reason = "{} does not exist, or cannot be read"
    sources = {name: known_if(facts[name], path, reason.format(path)) for name, path in paths.items()}
    return Section(
        {**facts, "restarts": restarts.owed(host)}, {**sources, "restarts": known_from(restarts.RESTART_MARKS)}
    )


def persistenced_dropin(unit: str) -> str:
    """Return the text of a drop-in that changes only what keeps persistence mode off; empty if the unit is right.

    Ubuntu's unit starts the daemon with ``--no-persistence-mode``, stops it when no unit needs it, and cannot be
    enabled.
    """
    commands = re.findall(r"^\s*ExecStart\s*=\s*(.+?)\s*$", unit, re.MULTILINE)
    parts = []
    if re.search(r"^\s*StopWhenUnneeded\s*=\s*(1|yes|true|on|t|y)\s*$", unit, re.MULTILINE | re.IGNORECASE):
        parts.append("[Unit]\nStopWhenUnneeded=no\n")
    if commands and _PERSISTENCE_OFF in commands[-1].split():
        words = [word for word in commands[-1].split() if word != _PERSISTENCE_OFF]
        parts.append(f"[Service]\nExecStart=\nExecStart={' '.join(words)}\n")
    if not re.search(r"^\s*(WantedBy|RequiredBy)\s*=", unit, re.MULTILINE):
        parts.append("[Install]\nWantedBy=multi-user.target\n")
    return _DROPIN_HEADER + "\n".join(parts) if parts else ""


def _text(host: Host, path: str) -> str | None:
    found = host.read_bytes(path)
    return None if found is None else found.decode(errors="replace")


def _harmless(record: str | None) -> str | None:
    """Return a record whose texts are printable once they are read. JSON hides a control character from the gate."""
    try:
        content = json.loads(record) if record else None
    except ValueError:
        return record
    return record if content == all_printable(content) else json.dumps(all_printable(content))


def _matches_driver(name: str, version: str | None, driver_version: str | None) -> bool | None:
    if name in _OWN_VERSIONS or not version or not driver_version:
        return None
    return version == driver_version


def _has_process(host: Host, name: str) -> bool:
    process = _PROCESSES.get(name)
    if process is None:
        return False
    return any(host.read(f"/proc/{pid}/comm") == process for pid in host.names("/proc") if pid.isdigit())
