# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""NVIDIA's services on the host: their packages, whether they run, and whether their version is the driver's.

And the files from which the roles tell what they have set up there.
"""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import software
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.nvidia_packages import SERVICES
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.section import (
    Section,
    known_from,
    known_if,
    unknown,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output

SERVICE_UNITS = tuple(service.unit for service in SERVICES.values())

# If the fabric manager's start script runs NVLSM, NVLSM has no unit.
_PROCESSES = {"nvlsm": "nvlsm"}
# NVLSM's versions have nothing to do with the driver's. The persistence daemon works with every driver, and Debian's is
# older than its driver.
_OWN_VERSIONS = ("nvlsm", "persistenced")
ROLE_FILES = {
    "change": "/var/lib/gpuops/change.json",
    "masked_units": "/var/lib/gpuops/masked_units",
    # On all systems, /lib/systemd has the units of packages, also where it leads to /usr/lib/systemd.
    "persistenced_unit": "/lib/systemd/system/nvidia-persistenced.service",
    "persistenced_dropin": "/etc/systemd/system/nvidia-persistenced.service.d/gpuops.conf",
    "imex_nodes": "/etc/nvidia-imex/nodes_config.cfg",
}
"""The records of the roles ``host_change`` and ``host_driver``, and the files that ``host_driver`` sets up."""
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

    It is the whole text: a line too many is a difference to what a role writes.
    """
    found = {name: host.read_bytes(path) for name, path in ROLE_FILES.items()}
    facts = {name: None if text is None else text.decode(errors="replace") for name, text in found.items()}
    reason = "{} does not exist, or cannot be read"
    return Section(facts, {name: known_if(facts[name], path, reason.format(path)) for name, path in ROLE_FILES.items()})


def _matches_driver(name: str, version: str | None, driver_version: str | None) -> bool | None:
    if name in _OWN_VERSIONS or not version or not driver_version:
        return None
    return version == driver_version


def _has_process(host: Host, name: str) -> bool:
    process = _PROCESSES.get(name)
    if process is None:
        return False
    return any(host.read(f"/proc/{pid}/comm") == process for pid in host.names("/proc") if pid.isdigit())
