# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Bring the quotas and priority classes of a cluster to what is wanted."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.scheduling import access
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


class _Done(t.NamedTuple):
    """What was done with one object: its content before and after, which is None where there is no object."""

    step: access.Step
    before: Json | None
    after: Json | None
    missing_namespace: str | None = None
    """The namespace that has to be made first."""

    @property
    def changed(self) -> bool:
        return self.before != self.after


def keep(cluster: Cluster, options: t.Mapping[str, t.Any]) -> tuple[Json, list[str]]:
    """Make, change and remove quotas and priority classes. In check mode, all writes are dry runs.

    Return the module's result, and warnings. Whatever the options or the API server do not allow is found before the
    first write.
    """
    wishes = {access.PRIORITY: options["priority_classes"], access.QUOTA: options["quotas"]}
    make = {access.PRIORITY: access.priorities, access.QUOTA: access.quotas}
    wanted = {kind: None if listed is None else make[kind](listed) for kind, listed in wishes.items()}
    steps = [
        step
        for kind, listed in wanted.items()
        if listed is not None
        for step in access.steps(kind, listed, _existing(cluster, kind, listed))
    ]
    done = [_foreseen(cluster, step) for step in steps]
    missing = sorted({each.missing_namespace for each in done if each.missing_namespace})
    if missing and not options["create_namespaces"]:
        raise _no_namespace(missing)
    if not cluster.check_mode:
        for name in missing:
            cluster.create(namespaced("v1", None, "namespaces"), access.namespace(name))
        done = [_do(cluster, each) if each.changed else each for each in done]
    return _result(done, missing), _warnings(done)


def _existing(cluster: Cluster, kind: access.AccessKind, wanted: list[Json]) -> list[Json]:
    """Return all objects that we have made, and those that have a wanted name, as they are now."""
    ours = cluster.list(kind.path(None), labelSelector=access.SELECTOR, resourceVersion="") or []
    known = set(map(full_name, ours))
    others = [
        cluster.get(kind.path(item["metadata"].get("namespace"), item["metadata"]["name"]))
        for item in wanted
        if full_name(item) not in known
    ]
    return [*ours, *(item for item in others if item is not None)]


def _foreseen(cluster: Cluster, step: access.Step) -> _Done:
    """Return what a run makes of one object, by a dry run."""
    before = step.kind.content(step.existing) if step.existing else None
    if step.wanted is None or step.is_replaced:  # the API server would compare with the object that is still there
        if cluster.check_mode:
            cluster.delete(step.path)
        return _Done(step, before, step.kind.content(step.wanted) if step.wanted else None)
    try:
        after = cluster.apply(step.path, step.wanted, force=True, dry_run=True)
    except GpuOpsError as e:
        namespace = step.wanted["metadata"].get("namespace")
        if e.reason != "NotFound" or not namespace:
            raise
        return _Done(step, before, step.kind.content(step.wanted), namespace)
    return _Done(step, before, step.kind.content(after))


def _no_namespace(missing: list[str]) -> GpuOpsError:
    names = f"namespace {missing[0]}" if len(missing) == 1 else f"namespaces {first_few(missing)}"
    message = f"There is no {names}. Correct quotas, or let the call make what is missing with create_namespaces: true."
    return GpuOpsError(message, reason="NotFound", namespaces=missing)


def _do(cluster: Cluster, foreseen: _Done) -> _Done:
    step = foreseen.step
    if step.wanted is None or step.is_replaced:
        cluster.delete(step.path)
    if step.wanted is None:
        return foreseen
    after = step.kind.content(cluster.apply(step.path, step.wanted, force=True))
    return foreseen._replace(after=after)


def _result(done: list[_Done], namespaces: list[str]) -> Json:
    changed = [each for each in done if each.changed]
    before = {each.step.title: each.before for each in changed}
    after = {each.step.title: each.after for each in changed}
    made: Json = {f"Namespace {name}": {} for name in namespaces}
    return {
        "changed": bool(changed),
        "namespaces": namespaces,
        "objects": [_row(each) for each in done if each.after is not None],
        "removed": [each.step.title for each in done if each.after is None],
        "diff": {"before": _present(before), "after": made | _present(after)},
    }


def _row(each: _Done) -> Json:
    return {"object": each.step.title, "changed": each.changed, **(each.after or {})}


def _present(contents: t.Mapping[str, Json | None]) -> Json:
    return {title: content for title, content in contents.items() if content is not None}


def _warnings(done: list[_Done]) -> list[str]:
    found = [
        f"{each.step.title}: {text}. Pods that run stay, and new ones are refused until enough have ended."
        for each in done
        if each.step.kind is access.QUOTA and each.step.wanted
        for text in access.exceeded(each.step.wanted, each.step.existing)
    ]
    replaced = [
        f"{each.step.title} is removed and made again, because its value cannot be changed. Pods that exist keep the "
        "priority that they have."
        for each in done
        if each.step.is_replaced
    ]
    return [*found, *replaced]
