# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""From evidence and findings to an archive that may be sent to a vendor: without secrets, and of bounded size. Pure.

The files in the archive have names of our own: names from clusters and hosts stay in the content. The manifest says
what each file is. Equal evidence gives equal bytes.
"""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import re
import tarfile
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.bundle import size_shares
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import LINE_LENGTH, TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence
from ansible_collections.gpuops.nvidia.plugins.module_utils._secrets import MASK, redacted, secrets_in
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import all_printable, printable
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

BUNDLE_FOLDER = "gpuops-bundle"
BUNDLE_FORMAT = 1
RELEASE = "0.1.0"
"""This collection's version. `make release` sets it: a module that runs cannot read galaxy.yml."""
MANIFEST = f"{BUNDLE_FOLDER}/manifest.json"

_RESERVED = 1 << 16
"""Bytes that the limit leaves for the manifest of an ordinary bundle and for the headers of the archive."""
_PER_FILE = 2048
"""Bytes of the limit that a file costs beside its content: its header, its padding, its entry in the manifest."""
_SEARCHED_FOR = 8
"""A secret of this length or longer is hidden wherever it stands."""


@dataclasses.dataclass(frozen=True)
class _Part:
    """A file of the archive: the items of a list, or lines of a log. ``about`` is its entry in the manifest."""

    name: str
    about: Json
    pieces: tuple[str, ...]
    wanted: frozenset[int] = frozenset()
    order: tuple[int, ...] = ()
    """The place of each line among all lines: rules see lines in the order in which they were collected."""

    @property
    def size(self) -> int:
        return sum(map(_size, self.pieces)) + _PER_FILE

    def cut(self, limit: int) -> tuple[str, Json]:
        """Return the content that fits into the limit, and the entry in the manifest."""
        sizes = list(map(_size, self.pieces))
        room = limit - _PER_FILE
        places = range(len(sizes)) if sum(sizes) <= room else size_shares.ends(sizes, room, sorted(self.wanted))
        content = self._joined([self.pieces[place] for place in places])
        entry = {**self.about, "bytes": len(content.encode()), "left_out": len(sizes) - len(places)}
        return content, entry | ({"order": _runs(self.order[place] for place in places)} if self.order else {})

    def _joined(self, pieces: list[str]) -> str:
        if self.name.endswith(".log"):
            return "".join(f"{piece}\n" for piece in pieces)
        return "[\n" + ",\n".join(pieces) + "\n]\n"


def _runs(places: t.Iterable[int]) -> list[list[int]]:
    """Return rising numbers as runs: the first of each, and how many follow each other."""
    runs: list[list[int]] = []
    for place in places:
        if runs and place == sum(runs[-1]):
            runs[-1][1] += 1
        else:
            runs.append([place, 1])
    return runs


def _size(piece: str) -> int:
    return len(piece.encode()) + 2


def pack(evidence: Evidence, findings: t.Sequence[Json], text: str, limit: int) -> bytes:
    """Return the archive. ``text`` is the diagnosis in words, and ``limit`` the bytes before compression."""
    clean = _Cleaner(evidence)
    parts = [*_tables(evidence, findings, clean), *_logs(evidence.lines, findings, clean)]
    given = size_shares.shares([part.size for part in parts], limit - _RESERVED - len(text.encode()))
    files, entries = [(f"{BUNDLE_FOLDER}/findings.txt", clean(text) + "\n")], list[Json]()
    for part, room in zip(parts, given):
        content, entry = part.cut(room)
        entries.append({"file": part.name, **entry})
        files.append((f"{BUNDLE_FOLDER}/{part.name}", content))
    gaps = clean([dataclasses.asdict(gap) for gap in evidence.gaps])
    head = {"format": BUNDLE_FORMAT, "version": RELEASE, "taken": evidence.taken, "limit": limit, "gaps": gaps}
    return _archive([(MANIFEST, _json({**head, "files": entries}, indent=1) + "\n"), *files])


