# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The ResourceQuotas and PriorityClasses that say who gets GPUs: their manifests, and what a call does with each."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import namespaced
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import MIG_RESOURCE_PREFIX
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import is_gpu_resource
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import full_name, labels_of
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import profile_names
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

LABELS = {"app.kubernetes.io/name": "gpu-access", "app.kubernetes.io/managed-by": "gpuops.nvidia"}
"""The labels of every object that the module has made. It changes and removes no other object."""
SELECTOR = ",".join(f"{key}={value}" for key, value in LABELS.items())

REQUESTS = "requests."
"""The only prefix under which Kubernetes counts an extended resource. It accepts others, but does not count them."""

HIGHEST = 1_000_000_000
"""The highest value of a PriorityClass that is not Kubernetes' own."""

_RESOURCE_FORM = "nvidia.com/gpu, nvidia.com/gpu.shared or nvidia.com/mig-1g.10gb"


@dataclasses.dataclass(frozen=True)
class AccessKind:
    """A kind of object that the module looks after. ``fixed`` are the fields that cannot be changed."""

    name: str
    api_version: str
    plural: str
    fields: tuple[str, ...]
    fixed: tuple[str, ...] = ()

    def path(self, namespace: str | None, name: str = "") -> str:
        """Return the path of an object, or of all of them."""
        return namespaced(self.api_version, namespace, self.plural, name)

    def content(self, item: Json) -> Json:
        """Return the fields of an object that matter."""
        return {key: item[key] for key in self.fields if item.get(key) is not None}


QUOTA = AccessKind("ResourceQuota", "v1", "resourcequotas", ("spec",))
PRIORITY = AccessKind(
    "PriorityClass",
    "scheduling.k8s.io/v1",
    "priorityclasses",
    ("value", "preemptionPolicy", "description"),
    ("value", "preemptionPolicy"),
)


# ---- manifests ----------------------------------------------------------------------------------------------------


def quotas(wishes: list[Json]) -> list[Json]:
    """Return the ResourceQuotas. Raises for a resource that no device plugin of NVIDIA offers."""
    made = [_manifest(QUOTA, wish["name"], spec={"hard": _hard(wish)}) for wish in wishes]
    for item, wish in zip(made, wishes):
        item["metadata"]["namespace"] = wish["namespace"]
    return _unique("quotas", made)


def priorities(wishes: list[Json]) -> list[Json]:
    """Return the PriorityClasses."""
    for wish in wishes:
        if wish["value"] > HIGHEST or wish["name"].startswith("system-"):
            raise GpuOpsError(
                f"The PriorityClass {wish['name']} with the value {wish['value']} is not possible: names with system- "
                f"and values above {HIGHEST} are Kubernetes' own. Choose others.",
                reason="Invalid",
            )
    return _unique("priority_classes", [_priority(wish) for wish in wishes])


def _priority(wish: Json) -> Json:
    fields = {"value": wish["value"], "preemptionPolicy": wish["preemption_policy"]}
    return _manifest(PRIORITY, wish["name"], **fields, description=wish["description"])


