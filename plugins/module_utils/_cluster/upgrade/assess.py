# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Look at a cluster before an upgrade of its operator, and say what the upgrade means for it."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils import _findings
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.installed_by import ReleaseScope
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.release import guards, record
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.served import Served
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade import (
    blockers,
    renamed,
    transitions,
    unapplied_layouts,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.upgrade.conditions import UpgradeView
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.operator_lines import STEPS
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]


def info(cluster: Cluster, options: Options) -> Json:
    """Return the jump from the installed release to the wanted one, and what stands in its way."""
    guards.refuse_other_store(os.environ)
    scope = ReleaseScope(options["release_name"], options["release_namespace"])
    guards.refuse_others(cluster, guards.operators(cluster), scope)
    records = transitions.parse(STEPS if options["transitions"] is None else options["transitions"])
    installed = installed_release(cluster, options["release_name"], options["release_namespace"])
    sight = _look(cluster, options, installed)
    jump = transitions.jump(records, sight.before, sight.after)
    seen = [
        *blockers.findings(sight, jump, records),
        *renamed.findings(cluster, sight, options),
        *unapplied_layouts.findings(cluster, sight, options["release_namespace"]),
    ]
    found = blockers.accepted(seen, options["accept"], options["force"])
    return {
        "installed": {"app_version": installed.app_version, "chart_version": installed.chart_version},
        "direction": _direction(jump),
        "verdict": jump.verdict,
        "steps": [step.title for step in jump.steps],
        "stops": jump.stops,
        "restarts": jump.restarts,
        "driver": ("evicts" if jump.evicts else "in_place") if jump.restarts else "none",
        "driver_pin": blockers.pin(sight),
        "sources": [source for step in jump.steps for source in step.sources],
        **_findings.as_result(_findings.worst_first(found)),
    }


def _direction(jump: transitions.Jump) -> str:
    if jump.older == jump.newer:
        return "none"
    return "back" if jump.is_back else "up"


def installed_release(cluster: Cluster, release: str, namespace: str) -> record.Content:
    """Return what Helm has deployed. Raise if there is no such release."""
    found = record.deployed(cluster, record.revisions(cluster, release, namespace), namespace)
    if found is None:
        message = f"Helm has deployed no release {release} in namespace {namespace}, so the upgrade cannot start."
        raise GpuOpsError(f"{message} Install it with gpuops.nvidia.site, or correct the names.", reason="NotFound")
    return found


def _look(cluster: Cluster, options: Options, installed: record.Content) -> UpgradeView:
    before = operands.release(installed.app_version) or operands.release(installed.chart_version)
    after = operands.release(options["app_version"])
    if before is None or after is None:
        text = installed.app_version if before is None else options["app_version"]
        message = f"{text!r} is not a release of the operator, so its upgrade cannot be checked."
        raise GpuOpsError(f"{message} Use a released chart, whose version is like v26.7.0.", reason="Invalid")
    policy = cluster.get(namespaced(names.CLUSTERPOLICY_API, None, names.CLUSTERPOLICIES, options["policy_name"]))
    return UpgradeView(
        before=before,
        after=after,
        values=options["values"],
        policy=(policy or {}).get("spec") or {},
        drivers=cluster.list_readable(observe.NVIDIADRIVERS_PATH).items,
        nodes=observe.NodeReader(cluster).read(),
        groups=frozenset(version.partition("/")[0] for version in Served(cluster).api_versions),
        schema=options["clusterpolicy_schema"] or {},
    )
