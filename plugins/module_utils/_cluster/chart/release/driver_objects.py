# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What Helm makes of the NVIDIADrivers of a release, and which GPU workloads that interrupts. Pure.

Source: ``internal/state/driver.go`` (what becomes part of the template of the driver's pods) and
``internal/config/driver_config_digest.go`` (what makes the driver reload) of the GPU Operator v26.7.0.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import disruption
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.disruption import (
    Interruption,
    Operator,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_NO_EFFECT = ("default", "upgradePolicy", "useOpenKernelModules")
_COSMETIC = (
    *("annotations", "labels", "tolerations", "priorityClassName", "nodeAffinity", "podSecurityContext", "hostNetwork"),
    *("resources", "startupProbe", "livenessProbe", "readinessProbe"),
    *(
        f"{part}{field}"
        for part in ("", "manager.", *(f"{block}." for block in operands.SIBLINGS))
        for field in disruption.PULL
    ),
)
"""Fields with which the driver is not reloaded, from v26.7 on."""


@dataclasses.dataclass(frozen=True)
class Drivers:
    """NVIDIADrivers in the cluster, in the release that is deployed, and in the chart that replaces it."""

    present: t.Sequence[Json] = ()
    released: t.Sequence[Json] = ()
    wanted: t.Sequence[Json] = ()


def changes(drivers: Drivers, policy: Json | None, operator: Operator) -> list[Interruption]:
    """Return what interrupts GPU workloads. ``policy`` is the ClusterPolicy's spec, if there is a ClusterPolicy."""
    if policy is not None and not disruption.delegates(policy):
        return []
    found: list[Interruption] = []
    if drivers.present and not _restarts_in_place(operator):
        found += disruption.of_version(operator)
    released, wanted = _specs(drivers.released), _specs(drivers.wanted)
    for name, before in _specs(drivers.present).items():
        if name in wanted:
            after = _merged(before, released.get(name) or {}, wanted[name])
            found += _of_one(name, before, after, policy or {}, operator)
        elif name in released:
            found.append(Interruption(f"NVIDIADriver {name}", "present", None, disruption.REMOVES_DRIVER, driver=name))
    return found


def _specs(drivers: t.Sequence[Json]) -> dict[str, Json]:
    return {objects.name_of(driver): driver.get("spec") or {} for driver in drivers}


def _merged(current: Json, released: Json, wanted: Json) -> Json:
    """Return what Helm makes of a custom resource. It leaves alone what neither the old nor the new chart mentions."""
    made = {key: value for key, value in current.items() if key in wanted or key not in released}
    for key, value in wanted.items():
        if isinstance(value, dict):
            made[key] = _merged(_mapping(current.get(key)), _mapping(released.get(key)), value)
        else:
            made[key] = value
    return made


def _mapping(value: t.Any) -> Json:
    return value if isinstance(value, dict) else {}


def _of_one(name: str, before: Json, after: Json, policy: Json, operator: Operator) -> t.Iterator[Interruption]:
    harmless = (*_NO_EFFECT, *(_COSMETIC if _restarts_in_place(operator) else ()))
    for field in disruption.differing(before, after):
        moves = disruption.starts_with(field, ("nodeSelector",))
        replaces = operands.replaces_driver_pods(policy, after) and not disruption.starts_with(field, harmless)
        if moves or replaces:
            effect = disruption.REMOVES_DRIVER if moves else disruption.EVICTS
            values = disruption.at(before, field), disruption.at(after, field)
            yield Interruption(f"NVIDIADriver {name} {field}", *values, effect, driver=name)


def _restarts_in_place(operator: Operator) -> bool:
    """Return whether the operator, before and after, only restarts the pods of a driver that stays as it is."""
    return min(operator.running or (0, 0), operator.acting or (0, 0)) >= disruption.IN_PLACE
