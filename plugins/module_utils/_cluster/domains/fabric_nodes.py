# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which nodes can be in a ComputeDomain now, by their NVLink cliques. Pure.

GPUs of one clique reach each other over NVLink. IMEX wants one version of the driver on the nodes of a domain:
https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.domains.domain_request import DOMAIN_LABEL
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import node_rows
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

OLDEST_DRIVER = "570.158.01"
"""``IMEXDaemonsWithDNSNamesMinDriverVersion`` in cmd/compute-domain-kubelet-plugin/main.go (95932046). The plugin ends
with an older driver, unless that gate is off."""

Version = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class FabricNode:
    """A node that offers channels of ComputeDomains, or is in a clique. Unknown values are empty."""

    name: str
    clique: str
    driver: Version
    domain: str
    """The UID of the ComputeDomain that has the node."""
    has_channels: bool
    is_cordoned: bool


@dataclasses.dataclass(frozen=True)
class CliqueRow:
    """A clique, and how many of its nodes a new ComputeDomain can have, of the most frequent driver."""

    clique: str
    nodes: int
    free: int
    drivers: tuple[str, ...]

    def as_result(self) -> Json:
        """Return the clique as a module returns it."""
        return {**dataclasses.asdict(self), "drivers": list(self.drivers)}


def version(text: str | None) -> Version:
    """Return a version as numbers. ResourceSlices say 570.158.1 where labels say 570.158.01."""
    return tuple(int(part) for part in re.findall(r"\d{1,9}", text or "")[:3])


def shown(driver: Version) -> str:
    """Return a driver's version as NVIDIA writes it, with two digits in the last part."""
    return ".".join(f"{part:02}" if place == 2 else str(part) for place, part in enumerate(driver)) or "unknown"


def fabric_nodes(nodes: t.Iterable[Json], channels: t.Container[str], drivers: t.Mapping[str, str]) -> list[FabricNode]:
    """Return the nodes that offer channels or are in a clique. ``drivers`` are the versions from ResourceSlices."""
    found = []
    for node in nodes:
        name, labels = objects.name_of(node), objects.labels_of(node)
        made = FabricNode(
            name=name,
            clique=labels.get(names.GPU_CLIQUE, ""),
            driver=version(drivers.get(name) or node_rows.driver_version(labels)),
            domain=labels.get(DOMAIN_LABEL, ""),
            has_channels=name in channels,
            is_cordoned=bool((node.get("spec") or {}).get("unschedulable")),
        )
        found += [made] if made.has_channels or made.clique else []
    return found


def why_not(node: FabricNode, needs_newer: bool) -> str:
    """Return why a new ComputeDomain cannot have a node now, or an empty string."""
    if not node.has_channels:
        return "the driver's plugin offers no channel there"
    if node.domain:
        return "is in another ComputeDomain"
    if node.is_cordoned:
        return "is cordoned"
    if needs_newer and node.driver and node.driver < version(OLDEST_DRIVER):
        return f"has driver {shown(node.driver)}, and ComputeDomains need {OLDEST_DRIVER}"
    return ""


def rows(nodes: t.Sequence[FabricNode], needs_newer: bool) -> list[CliqueRow]:
    """Return each clique, with an empty name for nodes that do not say theirs. The largest is first."""
    by_clique: dict[str, list[FabricNode]] = {}
    for node in nodes:
        by_clique.setdefault(node.clique, []).append(node)
    found = []
    for clique, members in by_clique.items():
        free = [node.driver for node in members if not why_not(node, needs_newer)]
        # A node with an unknown driver counts with each of the others. Warnings say that it is unknown.
        best = max((sum(driver in (each, ()) for driver in free) for each in set(free)), default=0)
        drivers = tuple(map(shown, sorted({node.driver for node in members})))
        found.append(CliqueRow(clique, len(members), best, drivers))
    return sorted(found, key=lambda row: (-row.free, row.clique))


def refuse_too_few(name: str, needed: int, nodes: t.Sequence[FabricNode], in_one: bool, needs_newer: bool) -> list[str]:
    """Raise if too few nodes can be in a ComputeDomain now; return warnings about what is unknown."""
    counted = [row for row in rows(nodes, needs_newer) if row.clique] or rows(nodes, needs_newer)
    free = [row.free for row in counted]
    most = max(free, default=0) if in_one else sum(free)
    if most >= needed:
        return _unknown(nodes, needs_newer)
    left_out = [f"{node.name} ({why})" for node in nodes if (why := why_not(node, needs_newer))]
    without = [node.name for node in nodes if not node.clique] if any(row.clique for row in counted) else []
    said = [f"Left out: {first_few(left_out)}."] if left_out else []
    said += [f"Without the label {names.GPU_CLIQUE}: {first_few(without)}."] if without else []
    where = "one NVLink clique" if in_one else "NVLink cliques"
    raise GpuOpsError(
        f"ComputeDomain {name} needs {needed} free nodes of {where} with one version of the driver, and {most} are "
        f"there. {' '.join([*said, ''])}{_remedy(nodes, needed, in_one)}",
        reason="ChecksFailed",
        cliques=[row.as_result() for row in counted],
    )


def _remedy(nodes: t.Sequence[FabricNode], needed: int, in_one: bool) -> str:
    if not nodes:
        return (
            "No node offers channels: look at the container compute-domains of the DRA driver's kubelet plugin on "
            "nodes with multi-node NVLink (GB200 NVL72 and similar)."
        )
    smaller = ", give a smaller num_nodes" if needed > 1 else ""
    several = ", or let it span cliques with one_clique: false" if in_one and needed > 1 else ""
    return f"Free nodes, update their drivers to one version{smaller}{several}."


def _unknown(nodes: t.Sequence[FabricNode], needs_newer: bool) -> list[str]:
    found = []
    if not any(node.clique for node in nodes):
        found.append(
            f"No node has the label {names.GPU_CLIQUE}, so whether nodes reach each other over NVLink is unknown. "
            "The DRA driver's plugin sets it with GPU_CLIQUE_LABEL_ENABLED=true, and GPU Feature Discovery does."
        )
    silent = [node.name for node in nodes if not node.driver and not why_not(node, needs_newer)]
    if silent:
        found.append(
            f"The driver's version is unknown on {first_few(silent)}. ComputeDomains need {OLDEST_DRIVER} or newer, "
            "and one version in a clique."
        )
    mixed = [row.clique for row in rows(nodes, needs_newer) if row.clique and len(row.drivers) > 1]
    if mixed and not silent:
        found.append(f"Nodes of the NVLink clique {first_few(mixed)} have different drivers. Pods need nodes with one.")
    return found
