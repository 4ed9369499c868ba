# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The ResourceQuotas and PriorityClasses that say who gets GPUs."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.kept import kept_objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.kept.kept_objects import KeptKind
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.names import MIG_RESOURCE_PREFIX
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.nodes import is_gpu_resource
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import profile_names
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

OWNER = "gpu-access"

REQUESTS = "requests."
"""The only prefix under which Kubernetes counts an extended resource. It accepts others, but does not count them."""

HIGHEST = 1_000_000_000
"""The highest value of a PriorityClass that is not Kubernetes' own."""

_RESOURCE_FORM = "nvidia.com/gpu, nvidia.com/gpu.shared or nvidia.com/mig-1g.10gb"


QUOTA = KeptKind("ResourceQuota", "v1", "resourcequotas", OWNER, ("spec",))
PRIORITY = KeptKind(
    "PriorityClass",
    "scheduling.k8s.io/v1",
    "priorityclasses",
    OWNER,
    ("value", "preemptionPolicy", "description"),
    ("value", "preemptionPolicy"),
)


# ---- manifests ----------------------------------------------------------------------------------------------------


def quotas(wishes: list[Json]) -> list[Json]:
    """Return the ResourceQuotas. Raises for a resource that no device plugin of NVIDIA offers."""
    made = [QUOTA.manifest(wish["name"], wish["namespace"], spec={"hard": _hard(wish)}) for wish in wishes]
    return kept_objects.unique("quotas", made)


def priorities(wishes: list[Json]) -> list[Json]:
    """Return the PriorityClasses."""
    for wish in wishes:
        if wish["value"] > HIGHEST or wish["name"].startswith("system-"):
            raise GpuOpsError(
                f"The PriorityClass {wish['name']} with the value {wish['value']} is not possible: names with system- "
                f"and values above {HIGHEST} are Kubernetes' own. Choose others.",
                reason="Invalid",
            )
    return kept_objects.unique("priority_classes", [_priority(wish) for wish in wishes])


def _priority(wish: Json) -> Json:
    fields = {"value": wish["value"], "preemptionPolicy": wish["preemption_policy"]}
    return PRIORITY.manifest(wish["name"], **fields, description=wish["description"])


def namespace(name: str) -> Json:
    """Return a namespace for a quota."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": QUOTA.labels}}


def _hard(wish: Json) -> dict[str, str]:
    if not wish["gpus"]:
        example = "{nvidia.com/gpu: 4}"
        message = f"The quota of namespace {wish['namespace']} has no limit. Give gpus, for example {example}."
        raise GpuOpsError(message, reason="Invalid")
    return {REQUESTS + _resource(name): amount(f"{name} in gpus", number) for name, number in wish["gpus"].items()}


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


def amount(name: str, number: t.Any) -> str:
    """Return a limit as quotas have it. ``name`` is what it is called in an error."""
    if not re.fullmatch(r"\d+", str(number)):
        raise GpuOpsError(f"{name} is {number!r}: give a whole number, 0 or more.", reason="Invalid")
    return str(int(number))


def exceeded(item: Json, before: Json | None) -> list[str]:
    """Return the resources of which a namespace uses more than its quota, as far as the cluster has counted."""
    used = ((before or {}).get("status") or {}).get("used") or {}
    hard = item["spec"]["hard"]
    return [
        f"{used[name]} of {name.removeprefix(REQUESTS)} in use, {limit} permitted"
        for name, limit in sorted(hard.items())
        if str(used.get(name, "0")).isdecimal() and int(used.get(name, "0")) > int(limit)
    ]
