# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""From objects that somebody has saved to what gpu_stack_info returns, as far as they tell. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import node_rows, observe, tolerance
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import Observation
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis import order
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input.tables import TablePod
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_DONE = ("Completed", "Succeeded")
_OPERANDS = {operand.name for operand in operands.OPERANDS}
_UNKNOWN = {"state": "unknown", "message": "The verdict is unknown, because the cluster was not asked.", "reasons": []}


def stack_of(kinds: t.Mapping[str, list[Json]], rows: t.Iterable[TablePod]) -> Json | None:
    """Return the stack, or None if nothing is known of it. Objects that may be incomplete are not judged."""
    waiting = _waiting(rows)
    nodes = kinds.get("nodes", [])
    known = {objects.name_of(node) for node in nodes}
    nodes = [*nodes, *(_stand_in(name) for name in waiting if name not in known)]
    policies = [_dated(item) for item in kinds.get(names.CLUSTERPOLICIES, [])]
    if not nodes and not policies:
        return None
    name, namespace = observe.found(policies, [], "", "")
    daemonsets = [item for item in kinds.get("daemonsets", []) if item["metadata"].get("namespace") == namespace]
    seen = Observation(name, namespace, policies, [], daemonsets, [], nodes, now=0.0)
    result = node_rows.result_of(seen, tolerance.NOTHING, None)
    result["verdict"] |= _UNKNOWN
    result["operands"] = result["operands"] if daemonsets and policies else []
    for row in result["nodes"]:
        row["waiting_for"] = waiting.get(row["name"], {})
    return result


def _dated(policy: Json) -> Json:
    """Return a policy with the date that the API always writes, and people leave out."""
    return {**policy, "metadata": {"creationTimestamp": "", **policy["metadata"]}}


def _stand_in(name: str) -> Json:
    """Return a node of which only a pod's row tells: it runs operands, so it is a GPU node."""
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name, "labels": {names.GPU_PRESENT: "true"}},
        "spec": {},
        "status": {"conditions": ready},
    }


def _waiting(rows: t.Iterable[TablePod]) -> dict[str, dict[str, str]]:
    """Return the statuses of operands' pods that are in trouble, by node and operand."""
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        operand = order.operand_of(f"pod {row.name}")
        ready, dummy, total = row.ready.partition("/")
        is_well = row.status in _DONE or (row.status == "Running" and ready == total)
        if operand in _OPERANDS and not is_well:
            found.setdefault(row.node, {})[operand] = row.status
    return found


def row_of(pod: Json) -> TablePod:
    """Return a pod as ``kubectl get pods`` would print it."""
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    main = [each for each in status.get("containerStatuses") or [] if isinstance(each, dict)]
    ready = sum(bool(each.get("ready")) for each in main)
    total = len(spec.get("containers") or main)
    return TablePod(
        namespace=str(pod["metadata"].get("namespace") or ""),
        name=objects.name_of(pod),
        ready=f"{ready}/{total}",
        status=_status(pod),
        restarts=sum(int(each.get("restartCount") or 0) for each in objects.container_statuses(pod)),
        node=str(spec.get("nodeName") or ""),
    )


def _status(pod: Json) -> str:
    status = pod.get("status") or {}
    init = status.get("initContainerStatuses") or []
    for index, container in enumerate(init):
        state = container.get("state") or {}
        ended = state.get("terminated")
        if ended is not None and not ended.get("exitCode"):
            continue
        reason = _reason(state)
        return f"Init:{reason}" if reason not in ("", "PodInitializing") else f"Init:{index}/{len(init)}"
    reasons = [_reason(container.get("state") or {}) for container in status.get("containerStatuses") or []]
    return str(next(filter(None, reasons), status.get("reason") or status.get("phase") or "Unknown"))


def _reason(state: Json) -> str:
    for key in ("waiting", "terminated"):
        if state.get(key) is not None:
            return str(state[key].get("reason") or ("Error" if key == "terminated" else ""))
    return ""
