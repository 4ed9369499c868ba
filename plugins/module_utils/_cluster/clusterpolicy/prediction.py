# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What an apply would make of the ClusterPolicy, according to the API server's own dry runs.

A dry run cannot show two things, which are computed here: an adoption from Helm, whose first step a dry run does not
store, and fields that only the CRD of the next operator knows (check mode before its installation).
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER, Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import (
    handover,
    ownership,
    refusals,
    schema,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CRD = namespaced("apiextensions.k8s.io/v1", None, "customresourcedefinitions", names.CLUSTERPOLICY_CRD)
DRY_RUN = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict", "dryRun": "All"}


class Request(t.NamedTuple):
    """An apply that is asked for. ``existing`` is the object before it, ``is_served`` whether the CRD is installed."""

    manifest: Json
    existing: Json | None
    is_served: bool
    adopts: bool
    force: bool
    next_schema: Json | None = None

    @property
    def own(self) -> Json:
        """The object before the apply, with Helm's fields as ours if this is an adoption; empty if there is none."""
        existing = self.existing or {"metadata": {}}
        return handover.adopted(existing, FIELD_MANAGER) if self.adopts else existing

    @property
    def path(self) -> str:
        """The path of the object."""
        return f"{observe.CLUSTERPOLICIES_PATH}/{objects.name_of(self.manifest)}"


def predict(cluster: Cluster, request: Request) -> tuple[Json, list[str]]:
    """Return the object as it would be, and notes about what the prediction could not see."""
    if request.next_schema:
        return _with_next_crd(cluster, request, request.next_schema)
    if not request.is_served:
        return request.manifest, ["The ClusterPolicy CRD is not installed yet, so its fields could not be checked."]
    try:
        return _dry_run(cluster, request, request.manifest), []
    except GpuOpsError as e:
        raise explained(cluster, e) from e


def explained(cluster: Cluster, error: GpuOpsError) -> GpuOpsError:
    """Return the API server's refusal of an apply in the user's terms, with suggestions from the CRD's schema."""
    known = spec_schema(cluster) if error.reason in ("Invalid", "ServerError") else None
    return refusals.explain(error, known)


def spec_schema(cluster: Cluster) -> Json | None:
    """Return the CRD's schema of the spec, or None if there is none or the user may not read it."""
    try:
        crd = cluster.get(CRD) or {}
    except GpuOpsError:
        return None
    versions = (crd.get("spec") or {}).get("versions") or []
    crd_schema = versions[0]["schema"]["openAPIV3Schema"] if versions else {}
    return t.cast("Json | None", (crd_schema.get("properties") or {}).get("spec"))


def _dry_run(cluster: Cluster, request: Request, manifest: Json) -> Json:
    if not request.adopts or request.existing is None:
        return cluster.apply(request.path, manifest, force=request.force, dry_run=True)
    try:
        predicted = cluster.apply(request.path, manifest, force=request.force, dry_run=True)
    except GpuOpsError as e:
        others = refusals.without_helm(e)
        if others is not None:
            raise others from e
        # Only Helm is in the way, and it will not be after the adoption.
        predicted = cluster.apply(request.path, manifest, force=True, dry_run=True)
    return _adopted(cluster, request, predicted)


def _adopted(cluster: Cluster, request: Request, predicted: Json) -> Json:
    """Return a prediction in which Helm's fields are ours, so that those that are no longer given leave the object."""
    after = handover.without_helm(predicted)
    reduced = ownership.without_given_up(after, request.own, request.manifest, FIELD_MANAGER)
    if reduced["spec"] == after["spec"]:
        return reduced
    # The API server fills in the defaults of the fields that leave.
    patch = json.dumps([{"op": "replace", "path": "/spec", "value": reduced["spec"]}])
    answer = cluster.ask("PATCH", request.path, DRY_RUN, patch, "application/json-patch+json")
    return {**reduced, "spec": answer["spec"]}


# The CRD of the next operator


def _with_next_crd(cluster: Cluster, request: Request, crd_schema: Json) -> tuple[Json, list[str]]:
    """Predict with the schema of a CRD that is not installed yet."""
    spec_schema: Json = (crd_schema.get("properties") or {}).get("spec") or {}
    unknown = schema.unknown_fields(request.manifest["spec"], spec_schema, "spec")
    if unknown:
        raise refusals.unknown(unknown, spec_schema)
    predicted = request.manifest
    ahead: list[str] = []
    if request.is_served:
        predicted, ahead = _dry_run_of_what_is_known(cluster, request, crd_schema, spec_schema)
        # Where we give a field up, the API server has filled in the default of the old CRD.
        predicted = ownership.without_given_up(predicted, request.own, request.manifest, FIELD_MANAGER)
    gone = schema.unknown_fields(predicted["spec"], spec_schema, "spec")
    predicted = schema.with_fields(schema.without(predicted, gone), ahead, request.manifest)
    predicted = {**predicted, "spec": schema.with_defaults(predicted["spec"], spec_schema)}
    notes = [f"The next ClusterPolicy CRD no longer has {', '.join(gone)}; the API server drops it."] if gone else []
    return ownership.as_applied(predicted, request.manifest, FIELD_MANAGER), notes


def _dry_run_of_what_is_known(
    cluster: Cluster, request: Request, crd_schema: Json, spec_schema: Json
) -> tuple[Json, list[str]]:
    """Return the dry run without the fields that only the next CRD accepts, and these fields."""
    ahead: list[str] = []
    while True:
        try:
            return _dry_run(cluster, request, schema.without(request.manifest, ahead)), ahead
        except GpuOpsError as e:
            error = refusals.explain(e, spec_schema)
            refused = [field for field in refusals.refused_fields(error) if field not in ahead]
            if not refused or not all(schema.accepts(field, request.manifest, crd_schema) for field in refused):
                raise error from e
            ahead += refused
