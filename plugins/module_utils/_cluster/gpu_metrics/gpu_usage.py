# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Who holds the GPUs, who leaves them idle, and what that costs. Pure."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_past import GpuPast
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.gpu_metrics.gpu_readings import (
    UNKNOWN_FIELDS,
    GpuReading,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.pods import GpuPod
from ansible_collections.gpuops.nvidia.plugins.module_utils._mig import profile_names, table
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import whole_number
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_UNNAMED = (
    "These GPUs are on nodes with pods that hold GPUs and that no series names. Set DCGM_EXPORTER_KUBERNETES, and with "
    "time-slicing KUBERNETES_VIRTUAL_GPUS, with claims KUBERNETES_ENABLE_DRA, in dcgmExporter.env. If labels of pods "
    "are served, none of them may be called pod, namespace or container."
)


@dataclasses.dataclass(frozen=True)
class IdleRule:
    """Up to how many percent a GPU is idle, what it costs for an hour, and whether a time range is judged or now."""

    below: float
    price: float | None = None
    has_range: bool = False


@dataclasses.dataclass(frozen=True)
class UsedGpu:
    """A GPU or an instance of MIG, what is known of its time range, and whether its holders leave it idle.

    ``is_idle`` is None if that is unknown, and False if nobody holds it. ``share`` is its part of a whole GPU.
    """

    reading: GpuReading
    past: GpuPast
    is_idle: bool | None

    @property
    def share(self) -> float | None:
        """How much of a GPU it is, by compute slices, or None if the table of MIG's models does not tell."""
        if not self.reading.key.instance:
            return 1.0
        profile = profile_names.parsed(self.reading.profile or "")
        model = table.model_of(self.reading.model)
        if profile is None or model is None:
            return None
        return profile.slices / max(each.compute for each in model.profiles)

    def cost(self, rule: IdleRule, hours: float | None) -> float | None:
        """Return what it costs to hold it for so long."""
        if rule.price is None or hours is None or self.share is None:
            return None
        return round(rule.price * hours * self.share, 2)


def used(reading: GpuReading, past: GpuPast, rule: IdleRule) -> UsedGpu:
    """Return how a GPU is used. One that was given to its pods in this very step is not idle yet."""
    level = past.highest if rule.has_range else reading.utilisation
    if reading.pods is None or (reading.pods and level is None):
        return UsedGpu(reading, past, None)
    is_low = level is not None and level <= rule.below
    return UsedGpu(reading, past, bool(reading.pods) and is_low and past.held_hours != 0)


# ---- pods that no series names ------------------------------------------------------------------------------------


def unnamed(found: t.Iterable[GpuReading], pods: t.Iterable[GpuPod]) -> list[GpuPod]:
    """Return the pods that hold GPUs according to the API server, and that no series names."""
    named = {holder[:2] for reading in found for holder in reading.pods or ()}
    return [pod for pod in pods if (pod.namespace, pod.name) not in named]


def without_guesses(found: t.Iterable[GpuReading], missing: t.Iterable[GpuPod]) -> list[GpuReading]:
    """Return the readings, where a GPU without a name is no free GPU if a pod without one is on its node."""
    nodes = {pod.node for pod in missing}
    return [
        dataclasses.replace(each, pods=None) if not each.pods and each.key.node in nodes else each for each in found
    ]


# ---- the rows of the result ---------------------------------------------------------------------------------------


def gpu_row(gpu: UsedGpu) -> Json:
    """Return what the result says about a GPU."""
    reading = gpu.reading
    return {
        **_identity(reading),
        "model": reading.model,
        "pods": _pods(reading),
        "jobs": list(reading.jobs),
        "utilisation": reading.utilisation,
        "utilisation_from": reading.utilisation_from,
        "memory_used_mib": reading.memory_used_mib,
        "memory_total_mib": reading.memory_total_mib,
        "power_w": reading.power_w,
        "temperature_c": reading.temperature_c,
        "last_xid": reading.last_xid,
        "throttling": None if reading.throttling is None else list(reading.throttling),
        "throttling_from": reading.throttling_from,
        "mean_utilisation": gpu.past.mean,
        "highest_utilisation": gpu.past.highest,
        "held_hours": gpu.past.held_hours,
        "idle": gpu.is_idle,
    }


def _identity(reading: GpuReading) -> Json:
    key = reading.key
    return {
        "node": key.node,
        "gpu": whole_number(key.gpu),
        "uuid": key.uuid or None,
        "mig_profile": reading.profile,
        "mig_instance": whole_number(key.instance),
    }


def _pods(reading: GpuReading) -> list[Json] | None:
    return None if reading.pods is None else [holder._asdict() for holder in reading.pods]


def idle_rows(gpus: t.Iterable[UsedGpu], rule: IdleRule) -> list[Json]:
    """Return the GPUs that their holders leave idle, those that were held for longest first."""
    idle = sorted((gpu for gpu in gpus if gpu.is_idle), key=lambda gpu: -(gpu.past.held_hours or 0))
    return [
        {
            **_identity(gpu.reading),
            "model": gpu.reading.model,
            "pods": _pods(gpu.reading),
            "utilisation": gpu.reading.utilisation if gpu.past.highest is None else gpu.past.highest,
            "hours": gpu.past.held_hours,
            "cost_per_hour": gpu.cost(rule, 1),
            "cost": gpu.cost(rule, gpu.past.held_hours),
        }
        for gpu in idle
    ]


def namespace_rows(gpus: t.Sequence[UsedGpu], missing: t.Iterable[GpuPod], rule: IdleRule) -> list[Json]:
    """Return what each namespace holds. A GPU that several namespaces share counts in each of them."""
    held: dict[str, list[UsedGpu]] = collections.defaultdict(list)
    for gpu in gpus:
        for namespace in {holder.namespace for holder in gpu.reading.pods or ()}:
            held[namespace].append(gpu)
    away = collections.Counter(pod.namespace for pod in missing)
    return [
        {
            "namespace": namespace,
            **_counts(held.get(namespace, [])),
            "mean_utilisation": mean_utilisation(held.get(namespace, [])),
            "idle_cost": idle_cost(held.get(namespace, []), rule),
            "unnamed_pods": away[namespace],
        }
        for namespace in sorted({*held, *away})
    ]


def _counts(gpus: t.Sequence[UsedGpu]) -> Json:
    return {
        "gpus": sum(not gpu.reading.key.instance for gpu in gpus),
        "mig_instances": sum(bool(gpu.reading.key.instance) for gpu in gpus),
        "idle": sum(gpu.is_idle is True for gpu in gpus),
    }


def mean_utilisation(gpus: t.Iterable[UsedGpu]) -> float | None:
    """Return the mean of the known utilisations: over the time range if it is known, or else now."""
    values = [gpu.reading.utilisation if gpu.past.mean is None else gpu.past.mean for gpu in gpus]
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 2) if known else None


