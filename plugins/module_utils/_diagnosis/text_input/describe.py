# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What ``kubectl describe`` (or ``oc describe``) prints about pods and nodes, as objects of the API. Pure."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

DESCRIPTION = re.compile(r"Name: {2,}(?P<name>[\w.:-]+) *")
"""The first line of a description."""
_FIELD = re.compile(r"(?P<indent> *)(?P<key>[A-Za-z][^:\s]*(?: [^:\s]+){0,6}):(?: +(?P<value>\S.*)?)?$")
_GAP = re.compile(r" {2,}")
_AGE = re.compile(r"(?P<age>\S+)(?: \(x(?P<count>\d+)(?: over \S+)?\))?")
_NONE = ("<none>", "<unset>", "")


@dataclasses.dataclass
class Field:
    """A field of a description: its first line, the lines below it that are no fields, and its own fields."""

    key: str = ""
    texts: list[str] = dataclasses.field(default_factory=list)
    fields: list[Field] = dataclasses.field(default_factory=list)

    def field(self, key: str) -> Field:
        """Return the field with this name, or an empty one."""
        return next((each for each in self.fields if each.key == key), Field())

    def text(self, key: str) -> str:
        """Return the text of the field with this name."""
        text = " ".join(self.field(key).texts)
        return "" if text in _NONE else text

    def has(self, *keys: str) -> bool:
        """Return whether there is a field with one of these names."""
        return any(each.key in keys for each in self.fields)


def parse(lines: t.Sequence[str]) -> tuple[Json | None, list[Json]]:
    """Return the pod or the node that is described, or None for another kind, and its events."""
    end = next((place for place, line in enumerate(lines) if line.startswith("Events:")), len(lines))
    top = _fields(lines[:end])
    about = {"name": top.text("Name"), "namespace": top.text("Namespace"), "kind": _kind(top)}
    item = _pod(top) if about["kind"] == "Pod" else _node(top) if about["kind"] == "Node" else None
    return item, list(_events(lines[end + 1 :], about))


def _kind(top: Field) -> str:
    if top.has("System Info", "Allocatable"):
        return "Node"
    if top.has("Containers", "Init Containers"):
        return "Pod"
    return "DaemonSet" if top.has("Desired Number of Nodes Scheduled") else "Object"


def _fields(lines: t.Iterable[str]) -> Field:
    """Return the fields by their indentation."""
    top = Field()
    opened: list[tuple[int, Field]] = [(-1, top)]
    for line in lines:
        indent = len(line) - len(line.lstrip(" "))
        if not line.strip():
            continue
        while opened[-1][0] >= indent and len(opened) > 1:
            opened.pop()
        found = _FIELD.match(line)
        if found:
            field = Field(found["key"], [found["value"].strip()] if found["value"] else [])
            opened[-1][1].fields.append(field)
            opened.append((indent, field))
        else:
            opened[-1][1].texts.append(line.strip())
    return top


def _metadata(top: Field) -> Json:
    labels = dict(text.partition("=")[::2] for text in top.field("Labels").texts if text not in _NONE)
    annotations = {each.key: " ".join(each.texts) for each in top.field("Annotations").fields}
    first = next(iter(top.field("Annotations").texts), "")
    if ": " in first:
        annotations[first.partition(": ")[0]] = first.partition(": ")[2]
    metadata: Json = {"name": top.text("Name"), "labels": labels, "annotations": annotations}
    if top.text("Namespace"):
        metadata["namespace"] = top.text("Namespace")
    return metadata


# ---- pods ---------------------------------------------------------------------------------------------------------


