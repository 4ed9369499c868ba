# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The one call of the module: plan, check, ask for permission, and then write and roll out, or show the plan."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _check_refusal
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import permission
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers import forecast, writes
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import (
    declared_options,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.forecast import Outlook
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout import recover, rollout_options
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_reader import WantedDrivers
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.rollout.driver_rollout import DriverRollout
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]
Warn = t.Callable[[str], None]

TOLD = 3
"""How many failures a message contains before it only counts the rest."""


def declare(cluster: Cluster, options: Options, warn: Warn) -> Json:
    """Declare drivers and roll them out; or pause that, or repair what it has left. Return the module's result."""
    declared, request = declared_options.declaration_of(options), rollout_options.request_of(options)
    if options["state"] == "recovered":
        return recover.recover(cluster, request, warn, _check_refusal.only_warns(options, cluster.check_mode))
    if options["state"] == "paused":
        return recover.pause(cluster, request, warn)
    plan = forecast.of(cluster, declared, paced=options["wait"])
    if not options["wait"]:
        result = _permitted(cluster, plan, options, warn)
        _write(cluster, plan)
        return result
    rollout = DriverRollout(cluster, request, _wanted(plan))
    foreseen = rollout.foresee(plan.changing("replace", "restart"), plan.changing("remove"))
    plan = forecast.resuming(cluster, plan, foreseen.resumed)
    result = _permitted(cluster, plan, options, warn)
    closed = rollout.closed() if plan.planned.changed else ""
    if closed:
        warn(f"Nothing was written. {closed}")
        return {**result, "changed": False, "finished": False, "nodes": [], "summary": {}}
    if cluster.check_mode:
        told = foreseen.result.as_result()
        for text in foreseen.result.degraded:
            warn(text)
        return {**result, **told, "changed": _either(result, told)}
    return {**result, **_roll_out(cluster, plan, rollout, result, warn)}


def _permitted(cluster: Cluster, plan: Outlook, options: Options, warn: Warn) -> Json:
    """Return the result that describes the plan. Raise if a finding or a missing permission forbids it."""
    result, warns = plan.as_result(), _check_refusal.only_warns(options, cluster.check_mode)
    notes = [finding for finding in plan.findings if finding.level == "warning"]
    for text in (*writes.notes(plan.planned), *(f"{note.message} {note.remedy}".strip() for note in notes)):
        warn(text)
    forbidden = _forbidden(plan)
    try:
        said = [_check_refusal.refuse(GpuOpsError(forbidden, reason="ChecksFailed"), warns)] if forbidden else []
        said.append(permission.permit(plan.disruption, plan.declared.allows_disruption, cluster.check_mode, warns))
    except GpuOpsError as e:
        raise GpuOpsError(e.msg, **{**result, **_troubles(result), **e.details, "changed": False}) from e
    for text in filter(None, said):
        warn(text)
    return result


def _troubles(result: Json) -> Json:
    """Return the findings that matter in a failure: Ansible prints its whole result in one line."""
    return {"findings": [finding for finding in result["findings"] if finding["level"] != "ok"]}


def _forbidden(plan: Outlook) -> str:
    """Return what forbids the plan, with the remedies, or an empty string."""
    failures = [finding for finding in plan.findings if finding.level == "failure"]
    if not failures:
        return ""
    said = " ".join(f"{finding.message} {finding.remedy}".strip() for finding in failures[:TOLD])
    more = f" There are {len(failures) - TOLD} more (findings)." if len(failures) > TOLD else ""
    checks = first_few(sorted({finding.check for finding in failures}))
    return f"{said}{more} To continue anyway, leave these checks out (skip: {checks})."


def _write(cluster: Cluster, plan: Outlook) -> None:
    if plan.planned.changed and not cluster.check_mode:
        writes.carry_out(cluster, plan.seen.namespace, plan.planned)


def _roll_out(cluster: Cluster, plan: Outlook, rollout: DriverRollout, result: Json, warn: Warn) -> Json:
    """Keep the nodes back, write, and give the nodes their turns. A run that was killed goes on in the next one."""
    if plan.planned.changed:
        rollout.hold(_to_hold(plan), plan.seen.nodes)
        _write(cluster, plan)
    try:
        made = rollout.roll()
    except GpuOpsError as e:
        # What was planned has been written, and the nodes say what has become of it.
        told = {key: value for key, value in result.items() if key not in ("plan", "pools")}
        changed = _either(result, e.details)
        raise GpuOpsError(e.msg, **{**told, **_troubles(result), **e.details, "changed": changed}) from e
    left, rolled = rollout.why_left(made), made.as_result()
    for text in (*made.degraded, *filter(None, [left])):
        warn(text)
    return {**rolled, "changed": _either(result, rolled)}


def _wanted(plan: Outlook) -> WantedDrivers:
    images = {effect.node: effect.image for effect in plan.effects if effect.image}
    sources = {effect.node: effect.source for effect in plan.effects if effect.source}
    automatic = plan.wished.move != "to ClusterPolicy"
    return WantedDrivers(plan.seen.namespace, plan.seen.policy_name, images, sources, automatic)


def _to_hold(plan: Outlook) -> list[str]:
    """Return the nodes that the operator would upgrade by itself after the write: those with an outdated pod, too."""
    is_late = any(map(_is_late, plan.seen.driver_daemonsets))
    return [effect.node for effect in plan.effects if effect.automatic and (is_late or effect.action != "nothing")]


def _is_late(daemonset: Json) -> bool:
    status = daemonset.get("status") or {}
    return bool(status.get("updatedNumberScheduled", 0) < status.get("desiredNumberScheduled", 0))


def _either(result: Json, rolled: Json) -> bool:
    return bool(result["changed"] or rolled.get("changed"))
