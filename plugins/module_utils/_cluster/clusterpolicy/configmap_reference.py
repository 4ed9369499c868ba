# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Blocks of the ClusterPolicy that modules of their own set, most of them references to ConfigMaps.

Each has its own field manager, so that the role operator neither resets what these modules set nor they what it sets.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster import conflicts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER, Cluster
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import handover, ownership
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class PolicyReference:
    """A block of the ClusterPolicy's spec, and the field manager of those of its fields that one module sets.

    ``outranks`` has values that the role operator may have declared, since the chart's defaults have them. They give
    way, and come back when the block is given up. ``since`` is the version of the operator that brought the block, if
    earlier ones are supported, too.
    """

    operand: str
    manager: str
    block: str = "config"
    outranks: tuple[tuple[str, t.Any], ...] = ()
    since: str = ""

    @property
    def path(self) -> str:
        """The block below the spec, as people write it."""
        return f"{self.operand}.{self.block}"

    def of(self, policy: Json) -> Json:
        """Return the fields of the block that have a value."""
        operand = (policy.get("spec") or {}).get(self.operand) or {}
        return {key: value for key, value in (operand.get(self.block) or {}).items() if value not in (None, "", {}, [])}


MIG_REFERENCE = PolicyReference("migManager", "gpuops.nvidia-mig")
SHARING = PolicyReference("devicePlugin", "gpuops.nvidia-sharing")
COUNTERS = PolicyReference("dcgmExporter", "gpuops.nvidia-counters")
SCRAPE = PolicyReference("dcgmExporter", "gpuops.nvidia-scrape", "serviceMonitor", outranks=(("enabled", True),))
JOBS = PolicyReference("dcgmExporter", "gpuops.nvidia-jobs", "hpcJobMapping", since="v25.10.1")


@dataclasses.dataclass(frozen=True)
class ReferenceChange:
    """What became of a reference, or would become of it in check mode. ``kept_by`` own what was given up and stays."""

    before: Json
    after: Json
    kept_by: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the ClusterPolicy says something else than before."""
        return self.before != self.after


def policy_of(cluster: Cluster, name: str = "", namespace: str = "") -> tuple[Json, str]:
    """Return the ClusterPolicy and the operator's namespace. An empty option means what is found in the cluster."""
    policies = observe.read_policies(cluster)
    if policies is None:
        raise GpuOpsError(
            "The ClusterPolicy CRD is not installed. Install the GPU Operator first (role gpuops.nvidia.operator).",
            reason="CRDMissing",
        )
    found, namespace = observe.found(policies, [], name, namespace)
    policy = next((item for item in policies if objects.name_of(item) == found), None)
    if policy is None:
        raise GpuOpsError(
            f"There is no ClusterPolicy {found}. Install the GPU Operator with one (role gpuops.nvidia.operator).",
            reason="NotFound",
        )
    return policy, namespace


def point(cluster: Cluster, policy: Json, reference: PolicyReference, values: t.Mapping[str, t.Any]) -> ReferenceChange:
    """Set fields of a block. What somebody else has set to the same value stays theirs.

    A field that somebody else has set to another value is refused, with its owner and where to set it.
    """
    before = reference.of(policy)
    if all(before.get(key) == value for key, value in values.items()):
        return ReferenceChange(before, before)
    change = foretold(cluster, policy, reference, values)
    if not cluster.check_mode:
        _applied(cluster, policy, reference, values, dry_run=False)
    return change


def foretold(
    cluster: Cluster, policy: Json, reference: PolicyReference, values: t.Mapping[str, t.Any]
) -> ReferenceChange:
    """Return what `point` would change, or raise what it would raise, without a change."""
    predicted = _applied(cluster, policy, reference, values, dry_run=True)
    return ReferenceChange(reference.of(policy), reference.of(predicted))


def _applied(
    cluster: Cluster, policy: Json, reference: PolicyReference, values: t.Mapping[str, t.Any], dry_run: bool
) -> Json:
    manifest = {**_identity(policy), "spec": {reference.operand: {reference.block: dict(values)}}}

    def apply(force: bool) -> Json:
        return cluster.apply(_path(policy), manifest, force=force, dry_run=dry_run, manager=reference.manager)

    try:
        return apply(force=False)
    except GpuOpsError as error:
        if reference.outranks and _owners(error) == {FIELD_MANAGER}:
            return apply(force=True)
        raise _explained(error, policy, reference, values) from error


