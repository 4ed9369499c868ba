# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which pods are read whole, and which of their logs. Pure."""

from __future__ import annotations

import dataclasses
import itertools
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import Rows
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects, operands, pods
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

MANY_RESTARTS = 3
"""A pod with this many restarts is looked at, even if it runs at the moment."""

_ENDED = ("Completed", "Succeeded")
_WAITS = re.compile(r"Init:\d+/\d+|PodInitializing|ContainerCreating")
"""Statuses of pods that wait for others. What they wait for has more to tell."""
_RANDOM_END = re.compile(r"(-[a-f0-9]{8,10})?-[a-z0-9]{5}$")


@dataclasses.dataclass(frozen=True)
class PodChoice:
    """A pod of the operator's namespace that is worth a look."""

    name: str
    node: str
    status: str
    owner: str
    """Its name without the random end: that of its DaemonSet or Deployment."""
    is_whole: bool = False
    """Whether all of its containers are of interest, and not only those that are not ready."""


def rows_of(table: Rows) -> list[PodChoice]:
    """Return the pods that are in trouble, according to the API's table of pods."""
    found = []
    for cells in table:
        restarts = int(str(cells["restarts"]).split(" ", 1)[0])  # "7 (3m ago)"
        if cells["status"] in _ENDED or (pods.is_running(cells) and restarts < MANY_RESTARTS):
            continue
        found.append(_row(cells))
    return found


def _row(cells: t.Mapping[str, t.Any], is_whole: bool = False) -> PodChoice:
    node = "" if cells.get("node") in (None, "<none>") else str(cells["node"])
    return PodChoice(str(cells["name"]), node, str(cells["status"]), _RANDOM_END.sub("", str(cells["name"])), is_whole)


def silent(table: Rows, nodes: t.Iterable[Json], is_ready: bool) -> list[PodChoice]:
    """Return the running pods whose logs say why a node is not as it should be.

    ``nodes`` are rows of gpu_stack_info. A MIG manager runs while its change fails, and so does a device plugin that
    sees no GPU. The operator's own log is of interest unless the stack is ready.
    """
    wanted = {(operand.daemonset, node["name"]) for node in nodes for operand in _suspects(node)}
    found = []
    for cells in filter(pods.is_running, table):
        row = _row(cells, is_whole=True)
        is_operator = row.owner == names.OPERATOR and not is_ready
        if is_operator or any(row.node == node and row.owner.startswith(name) for name, node in wanted):
            found.append(row)
    return found


def _suspects(node: Json) -> t.Iterator[operands.Operand]:
    if node["mig"]["state"] == "failed" or node["mig"]["state"] in names.MIG_CHANGING:
        yield operands.MIG_MANAGER
    offered = sum(part["allocatable"] or 0 for part in node["slices"])
    lacks = not offered or any((part["allocatable"] or 0) < (part["expected"] or 0) for part in node["slices"])
    if lacks and not node["waiting_for"]:
        yield operands.DEVICE_PLUGIN
    if node["upgrade_state"] == names.UPGRADE_FAILED:
        yield operands.DRIVER


def chosen(rows: t.Sequence[PodChoice], limit: int) -> list[PodChoice]:
    """Return the pods to read whole: some of each controller and status, first those that do not wait for others."""
    groups: dict[tuple[bool, str, str], list[PodChoice]] = {}
    for row in sorted(rows, key=lambda row: (row.node, row.name)):
        groups.setdefault((bool(_WAITS.fullmatch(row.status)), row.owner, row.status), []).append(row)
    # One of each, and then the others, so that the pods that wait for another do not crowd out their causes.
    first = [found[0] for key, found in sorted(groups.items())]
    others: list[PodChoice] = []
    for is_waiting in (False, True):
        turns = itertools.zip_longest(*(found[1:] for key, found in sorted(groups.items()) if key[0] == is_waiting))
        others += [row for turn in turns for row in turn if row]
    return [*first, *others][:limit]


def logs_of(pod: Json, is_whole: bool) -> list[tuple[str, bool]]:
    """Return the logs to read: containers, each with whether its previous run is meant.

    ``is_whole`` asks for all containers that run. Otherwise, those that are ready or done are left out.
    """
    found = list[tuple[str, bool]]()
    for container in objects.container_statuses(pod):
        state, restarts = container.get("state") or {}, int(container.get("restartCount") or 0)
        is_done = container.get("ready") or (state.get("terminated") or {}).get("exitCode") == 0
        has_log = bool("running" in state or "terminated" in state or container.get("lastState"))
        if has_log and (is_whole or not is_done):
            found.append((str(container["name"]), False))
        if restarts and "running" in state:
            found.append((str(container["name"]), True))
    return found


def waits_for_gpu(pod: Json) -> bool:
    """Return whether a pod that has not started asks for a GPU, by a resource or by a claim."""
    spec = pod.get("spec") or {}
    return not spec.get("nodeName") and bool(pods.requested_gpus(spec) or spec.get("resourceClaims"))


def left_out(rows: t.Sequence[PodChoice], read: t.Sequence[PodChoice]) -> dict[tuple[str, str], int]:
    """Return how many pods of each controller and status were not read."""
    names_read, counts = {row.name for row in read}, dict[tuple[str, str], int]()
    for row in rows:
        if row.name not in names_read:
            counts[row.owner, row.status] = counts.get((row.owner, row.status), 0) + 1
    return counts


def slimmed(item: Json) -> Json:
    """Return an object without its long and useless parts: who manages which field, and its last applied form."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    annotations = objects.annotations_of(item)
    if annotations:
        metadata["annotations"] = {key: text for key, text in annotations.items() if key != _LAST_APPLIED}
    return {**item, "metadata": metadata}


def foreign(pod: Json) -> Json:
    """Return another team's pod without what it runs: no rule reads its annotations, commands and variables."""
    metadata = {key: value for key, value in pod["metadata"].items() if key != "annotations"}
    spec = dict(pod.get("spec") or {})
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        if spec.get(kind):
            spec[kind] = [{key: part for key, part in each.items() if key not in _OF_OWNER} for each in spec[kind]]
    return {**pod, "metadata": metadata, "spec": spec}


_OF_OWNER = ("args", "command", "env", "envFrom", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
