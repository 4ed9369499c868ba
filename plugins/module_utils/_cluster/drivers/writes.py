# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Writing a declaration: server-side apply of its own fields, after a dry run that shows what each becomes."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Cluster, namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import (
    changes,
    declarers,
    ownership,
    refusals,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.declarers import DRIVER_MANAGER
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.declared_options import (
    DRIVER,
    POLICY,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.driver_request import (
    DriverRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.drivers_view import DriversView
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import observe
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_PATHS = {POLICY: observe.CLUSTERPOLICIES_PATH, DRIVER: observe.NVIDIADRIVERS_PATH}
_APIS = {POLICY: names.CLUSTERPOLICY_API, DRIVER: names.GPUCLUSTER_API}


@dataclasses.dataclass(frozen=True)
class Write:
    """An object to be applied. ``existing`` is the object before, and ``predicted`` as the dry run shows it."""

    kind: str
    name: str
    manifest: Json
    existing: Json | None
    predicted: Json
    taken_from: tuple[str, ...] = ()
    """The fields that change hands, as ``spec.driver.version (Helm)``."""

    @property
    def path(self) -> str:
        """The object's path."""
        return f"{_PATHS[self.kind]}/{self.name}"

    @property
    def change(self) -> changes.PolicyChange:
        """What the apply changes."""
        return changes.between(self.existing, self.predicted, DRIVER_MANAGER)


@dataclasses.dataclass(frozen=True)
class WritePlan:
    """All writes, in their order."""

    applies: tuple[Write, ...]
    delete: tuple[str, ...]
    orphan: tuple[str, ...]
    orphan_daemonsets: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether anything is written."""
        deletions = self.delete or self.orphan or self.orphan_daemonsets
        return bool(deletions) or any(write.change.changed for write in self.applies)

    def after(self, kind: str, item: Json) -> Json | None:
        """Return an object as it is after the writes, or None if it is deleted then."""
        name = objects.name_of(item)
        if kind == DRIVER and name in (*self.delete, *self.orphan):
            return None
        found = (write for write in self.applies if (write.kind, write.name) == (kind, name))
        return next((write.predicted for write in found), item)


def plan(cluster: Cluster, wish: DriverRequest, sight: DriversView, force: bool) -> WritePlan:
    """Return the writes with what the API server says about them."""
    existing = {objects.name_of(item): item for item in sight.drivers}
    # An existing object that is not mentioned stays as it is.
    said = {name: spec for name, spec in wish.drivers.items() if spec or name not in existing}
    applies = [_predicted(cluster, DRIVER, name, spec, existing.get(name), force) for name, spec in said.items()]
    if wish.policy and sight.policy is not None:
        applies.append(_predicted(cluster, POLICY, objects.name_of(sight.policy), wish.policy, sight.policy, force))
    return WritePlan(tuple(applies), wish.delete, wish.orphan, wish.orphan_daemonsets)


def carry_out(cluster: Cluster, namespace: str, planned: WritePlan) -> None:
    """Write. The object that decides who has the drivers comes last on the way out, and first on the way back.

    Until the ClusterPolicy delegates, the operator ignores NVIDIADrivers. Once it no longer does, their DaemonSets stay
    away.
    """
    for write in planned.applies:
        if write.change.changed:
            cluster.apply(write.path, write.manifest, force=bool(write.taken_from), manager=DRIVER_MANAGER)
    for name in planned.delete:
        cluster.delete(f"{_PATHS[DRIVER]}/{name}")
    for name in planned.orphan:
        cluster.delete(f"{_PATHS[DRIVER]}/{name}", propagation="Orphan")
    for name in planned.orphan_daemonsets:
        cluster.delete(namespaced("apps/v1", namespace, "daemonsets", name), propagation="Orphan")


# ---- the dry run --------------------------------------------------------------------------------------------------


def _predicted(cluster: Cluster, kind: str, name: str, part: Json, existing: Json | None, force: bool) -> Write:
    kept = (ownership.applied_by(existing, DRIVER_MANAGER) if existing else {}).get("spec") or {}
    manifest = {
        "apiVersion": _APIS[kind],
        "kind": kind,
        "metadata": {"name": name},
        "spec": ownership.merged(kept, part),
    }
    path = f"{_PATHS[kind]}/{name}"
    taken: tuple[str, ...] = ()
    try:
        predicted = cluster.apply(path, manifest, dry_run=True, manager=DRIVER_MANAGER)
    except GpuOpsError as e:
        explained = refusals.explain(e, None, kind)
        taken = _may_take(explained, kind, name, force)
        if not taken:
            raise explained from e
        predicted = cluster.apply(path, manifest, force=True, dry_run=True, manager=DRIVER_MANAGER)
    return Write(kind, name, manifest, existing, predicted, taken)


def _may_take(error: GpuOpsError, kind: str, name: str, force: bool) -> tuple[str, ...]:
    """Return the fields that the apply takes over from others. Raise if it may not."""
    conflicts: list[Json] = error.details.get("conflicts") or []
    named = tuple(f"{item['field']} ({item['manager']})" for item in conflicts)
    if force or all(declarers.is_ours(item["manager"]) for item in conflicts):
        return named
    message = f"Others own fields of {kind} {name} with other values: {first_few(named)}."
    remedy = (
        "Change them there (Helm: in the values of the release), or set force_conflicts: true to take them over. Helm "
        "sets its own values again at the release's next upgrade."
    )
    raise GpuOpsError(f"{message} {remedy}", reason="Conflict", conflicts=conflicts)


def notes(planned: WritePlan) -> t.Iterator[str]:
    """Yield what a user should know about fields that change hands. Those of this collection are one owner."""
    for write in planned.applies:
        others = [field for field in write.taken_from if not declarers.is_ours(field.rpartition("(")[2].rstrip(")"))]
        if others:
            yield (
                f"{write.kind} {write.name}: {first_few(others)} is now declared here. Declare the same value there "
                "too (Helm: in the values of the release), or the next change there takes it back."
            )
