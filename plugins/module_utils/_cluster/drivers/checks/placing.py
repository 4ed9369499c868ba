# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Whether every node gets exactly one driver, and whether drivers can move between the kinds of objects. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared import pools
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.driver_request import (
    DriverRequest,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.drivers_view import DriversView
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.drivers.declared.impact import AT_ONCE, Effect
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.maintenance import driver_annotations
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.cluster_finding import ClusterFinding, about
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator import operator_lines
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import EXAMPLES, first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Findings = t.Iterator[ClusterFinding]

ORPHANS_SINCE = operator_lines.first_with("orphans_driver_pods")
"""The operator's line since which driver pods stay until their node's turn, when NVIDIADrivers take over."""


def owners(drivers: t.Sequence[Json], sight: DriversView) -> Findings:
    """Find nodes with no or several NVIDIADrivers. With a conflict, the operator stops all of them."""
    found = pools.owners(drivers, sight.gpu_nodes)
    problems = list(_conflicts(found))
    for message, remedy in problems:
        frozen = "The operator then rolls out no NVIDIADriver at all, while the ClusterPolicy stays ready."
        yield ClusterFinding("pools", "failure", f"{message} {frozen}", remedy)
    if found.uncovered:
        message = "No NVIDIADriver selects these nodes, so they get no driver."
        remedy = "Add a pool that selects them, or one with default: true."
        yield ClusterFinding("pools", "failure", message, remedy, **about(found.uncovered))
    empty = sorted({objects.name_of(item) for item in drivers} - set(found.of.values()))
    if empty:
        message = f"No node belongs to NVIDIADriver {first_few(empty)}, which is reported as ready all the same."
        yield ClusterFinding("pools", "warning", message, "Check its node_selector.")
    if not (problems or found.uncovered or empty):
        yield ClusterFinding(
            "pools", "ok", f"Each of {len(sight.gpu_nodes)} nodes belongs to exactly one NVIDIADriver."
        )


def _conflicts(found: pools.Owners) -> t.Iterator[tuple[str, str]]:
    for node, drivers in found.overlaps.items():
        remedy = "Change their node_selector so that each node has one; one without a selector takes every node."
        yield f"NVIDIADrivers {first_few(drivers)} all select node {node}.", remedy
    if found.defaults:
        yield (
            f"NVIDIADrivers {first_few(found.defaults)} all have default: true.",
            "Leave default: true with one of them.",
        )
    if found.reserved:
        message = f"NVIDIADriver {first_few(found.reserved)} selects nodes by {names.DRIVER_OWNER}, which is reserved."
        yield message, "Use a label of your own in node_selector."


def move(wish: DriverRequest, sight: DriversView) -> Findings:
    """Find what forbids that drivers move from the ClusterPolicy to NVIDIADrivers or back."""
    if wish.move:
        found = list(_traps(wish, sight))
        yield from found
        if not any(finding.level == "failure" for finding in found):
            yield ClusterFinding("move", "ok", f"The driver moves {wish.move}. Each node keeps its pod until its turn.")


def _traps(wish: DriverRequest, sight: DriversView) -> Findings:
    if wish.move == "to NVIDIADriver" and (sight.line is None or sight.line < ORPHANS_SINCE):
        running = f"v{sight.line[0]}.{sight.line[1]}" if sight.line else "an unknown version"
        message = (
            f"The operator is {running}. Before v26.7, it removes all driver pods at once when NVIDIADrivers take over."
        )
        yield ClusterFinding("move", "failure", message, "Upgrade the operator to v26.7 first.")
    skipping = [node for node in sight.gpu_nodes if driver_annotations.is_of_a_user(node)]
    if skipping:
        message = (
            f"The label {names.UPGRADE_SKIP} keeps these nodes with their old driver pods, which then stay outdated."
        )
        yield ClusterFinding("move", "warning", message, "Remove the label once they may change.", **about(skipping))
    if (sight.spec.get("sandboxWorkloads") or {}).get("enabled"):
        message = "sandboxWorkloads.enabled switches the operator's upgrades off, so no driver pod would be replaced."
        yield ClusterFinding("move", "failure", message, "Move the drivers of such a cluster by hand.")


def emptiness(effects: t.Sequence[Effect], pods: t.Sequence[Json] | None) -> Findings:
    """Find GPU pods on nodes that change from one NVIDIADriver to another.

    The operator gives such a node its new label at once. The DaemonSet controller then deletes the old driver pod,
    whatever limits upgrades, while the GPU pods stay. With them, the new driver cannot start.
    """
    moving = {effect.node for effect in effects if any(change.effect == AT_ONCE for change in effect.changes)}
    held = [pod for pod in pods or [] if pod["spec"]["nodeName"] in moving]
    if held:
        found = sorted({str(pod["spec"]["nodeName"]) for pod in held})
        message = (
            "These nodes change their NVIDIADriver, so their driver pods are deleted at once, and the new driver "
            f"cannot start as long as GPU pods run there: {first_few(list(map(objects.full_name, held)))}."
        )
        remedy = "Drain these nodes first (module node_maintenance)."
        yield ClusterFinding("move", "failure", message, remedy, nodes=tuple(found[:EXAMPLES]), count=len(found))
