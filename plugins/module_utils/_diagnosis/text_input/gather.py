# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""From unsorted texts to evidence: a ticket may hold a description, a table and a kernel log. Pure.

A text is read from top to bottom. Where an object or a table begins, its reader takes the lines that belong to it. All
other lines are lines of logs. Of these, only those are kept that a pattern of the rules could match.
"""

from __future__ import annotations

import collections
import dataclasses
import re
import string
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices import device_pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_claims, names
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import owner, statuses
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.collect.others import lines_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.files import layout
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.files.layout import Origin
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input import (
    describe,
    forms,
    fragments,
    logs,
    saved_objects,
    saved_stack,
    smi,
    tables,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input.wanted_lines import WantedLines
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import (
    LINE_LENGTH,
    Pattern,
    TextLine,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, Gap
from ansible_collections.gpuops.nvidia.plugins.module_utils._secrets import mask
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import printable
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_UNWRAPPED = 5000
"""Longer texts are files, and no terminal has wrapped their lines."""
_AT_ONCE = 200
"""How many lines are searched at once for the words of the patterns."""

_ODD = (KeyError, IndexError, TypeError, ValueError, AttributeError)
"""What odd objects make code raise that expects those of the API."""

_YAML = re.compile(r"(?:- )?(?:apiVersion|kind|items): ?\S*$|(?:- )?apiVersion: \S+$")
_IN_YAML = re.compile(r"[ -]|#|$|\.\.\.|[A-Za-z]\w*:(?: |$)")
_FOLDED = re.compile(r"(?P<indent> *)(?:- )?[\w.-]+: >[-+]?$")
"""Where YAML begins a text that continues in the lines below, as one line."""
_API = re.compile(r'"(?:kind|items|apiVersion)"')
_IN_DESCRIPTION = re.compile(r" |$|[A-Z][^:]{0,60}:(?: |$)")
_BUG_REPORT = re.compile(r"Start of NVIDIA bug report log file[\s\S]{0,2000}?\nuname: Linux (?P<node>[\w.-]{1,253}) ")

_PLURALS = {
    **{kind: f"{kind.lower()}s" for kind in ("Node", "DaemonSet", "Deployment", "ConfigMap", "Namespace", "Service")},
    "ResourceQuota": "resourcequotas",
    "CustomResourceDefinition": "customresourcedefinitions",
    "RuntimeClass": "runtimeclasses",
    "ServiceMonitor": "servicemonitors",
    "Event": "events",
    "ClusterPolicy": names.CLUSTERPOLICIES,
    "NVIDIADriver": names.NVIDIADRIVERS,
    "GPUCluster": names.GPUCLUSTERS,
    "ResourceSlice": "resourceslices",
    "ResourceClaim": "resourceclaims",
    "DeviceClass": "deviceclasses",
    "ComputeDomain": "computedomains",
}
_ALONE = ("nodes", "events", names.CLUSTERPOLICIES, "computedomains")
"""Kinds of which single objects count. Of others, only a list shows that there are no more."""


def _looks_whole(item: Json) -> bool:
    """Return true, or raise what the readers of such an object raise on one of another form."""
    if item["kind"] == "Pod":
        saved_stack.row_of(item)
        collections.deque(statuses.of_pods([item]), maxlen=0)
    elif item["kind"] == "Event":
        lines_of([item], [])
    elif item["kind"] == "Node":
        saved_stack.stack_of({"nodes": [item]}, [])
    elif item["kind"] == "ResourceSlice":
        device_pools.pools([device_pools.part_of(item)])
    elif item["kind"] == "ResourceClaim":
        device_claims.allocated(item)
    return True


Made = t.TypeVar("Made")


class Gatherer:
    """Takes texts, and returns the evidence in them."""

    def __init__(self, literals: t.Iterable[str], errors: t.Iterable[Pattern] = ()) -> None:
        self._wanted = WantedLines(literals, errors)
        self._lines: list[tuple[TextLine, str]] = []
        self._name = ""
        self._files: dict[tuple[str, ...], dict[str, None]] = {}
        self._pods: dict[tuple[str, str], Json] = {}
        self._rows: dict[tuple[str, str], tables.TablePod] = {}
        self._kinds: dict[str, dict[tuple[str, str], Json]] = {}
        self._hosts: dict[str, Json] = {}
        self._gaps: list[Gap] = []

    def take(self, name: str, text: str) -> list[str]:
        """Read a text, and return what was found in it, in words."""
        origin = layout.origin_of(name)
        report = _BUG_REPORT.search(text[:5000])
        if report:
            origin = dataclasses.replace(origin, node=origin.node or report["node"])
        self._name = name
        found = _TextReading(self, name, origin, text).read()
        return [word if count == 1 else f"{word} ({count})" for word, count in found.items()]

    def evidence(self) -> Evidence:
        """Return all that was found."""
        whole = list(self._pods.values())
        rows = {key: row for key, row in self._rows.items() if not self._is_known(row)}
        rows |= dict(self._of_pods())
        kinds = {kind: list(items.values()) for kind, items in self._kinds.items()}
        nodes = {f"pod {row.namespace}/{row.name}".replace(" /", " "): row.node for row in rows.values() if row.node}
        nodes |= {f"pod {row.name}": row.node for row in rows.values() if row.node}
        said = self._readable(lambda: lines_of(kinds.get("events", []), whole), None)
        policy = next(iter(kinds.get(names.CLUSTERPOLICIES, [])), {})
        tables_say = [line for key, row in self._rows.items() if key in rows for line in tables.lines_of(row)]
        return Evidence(
            is_pasted=True,
            stack=self._readable(lambda: saved_stack.stack_of(kinds, rows.values()), None),
            spec=mask(policy.get("spec") or {}),
            pods=mask(whole),
            objects=mask(kinds),
            owner=owner.verdict(kinds.get("deployments") or [], kinds.get(names.CLUSTERPOLICIES) or []),
            hosts=self._hosts,
            lines=[
                *(self._noted(self._clean(line, nodes), name) for line, name in self._lines),
                *(self._clean(line, nodes) for line in (*(said or ()), *tables_say)),
            ],
            gaps=self._gaps,
        )

    def file_of(self, text: str, source: str, node: str) -> str:
        """Return the file of a quoted line, or an empty string if it is not known, or is the source itself."""
        found = self._files.get((text, source, node)) or self._files.get((source, node)) or {}
        names = [name for name in found if name not in source]
        return names[0] if len(names) == 1 else ""

    def _noted(self, line: TextLine, name: str) -> TextLine:
        for key in ((line.text, line.source, line.node), (line.source, line.node)):
            self._files.setdefault(key, {})[name] = None
        return line

    def _is_known(self, row: tables.TablePod) -> bool:
        return any(name == row.name and row.namespace in ("", namespace) for namespace, name in self._pods)

    def _of_pods(self) -> t.Iterator[tuple[tuple[str, str], tables.TablePod]]:
        for key, pod in self._pods.items():
            row = self._readable(lambda pod=pod: saved_stack.row_of(pod), None)  # type: ignore[misc]
            if row:
                yield key, row

    def _readable(self, make: t.Callable[[], Made], otherwise: Made) -> Made:
        """Return what a function makes of the objects, or note that they are odd."""
        try:
            return make()
        except _ODD as e:
            gap = Gap("a part of the objects", f"They have another form than those of the API ({type(e).__name__}).")
            self._gaps += [] if gap in self._gaps else [gap]
            return otherwise

    def _clean(self, line: TextLine, nodes: t.Mapping[str, str]) -> TextLine:
        text = printable(str(mask(line.text[:LINE_LENGTH])))
        source, about = printable(line.source), printable(line.object)
        return TextLine(text, line.kind, source, printable(line.node) or nodes.get(line.object, ""), about)

    # ---- what readings add ----

    def add_lines(self, texts: t.Iterable[str], origin: Origin) -> None:
        """Keep the lines of a log that a pattern could match."""
        batch: list[tuple[str, Origin]] = []
        speakers = forms.Speakers(origin)
        for text in forms.joined(texts):
            speaker = speakers.of(text)
            batch += [(end, speaker) for end in forms.ends(text)]
            if len(batch) >= _AT_ONCE:
                self._add_batch(batch)
                batch = []
        self._add_batch(batch)

    def _add_batch(self, batch: list[tuple[str, Origin]]) -> None:
        for (text, origin), words in zip(batch, self._wanted.of_lines([text for text, dummy in batch])):
            line = logs.line_of(text, origin) if words else None
            if line and self._wanted.is_kept(line.node, line.source, words):
                self._lines.append((line, self._name))

    def add_object(self, item: Json, is_listed: bool, namespace: str) -> bool:
        """Keep an object, and return whether it is of a kind that counts and of the form of the API."""
        metadata = item["metadata"]
        if namespace and item["kind"] != "Node":
            metadata.setdefault("namespace", namespace)
        if not self._readable(lambda: _looks_whole(item), False):
            return False
        key = str(metadata.get("namespace") or ""), str(metadata["name"])
        if item["kind"] == "Pod":
            known = self._pods.get(key)
            # The API's own object says more than a description of it.
            if known is None or "uid" in metadata:
                self._pods[key] = item
                self._note_pod(item)
            return True
        kind = _PLURALS.get(item["kind"], "")
        if not kind or not (is_listed or kind in _ALONE):
            return False
        if kind == "nodes":
            self._files[statuses.NODE_CONDITIONS, metadata["name"]] = {self._name: None}
        if kind == "events":
            key = (*key, item.get("message"), str(item.get("involvedObject")))  # type: ignore[assignment]
        self._kinds.setdefault(kind, {})[key] = item
        return True

    def _note_pod(self, pod: Json) -> None:
        for line in statuses.of_pods([pod]):
            self._files[line.source, line.node] = {self._name: None}

    def add_row(self, row: tables.TablePod) -> None:
        """Keep a row of a table of pods."""
        self._rows[row.namespace, row.name] = row

    def add_facts(self, node: str, facts: Json) -> None:
        """Keep the facts of a host."""
        self._hosts.setdefault(node, {}).setdefault("facts", {}).update(facts)


class _TextReading:
    """Goes through one text."""

    def __init__(self, gatherer: Gatherer, name: str, origin: Origin, text: str) -> None:
        self._gatherer, self._name, self._origin, self._text = gatherer, name, origin, text
        self._all = text.split("\n")
        self._found: dict[str, int] = {}
        self._readers: tuple[tuple[str, re.Pattern[str], t.Callable[[int, int], int]], ...] = (
            ("N", describe.DESCRIPTION, self._description),
            (" NL", tables.POD_TABLE, self._pods),
            (" NL", tables.EVENT_TABLE, self._events),
            (" " + string.ascii_lowercase, tables.POD_ROW, self._pod),
            (" =", smi.SMI_LOG, self._smi),
            ("-aki", _YAML, self._yaml),
            ("{[", re.compile(r"\{|\[\{?$"), self._json),
        )

    def read(self) -> dict[str, int]:
        """Read the whole text, and return what was found and how often."""
        containers = fragments.Containers()
        loose = self._seen_by(containers)
        is_pasted = self._origin.kind == "text" and len(self._all) < _UNWRAPPED
        self._gatherer.add_lines(forms.unwrapped(loose) if is_pasted else loose, self._origin)
        self._gatherer.add_lines(containers.killed(), self._origin)
        return self._found

    def _seen_by(self, containers: fragments.Containers) -> t.Iterator[str]:
        for line in self._loose():
            containers.look(line)
            yield line

    def _loose(self) -> t.Iterator[str]:
        """Yield the lines that belong to no object and no table."""
        place = offset = 0
        while place < len(self._all):
            line = self._all[place]
            taken = self._taken(line, place, offset)
            if not taken:
                folded = self._folded(place) if ": >" in line else []
                taken = 1 + len(folded)
                yield " ".join([line, *folded]) if folded else line
            offset += len(line) + 1 if taken == 1 else sum(map(len, self._all[place : place + taken])) + taken
            place += taken

    def _folded(self, place: int) -> list[str]:
        """Return the lines that YAML folds into the one at this place."""
        begin = _FOLDED.match(self._all[place][:500])
        folded: list[str] = []
        for line in self._after(place) if begin else ():
            text = line.strip()
            if not text or not begin or len(line) - len(line.lstrip()) <= len(begin["indent"]):
                break
            folded.append(text)
        return folded

    def _taken(self, line: str, place: int, offset: int) -> int:
        """Return how many lines the reader for what begins here has taken."""
        first = line[:1]
        for letters, begin, reader in self._readers:
            if first and first in letters and begin.match(line[:500]):
                return reader(place, offset)
        return 0

    def _count(self, word: str, number: int = 1) -> None:
        if number:
            self._found[word] = self._found.get(word, 0) + number

    def _until(self, place: int, belongs: t.Callable[[str], bool]) -> list[str]:
        """Return the lines from here to the first that does not belong to them, or to the end of a block of code."""
        taken = [self._all[place]]
        for line in self._after(place):
            if line.startswith("```") or not belongs(line):
                break
            taken.append(line)
        return taken

    def _after(self, place: int) -> t.Iterator[str]:
        """Yield the lines after this one. A slice would copy the rest of a large text for each object in it."""
        return (self._all[number] for number in range(place + 1, len(self._all)))

    def _description(self, place: int, dummy: int) -> int:
        taken = self._until(
            place, lambda line: bool(_IN_DESCRIPTION.match(line[:100])) and not describe.DESCRIPTION.match(line[:500])
        )
        item, events = describe.parse(taken)
        if not item and not events:
            return 0
        for each in [item, *events] if item else events:
            self._gatherer.add_object(each, False, "")
        self._count(f"description of a {item['kind'].lower()}" if item else "description")
        return len(taken)

    def _pods(self, place: int, dummy: int) -> int:
        taken = self._until(place, lambda line: bool(line.strip()))
        has_namespace = self._all[place].lstrip().startswith("NAMESPACE")
        rows = list(tables.pod_rows(taken[1:], has_namespace))
        for row in rows:
            self._gatherer.add_row(row)
        self._count("row of pods", len(rows))
        self._below(taken[1:])
        return len(taken)

    def _below(self, lines: list[str]) -> None:
        """Read what stands right below a table and is no row of it."""
        self._gatherer.add_lines(forms.unwrapped(tables.others(lines)), self._origin)

    def _pod(self, place: int, dummy: int) -> int:
        """Read a row without the head of its table."""
        for row in tables.pod_rows([self._all[place]], has_namespace=True):
            self._gatherer.add_row(row)
            self._count("row of pods")
        return 1

    def _events(self, place: int, dummy: int) -> int:
        taken = self._until(place, lambda line: bool(line.strip()))
        events = list(tables.events(taken[1:]))
        for event in events:
            self._gatherer.add_object(event, False, "")
        self._count("event", len(events))
        self._below(taken[1:])
        return len(taken)

    def _smi(self, place: int, dummy: int) -> int:
        taken = self._until(place, lambda line: not line.startswith("____"))
        facts = smi.facts_of(taken)
        if facts["gpus"]:
            self._gatherer.add_facts(self._origin.node or f"host of {self._name}", facts)
            self._count("report of nvidia-smi")
        return len(taken)

    def _yaml(self, place: int, dummy: int) -> int:
        taken = self._until(place, lambda line: bool(_IN_YAML.match(line[:100])))
        try:
            documents = saved_objects.from_yaml("\n".join(taken))
        except saved_objects.UnreadableError as e:
            self._gatherer.add_lines(taken, self._origin)
            self._count(f"text that looks like YAML ({e})")
            return len(taken)
        self._objects(documents)
        return len(taken)

    def _json(self, place: int, offset: int) -> int:
        if '"MESSAGE"' in self._all[place] or not _API.search(self._text, offset, offset + 5000):
            return 0
        try:
            document, end = saved_objects.from_json(self._text, offset)
        except saved_objects.UnreadableError:
            return 0
        return self._text.count("\n", offset, end) + 1 if self._objects([document]) else 0

    def _objects(self, documents: list[t.Any]) -> int:
        known = 0
        for item, is_listed in saved_objects.flattened(documents):
            if self._gatherer.add_object(item, is_listed, self._origin.namespace):
                self._count(item["kind"])
            known += 1
        return known
