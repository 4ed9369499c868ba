# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What is wrong with classes, templates and quotas in a given cluster: pure functions that raise or return warnings."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims import claim_objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims.device_selection import Count
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims.driver_gates import DriverGates
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import ADMIN_ACCESS
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name, labels_of, name_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator import dra_configs
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

GATED = {
    "extendedResourceName": ("extended_resource", "DRAExtendedResource", "1.36"),
    "adminAccess": ("admin_access", "DRAAdminAccess", "1.34"),
    "capacity": ("capacity", "DRAConsumableCapacity", "1.36"),
}
"""Fields that the API server drops while a gate is off: the option, the gate, and the Kubernetes that has it on.

Source: Kubernetes v1.36.3, ``pkg/features/kube_features.go``.
"""


def refuse_unknown_classes(option: str, named: t.Mapping[str, t.Collection[str]], known: t.Collection[str]) -> None:
    """Raise if objects name classes that the cluster will not have. ``named`` are the classes of each object."""
    for title, classes in named.items():
        missing = sorted(set(classes) - set(known))
        if missing:
            offered = first_few(sorted(known)) or "none"
            raise GpuOpsError(
                f"{title} in {option} names the class {missing[0]}, which the cluster does not have (it has "
                f"{offered}). Declare it in classes, or correct the name.",
                reason="NotFound",
            )


def refuse_shared_extended_resources(wanted: list[Json], present: list[Json]) -> None:
    """Raise if a class of somebody else has the extended resource that one of ours is to have."""
    ours = {name_of(item) for item in wanted}
    others = {
        item["spec"]["extendedResourceName"]: name_of(item)
        for item in present
        if item["spec"].get("extendedResourceName") and name_of(item) not in ours
    }
    for item in wanted:
        resource = item["spec"].get("extendedResourceName")
        if resource in others:
            raise GpuOpsError(
                f"The class {name_of(item)} has the extended_resource {resource}, which DeviceClass {others[resource]} "
                "has too. Kubernetes would use one of them only: choose another name.",
                reason="Conflict",
            )


_WITHOUT_GATE = {"config": "a pod would stay in ContainerCreating", "capacity": "a claim would get a whole device"}


def refuse_closed_gates(items: list[Json], gates: DriverGates) -> list[str]:
    """Raise if objects need a feature gate of the driver that is off; return warnings if the gates are unknown."""
    warnings = []
    for item in items:
        title = f"{item['kind']} {full_name(item)}"
        for option, gate in claim_objects.gates_of(item):
            if gates.unknown:
                warnings.append(
                    f"{title} has a {option} that needs the driver's feature gate {gate}. Whether that is on is "
                    f"unknown: {gates.unknown.rstrip('.')}."
                )
            elif not gates.is_on(gate):
                raise GpuOpsError(
                    f"{title} has a {option} that needs the driver's feature gate {gate}, which is off: "
                    f"{_WITHOUT_GATE[option]}. Set {gate}: true in {gates.field} of {gates.owner}, or change {option}.",
                    reason="DriverRefused",
                )
            elif gate == _MPS_GATE and gates.is_on(dra_configs.SHARES_GATE):
                warnings.append(
                    f"{title} has a config with MPS, which the driver refuses while its consumable shares are in use "
                    f"({dra_configs.SHARES_GATE})."
                )
        silent = filter(None, map(dra_configs.without_effect, claim_objects.parameters_in(item)))
        warnings += [f"{title}: {words}" for words in silent]
    return warnings


_MPS_GATE = dra_configs.STRATEGY_GATES[dra_configs.MPS]


def refuse_admin_access(items: list[Json], namespaces: t.Mapping[str, Json | None]) -> None:
    """Raise if a namespace lacks the label without which Kubernetes gives nobody access for administrators."""
    for item in items:
        namespace = namespaces.get(item["metadata"]["namespace"])
        if not claim_objects.has_admin_access(item) or namespace is None:
            continue
        if labels_of(namespace).get(ADMIN_ACCESS) != "true":
            name = name_of(namespace)
            raise GpuOpsError(
                f"{item['kind']} {full_name(item)} has admin_access, and namespace {name} lacks the label "
                f"{ADMIN_ACCESS}=true. It lets everybody who may create claims there see devices of all others: set "
                f"it with `kubectl label namespace {name} {ADMIN_ACCESS}=true`, or leave admin_access out.",
                reason="Forbidden",
            )


def refuse_dropped_fields(title: str, wanted: t.Any, kept: t.Any) -> None:
    """Raise if the API server has dropped a field of an object, because a gate of Kubernetes is off."""
    if isinstance(wanted, dict) and isinstance(kept, dict):
        for key, value in wanted.items():
            if key in GATED and key not in kept:
                option, gate, release = GATED[key]
                raise GpuOpsError(
                    f"{title} has {option}, and this cluster drops {key}: its feature gate {gate} is off. Kubernetes "
                    f"{release} has it on. Turn it on in the API server, the controller manager, the scheduler and the "
                    f"kubelets, or leave {option} out.",
                    reason="KubernetesVersion",
                )
            refuse_dropped_fields(title, value, kept.get(key))
    elif isinstance(wanted, list) and isinstance(kept, list):
        for one, other in zip(wanted, kept):
            refuse_dropped_fields(title, one, other)


_EXPRESSION = re.compile(r"\bselectors\[(\d+)\]\.cel\.expression$")
_POSITION = re.compile(r"ERROR: <input>:\d+:(\d+): (.+)")


def refused_cel(item: Json, error: GpuOpsError) -> GpuOpsError:
    """Return the error of a dry run, and say which expression is wrong if that is why."""
    for cause in error.details.get("causes") or []:
        found, why = _EXPRESSION.search(cause.get("field") or ""), _POSITION.search(cause.get("message") or "")
        if not found:
            continue
        # The first expression of a class comes from its plain fields.
        number = int(found[1]) - (item["kind"] == "DeviceClass")
        told = f"{why[2]} (at character {why[1]})" if why else str(cause.get("message")).partition("\n")[0]
        return GpuOpsError(
            f"{item['kind']} {full_name(item)} has an expression that Kubernetes refuses: {told}. Correct "
            f"cel[{number}].",
            reason="Invalid",
            causes=error.details["causes"],
        )
    return error


def more_than_a_node_has(items: list[Json], counts: t.Mapping[str, Count]) -> list[str]:
    """Return warnings about claims that ask for more devices than any node has. All are on one node."""
    warnings = []
    for item in items:
        for asked in claim_objects.asked_in(item):
            found, number = counts.get(asked["deviceClassName"]), asked.get("count", 1)
            if found is not None and number > found.on_one_node:
                warnings.append(
                    f"{item['kind']} {full_name(item)} asks for {number} devices of class "
                    f"{asked['deviceClassName']}, and no node has more than {found.on_one_node}: its pods would wait."
                )
    return warnings


def offered_twice(items: list[Json], nodes: list[Json]) -> list[str]:
    """Return warnings about extended resources that device plugins offer as well."""
    warnings = []
    for item in items:
        resource = item["spec"].get("extendedResourceName")
        found = [
            name_of(node)
            for node in nodes
            if resource and ((node.get("status") or {}).get("allocatable") or {}).get(resource, "0") != "0"
        ]
        if found:
            warnings.append(
                f"DeviceClass {name_of(item)} has the extended_resource {resource}, which a device plugin offers on "
                f"{first_few(sorted(found))}. Pods get it there from the device plugin, and elsewhere by the class. "
                "Let no node have both a device plugin and the DRA driver: they would give out the same GPU."
            )
    return warnings
