# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Bring the objects that a module keeps to what is wanted: read, foresee by dry runs, write, and say what was done."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.kept.kept_objects import KeptKind, KeptStep
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


class KeptResult(t.NamedTuple):
    """What was done with one object: its content before and after, which is None where there is no object."""

    step: KeptStep
    before: Json | None
    after: Json | None
    missing_namespace: str | None = None
    """The namespace that has to be made first."""

    @property
    def changed(self) -> bool:
        """Whether the object differs from before."""
        return self.before != self.after


def existing(cluster: Cluster, kind: KeptKind, wanted: list[Json]) -> list[Json]:
    """Return all objects that the module has made, and those that have a wanted name, as they are now."""
    ours = cluster.list(kind.path(None), labelSelector=kind.selector, resourceVersion="") or []
    known = set(map(full_name, ours))
    others = [
        cluster.get(kind.path(item["metadata"].get("namespace"), item["metadata"]["name"]))
        for item in wanted
        if full_name(item) not in known
    ]
    return [*ours, *(item for item in others if item is not None)]


def foreseen(cluster: Cluster, step: KeptStep) -> KeptResult:
    """Return what a run makes of one object, by a dry run."""
    if step.wanted is None or step.is_replaced:  # the API server would compare with the object that is still there
        return _removed_first(cluster, step)
    before = step.kind.content(step.existing) if step.existing else None
    try:
        after = cluster.apply(step.path, step.wanted, force=True, dry_run=True)
    except GpuOpsError as e:
        if step.existing and step.kind.is_immutable and e.reason == "Invalid" and "immutable" in e.msg:
            return _removed_first(
                cluster, dataclasses.replace(step, made_again=_tried(cluster, step.wanted, step.kind))
            )
        namespace = step.wanted["metadata"].get("namespace")
        if e.reason != "NotFound" or not namespace:
            raise
        return KeptResult(step, before, step.kind.content(step.wanted), namespace)
    return KeptResult(step, before, step.kind.content(after))


def _removed_first(cluster: Cluster, step: KeptStep) -> KeptResult:
    if cluster.check_mode:
        cluster.delete(step.path, uid=step.uid, resourceVersion=step.version)
    before = step.kind.content(step.existing) if step.existing else None
    return KeptResult(step, before, step.kind.content(step.made_again or step.wanted) if step.wanted else None)


def _tried(cluster: Cluster, wanted: Json, kind: KeptKind) -> Json:
    """Return what the API server makes of an object, by a dry run under a name that is free."""
    metadata = {**wanted["metadata"], "name": f"{wanted['metadata']['name']}.trial"}
    path = kind.path(metadata.get("namespace"), metadata["name"])
    return cluster.apply(path, {**wanted, "metadata": metadata}, force=True, dry_run=True)


def refuse_missing_namespaces(option: str, results: t.Iterable[KeptResult], remedy: str) -> None:
    """Raise if objects need a namespace that does not exist."""
    missing = missing_namespaces(results)
    if not missing:
        return
    names = f"namespace {missing[0]}" if len(missing) == 1 else f"namespaces {first_few(missing)}"
    raise GpuOpsError(f"There is no {names}. Correct {option}, or {remedy}.", reason="NotFound", namespaces=missing)


def missing_namespaces(results: t.Iterable[KeptResult]) -> list[str]:
    """Return the namespaces that objects need and that do not exist."""
    return sorted({each.missing_namespace for each in results if each.missing_namespace})


def done(cluster: Cluster, result: KeptResult) -> KeptResult:
    """Do what was foreseen for one object, unless it is as wanted."""
    step = result.step
    if not result.changed:
        return result
    if step.existing and (step.wanted is None or step.is_replaced):
        cluster.delete(step.path, uid=step.uid, resourceVersion=step.version)
    if step.wanted is None:
        return result
    return result._replace(after=step.kind.content(cluster.apply(step.path, step.wanted, force=True)))


def outcome(results: list[KeptResult]) -> Json:
    """Return what the module returns about its objects, with the difference."""
    changed = [each for each in results if each.changed]
    return {
        "changed": bool(changed),
        "objects": [
            {"object": each.step.title, "changed": each.changed, **each.after}
            for each in results
            if each.after is not None
        ],
        "removed": [each.step.title for each in results if each.after is None],
        "diff": {
            "before": {each.step.title: each.before for each in changed if each.before is not None},
            "after": {each.step.title: each.after for each in changed if each.after is not None},
        },
    }
