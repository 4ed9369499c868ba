# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The tables of ``kubectl get pods`` and ``kubectl get events``, also where copying has changed the blanks. Pure."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

POD_TABLE = re.compile(r"\s*(?P<namespace>NAMESPACE\s+)?NAME\s+READY\s+STATUS\s+RESTARTS\s+AGE\b.*")
EVENT_TABLE = re.compile(r"\s*(?P<namespace>NAMESPACE\s+)?LAST SEEN\s+TYPE\s+REASON\s+OBJECT\s+.*MESSAGE.*")

_POD = re.compile(
    r"\s*(?:(?P<namespace>[\w.-]{1,63})\s+)??(?:pod/)?(?P<name>[\w.-]{1,253})\s+(?P<ready>\d{1,3}/\d{1,3})\s+"
    r"(?P<status>[\w:/-]{1,63})\s+(?P<restarts>\d{1,9})(?:\s+\([^()]{1,40}\))?\s+(?P<age>\w{1,20})"
    r"(?:\s+(?P<address>[\da-fA-F.:]{2,45}|<none>)\s+(?P<node>[\w.-]{1,253}|<none>))?"
)
POD_ROW = re.compile(
    r"\s*(?:[\w.-]{1,63}\s+)?(?:pod/)?[\w.-]{1,253}\s+\d{1,3}/\d{1,3}\s+"
    r"(?:Running|Pending|Completed|Unknown|Terminating|ContainerCreating|PodInitializing|Evicted"
    r"|(?:Init:)?\w*(?:BackOff|Error|ImagePull|OOMKilled)|Init:\d+/\d+)"
    r"\s+\d{1,9}(?:\s+\([^()]{1,40}\))?\s+\w{1,20}(?:\s|$)"
)
"""A row of a table of pods, as somebody pastes it alone: with a status that kubectl prints."""
_EVENT = re.compile(
    r"\s*(?:(?P<namespace>[\w.-]{1,63})\s+)??(?P<age><unknown>|\w{1,20}(?: \(x\d+ over \w+\))?)\s+"
    r"(?P<type>Normal|Warning)\s+(?P<reason>\w{1,128})\s+(?P<kind>[a-zA-Z.]{1,63})/(?P<name>[\w.:-]{1,253})\s+"
    r"(?P<message>\S.*)"
)
_KINDS = {"po": "Pod", "ds": "DaemonSet", "no": "Node", "replicaset": "ReplicaSet", "daemonset": "DaemonSet"}


@dataclasses.dataclass(frozen=True)
class TablePod:
    """A pod in a table."""

    namespace: str
    name: str
    ready: str
    status: str
    restarts: int
    node: str


def pod_rows(lines: t.Iterable[str], has_namespace: bool) -> t.Iterator[TablePod]:
    """Yield the pods of a table."""
    for line in lines:
        found = _POD.match(line[:1000])
        if found:
            namespace = (found["namespace"] or "") if has_namespace else ""
            node = "" if found["node"] in (None, "<none>") else found["node"]
            yield TablePod(namespace, found["name"], found["ready"], found["status"], int(found["restarts"]), node)


def others(lines: t.Iterable[str]) -> list[str]:
    """Return the lines that are no row: what somebody has pasted right below a table, such as the log of a pod."""
    return [line for line in lines if not _POD.match(line[:1000]) and not _EVENT.match(line)]


def lines_of(row: TablePod) -> t.Iterator[TextLine]:
    """Yield what a row says by itself, as a line: that the pod was killed for want of memory."""
    if row.status.removeprefix("Init:") == "OOMKilled":
        name = f"{row.namespace}/{row.name}" if row.namespace else row.name
        yield TextLine(f"OOMKilled: pod {name}", "event", "table of pods", row.node, f"pod {name}")


def events(lines: t.Iterable[str]) -> t.Iterator[Json]:
    """Yield the events of a table."""
    for line in lines:
        found = _EVENT.match(line)
        if found:
            kind = found["kind"].partition(".")[0].lower()
            about = {"kind": _KINDS.get(kind, kind.capitalize()), "name": found["name"]}
            about |= {"namespace": found["namespace"]} if found["namespace"] else {}
            yield {
                "kind": "Event",
                "metadata": {"name": f"{found['name']}.{found['reason']}"},
                "type": found["type"],
                "reason": found["reason"],
                "message": found["message"].rstrip(),
                "involvedObject": about,
            }
