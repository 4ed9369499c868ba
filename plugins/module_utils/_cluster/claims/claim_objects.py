# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""DeviceClasses, ResourceClaimTemplates, ResourceClaims and their quotas: from options to manifests."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.claims import device_selection
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.kept import kept_objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.kept.kept_objects import KeptKind
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.scheduling import access
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import DRA_DRIVER, DRA_GROUP
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator import dra_configs
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

CLAIMS_OWNER = "gpu-claims"
_REQUEST = "gpu"
"""The name of the one request of every claim."""

CLAIM_QUOTA = KeptKind("ResourceQuota", "v1", "resourcequotas", CLAIMS_OWNER, ("spec",))
_DEVICES = f".deviceclass.{DRA_GROUP}/devices"
_CLAIMS = f"count/resourceclaims.{DRA_GROUP}"
"""The names by which a quota counts devices and claims.

Source: Kubernetes v1.36.3, ``pkg/quota/v1/evaluator/core/resource_claims.go``.
"""


@dataclasses.dataclass(frozen=True)
class ClaimKinds:
    """The kinds of Dynamic Resource Allocation in one version of their API."""

    version: str

    @property
    def classes(self) -> KeptKind:
        """DeviceClasses."""
        return KeptKind("DeviceClass", f"{DRA_GROUP}/{self.version}", "deviceclasses", CLAIMS_OWNER, ("spec",))

    @property
    def templates(self) -> KeptKind:
        """ResourceClaimTemplates."""
        return self._immutable("ResourceClaimTemplate", "resourceclaimtemplates")

    @property
    def claims(self) -> KeptKind:
        """ResourceClaims."""
        return self._immutable("ResourceClaim", "resourceclaims")

    def _immutable(self, name: str, plural: str) -> KeptKind:
        return KeptKind(name, f"{DRA_GROUP}/{self.version}", plural, CLAIMS_OWNER, ("spec",), is_immutable=True)


# ---- classes ------------------------------------------------------------------------------------------------------


def classes(kinds: ClaimKinds, wishes: list[Json]) -> list[Json]:
    """Return the DeviceClasses. Raises for what no device or driver would accept."""
    made = [kinds.classes.manifest(wish["name"], spec=_class_spec(wish)) for wish in wishes]
    named = [wish["extended_resource"] for wish in wishes if wish.get("extended_resource")]
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise GpuOpsError(
            f"Several classes have the extended_resource {twice[0]}, and Kubernetes would use one of them only. Give "
            "it to one class.",
            reason="Invalid",
        )
    return kept_objects.unique("classes", made)


def _class_spec(wish: Json) -> Json:
    if wish["name"] in device_selection.VENDOR_CLASSES:
        raise GpuOpsError(
            f"The class {wish['name']} is NVIDIA's own, and its operator keeps it. Choose another name.",
            reason="Invalid",
        )
    chosen = device_selection.selection(wish)
    spec: Json = {"selectors": [{"cel": {"expression": each}} for each in chosen.expressions]}
    if wish.get("config"):
        parameters = _parameters(f"class {wish['name']}", wish["config"], wish["type"])
        spec["config"] = [{"opaque": {"driver": DRA_DRIVER, "parameters": parameters}}]
    if wish.get("extended_resource"):
        spec["extendedResourceName"] = wish["extended_resource"]
    return spec


# ---- templates and claims -----------------------------------------------------------------------------------------


def templates(kinds: ClaimKinds, wishes: list[Json], types: t.Mapping[str, str]) -> list[Json]:
    """Return a ResourceClaimTemplate for each entry and namespace. ``types`` are the device types of known classes."""
    kind = kinds.templates
    made = [
        kind.manifest(
            wish["name"], namespace, spec={"spec": _claim_spec(kinds, f"template {wish['name']}", wish, types)}
        )
        for wish in wishes
        for namespace in _namespaces("template", wish)
    ]
    return kept_objects.unique("templates", made)


def claims(kinds: ClaimKinds, wishes: list[Json], types: t.Mapping[str, str]) -> list[Json]:
    """Return a ResourceClaim for each entry and namespace."""
    made = [
        kinds.claims.manifest(wish["name"], namespace, spec=_claim_spec(kinds, f"claim {wish['name']}", wish, types))
        for wish in wishes
        for namespace in _namespaces("claim", wish)
    ]
    return kept_objects.unique("claims", made)


def _namespaces(what: str, wish: Json) -> list[str]:
    if not wish["namespaces"]:
        raise GpuOpsError(f"The {what} {wish['name']} has no namespace. Give namespaces.", reason="Invalid")
    return list(wish["namespaces"])