def give_up(cluster: Cluster, policy: Json, reference: PolicyReference) -> ReferenceChange:
    """Give the fields of a reference back, so that they have their defaults unless somebody else owns them too."""
    change = given_up(cluster, policy, reference)
    if not cluster.check_mode and ownership.owned_by(policy, reference.manager):
        conflicts.settled(lambda: _returned(cluster, _newest(cluster, policy, reference), reference), _path(policy))
    return change


def given_up(cluster: Cluster, policy: Json, reference: PolicyReference) -> ReferenceChange:
    """Return what `give_up` would change, without a change."""
    before = reference.of(policy)
    if not ownership.owned_by(policy, reference.manager):
        return ReferenceChange(before, before)
    predicted = _returned(cluster, policy, reference, dry_run=True)
    left = ownership.left_with_others(policy, predicted, reference.manager)
    return ReferenceChange(
        before, reference.of(predicted), tuple(sorted({owner for owners in left.values() for owner in owners}))
    )


def _newest(cluster: Cluster, policy: Json, reference: PolicyReference) -> Json:
    """Return the ClusterPolicy as it is now, if what is written depends on what others have declared."""
    policies = observe.read_policies(cluster) if reference.outranks else None
    return next((item for item in policies or [] if objects.name_of(item) == objects.name_of(policy)), policy)


def _returned(cluster: Cluster, policy: Json, reference: PolicyReference, dry_run: bool = False) -> Json:
    """Apply that the manager of a reference declares nothing any more.

    What had to give way to it is declared by the role operator again, beside all that it declares in this version of
    the ClusterPolicy: that takes the fields from the reference's manager.
    """
    if not reference.outranks or not ownership.owned_by(policy, FIELD_MANAGER):
        return cluster.apply(_path(policy), _identity(policy), dry_run=dry_run, manager=reference.manager)
    back = {**_identity(policy), "spec": {reference.operand: {reference.block: dict(reference.outranks)}}}
    manifest = ownership.merged(ownership.applied_by(policy, FIELD_MANAGER), back)
    if not dry_run:
        manifest["metadata"]["resourceVersion"] = policy["metadata"]["resourceVersion"]
    return cluster.apply(_path(policy), manifest, force=True, dry_run=dry_run)


def _path(policy: Json) -> str:
    return f"{observe.CLUSTERPOLICIES_PATH}/{objects.name_of(policy)}"


def _identity(policy: Json) -> Json:
    return {
        "apiVersion": names.CLUSTERPOLICY_API,
        "kind": "ClusterPolicy",
        "metadata": {"name": objects.name_of(policy)},
    }


_UNKNOWN_FIELD = "field not declared in schema"
"""What the API server says of a field that the CRD lacks, with status 500 (structured-merge-diff)."""
_CONFLICT = re.compile(r'conflict with "([^"]+)"')


def _owners(error: GpuOpsError) -> set[str]:
    """Return the field managers that a conflict names."""
    found = (_CONFLICT.search(str(cause.get("message", ""))) for cause in error.details.get("causes") or [])
    return {each[1] if each else "" for each in found}


def _explained(
    error: GpuOpsError, policy: Json, reference: PolicyReference, values: t.Mapping[str, t.Any]
) -> GpuOpsError:
    """Return a conflict as a sentence that names the field, its owner, and where its value has to be set."""
    causes: list[Json] = error.details.get("causes") or []
    if reference.since and _UNKNOWN_FIELD in error.msg:
        return GpuOpsError(
            f"The installed GPU Operator has no {reference.path} in its ClusterPolicy: {reference.since} brought it. "
            "Upgrade the operator first (playbook gpuops.nvidia.upgrade_operator).",
            reason="Invalid",
        )
    if error.reason != "Conflict" or not causes:
        return error
    field = str(causes[0].get("field", "")).lstrip(".").removeprefix("spec.")
    found = _CONFLICT.search(str(causes[0].get("message", "")))
    owner = found[1] if found else "another manager"
    key = field.rpartition(".")[2]
    now, wanted = reference.of(policy).get(key, ""), values.get(key, "")
    return GpuOpsError(
        f"{field} of ClusterPolicy {objects.name_of(policy)} is {now!r}, and belongs to {owner}. "
        f"Set it to {wanted!r} {_where(owner, field)}.",
        reason="Conflict",
        conflicts=[{"field": f"spec.{field}", "manager": owner}],
    )


def _where(owner: str, field: str) -> str:
    if handover.is_helm(owner):
        return f"in the Helm values ({field}; role operator: operator_values)"
    if owner == FIELD_MANAGER:
        return f"where the ClusterPolicy is declared (role operator: operator_values, {field})"
    return f"where {owner} manages it"
