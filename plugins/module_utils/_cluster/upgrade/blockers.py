# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What stands in the way of a jump from one release of the operator to another on this cluster. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _quantities
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import disruption, schema
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import images
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding, about
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade import conditions, transitions
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade.conditions import UpgradeView
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Findings = t.Iterator[ClusterFinding]

LARGE_FLEET = 300
"""Nodes from which the operator runs out of memory with the chart's limit. Source: NVIDIA's page Troubleshooting."""
SMALL_LIMIT = 350 * 2**20
"""The chart's own limit of the operator's memory, in every release since v24.9."""


def findings(
    sight: UpgradeView, jump: transitions.Jump, records: t.Sequence[transitions.Transition]
) -> list[ClusterFinding]:
    """Return what stands in the way, and what the user should know."""
    return [
        *_about_path(jump, records),
        *_about_changes(sight, jump),
        *_about_fields(sight),
        *_about_memory(sight),
        *_about_upgrades(sight),
    ]


def accepted(found: t.Iterable[ClusterFinding], accept: t.Collection[str], force: bool) -> list[ClusterFinding]:
    """Return the findings, with failures that the user accepts as warnings."""
    return [
        dataclasses.replace(item, level="warning")
        if item.level == "failure" and (force or item.check in accept)
        else item
        for item in found
    ]


# ---- the path -----------------------------------------------------------------------------------------------------


def _about_path(jump: transitions.Jump, records: t.Sequence[transitions.Transition]) -> Findings:
    before, after = transitions.line_text(jump.older), transitions.line_text(jump.newer)
    if jump.gap:
        message = f"This collection does not know the step from {jump.gap} on the way from {before} to {after}."
        remedy = "Use a release of this collection that knows it, or set force: true after a test on another cluster."
        yield ClusterFinding("path", "failure", message, remedy)
        return
    if jump.verdict in ("blocked", "unknown"):
        bad = next((step for step in jump.steps if jump.verdict in (step.verdict, step.back["verdict"])), None)
        if bad is not None:
            message = f"The step from {bad.title} is {jump.verdict}. {bad.back.get('message', '')}".strip()
            yield ClusterFinding("path", "failure", message, f"See {bad.sources[0]}.")
    if len(jump.steps) > 1 and not jump.is_back:
        message = (
            f"NVIDIA supports upgrades to the next release only, and {before} to {after} are {len(jump.steps)} steps."
        )
        remedy = f"Upgrade to {', then to '.join([*jump.stops, after])}, one run for each."
        yield ClusterFinding("path", "failure", message, remedy)
    if jump.is_back:
        yield from _about_way_back(jump)
    if transitions.is_newer_than_known(records, jump.newer):
        message = f"{after} is newer than all releases that this collection knows. What its line brought is known."
        yield ClusterFinding("release", "warning", message, "Read NVIDIA's release notes of that release.")


def _about_way_back(jump: transitions.Jump) -> Findings:
    before, after = transitions.line_text(jump.older), transitions.line_text(jump.newer)
    notes = [step.back["message"] for step in jump.steps if step.back.get("message")]
    message = " ".join([f"{after} is older than {before}, and NVIDIA does not support the way back.", *notes])
    yield ClusterFinding("way_back", "warning", message, "Compare the values with the older chart.")


# ---- what the steps change ----------------------------------------------------------------------------------------


def _about_changes(sight: UpgradeView, jump: transitions.Jump) -> Findings:
    if jump.is_back:
        return
    for step in jump.steps:
        for change in step.changes:
            applies = conditions.applies(change.when, sight)
            if applies is not None:
                message = f"{step.title}: {' '.join(filter(None, [change.message, applies]))}"
                yield ClusterFinding(change.name, change.level, message, change.remedy)


def _about_fields(sight: UpgradeView) -> Findings:
    """Find fields of the ClusterPolicy that the next CRD does not have. The API server would drop them silently."""
    spec = (sight.schema.get("properties") or {}).get("spec")
    lost = schema.unknown_fields(sight.policy, spec, "spec") if spec else []
    if lost:
        message = f"The ClusterPolicy has fields that the new operator does not know: {first_few(sorted(lost))}."
        yield ClusterFinding("fields", "warning", message, "They are dropped. Remove them from your values.")


# ---- the fleet ----------------------------------------------------------------------------------------------------


def _about_memory(sight: UpgradeView) -> Findings:
    limit = disruption.at(sight.values, "operator.resources.limits.memory")
    size = _quantities.parsed(limit) if limit is not None else SMALL_LIMIT
    if len(sight.nodes) >= LARGE_FLEET and size is not None and size <= SMALL_LIMIT:
        message = (
            f"The operator may use {limit or '350Mi'} of memory, and there are {len(sight.nodes)} nodes. With "
            f"{LARGE_FLEET} nodes or more it may need more, and is killed again and again."
        )
        yield ClusterFinding("memory", "failure", message, "Set operator.resources.limits.memory, for example to 1Gi.")


def _about_upgrades(sight: UpgradeView) -> Findings:
    """Find nodes whose driver is being replaced, or failed to be: their state belongs to the operator that is there."""
    busy = [node for node in sight.gpu_nodes if nodes.upgrade_state(node) not in names.UPGRADE_IDLE]
    if busy:
        message = f"The operator is replacing the driver of {_listed(busy)}. The new operator would continue it."
        yield ClusterFinding("driver_upgrade", "failure", message, "Wait until that upgrade has ended.", **about(busy))
    failed = [node for node in sight.gpu_nodes if nodes.upgrade_state(node) == names.UPGRADE_FAILED]
    if failed:
        message = f"The driver's upgrade has failed on {_listed(failed)}, and these nodes are cordoned."
        remedy = "Repair them first: gpuops.nvidia.driver_container with state: recovered."
        yield ClusterFinding("driver_upgrade", "failure", message, remedy, **about(failed))


def _listed(found: t.Sequence[Json]) -> str:
    return first_few([objects.name_of(node) for node in found])


# ---- the driver that stays ----------------------------------------------------------------------------------------


def pin(sight: UpgradeView) -> Json:
    """Return the Helm values with which the new chart keeps the driver that the cluster has. Empty if it is not due.

    A value that the user has given wins. Several NVIDIADrivers do not come from the chart, and stay as they are.
    """
    given = sight.values.get("driver") or {}
    source = sight.policy.get("driver") or {}
    if sight.delegates:
        source = sight.drivers[0]["spec"] if len(sight.drivers) == 1 else {}
    elif not operands.enabled(operands.DRIVER, sight.policy):
        return {}
    if given.get("version") or not source.get("version"):
        return {}
    return {"driver": {key: source[key] for key in images.IMAGE_FIELDS if source.get(key) and key not in given}}
