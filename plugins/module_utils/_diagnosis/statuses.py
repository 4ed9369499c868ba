# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the API says about pods in its own words, as lines: statuses, conditions, and messages of the verdict. Pure.

The kubelet writes into a container's status what it also writes as an event. Events are gone after an hour, and the
status stays. So a pattern for lines of kind ``event`` finds both.
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.objects import container_statuses, full_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import TextLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

NODE_CONDITIONS = "conditions of the node"
"""Where a node's kubelet says how it is, as the source of a quote."""


def of_pods(pods: t.Iterable[Json]) -> t.Iterator[TextLine]:
    """Yield what the statuses of pods say about containers that wait or have ended, and about the pods themselves."""
    for pod in pods:
        source, status = f"status of pod {full_name(pod)}", pod.get("status") or {}
        node, name = str((pod.get("spec") or {}).get("nodeName") or ""), f"pod {full_name(pod)}"
        for text in _of_pod(status):
            yield TextLine(text, "event", source, node, name)
        for container in container_statuses(pod):
            for text in _of_container(container):
                yield TextLine(text, "event", f"{source}, container {container['name']}", node, name)


def of_reasons(reasons: t.Iterable[Json]) -> t.Iterator[TextLine]:
    """Yield the messages of a verdict's reasons. They quote pods and refusals that were not collected as a whole."""
    for reason in reasons:
        pod, operand = reason.get("pod"), reason.get("operand")
        about = f"pod {pod}" if pod else f"operand {operand}" if operand else ""
        yield TextLine(
            str(reason["message"]), "event", f"verdict, reason {reason['code']}", reason.get("node") or "", about
        )


def without_past(
    lines: t.Iterable[TextLine], pods: t.Iterable[Json], stack: Json, daemonsets: list[Json]
) -> list[TextLine]:
    """Return the lines without events that are over. The API server keeps an event for an hour, repaired or not.

    A refusal is over when the DaemonSet has all its pods. Events of the stack's pods are, when the verdict is ready and
    the pod is not among those in trouble.
    """
    complete = {f"daemonset {full_name(each)}" for each in daemonsets if _has_all_pods(each.get("status") or {})}
    own, known = f"pod {stack.get('namespace')}/", {f"pod {full_name(pod)}" for pod in pods}
    is_waiting = any(row.get("waiting_for") for row in stack.get("nodes") or [])
    is_ready = (stack.get("verdict") or {}).get("state") == "ready" and not is_waiting

    def is_over(line: TextLine) -> bool:
        of_well_pod = is_ready and line.object.startswith(own) and line.object not in known
        return line.kind == "event" and (line.object in complete or of_well_pod)

    return [line for line in lines if not is_over(line)]


def _has_all_pods(status: Json) -> bool:
    return bool(0 < status.get("desiredNumberScheduled", 0) <= status.get("currentNumberScheduled", 0))


def _of_pod(status: Json) -> t.Iterator[str]:
    if status.get("reason"):
        yield f"{status['reason']}: {status.get('message') or ''}"
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield f"{condition.get('reason') or 'Unschedulable'}: {condition.get('message') or ''}"


def _of_container(container: Json) -> t.Iterator[str]:
    for state in (container.get("state") or {}, container.get("lastState") or {}):
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("message"):
            yield f"{waiting.get('reason')}: {waiting['message']}"
        if ended.get("exitCode"):
            yield f"{ended.get('reason')}, exit code {ended['exitCode']}: {ended.get('message') or ''}"