def _claim_spec(kinds: ClaimKinds, owner: str, wish: Json, types: t.Mapping[str, str]) -> Json:
    if not wish["all"] and wish["count"] < 1:
        raise GpuOpsError(f"The {owner} has count: {wish['count']}. Give 1 or more, or all: true.", reason="Invalid")
    asked: Json = {"deviceClassName": wish["device_class"]}
    asked |= {"allocationMode": "All"} if wish["all"] else {"allocationMode": "ExactCount", "count": wish["count"]}
    if wish.get("cel"):
        asked["selectors"] = [{"cel": {"expression": each}} for each in wish["cel"]]
    if wish["admin_access"]:
        asked["adminAccess"] = True
    if wish.get("capacity"):
        asked["capacity"] = {"requests": {name: str(amount) for name, amount in wish["capacity"].items()}}
    # v1beta1 has no way to list alternatives, so what later versions have below "exactly" is the request itself.
    inner = asked if kinds.version == "v1beta1" else {"exactly": asked}
    found: Json = {"requests": [{"name": _REQUEST, **inner}]}
    if wish.get("match_attributes"):
        found["constraints"] = [{"requests": [_REQUEST], "matchAttribute": name} for name in wish["match_attributes"]]
    if wish.get("config"):
        count = None if wish["all"] else wish["count"]
        parameters = _parameters(owner, wish["config"], types.get(wish["device_class"]), count)
        found["config"] = [{"requests": [_REQUEST], "opaque": {"driver": DRA_DRIVER, "parameters": parameters}}]
    return {"devices": found}


def _parameters(owner: str, config: Json, device_type: str | None, count: int | None = None) -> Json:
    """Return the driver's parameters with their kind and version. Raises for what the driver would refuse."""
    kind = dra_configs.DEVICE_KINDS.get(device_type or "")
    parameters = {"apiVersion": dra_configs.API_VERSION, **({"kind": kind} if kind else {}), **config}
    wrong = dra_configs.mistake(parameters, count)
    if wrong is None and kind not in (None, parameters["kind"]):
        wrong = f"kind is {parameters['kind']}, which the driver does not apply to devices of type {device_type}: "
        wrong += f"write {kind}."
    if wrong:
        raise GpuOpsError(f"The {owner} has a config that the driver would refuse: {wrong}", reason="Invalid")
    return parameters


# ---- quotas -------------------------------------------------------------------------------------------------------


def quotas(wishes: list[Json]) -> list[Json]:
    """Return the ResourceQuotas."""
    made = [CLAIM_QUOTA.manifest(wish["name"], wish["namespace"], spec={"hard": _hard(wish)}) for wish in wishes]
    return kept_objects.unique("quotas", made)


def _hard(wish: Json) -> dict[str, str]:
    devices = wish.get("devices") or {}
    hard = {f"{name}{_DEVICES}": access.amount(f"{name} in devices", number) for name, number in devices.items()}
    if wish.get("claims") is not None:
        hard[_CLAIMS] = access.amount("claims", wish["claims"])
    if not hard:
        raise GpuOpsError(
            f"The quota of namespace {wish['namespace']} has no limit. Give devices, for example "
            "{gpu.nvidia.com: 4}, or claims.",
            reason="Invalid",
        )
    return hard


# ---- what objects name --------------------------------------------------------------------------------------------


def classes_in(item: Json) -> set[str]:
    """Return the names of the classes that a ResourceClaim or a ResourceClaimTemplate asks for, in any version."""
    spec = item.get("spec") or {}
    requests = ((spec.get("spec") or spec).get("devices") or {}).get("requests") or []
    parts = [
        part for each in requests for part in (each, each.get("exactly") or {}, *(each.get("firstAvailable") or []))
    ]
    return {part["deviceClassName"] for part in parts if part.get("deviceClassName")}


def parameters_in(item: Json) -> list[Json]:
    """Return the driver's parameters in an object that was made here."""
    spec = item["spec"]
    inner = spec if item["kind"] == "DeviceClass" else (spec.get("spec") or spec)["devices"]
    return [each["opaque"]["parameters"] for each in inner.get("config") or []]


def asked_in(item: Json) -> list[Json]:
    """Return what the requests of a template or a claim that was made here ask for; a DeviceClass has none."""
    spec = item["spec"]
    requests = ((spec.get("spec") or spec).get("devices") or {}).get("requests") or []
    return [each.get("exactly") or each for each in requests]


def has_admin_access(item: Json) -> bool:
    """Return whether a template or a claim that was made here asks for access for administrators."""
    return any(asked.get("adminAccess") for asked in asked_in(item))


def gates_of(item: Json) -> list[tuple[str, str]]:
    """Return the driver's gates that an object that was made here needs, each after the option that needs it."""
    found = [("config", gate) for parameters in parameters_in(item) for gate in dra_configs.gates(parameters)]
    return found + [("capacity", dra_configs.SHARES_GATE) for asked in asked_in(item) if asked.get("capacity")]
