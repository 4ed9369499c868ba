# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What a container runtime takes from its configuration files: its handlers, their programs and the default. Pure.

containerd reads only the section that belongs to the version of a file. Python has a TOML library only since 3.11, so
this finds the few lines that matter.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number

Setting = tuple[str, str, str]
"""A table of a TOML file, a key in it, and its value as it is written."""

CRIO = "crio.runtime"
_TABLE = re.compile(r"^\s*\[+\s*([^\[\]]+?)\s*\]+")
_KEY = re.compile(r"^\s*(?P<key>\w+)\s*=\s*(?P<value>.*?)\s*(?:#.*)?$")
# The plugins of containerd whose absence leaves Kubernetes without it, by the names of all versions.
_CRI_PLUGINS = ("cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime")
_PROGRAMS = ("BinaryName", "runtime_path")
_DEFAULTS = ("default_runtime_name", "default_runtime")


@dataclasses.dataclass(frozen=True)
class Configuration:
    """Handlers with their programs as the files name them, the default, imported files, and whether CRI is on."""

    handlers: t.Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    default: str | None = None
    imports: tuple[str, ...] = ()
    cri: bool = True
    version: int = 0


def settings(text: str) -> list[Setting]:
    """Read the settings of a TOML file that are on one line each, which all that matter are, except lists.

    Each table begins with an empty setting, since a table without keys counts, too.
    """
    table = ""
    found: list[Setting] = []
    for line in _joined(text).splitlines():
        if line.lstrip().startswith("#"):
            continue
        header, entry = _TABLE.match(line), _KEY.match(line)
        if entry:
            found.append((table, entry["key"], entry["value"]))
        elif header:
            table = header[1].strip()
            found.append((table, "", ""))
    return found


def _joined(text: str) -> str:
    """Return a text with each list on one line."""
    return re.sub(r"=\s*\[[^\[\]]*\]", lambda found: " ".join(found[0].split()), text)


def words(value: str) -> list[str]:
    """Return the strings of a list as it is written."""
    return re.findall(r"[\"']([^\"']*)[\"']", value)


def parse_containerd(text: str, main_version: int = 0) -> Configuration:
    """Read a configuration of containerd. A file that names no version has that of the main file."""
    rows = settings(text)
    top = {key: value for table, key, value in rows if not table}
    version = whole_number(top.get("version")) or main_version or 1
    found = _parsed(rows, f"{_section(version)}.containerd")
    cri = not set(words(top.get("disabled_plugins", ""))) & set(_CRI_PLUGINS)
    return dataclasses.replace(found, imports=tuple(words(top.get("imports", ""))), cri=cri, version=version)


def _section(version: int) -> str:
    if version == 1:
        return "plugins.cri"
    return "plugins.io.containerd.grpc.v1.cri" if version == 2 else "plugins.io.containerd.cri.v1.runtime"


def parse_crio(text: str) -> Configuration:
    """Read a configuration of CRI-O."""
    return _parsed(settings(text), CRIO)


def _parsed(rows: t.Sequence[Setting], section: str) -> Configuration:
    handlers: dict[str, str | None] = {}
    default = None
    handler = re.compile(rf"{re.escape(section)}\.runtimes\.([\w-]+)(?:\.options)?")
    for table, key, value in rows:
        plain = re.sub(r"[\"']", "", table)
        match = handler.fullmatch(plain)
        if match:
            handlers.setdefault(match[1], None)
            if key in _PROGRAMS:
                handlers[match[1]] = value.strip("\"'") or None
        elif plain == section and key in _DEFAULTS:
            default = value.strip("\"'") or None
    return Configuration(handlers, default)


def parse_docker(text: str) -> Configuration:
    """Read Docker's daemon.json. An invalid file counts as an empty one."""
    try:
        given = json.loads(text)
    except ValueError:
        return Configuration()
    runtimes = (given.get("runtimes") or {}) if isinstance(given, dict) else None
    if not isinstance(runtimes, dict):
        return Configuration()
    handlers = {str(name): row.get("path") if isinstance(row, dict) else None for name, row in runtimes.items()}
    return Configuration(handlers, given.get("default-runtime"))


def combined(parts: t.Sequence[Configuration]) -> Configuration:
    """Return the configuration of several files. Later files override earlier ones."""
    handlers: dict[str, str | None] = {}
    for part in parts:
        for name, program in part.handlers.items():
            handlers[name] = program or handlers.get(name)
    defaults = [part.default for part in parts if part.default]
    cri = all(part.cri for part in parts)
    return Configuration(handlers, defaults[-1] if defaults else None, cri=cri)
