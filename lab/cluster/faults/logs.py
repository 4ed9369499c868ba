# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the programs in pods say: `kubectl logs` shows other lines of one container, which may crash after them."""

from __future__ import annotations

import typing as t

from lab.cluster.api import Json, now
from lab.cluster.faults import admission
from lab.cluster.faults.admission import api_of
from lab.cluster.lab import Lab
from lab.cluster.nodes import podlogs
from lab.errors import LabError

_API = "kwok.x-k8s.io/v1alpha1"


def say(lab: Lab, app: str, node: str, container: str, lines: t.Sequence[str]) -> str:
    """Let a container of the pod with the label ``app`` on a node write these lines, also in its previous run.

    Return the name of the pod. A pod that replaces it does not write them.
    """
    pod = _pod(lab, app, node)
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    body: Json = {
        "apiVersion": podlogs.API,
        "kind": "Logs",
        "metadata": {
            **admission.metadata(name, f"log of {app} on {node}, container {container}"),
            "namespace": namespace,
        },
        "spec": podlogs.spec(lab.folder / "podlogs", name, container, lines),
    }
    api_of(lab).apply(podlogs.path(namespace, name), body, admission.MANAGER)
    return str(name)


def crash(lab: Lab, app: str, node: str, container: str, lines: t.Sequence[str]) -> str:
    """Let a container that runs write these lines, and crash again and again. Return the name of the pod.

    It stays down, since only its status is changed.
    """
    name = say(lab, app, node, container, lines)
    pod = _pod(lab, app, node)
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name}/status"
    init = [item["name"] for item in pod["spec"].get("initContainers") or []]
    own = [item["name"] for item in pod["spec"]["containers"]]
    if container not in [*init, *own]:
        raise LabError(f"Pod {name} has no container {container!r}: choose from {', '.join([*init, *own])}.")
    waits = {"state": {"waiting": {"reason": "PodInitializing"}}, "ready": False, "restartCount": 0}
    states = {"initContainerStatuses": _crashed(init, container, waits)} if container in init else {}
    states["containerStatuses"] = _crashed(own, container, waits)
    unready = [{"type": kind, "status": "False", "lastTransitionTime": now()} for kind in ("Ready", "ContainersReady")]
    phase = "Pending" if container in init else "Running"
    api_of(lab).merge(path, {"status": {"phase": phase, "conditions": unready, **states}})
    return name


def _crashed(names: list[str], container: str, waits: Json) -> list[Json]:
    """Return the statuses of containers: those before the one that crashes are done, and those after it wait."""
    crash = {"waiting": {"reason": "CrashLoopBackOff", "message": f"back-off restarting failed container={container}"}}
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": now(), "finishedAt": now()}}
    done = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}, "ready": True, "restartCount": 0}
    found, is_after = [], container not in names
    for name in names:
        state = waits if is_after else done
        if name == container:
            state, is_after = {"state": crash, "lastState": ended, "ready": False, "restartCount": 5}, True
        found.append({"name": name, "image": "x", "imageID": "", "started": False, **state})
    return found


def _pod(lab: Lab, app: str, node: str) -> Json:
    selectors = {"labelSelector": f"app={app}", "fieldSelector": f"spec.nodeName={node}"}
    pods = api_of(lab).list("/api/v1/pods", **selectors)
    if not pods:
        raise LabError(f"No pod with the label app={app} is on {node}.")
    return pods[0]


def active(lab: Lab) -> list[str]:
    """Return one line for each of these faults."""
    return admission.summaries(_own(lab))


def clear(lab: Lab) -> None:
    """Remove these faults, and replace the pods that have one."""
    for item in _own(lab):
        meta = item["metadata"]
        api_of(lab).delete(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}")
        api_of(lab).delete(f"/apis/{_API}/namespaces/{meta['namespace']}/logs/{meta['name']}")


def _own(lab: Lab) -> list[Json]:
    return admission.own(lab, f"/apis/{_API}/logs")
