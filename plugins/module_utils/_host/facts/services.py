# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""NVIDIA's services on the host: package and version, whether they run, and whether they fit the driver."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.nvidia_packages import (
    SERVICE_PACKAGES,
    SERVICES,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.section import Section, known, missing
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output

# The fabric manager's own start script runs NVLSM, which then has no unit.
_PROCESSES = {"nvlsm": "nvlsm"}

PACKAGES = (
    *SERVICE_PACKAGES,
    "containerd*",
    "cri-o*",
    "docker-ce",
    "docker.io",
    "moby-engine",
)

RUNTIME_UNITS = (
    "containerd.service",
    "crio.service",
    "docker.service",
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
    "snap.microk8s.daemon-containerd.service",
)

_ENABLED = ("enabled", "enabled-runtime", "static", "generated")
_PROPERTIES = "Id,LoadState,ActiveState,UnitFileState"


def package_query(host: Host) -> Output:
    """Ask the package manager for every package of interest at once, one line each: name, version, state."""
    if host.which("dpkg-query"):
        output = host.run(
            ["dpkg-query", "--show", "--showformat=${Package}\t${Version}\t${db:Status-Status}\n", *PACKAGES]
        )
        # It ends with 1 when a pattern matches nothing, which is no failure here.
        return Output(output.stdout) if output.stdout or "no packages found" in output.stderr else output
    return host.run(
        ["rpm", "--query", "--all", "--queryformat=%{NAME}\t%{EPOCH}:%{VERSION}-%{RELEASE}\tinstalled\n", *PACKAGES]
    )


def unit_query(host: Host) -> Output:
    """Ask systemd for every unit of interest at once."""
    units = [service.unit for service in SERVICES.values()]
    return host.run(["systemctl", "show", f"--property={_PROPERTIES}", *units, *RUNTIME_UNITS])


def parse_packages(text: str) -> dict[str, str]:
    """Return the installed packages and their versions without epoch and release, as upstream writes them."""
    rows = (line.split("\t") for line in text.splitlines())
    return {row[0]: upstream_version(row[1]) for row in rows if len(row) == 3 and row[2] == "installed"}


def upstream_version(version: str) -> str:
    """Strip a package version of its epoch and of the distribution's revision."""
    without_epoch = re.sub(r"^(\d+|\(none\)):", "", version)
    return without_epoch.rpartition("-")[0] or without_epoch


def parse_units(text: str) -> dict[str, dict[str, str]]:
    """Return the properties of each unit by its name, from the blocks that ``systemctl show`` prints."""
    blocks = (
        dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in text.strip().split("\n\n")
    )
    return {block["Id"]: block for block in blocks if "Id" in block}


def is_active(units: t.Mapping[str, t.Mapping[str, str]], unit: str) -> bool:
    """Whether systemd runs a unit."""
    return units.get(unit, {}).get("ActiveState") == "active"


def services(host: Host, packages: Output, units: Output, driver_version: str | None) -> Section:
    """Return the facts of every service."""
    installed, states = parse_packages(packages.stdout), parse_units(units.stdout)
    facts, sources = {}, {}
    for name, service in SERVICES.items():
        unit = service.unit
        package = next((found for found in sorted(installed) if service.provides(found)), None)
        version = installed.get(package or "")
        facts[name] = {
            "package": package,
            "version": version,
            "active": (is_active(states, unit) or _runs(host, name)) if units.ok else None,
            "enabled": states.get(unit, {}).get("UnitFileState") in _ENABLED if units.ok else None,
            # NVLSM has versions of its own.
            "matches_driver": version == driver_version if version and driver_version and name != "nvlsm" else None,
        }
        reason = packages.error or units.error
        sources[name] = missing(reason) if reason else known("systemd, packages")
    return Section(facts, sources)


def _runs(host: Host, name: str) -> bool:
    process = _PROCESSES.get(name)
    return process is not None and any(
        host.read(f"/proc/{pid}/comm") == process for pid in host.names("/proc") if pid.isdigit()
    )
