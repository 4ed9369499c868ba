# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What is to be written to which objects, according to the declaration and to what is there. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import ownership
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import declaration
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.declared_options import (
    DRIVER,
    POLICY,
    Declaration,
    DeclaredPool,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.drivers_view import DriversView
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import driver_reasons
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator import operator_lines
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Move = t.Literal["", "to NVIDIADriver", "to ClusterPolicy"]

DEFAULT_FIELD_SINCE = operator_lines.first_with("default_nvidiadriver")
"""The operator's line since which an NVIDIADriver says whether it is the default."""

_REPOSITORY, _IMAGE = "nvcr.io/nvidia", "driver"
"""Where NVIDIA publishes the driver's images, for a pool that names only a version."""


@dataclasses.dataclass(frozen=True)
class DriverRequest:
    """The fields to apply. What is not mentioned stays as it is."""

    kind: str
    """Which kind of object determines the driver afterwards."""
    policy: Json
    """The part of the ClusterPolicy's spec, or an empty dict."""
    drivers: t.Mapping[str, Json]
    """The parts of the NVIDIADrivers' specs, by name."""
    delete: tuple[str, ...] = ()
    """NVIDIADrivers that are deleted with their pods."""
    orphan: tuple[str, ...] = ()
    """NVIDIADrivers that are deleted while their pods stay until others replace them."""
    orphan_daemonsets: tuple[str, ...] = ()
    move: Move = ""


def of(asked: Declaration, sight: DriversView) -> DriverRequest:
    """Return what a declaration asks for in this cluster."""
    now = DRIVER if sight.delegates else POLICY
    kind = asked.resource or (DRIVER if asked.pools else now)
    if kind == DRIVER:
        return _in_drivers(asked, sight, moves=now != kind)
    if sight.policy is None:
        message = "The stack is a GPUCluster, which leaves drivers to NVIDIADrivers. Set resource: NVIDIADriver."
        raise GpuOpsError(message, reason="Invalid")
    return _in_policy(asked, sight, moves=now != kind)


# ---- the ClusterPolicy --------------------------------------------------------------------------------------------


def _in_policy(asked: Declaration, sight: DriversView, moves: bool) -> DriverRequest:
    part = declaration.policy_spec(asked.settings)
    if moves:
        kept = _settings_to_keep(asked, sight)
        carried = ownership.merged(declaration.as_policy(kept) if kept else {}, part)
        # What the ClusterPolicy says already stays with its owners.
        part = ownership.merged(_different(carried, sight.spec), part)
        part = ownership.merged(part, {"driver": {"useNvidiaDriverCRD": False}})
    leaving = [objects.name_of(item) for item in sight.drivers] if moves else _left_behind(asked, sight)
    return DriverRequest(
        POLICY,
        part,
        {},
        orphan=tuple(leaving),
        orphan_daemonsets=tuple(_daemonsets_to_orphan(sight, leaving, moves or bool(asked.resource))),
        move="to ClusterPolicy" if moves else "",
    )


def _settings_to_keep(asked: Declaration, sight: DriversView) -> Json:
    """Return the spec of the NVIDIADriver that the ClusterPolicy takes over: the default, or the only one."""
    chosen = [item for item in sight.drivers if item["spec"].get("default")] or list(sight.drivers)
    if len(chosen) == 1:
        return t.cast("Json", chosen[0]["spec"])
    if not (asked.settings.get("version") or asked.settings.get("branch")):
        found = first_few([objects.name_of(item) for item in chosen]) or "none"
        message = f"Cannot choose an NVIDIADriver whose settings the ClusterPolicy gets: none is the default ({found})."
        raise GpuOpsError(f"{message} Set version, repository and image.", reason="Invalid")
    return {}


def _left_behind(asked: Declaration, sight: DriversView) -> list[str]:
    """Return the NVIDIADrivers that an interrupted way back has left: the operator ignores them, and they have pods."""
    owning = {driver_reasons.owner_of(item) for item in sight.driver_daemonsets}
    return [objects.name_of(item) for item in sight.drivers if asked.resource and objects.name_of(item) in owning]


def _daemonsets_to_orphan(sight: DriversView, leaving: t.Collection[str], is_asked: bool) -> t.Iterator[str]:
    """Yield the DaemonSets of these NVIDIADrivers, and those whose NVIDIADriver is gone already."""
    existing = {objects.name_of(item) for item in sight.drivers}
    for item in sight.driver_daemonsets if is_asked else ():
        is_pool = objects.labels_of(item).get(names.COMPONENT) == names.DRIVER_COMPONENT
        owner = driver_reasons.owner_of(item)
        if owner in leaving or (is_pool and not _has_policy(item) and owner not in existing):
            yield objects.name_of(item)


def _has_policy(daemonset: Json) -> bool:
    owners = daemonset["metadata"].get("ownerReferences") or []
    return any(owner.get("kind") == POLICY for owner in owners)


def _different(wanted: Json, current: Json) -> Json:
    """Return the fields that the current spec has not or has with another value."""
    made = {}
    for key, value in wanted.items():
        if isinstance(value, dict) and isinstance(current.get(key), dict):
            inner = _different(value, current[key])
            made.update({key: inner} if inner else {})
        elif current.get(key) != value:
            made[key] = value
    return made


# ---- NVIDIADrivers ------------------------------------------------------------------------------------------------


def _in_drivers(asked: Declaration, sight: DriversView, moves: bool) -> DriverRequest:
    if not sight.serves_drivers:
        message = "The NVIDIADriver CRD is not installed. Apply the CRDs of the operator's chart first (operator_crds)."
        raise GpuOpsError(message, reason="CRDMissing")
    existing = {objects.name_of(item): item["spec"] for item in sight.drivers}
    wanted = {}
    for pool in asked.pools or _only_pool(existing):
        wanted[pool.name] = _spec_of(pool, existing.get(pool.name), asked, sight)
    leaving = tuple(name for name in existing if asked.purges and name not in wanted)
    policy = {"driver": {"useNvidiaDriverCRD": True}} if moves else {}
    return DriverRequest(DRIVER, policy, wanted, delete=leaving, move="to NVIDIADriver" if moves else "")


def _only_pool(existing: t.Mapping[str, Json]) -> list[DeclaredPool]:
    """Return the only pool, for a declaration without any: the NVIDIADriver that exists, or a new default."""
    if len(existing) > 1:
        found = first_few(sorted(existing))
        message = f"There are several NVIDIADrivers ({found}): name those that you mean in pools."
        raise GpuOpsError(message, reason="Invalid")
    return [DeclaredPool(name) for name in existing] or [DeclaredPool("default", default=True)]


def _spec_of(pool: DeclaredPool, existing: Json | None, asked: Declaration, sight: DriversView) -> Json:
    spec = declaration.driver_spec(declaration.of_pool(asked.settings, pool.settings))
    if pool.node_selector:
        spec["nodeSelector"] = nodes.selector_of(pool.node_selector)
    has_default = sight.line is None or sight.line >= DEFAULT_FIELD_SINCE
    if has_default and pool.default is not None:
        spec["default"] = pool.default
    if existing is None:
        return _new(pool.name, spec, sight, has_default)
    _refuse_new_kind(pool.name, existing, spec)
    return spec


def _new(name: str, spec: Json, sight: DriversView, has_default: bool) -> Json:
    """Return the spec of a new NVIDIADriver. One that takes over from the ClusterPolicy gets all of its settings."""
    base = declaration.as_driver(sight.spec) if sight.policy and not sight.delegates else {}
    if not has_default:  # the ClusterPolicy's upgradePolicy is that of all NVIDIADrivers
        base.pop("upgradePolicy", None)
    if spec.get("version"):
        # Without an image, the API server fills in one with a registry, which does not go with a repository.
        base = {"repository": _REPOSITORY, "image": _IMAGE, **base}
    made = ownership.merged({"driverType": "gpu", **({"default": False} if has_default else {}), **base}, spec)
    if not made.get("version") and "/" not in str(made.get("image") or ""):
        message = f"pools: {name} has no version, and an NVIDIADriver has no default version. Set version."
        raise GpuOpsError(message, reason="Invalid")
    return made


_FIXED = ("driverType", "usePrecompiled")
"""Fields of an NVIDIADriver that the API server does not let anybody change."""


def _refuse_new_kind(name: str, existing: Json, spec: Json) -> None:
    changed = [field for field in _FIXED if field in spec and field in existing and spec[field] != existing[field]]
    if changed:
        message = f"{' and '.join(changed)} of NVIDIADriver {name} cannot be changed once it exists."
        remedy = "Give the pool another name, and set purge: true to delete the old one."
        raise GpuOpsError(f"{message} {remedy}", reason="Invalid")
