# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Operands whose pods do not start, or start late.

A fault is an annotation of the pods, which an admission policy adds to new ones. The stages of kwok read it.
"""

from __future__ import annotations

from lab.cluster.api import Json
from lab.cluster.faults import admission
from lab.cluster.faults.admission import api_of, note
from lab.cluster.lab import Lab
from lab.errors import LabError

POD_FAULTS = (
    "image-pull-backoff",
    "image-unauthorized",
    "image-unreachable",
    "image-rate-limited",
    "invalid-image-name",
    "config-error",
    "create-error",
    "crash-loop",
    "hang-init",
)
DRIVER = "nvidia-driver-daemonset"
_PREFIX = "lab-operand-"


def operand(lab: Lab, app: str, fault: str, node: str | None = None, heals_after: float | None = None) -> None:
    """Give a fault to the existing and future pods with the label ``app``, on one node or on all.

    With ``heals_after``, each pod is well this many seconds after it got into trouble.
    """
    _check_names(lab, app, node)
    annotate_new_pods(lab, app, fault, node, heals_after)
    admission.replace_pods(lab, _pods(app, node), lambda pod: note(pod, "fault") == fault)


def slow(lab: Lab, app: str, seconds: int) -> None:
    """Delay the start of an operand's future pods by a number of seconds."""
    _annotate(lab, app, {"start-delay": f"{seconds}s"}, None, f"start-delay {seconds}s")


def active(lab: Lab) -> list[str]:
    """Return one line for each of these faults."""
    return admission.summaries(admission.mutations(lab, _PREFIX))


def clear(lab: Lab) -> None:
    """Remove these faults, and replace the pods that have one."""
    for policy in admission.mutations(lab, _PREFIX):
        admission.remove(lab, policy)
        admission.replace_pods(lab, _pods(note(policy, "app") or "", None), lambda pod: note(pod, "fault") is None)


def annotate_new_pods(
    lab: Lab, app: str, fault: str, node: str | None = None, heals_after: float | None = None
) -> None:
    """Give a fault to the future pods with the label ``app``, and leave the existing ones alone."""
    notes = {"fault": fault} | ({} if heals_after is None else {"heals-after": f"{heals_after:g}s"})
    where = f" on {node}" if node else ""
    healing = "" if heals_after is None else f", heals after {heals_after:g} s"
    _annotate(lab, app, notes, node, f"fault {fault}{healing}", where)


def _annotate(lab: Lab, app: str, notes: dict[str, str], node: str | None, text: str, where: str = "") -> None:
    kind = "delay" if "start-delay" in notes else "fault"
    meta = admission.metadata(f"{_PREFIX}{kind}-{app}", f"operand {app}{where}: {text}", app=app)
    admission.mutate(lab, meta, admission.PODS, _conditions(app, node), admission.annotating(notes))


def _conditions(app: str, node: str | None) -> list[Json]:
    """Return the CEL conditions that choose the pods of an operand, on one node or on all."""
    return [admission.of_app(app), *([admission.on_node(node)] if node else [])]


def _pods(app: str, node: str | None) -> Json:
    return {"labelSelector": f"app={app}"} | ({"fieldSelector": f"spec.nodeName={node}"} if node else {})


def _check_names(lab: Lab, app: str, node: str | None) -> None:
    admission.controllers(lab, app)
    if node and api_of(lab).get(f"/api/v1/nodes/{node}") is None:
        raise LabError(f"There is no node {node!r}.")
