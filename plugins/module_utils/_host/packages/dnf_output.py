# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The output of dnf 4 and rpm: their Python bindings exist only for the Python of the system."""

from __future__ import annotations

import configparser
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.dnf_catalog import MODULE, Streams
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import Outcome

QUERY_FORMAT = "%{name}|%{epoch}|%{version}|%{release}|%{arch}|%{repoid}\\n"
"""The --queryformat of dnf repoquery that ``available`` reads."""

_ADDED = ("Installing", "Upgrading", "Downgrading", "Reinstalling")
_REMOVED = ("Removing",)
_ROW = re.compile(r"^ (\S+)\s+(\S+)\s+((?:\d+:)?\S+-\S+)\s+(\S+)\s+")
_STREAM_ROW = re.compile(rf"^{MODULE}\s+(\S+)", re.MULTILINE)
_REFUSALS = (
    (r"nothing provides (\S+(?: [<>=]+ \S+)?) needed by (\S+)", "No enabled repository offers {0}, which {1} needs"),
    (r"Unable to find a match: (.+)", "No enabled repository offers {0}"),
    (r"package (\S+) conflicts with (\S+) provided by (\S+)", "{0} conflicts with {2}"),
    (r"(\S+) is filtered out by modular filtering", "The enabled module stream does not have {0}"),
)
_NOISE = re.compile(r"^(?:Last metadata|Dependencies resolved|Operation aborted|Unable to detect release|\(try to)")


class Available(t.NamedTuple):
    """A package that a repository offers."""

    name: str
    version: str
    release: str
    epoch: str
    arch: str
    repository: str

    @property
    def full(self) -> str:
        """The version with epoch and release, which dnf accepts behind the name."""
        return f"{self.epoch}:{self.version}-{self.release}"


def available(text: str) -> list[Available]:
    """Read the rows of dnf repoquery with QUERY_FORMAT. Other lines are messages of dnf or of its plugins."""
    rows = (line.split("|") for line in text.splitlines())
    return [
        Available(row[0], row[2], row[3], row[1] or "0", row[4], row[5])
        for row in rows
        if len(row) == 6 and all(row[2:])
    ]


def streams_offered(text: str) -> tuple[str, ...]:
    """Read the streams in the output of dnf module list nvidia-driver."""
    return tuple(dict.fromkeys(_STREAM_ROW.findall(text)))


def stream_enabled(text: str | None) -> str | None:
    """Read the enabled stream in the file of the module, /etc/dnf/modules.d/nvidia-driver.module."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text or "")
    except configparser.Error:
        return None
    if not parser.has_section(MODULE) or parser.get(MODULE, "state", fallback="") != "enabled":
        return None
    return parser.get(MODULE, "stream", fallback="") or None


def streams(listing: str, state: str | None) -> Streams:
    """Return the streams of the module nvidia-driver."""
    return Streams(streams_offered(listing), stream_enabled(state))


def outcome(text: str) -> Outcome:
    """Read the table of a transaction that dnf shows before it asks."""
    install: dict[str, str] = {}
    remove: list[str] = []
    section = ""
    for line in text.splitlines():
        if line and not line.startswith(" "):
            section = line.split(" ")[0].rstrip(":") if line.endswith(":") else ""
            continue
        row = _ROW.match(line)
        if row and section in _ADDED:
            install[row[1]] = row[3]
        elif row and section in _REMOVED:
            remove.append(row[1])
    return Outcome(install, tuple(sorted(remove)))


def refusal(stdout: str, stderr: str) -> str:
    """Return why dnf refuses a transaction, in one line with what the user can do about it."""
    lines = [line.strip() for line in f"{stderr}\n{stdout}".splitlines()]
    lines = [line for line in lines if line and not _NOISE.match(line)]
    text = "\n".join(lines)
    if "nothing provides dkms " in text:
        return (
            "No enabled repository offers dkms, which builds the driver's modules. Enable EPEL, which has it, or a "
            "mirror of EPEL"
        )
    for pattern, words in _REFUSALS:
        match = re.search(pattern, text)
        if match:
            return words.format(*match.groups())
    return _first_line(lines)


def _first_line(lines: t.Sequence[str]) -> str:
    first = next((line for line in lines if line != "Error:"), "no message")
    return first.rstrip(".")
