# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the GPU hosts of the inventory say, by the names of their nodes. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import identity
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import engine, odd_hosts
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Kind, TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Gap
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

PARTS = ("node", "facts", "preflight", "state", "lines", "unreachable")
"""What a host may bring along: see the module's option ``hosts``."""


class Joined(t.NamedTuple):
    """What hosts say, their lines of text, and what is missing."""

    hosts: dict[str, Json]
    lines: list[TextLine]
    gaps: list[Gap]


def joined(hosts: t.Mapping[str, t.Any], nodes: list[Json] | None) -> Joined:
    """Return what the hosts say, by node. A host that is no node, or not known which, keeps its own name."""
    odd = [name for name, host in hosts.items() if _is_odd(name, host)]
    made = Joined({}, [], list(map(odd_hosts.gap, odd)))
    present = {name: _checked(name, host) for name, host in hosts.items() if name not in odd}
    found = identity.find_all(nodes or [], [_identity(name, host) for name, host in present.items()])
    for name, host in present.items():
        match = found[name]
        node = objects.name_of(match.node) if match.node else name
        if match.failure and nodes:
            made.gaps.append(Gap(f"which node the host {name} is", match.failure.partition(". ")[0] + "."))
        if host.get("unreachable"):
            made.gaps.append(Gap(f"the host {name}", f"It could not be examined: {host['unreachable']}"))
        else:
            made.hosts[node] = {key: host[key] for key in ("facts", "preflight", "state") if host.get(key)}
            made.lines.extend(_line(entry, node) for entry in host.get("lines") or [])
    return made


def _is_odd(name: str, host: t.Any) -> bool:
    """Return whether a host says something from which not even its node can be told."""
    if odd_hosts.is_odd(host):
        return True
    try:
        identity.identities_of_host(_identity(name, host))
    except engine.ODD:
        return True
    return False


def _checked(name: str, host: Json) -> Json:
    if set(host) - {*PARTS}:
        raise GpuOpsError(f"hosts.{name} must be a dictionary with some of the keys {', '.join(PARTS)}.")
    return host


def _identity(name: str, host: Json) -> Json:
    facts = (host.get("facts") or {}).get("node") or {}
    return {**facts, "node": host.get("node"), "name": name, "names": [name, *filter(None, [facts.get("hostname")])]}


def _line(entry: t.Any, node: str) -> TextLine:
    """Return a line of a host: a text, or a dictionary with its text, kind, source and object."""
    if isinstance(entry, str):
        return TextLine(entry, "text", "the host", node)
    kind = t.cast(Kind, entry.get("kind") or "text")
    return TextLine(
        str(entry["text"]), kind, str(entry.get("source") or "the host"), node, str(entry.get("object") or "")
    )
