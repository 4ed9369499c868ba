# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Driver pods in trouble, of a ClusterPolicy or of NVIDIADrivers: on one node or on all, for one version or for each.

Only future pods get the trouble, as it is when a new driver does not fit: the old driver keeps running.
"""

from __future__ import annotations

import re

from lab.cluster.api import Json
from lab.cluster.faults import admission
from lab.cluster.faults.admission import api_of, note
from lab.cluster.faults.operands import POD_FAULTS
from lab.cluster.lab import Lab
from lab.errors import LabError

TROUBLES = ("slow-build", "never-ready", "manager-crash", "manager-hangs", *POD_FAULTS)
_COMPONENT = ("app.kubernetes.io/component", "nvidia-driver")
_PREFIX = "lab-driver-"
_NOTES = ("build", "manager-fault", "fault")


def driver(
    lab: Lab,
    trouble: str,
    *,
    node: str | None = None,
    version: str | None = None,
    seconds: float | None = None,
    heals_after: float | None = None,
) -> None:
    """Give a trouble to future driver pods, and return when it is in force.

    A slow build takes ``seconds``: the container runs, and its startup probe fails until then. ``version`` is the
    beginning of the image's tag. With ``heals_after``, each pod is well this many seconds after it got into trouble.
    """
    if trouble not in TROUBLES:
        raise LabError(f"Drivers have no trouble {trouble!r}: choose from {', '.join(TROUBLES)}.")
    if (trouble == "slow-build") != (seconds is not None):
        raise LabError("A slow build, and nothing else, needs a number of seconds.")
    if node and api_of(lab).get(f"/api/v1/nodes/{node}") is None:
        raise LabError(f"There is no node {node!r}.")
    name = "-".join(part for part in (trouble, node, version and re.sub(r"[^a-z0-9.]+", "-", version)) if part)
    meta = admission.metadata(f"{_PREFIX}{name}", _summary(trouble, node, version, seconds, heals_after))
    notes = _notes(trouble, seconds, heals_after)
    admission.mutate(lab, meta, admission.PODS, _conditions(node, version), admission.annotating(notes))
    admission.until_mutated(lab, _probe(node, version), lambda pod: all(note(pod, key) == notes[key] for key in notes))


def active(lab: Lab) -> list[str]:
    """Return one line for each of these faults."""
    return admission.summaries(admission.mutations(lab, _PREFIX))


def clear(lab: Lab) -> None:
    """Remove these faults, and replace the driver pods that are still in trouble."""
    policies = admission.mutations(lab, _PREFIX)
    for policy in policies:
        admission.remove(lab, policy)
    if policies:
        admission.replace_pods(lab, {"labelSelector": "=".join(_COMPONENT)}, lambda pod: not _troubled(pod))


def _summary(
    trouble: str, node: str | None, version: str | None, seconds: float | None, heals_after: float | None
) -> str:
    where = f" on {node}" if node else ""
    which = f" {version}" if version else ""
    length = "" if seconds is None else f" {seconds:g} s"
    healing = "" if heals_after is None else f", heals after {heals_after:g} s"
    return f"driver{which}{where}: {trouble}{length}{healing}"


def _notes(trouble: str, seconds: float | None, heals_after: float | None) -> dict[str, str]:
    healing = {} if heals_after is None else {"heals-after": f"{heals_after:g}s"}
    if trouble in ("slow-build", "never-ready"):
        # A build that heals is only a slow one.
        length = seconds if seconds is not None else heals_after
        return {"build": "forever" if length is None else f"{length:g}s"}
    if trouble.startswith("manager-"):
        return {"manager-fault": trouble.removeprefix("manager-"), **healing}
    return {"fault": trouble, **healing}


def _conditions(node: str | None, version: str | None) -> list[Json]:
    label, value = _COMPONENT
    mine = f"object.metadata.?labels[?'{label}'].orValue('') == '{value}'"
    conditions: list[Json] = [{"name": "driver", "expression": mine}]
    if node:
        conditions.append(admission.on_node(node))
    if version:
        tagged = f"object.spec.containers.exists(c, c.name == 'nvidia-driver-ctr' && c.image.contains(':{version}'))"
        conditions.append({"name": "version", "expression": tagged})
    return conditions


def _probe(node: str | None, version: str | None) -> Json:
    """Return a driver pod that the trouble concerns."""
    container = {"name": "nvidia-driver-ctr", "image": f"nvcr.io/nvidia/driver:{version or '0'}"}
    spec: Json = {"containers": [container]}
    if node:
        spec["affinity"] = admission.bound_to(node)
    metadata = {"generateName": "probe-", "labels": dict([_COMPONENT])}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _troubled(pod: Json) -> bool:
    """Return whether a pod that has a trouble is not ready yet."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    return not ready and any(note(pod, name) is not None for name in _NOTES)
