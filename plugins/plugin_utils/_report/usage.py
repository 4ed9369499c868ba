# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""How much the GPUs are used, as the page shows it: in sum, by namespace, and who leaves which idle. Pure."""

from __future__ import annotations

import dataclasses
import typing as t
from datetime import datetime

from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report.texts import short

USES_LISTED = 30
"""How many namespaces are listed, and how many idle GPUs."""


@dataclasses.dataclass(frozen=True)
class NamespaceUse:
    """What a namespace holds, and how much of it is used."""

    name: str
    gpus: int
    """Whole GPUs and MIG instances."""
    mean: float | None
    """The mean utilisation in percent."""
    idle: int
    cost: str


@dataclasses.dataclass(frozen=True)
class IdleGpu:
    """A GPU that its pods leave idle."""

    pods: str
    node: str
    gpu: str
    model: str
    hours: str
    cost: str


@dataclasses.dataclass(frozen=True)
class Usage:
    """How much the GPUs are used. Numbers that are not known are empty."""

    when: str
    """The time that the means are about, in words."""
    mean: float | None
    held: int
    idle: int
    cost: str
    power: str
    namespaces: tuple[NamespaceUse, ...]
    more_namespaces: int
    idle_gpus: tuple[IdleGpu, ...]
    more_idle_gpus: int

    @property
    def has_hours(self) -> bool:
        """Whether it is known for how long GPUs were held."""
        return any(each.hours for each in self.idle_gpus)

    @property
    def has_cost(self) -> bool:
        """Whether anything has a price."""
        return any(each.cost for each in self.idle_gpus) or any(each.cost for each in self.namespaces)


def usage_of(data: Json) -> Usage | None:
    """Return the use of the GPUs, or None if it was not read."""
    found = data.get("usage")
    if not found:
        return None
    total = found["summary"]
    # The largest holders first, and of these the worst.
    spaces = sorted(map(_namespace, found["namespaces"]), key=lambda each: (-each.gpus, -each.idle, each.name))
    idle = [_idle(each) for each in found["idle_holders"]]
    return Usage(
        when=_when(found["time_range"]),
        mean=total["mean_utilisation"],
        held=int(total["held"]),
        idle=int(total["idle"]),
        cost=_money(total["idle_cost"]),
        power="" if total["power_w"] is None else f"{total['power_w'] / 1000:,.1f} kW",
        namespaces=tuple(spaces[:USES_LISTED]),
        more_namespaces=max(0, len(spaces) - USES_LISTED),
        idle_gpus=tuple(idle[:USES_LISTED]),
        more_idle_gpus=max(0, len(idle) - USES_LISTED),
    )


def of_node(data: Json, node: str) -> str:
    """Return how much the GPUs of a node are used, in words, or nothing if it is not known."""
    found = data.get("usage") or {"nodes": {}}
    value = found["nodes"].get(node)
    return "" if value is None else f"{value:.0f} % {_when(found['time_range'])}"


def _namespace(row: Json) -> NamespaceUse:
    return NamespaceUse(
        short(row["namespace"]),
        int(row["gpus"]) + int(row["mig_instances"]),
        row["mean_utilisation"],
        int(row["idle"]),
        _money(row["idle_cost"]) if row["idle"] else "",
    )


def _idle(row: Json) -> IdleGpu:
    pods = row["pods"] or []
    named = ", ".join(f"{short(pod['namespace'])}/{short(pod['pod'])}" for pod in pods[:3])
    instance = f", MIG {short(row['mig_profile'])}" if row["mig_profile"] else ""
    return IdleGpu(
        pods=named if len(pods) <= 3 else f"{named} and {len(pods) - 3} more",
        node=short(row["node"]),
        gpu=f"{row['gpu']}{instance}",
        model=short(row["model"] or ""),
        hours="" if row["hours"] is None else f"{row['hours']:,.1f}",
        cost=_money(row["cost"] if row["hours"] is not None else row["cost_per_hour"]),
    )


def _money(amount: float | None) -> str:
    return "" if amount is None else f"{amount:,.2f}"


def _when(time_range: t.Mapping[str, t.Any] | None) -> str:
    """Return a time range in words, or ``now`` without one."""
    if not time_range:
        return "now"
    begin, end = (datetime.fromisoformat(time_range[key]) for key in ("begin", "end"))
    hours = round((end - begin).total_seconds() / 3600)
    return f"over {hours // 24} days" if hours >= 48 else f"over {hours} hours" if hours > 1 else "over the last hour"