def _pod(top: Field) -> Json:
    metadata = _metadata(top)
    kind, dummy, owner = top.text("Controlled By").partition("/")
    if owner:
        metadata["ownerReferences"] = [{"kind": kind, "name": owner}]
    init, main = top.field("Init Containers").fields, top.field("Containers").fields
    spec: Json = {
        "initContainers": list(map(_container, init)),
        "containers": list(map(_container, main)),
        "tolerations": [_toleration(text) for text in top.field("Tolerations").texts if text not in _NONE],
        "nodeSelector": dict(
            text.partition("=")[::2] for text in top.field("Node-Selectors").texts if text not in _NONE
        ),
    }
    node = top.text("Node").partition("/")[0]
    spec |= {"nodeName": node} if node else {}
    spec |= {"runtimeClassName": top.text("Runtime Class Name")} if top.text("Runtime Class Name") else {}
    status: Json = {
        "phase": (top.text("Status").split() or ["Unknown"])[0],
        "conditions": [{"type": key, "status": value} for key, value in _pairs(top.field("Conditions").texts)],
        "initContainerStatuses": list(map(_container_status, init)),
        "containerStatuses": list(map(_container_status, main)),
    }
    status |= {key.lower(): top.text(key) for key in ("Reason", "Message") if top.text(key)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _pairs(texts: t.Iterable[str]) -> t.Iterator[tuple[str, str]]:
    for text in texts:
        cells = text.split()
        if len(cells) == 2 and cells[1] in ("True", "False", "Unknown"):
            yield cells[0], cells[1]


def _container(field: Field) -> Json:
    resources = {
        name.lower(): {each.key: " ".join(each.texts) for each in field.field(name).fields}
        for name in ("Limits", "Requests")
        if field.has(name)
    }
    return {"name": field.key, "image": field.text("Image"), "resources": resources}


def _container_status(field: Field) -> Json:
    return {
        "name": field.key,
        "image": field.text("Image"),
        "ready": field.text("Ready") == "True",
        "restartCount": whole_number(field.text("Restart Count")) or 0,
        "state": _state(field.field("State")),
        "lastState": _state(field.field("Last State")),
    }


def _state(field: Field) -> Json:
    name = " ".join(field.texts[:1])
    said = {key.lower(): field.text(key) for key in ("Reason", "Message") if field.text(key)}
    if name == "Terminated":
        return {"terminated": {"exitCode": whole_number(field.text("Exit Code")) or 0, **said}}
    return {name.lower(): said} if name in ("Waiting", "Running") else {}


def _toleration(text: str) -> Json:
    """Return a toleration: ``nvidia.com/gpu=present:NoSchedule``, ``key:NoExecute op=Exists for 300s``."""
    first = text.partition(" ")[0]
    if first.startswith("op="):
        return {"operator": first.removeprefix("op=")}
    head, dummy, effect = first.partition(":")
    key, has_value, value = head.partition("=")
    operator = "Equal" if has_value else "Exists"
    found = {"key": key, "operator": operator, "value": value, "effect": effect}
    return {name: part for name, part in found.items() if part}


# ---- nodes --------------------------------------------------------------------------------------------------------


def _node(top: Field) -> Json:
    spec: Json = {"taints": [_taint(text) for text in top.field("Taints").texts if text not in _NONE]}
    spec |= {"unschedulable": True} if top.text("Unschedulable") == "true" else {}
    info = {_camel(each.key): " ".join(each.texts) for each in top.field("System Info").fields}
    status = {
        "capacity": _quantities(top.field("Capacity")),
        "allocatable": _quantities(top.field("Allocatable")),
        "conditions": list(_conditions(top.field("Conditions"))),
        "addresses": [{"type": each.key, "address": " ".join(each.texts)} for each in top.field("Addresses").fields],
        "nodeInfo": info,
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": _metadata(top), "spec": spec, "status": status}


def _taint(text: str) -> Json:
    head, dummy, effect = text.rpartition(":")
    key, has_value, value = head.partition("=")
    return {"key": key, "effect": effect} | ({"value": value} if has_value else {})


def _quantities(field: Field) -> dict[str, str]:
    return {each.key: " ".join(each.texts) for each in field.fields}


def _camel(title: str) -> str:
    """Return a title of System Info as the API's field: ``Container Runtime Version`` is containerRuntimeVersion."""
    first, *others = title.split()
    return first.lower() + "".join(word.replace("-", "").capitalize() for word in others)


def _conditions(field: Field) -> t.Iterator[Json]:
    for text in _rows(field):
        cells = _GAP.split(text, maxsplit=5)
        if len(cells) >= 5 and cells[1] in ("True", "False", "Unknown"):
            message = cells[5] if len(cells) > 5 else ""
            yield {"type": cells[0], "status": cells[1], "reason": cells[4], "message": message}


def _rows(field: Field) -> t.Iterator[str]:
    """Yield the rows of a table. A row with a time looks like a field (``Ready  True  Mon, 24 Oct 2022 10:57``)."""
    yield from field.texts
    for each in field.fields:
        yield f"{each.key}: {' '.join(each.texts)}"


# ---- events -------------------------------------------------------------------------------------------------------


def _events(lines: t.Iterable[str], about: Json) -> t.Iterator[Json]:
    rows: list[list[str]] = []
    for line in lines:
        cells = _GAP.split(line.strip(), maxsplit=4)
        if len(cells) == 5 and cells[0] in ("Normal", "Warning"):
            rows.append(cells)
        elif rows and line.startswith(" ") and line.strip():
            rows[-1][4] += f" {line.strip()}"
    for kind, reason, age, source, message in rows:
        found = _AGE.match(age)
        yield {
            "kind": "Event",
            "metadata": {"name": f"{about['name']}.{reason}"},
            "type": kind,
            "reason": reason,
            "message": message,
            "count": int((found and found["count"]) or 1),
            "source": {"component": source.partition(",")[0]},
            "involvedObject": {key: text for key, text in about.items() if text},
        }
