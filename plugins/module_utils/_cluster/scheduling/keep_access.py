# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Bring the quotas and priority classes of a cluster to what is wanted."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.kept import keep_objects, kept_objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.kept.keep_objects import KeptResult
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.scheduling import access
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


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
        for step in kept_objects.steps(kind, listed, keep_objects.existing(cluster, kind, listed))
    ]
    results = [keep_objects.foreseen(cluster, step) for step in steps]
    missing = keep_objects.missing_namespaces(results)
    if not options["create_namespaces"]:
        remedy = "let the call make what is missing with create_namespaces: true"
        keep_objects.refuse_missing_namespaces("quotas", results, remedy)
    if not cluster.check_mode:
        for name in missing:
            cluster.create(namespaced("v1", None, "namespaces"), access.namespace(name))
        results = [keep_objects.done(cluster, each) for each in results]
    return _result(results, missing), _warnings(results)


def _result(results: list[KeptResult], namespaces: list[str]) -> Json:
    found = keep_objects.outcome(results)
    made: Json = {f"Namespace {name}": {} for name in namespaces}
    return {**found, "namespaces": namespaces, "diff": {**found["diff"], "after": made | found["diff"]["after"]}}


def _warnings(results: list[KeptResult]) -> list[str]:
    found = [
        f"{each.step.title}: {text}. Pods that run stay, and new ones are refused until enough have ended."
        for each in results
        if each.step.kind is access.QUOTA and each.step.wanted
        for text in access.exceeded(each.step.wanted, each.step.existing)
    ]
    replaced = [
        f"{each.step.title} is removed and made again, because its value cannot be changed. Pods that exist keep the "
        "priority that they have."
        for each in results
        if each.step.is_replaced
    ]
    return [*found, *replaced]