def idle_cost(gpus: t.Iterable[UsedGpu], rule: IdleRule) -> float | None:
    """Return what idle GPUs have cost, or None without a price, without a time range, or if one is unknown."""
    costs = [gpu.cost(rule, gpu.past.held_hours) for gpu in gpus if gpu.is_idle]
    known = [cost for cost in costs if cost is not None]
    is_known = rule.price is not None and rule.has_range and len(known) == len(costs)
    return round(sum(known, 0.0), 2) if is_known else None


def unknown_rows(gpus: t.Sequence[UsedGpu]) -> list[Json]:
    """Return the fields that are null, of how many GPUs, and why."""
    counts = collections.Counter(name for gpu in gpus for name in gpu.reading.unknown)
    rows = [
        {"field": name, "gpus": counts[name], "reason": why} for name, why in UNKNOWN_FIELDS.items() if counts[name]
    ]
    nameless = sum(gpu.reading.pods is None for gpu in gpus)
    return [*rows, *([{"field": "pods", "gpus": nameless, "reason": _UNNAMED}] if nameless else [])]


def summary(gpus: t.Sequence[UsedGpu], rule: IdleRule) -> Json:
    """Return the numbers of the fleet. A sum is of the GPUs that report the value, and null if none does."""
    whole = {gpu.reading.key.whole: gpu.reading for gpu in gpus}
    return {
        "gpus": len(whole),
        "mig_instances": sum(bool(gpu.reading.key.instance) for gpu in gpus),
        "held": sum(bool(gpu.reading.pods) for gpu in gpus),
        "free": sum(gpu.reading.pods == () for gpu in gpus),
        "idle": sum(gpu.is_idle is True for gpu in gpus),
        "mean_utilisation": mean_utilisation(gpus),
        "power_w": _sum(reading.power_w for reading in whole.values()),
        "memory_used_mib": _sum(gpu.reading.memory_used_mib for gpu in gpus),
        "memory_total_mib": _sum(gpu.reading.memory_total_mib for gpu in gpus),
        "throttled": _count(bool(reading.throttling) for reading in whole.values() if reading.throttling is not None),
        "with_xid": _count(bool(reading.last_xid) for reading in whole.values() if reading.last_xid is not None),
        "idle_cost": idle_cost(gpus, rule),
    }


def _sum(values: t.Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 1) if known else None


def _count(values: t.Iterable[bool]) -> int | None:
    known = list(values)
    return sum(known) if known else None
