# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""From the files of a bundle back to evidence and findings. Pure: it works only on the names and bytes that it gets."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.bundle.pack import (
    BUNDLE_FOLDER,
    BUNDLE_FORMAT,
    MANIFEST,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import Kind, TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.view import Evidence, Gap
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_KINDS: tuple[Kind, ...] = t.get_args(Kind)


@dataclasses.dataclass(frozen=True)
class Bundle:
    """What a bundle holds: the evidence, the findings of the run that wrote it, and its manifest."""

    evidence: Evidence
    findings: list[Json]
    manifest: Json


def inner_name(name: str) -> str:
    """Return the name that a file has in its bundle, or an empty string if it is no file of a bundle.

    An archive and the folder that somebody has unpacked name its files differently.
    """
    return name[name.find(f"{BUNDLE_FOLDER}/") :] if f"{BUNDLE_FOLDER}/" in name else ""


def unpack(files: t.Mapping[str, bytes]) -> Bundle:
    """Return what the files of a bundle hold. ``files`` has the bytes of each, by its name in the archive."""
    manifest = _loaded(files, MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("format") != BUNDLE_FORMAT:
        raise GpuOpsError(
            f"The bundle has another format than this release reads ({BUNDLE_FORMAT}): read it with the release that "
            "wrote it, which its manifest names.",
            reason="Invalid",
        )
    parts = [(entry, f"{BUNDLE_FOLDER}/{entry.get('file')}") for entry in _dicts(manifest.get("files"))]
    kept = [(entry, name) for entry, name in parts if name in files]
    tables = [(entry, _dicts(_loaded(files, name))) for entry, name in kept if name.endswith(".json")]
    first = {str(entry.get("what")): items for entry, items in tables}
    evidence = Evidence(
        taken=str(manifest.get("taken") or ""),
        stack=next(iter(first.get("stack", [])), None),
        spec=next(iter(first.get("spec", [])), {}),
        owner=next(iter(first.get("owner", [])), {}),
        preflight=first.get("preflight", []),
        pods=first.get("pods", []),
        objects={str(entry.get("kind")): items for entry, items in tables if entry.get("what") == "objects"},
        hosts={str(entry.get("node")): _host(items) for entry, items in tables if entry.get("what") == "host"},
        lines=_in_order([line for entry, name in kept if name.endswith(".log") for line in _lines(entry, files[name])]),
        gaps=[*_gaps(manifest), *_cut(parts, files)],
        pinned=first.get("pinned", []),
    )
    return Bundle(evidence, first.get("findings", []), manifest)


def _loaded(files: t.Mapping[str, bytes], name: str) -> t.Any:
    try:
        return json.loads(files[name].decode("utf-8", "replace"))
    except (KeyError, ValueError, RecursionError) as e:
        raise GpuOpsError(f"The bundle is damaged: {name} cannot be read. Write it again.", reason="Invalid") from e


def _dicts(value: t.Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _host(items: list[Json]) -> Json:
    return {str(item.get("part")): item.get("content") for item in items}


def _in_order(placed: list[tuple[int, TextLine]]) -> list[TextLine]:
    return [line for dummy, line in sorted(placed, key=lambda each: each[0])]


def _places(runs: t.Any) -> t.Iterator[int]:
    """Yield the places of lines that a manifest gives as runs, and then the last place of all."""
    for run in runs if isinstance(runs, list) else ():
        if isinstance(run, list) and len(run) == 2 and all(isinstance(number, int) for number in run):
            yield from range(run[0], run[0] + run[1])
    yield from itertools.repeat(sys.maxsize)


def _lines(entry: Json, content: bytes) -> t.Iterator[tuple[int, TextLine]]:
    kind = t.cast("Kind", entry.get("kind") if entry.get("kind") in _KINDS else "text")
    source, node, about = (str(entry.get(key) or "") for key in ("source", "node", "object"))
    texts = content.decode("utf-8", "replace").split("\n")[:-1]
    for place, text in zip(_places(entry.get("order")), texts):
        yield place, TextLine(text, kind, source, node, about)


def _gaps(manifest: Json) -> list[Gap]:
    return [Gap(str(gap.get("what")), str(gap.get("why"))) for gap in _dicts(manifest.get("gaps"))]


def _cut(parts: list[tuple[Json, str]], files: t.Mapping[str, bytes]) -> t.Iterator[Gap]:
    """Yield what the bundle lacks: what its size left out, and files that are gone."""
    for entry, name in parts:
        what = f"{entry.get('source') or entry.get('kind') or entry.get('node') or entry.get('what')} ({name})"
        if name not in files:
            yield Gap(what, "The bundle lacks this file.")
        elif entry.get("left_out"):
            yield Gap(f"{entry['left_out']} parts of {what}", "The size of the bundle was limited when it was written.")
