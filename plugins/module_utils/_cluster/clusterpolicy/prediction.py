# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What an apply would make of the ClusterPolicy, according to the API server's own dry runs.

A dry run cannot show two things, which are computed here: an adoption from Helm, whose first step a dry run does not
store, and fields that only the CRD of the next operator knows (check mode before its installation).
"""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER, Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import (
    declarers,
    handover,
    ownership,
    paused_updates,
    refusals,
    schema,
    spec,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CRDS_PATH = namespaced("apiextensions.k8s.io/v1", None, "customresourcedefinitions")
DRY_RUN = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict", "dryRun": "All"}


@dataclasses.dataclass(frozen=True)
class Apply:
    """One server-side apply, complete before the first dry run."""

    manifest: Json
    existing: Json | None
    """The object before it."""
    own: Json
    """The same, with Helm's fields as ours if this is an adoption; without fields if there is no object."""
    is_served: bool
    """Whether the CRD is installed."""
    adopts: bool
    forces: bool
    next_schema: Json | None = None
    notes: tuple[str, ...] = ()
    """What other playbooks of this collection have declared, and so is left alone."""

    @property
    def path(self) -> str:
        """The path of the object."""
        return f"{observe.CLUSTERPOLICIES_PATH}/{objects.name_of(self.manifest)}"

    @property
    def next_spec(self) -> Json:
        """What the schema of the next CRD says about the spec."""
        return ((self.next_schema or {}).get("properties") or {}).get("spec") or {}


def apply_of(request: spec.PolicyRequest, policies: list[Json] | None, check_mode: bool) -> Apply:
    """Return the apply that is asked for. ``policies`` is None in check mode before the CRD is installed."""
    existing = next((item for item in policies or [] if objects.name_of(item) == request.name), None)
    adopts = request.adopts and handover.has_traces_of_helm(existing)
    own = handover.adopted(existing, FIELD_MANAGER) if adopts and existing else existing
    own = paused_updates.lifted(own)
    manifest, notes = declarers.respected(spec.manifest(request, own, FIELD_MANAGER), own)
    return Apply(
        manifest=manifest,
        notes=tuple(notes),
        existing=existing,
        own=own or {"metadata": {}},
        is_served=policies is not None,
        adopts=adopts,
        forces=request.forces,
        next_schema=request.next_schema if check_mode else None,
    )


def predict(cluster: Cluster, apply: Apply) -> tuple[Json, list[str]]:
    """Return the object as it would be, and notes about what the prediction could not see."""
    if apply.next_schema:
        return _with_next_crd(cluster, apply, apply.next_schema)
    if not apply.is_served:
        return apply.manifest, ["The ClusterPolicy CRD is not installed yet, so its fields could not be checked."]
    try:
        return _after_adoption(cluster, apply, _dry_run(cluster, apply, apply.manifest)), []
    except GpuOpsError as e:
        raise explained(cluster, e) from e


def explained(
    cluster: Cluster, error: GpuOpsError, kind: str = "ClusterPolicy", crd_name: str = names.CLUSTERPOLICY_CRD
) -> GpuOpsError:
    """Return the API server's refusal of an apply in the user's terms, with suggestions from the CRD's schema."""
    known = spec_schema(cluster, crd_name) if error.reason in ("Invalid", "ServerError") else None
    return refusals.explain(error, known, kind)


def spec_schema(cluster: Cluster, crd_name: str = names.CLUSTERPOLICY_CRD) -> Json | None:
    """Return a CRD's schema of the spec, or None if there is none or the user may not read it."""
    try:
        crd = cluster.get(f"{CRDS_PATH}/{crd_name}") or {}
    except GpuOpsError:
        return None
    versions = (crd.get("spec") or {}).get("versions") or []
    crd_schema = versions[0]["schema"]["openAPIV3Schema"] if versions else {}
    return t.cast("Json | None", (crd_schema.get("properties") or {}).get("spec"))


def _dry_run(cluster: Cluster, apply: Apply, manifest: Json) -> Json:
    """Return the API server's answer to this manifest, as if Helm's fields had no owner if this is an adoption."""
    if not apply.adopts or apply.existing is None:
        return cluster.apply(apply.path, manifest, force=apply.forces, dry_run=True)
    try:
        predicted = cluster.apply(apply.path, manifest, force=apply.forces, dry_run=True)
    except GpuOpsError as e:
        others = refusals.without_helm(e)
        if others is not None:
            raise others from e
        # Only Helm is in the way, and it will not be after the adoption.
        predicted = cluster.apply(apply.path, manifest, force=True, dry_run=True)
    return handover.without_helm(predicted)


def _after_adoption(cluster: Cluster, apply: Apply, predicted: Json) -> Json:
    """Return a prediction in which Helm's fields are ours, so that those that are no longer given leave the object."""
    if not apply.adopts or apply.existing is None:
        return predicted
    reduced = ownership.without_given_up(predicted, apply.own, apply.manifest, FIELD_MANAGER)
    if reduced["spec"] == predicted["spec"]:
        return reduced
    # The API server fills in the defaults of the fields that leave.
    patch = json.dumps([{"op": "replace", "path": "/spec", "value": reduced["spec"]}])
    answer = cluster.ask("PATCH", apply.path, DRY_RUN, patch, "application/json-patch+json")
    return {**reduced, "spec": answer["spec"]}


# The CRD of the next operator


def _with_next_crd(cluster: Cluster, apply: Apply, next_schema: Json) -> tuple[Json, list[str]]:
    """Predict with the schema of a CRD that is not installed yet: first dry runs, then owners, then the schema."""
    unknown = schema.unknown_fields(apply.manifest["spec"], apply.next_spec, "spec")
    if unknown:
        raise refusals.unknown(unknown, apply.next_spec)
    predicted, ahead = apply.manifest, list[str]()
    if apply.is_served:
        predicted, ahead = _dry_run_of_what_is_known(cluster, apply, next_schema)
    # Where we give a field up, the API server has filled in the default of the old CRD.
    owned = ownership.after_apply(predicted, apply.own, apply.manifest, FIELD_MANAGER)
    made, gone = schema.completed(owned, apply.manifest, ahead, apply.next_spec)
    notes = [f"The next ClusterPolicy CRD no longer has {', '.join(gone)}; the API server drops it."] if gone else []
    return made, notes


def _dry_run_of_what_is_known(cluster: Cluster, apply: Apply, next_schema: Json) -> tuple[Json, list[str]]:
    """Return the dry run without the fields that only the next CRD accepts, and these fields."""
    ahead: list[str] = []
    while True:
        try:
            return _dry_run(cluster, apply, schema.without(apply.manifest, ahead)), ahead
        except GpuOpsError as e:
            error = refusals.explain(e, apply.next_spec)
            refused = [field for field in refusals.refused_fields(error) if field not in ahead]
            if not refused or not all(schema.accepts(field, apply.manifest, next_schema) for field in refused):
                raise error from e
            ahead += refused