class _Cleaner:
    """Hides secrets: what looks like one, and, anywhere, what has been recognised as one in its place."""

    def __init__(self, evidence: Evidence) -> None:
        everything = [evidence.spec, evidence.pods, evidence.objects, evidence.hosts, evidence.preflight]
        known = {secret for secret in secrets_in(everything) if len(secret) >= _SEARCHED_FOR and secret != MASK}
        longest_first = sorted(known, key=lambda secret: (-len(secret), secret))
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self._placed_by = frozenset(_placed_by(evidence.pods))

    def __call__(self, value: t.Any) -> t.Any:
        return self._without_known(redacted(value, self._placed_by))

    def _without_known(self, value: t.Any) -> t.Any:
        if self._known is None:
            return value
        if isinstance(value, str):
            return self._known.sub(lambda found: MASK + "\n" * found[0].count("\n"), value)
        if isinstance(value, list):
            return [self._without_known(item) for item in value]
        if isinstance(value, dict):
            return {self._without_known(key): self._without_known(item) for key, item in value.items()}
        return value


def _placed_by(pods: t.Iterable[Json]) -> t.Iterator[str]:
    """Yield the labels of nodes by which pods are placed: without them, no node would seem to fit."""
    for pod in pods:
        spec = pod.get("spec") or {}
        yield from spec.get("nodeSelector") or {}
        affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
        yield from (each["key"] for term in terms for each in term.get("matchExpressions") or [] if each.get("key"))


def _tables(evidence: Evidence, findings: t.Sequence[Json], clean: _Cleaner) -> t.Iterator[_Part]:
    """Yield the files with JSON: one for each kind of objects and for each host."""
    parts = {"stack": evidence.stack, "spec": evidence.spec, "owner": evidence.owner}
    single = {name: [part] if part else [] for name, part in parts.items()}
    lists = {"findings": findings, "preflight": evidence.preflight, "pods": evidence.pods, "pinned": evidence.pinned}
    for name, items in {**lists, **single}.items():
        yield _table(f"{name}.json", {"what": name}, items, clean)
    for number, (kind, items) in enumerate(sorted(evidence.objects.items()), 1):
        yield _table(f"objects/{number:04}.json", {"what": "objects", "kind": kind}, items, clean)
    for number, (node, host) in enumerate(sorted(evidence.hosts.items()), 1):
        about = {"what": "host", "node": node}
        yield _table(f"hosts/{number:04}.json", about, [{"part": key, "content": host[key]} for key in host], clean)


def _table(name: str, about: Json, items: t.Iterable[t.Any], clean: _Cleaner) -> _Part:
    return _Part(name, all_printable(clean(about)), tuple(_json(all_printable(clean(item))) for item in items))


def _json(value: t.Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, sort_keys=False, default=str)


def _logs(lines: t.Sequence[TextLine], findings: t.Sequence[Json], clean: _Cleaner) -> t.Iterator[_Part]:
    """Yield a file of lines for each source. The lines that findings quote are the last ones to be cut."""
    quoted = {quote["text"] for finding in findings for quote in finding.get("quotes") or []}
    sources: dict[tuple[str, str, str, str], list[tuple[int, str]]] = {}
    for place, line in enumerate(lines):
        text = printable(line.text[:LINE_LENGTH]).replace("\n", " ")
        sources.setdefault((line.kind, line.source, line.node, line.object), []).append((place, text))
    for number, (key, found) in enumerate(sources.items(), 1):
        order, texts = zip(*found)
        about = {"what": "log", **dict(zip(("kind", "source", "node", "object"), key))}
        # A whole log at once, because a key has several lines.
        cleaned = clean("\n".join(texts)).split("\n")
        wanted = frozenset(index for index, text in enumerate(texts) if text in quoted)
        yield _Part(f"logs/{number:04}.log", all_printable(clean(about)), tuple(cleaned), wanted, order)


def _archive(files: t.Iterable[tuple[str, str]]) -> bytes:
    """Return a compressed archive without owners and times."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files:
            member, data = tarfile.TarInfo(name), content.encode()
            member.size, member.mode = len(data), 0o600
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), compresslevel=6, mtime=0)