def namespace(name: str) -> Json:
    """Return a namespace for a quota."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(LABELS)}}


def _manifest(kind: AccessKind, name: str, **fields: t.Any) -> Json:
    metadata = {"name": name, "labels": dict(LABELS)}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, **fields}


def _unique(option: str, made: list[Json]) -> list[Json]:
    named = [full_name(item) for item in made]
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise GpuOpsError(
            f"{option} has {twice[0]} twice. Merge the entries, or name one differently.", reason="Invalid"
        )
    return made


def _hard(wish: Json) -> dict[str, str]:
    if not wish["gpus"]:
        example = "{nvidia.com/gpu: 4}"
        message = f"The quota of namespace {wish['namespace']} has no limit. Give gpus, for example {example}."
        raise GpuOpsError(message, reason="Invalid")
    return {REQUESTS + _resource(name): _amount(name, number) for name, number in wish["gpus"].items()}


def _resource(text: str) -> str:
    """Return the name of a resource as quotas want it without their prefix."""
    name = text.removeprefix(REQUESTS)
    if not is_gpu_resource(name):
        raise GpuOpsError(
            f"{text} in gpus is no resource of NVIDIA's device plugin, so a quota for it would have no effect. "
            f"{_right_resource(text)}",
            reason="Invalid",
        )
    profile = name.removeprefix(MIG_RESOURCE_PREFIX).removesuffix(".shared")
    if name.startswith(MIG_RESOURCE_PREFIX) and profile_names.parsed(profile_names.undotted(profile)) is None:
        hint = profile_names.corrected(profile) or f"Write {_RESOURCE_FORM}."
        raise GpuOpsError(f"{text} in gpus names no MIG profile. {hint}", reason="Invalid")
    return name


def _right_resource(text: str) -> str:
    found = re.search(r"(?:limits\.)?((?:nvidia\.com/)?(?:gpu|mig-)[\w.+-]*)$", text)
    if not found:
        return f"Write {_RESOURCE_FORM}."
    bare = found[1].removeprefix("nvidia.com/").replace("+", ".")
    return f"Write nvidia.com/{bare}."


def _amount(name: str, number: t.Any) -> str:
    if not re.fullmatch(r"\d+", str(number)):
        raise GpuOpsError(f"{name} in gpus is {number!r}: give a whole number, 0 or more.", reason="Invalid")
    return str(int(number))


# ---- what a call does ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Step:
    """What a call does with one object: apply ``wanted``, or remove ``existing``; after its removal if it is fixed."""

    kind: AccessKind
    existing: Json | None
    wanted: Json | None

    @property
    def item(self) -> Json:
        """The object, as it is wanted or as it is."""
        return self.wanted or self.existing or {}

    @property
    def path(self) -> str:
        """The path of the object."""
        metadata = self.item["metadata"]
        return self.kind.path(metadata.get("namespace"), metadata["name"])

    @property
    def title(self) -> str:
        """The kind and the name of the object."""
        return f"{self.kind.name} {full_name(self.item)}"

    @property
    def is_replaced(self) -> bool:
        """Whether the object has to be removed and made again, because a field that cannot be changed differs."""
        if not (self.existing and self.wanted):
            return False
        return any(self.existing.get(field) != self.wanted[field] for field in self.kind.fixed)


def steps(kind: AccessKind, wanted: list[Json] | None, existing: list[Json]) -> list[Step]:
    """Return what to do with each object. Without a list of wishes, every object stays as it is."""
    if wanted is None:
        return []
    present = {full_name(item): item for item in existing}
    _refuse_foreign(kind, wanted, present)
    kept = set(map(full_name, wanted))
    gone = [item for name, item in sorted(present.items()) if name not in kept and is_ours(item)]
    applied = [Step(kind, present.get(full_name(item)), item) for item in wanted]
    return [*applied, *(Step(kind, item, None) for item in gone)]


def _refuse_foreign(kind: AccessKind, wanted: list[Json], present: t.Mapping[str, Json]) -> None:
    for name in map(full_name, wanted):
        if name in present and not is_ours(present[name]):
            raise GpuOpsError(
                f"{kind.name} {name} exists, and somebody else has made it. Choose another name, or remove it.",
                reason="Conflict",
            )


def is_ours(item: Json) -> bool:
    """Return whether the module has made this object."""
    return labels_of(item).items() >= LABELS.items()


def exceeded(item: Json, before: Json | None) -> list[str]:
    """Return the resources of which a namespace uses more than its quota, as far as the cluster has counted."""
    used = ((before or {}).get("status") or {}).get("used") or {}
    hard = item["spec"]["hard"]
    return [
        f"{used[name]} of {name.removeprefix(REQUESTS)} in use, {limit} permitted"
        for name, limit in sorted(hard.items())
        if str(used.get(name, "0")).isdecimal() and int(used.get(name, "0")) > int(limit)
    ]
