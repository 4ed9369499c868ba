# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which packages are installed and which units run, as the package manager and systemd report."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output

_UNIT_PROPERTIES = "Id,LoadState,ActiveState,UnitFileState"
_DPKG_FORMAT = "${Package}\t${Version}\t${db:Status-Status}\t${Maintainer}\n"
_RPM_FORMAT = "%{NAME}\t%{EPOCH}:%{VERSION}-%{RELEASE}\tinstalled\t%{VENDOR}\n"


@dataclasses.dataclass(frozen=True)
class InstalledPackage:
    """An installed package: its upstream version, and who made it (dpkg's maintainer or rpm's vendor)."""

    version: str
    maker: str


def package_query(host: Host, patterns: t.Sequence[str]) -> Output:
    """List the packages that match the patterns, with one command.

    Each line has a name, a version, a state and a maker.
    """
    # Some hosts of other families have a dpkg that knows no package.
    if host.which("dpkg-query") and (host.exists("/etc/debian_version") or not host.which("rpm")):
        output = host.run(["dpkg-query", "--show", f"--showformat={_DPKG_FORMAT}", *patterns])
        # dpkg-query exits with 1 for a pattern without a match, which is not an error here.
        return Output(output.stdout) if output.stdout or "no packages found" in output.stderr else output
    return host.run(["rpm", "--query", "--all", f"--queryformat={_RPM_FORMAT}", *patterns])


def unit_query(host: Host, units: t.Sequence[str]) -> Output:
    """Ask systemd about units, with one command."""
    return host.run(["systemctl", "show", f"--property={_UNIT_PROPERTIES}", *units])


def parse_rows(text: str) -> dict[str, InstalledPackage]:
    """Return the installed packages by their names."""
    rows = (line.split("\t") for line in text.splitlines())
    return {
        row[0]: InstalledPackage(upstream_version(row[1]), row[3])
        for row in rows
        if len(row) == 4 and row[2] == "installed"
    }


def parse_packages(text: str) -> dict[str, str]:
    """Return the installed packages and their upstream versions, without epoch and revision."""
    return {name: package.version for name, package in parse_rows(text).items()}


def upstream_version(version: str) -> str:
    """Remove the epoch and the distribution's revision from a package version."""
    without_epoch = re.sub(r"^(\d+|\(none\)):", "", version)
    return without_epoch.rpartition("-")[0] or without_epoch


def parse_units(text: str) -> dict[str, dict[str, str]]:
    """Return the properties of each unit, from the output of ``systemctl show``."""
    blocks = (
        dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in text.strip().split("\n\n")
    )
    return {block["Id"]: block for block in blocks if "Id" in block}


def is_active(units: t.Mapping[str, t.Mapping[str, str]], unit: str) -> bool:
    """Return whether a unit is active."""
    return units.get(unit, {}).get("ActiveState") == "active"
