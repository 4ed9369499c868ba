# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the agents read from pods: whose they are, whether they are ready, and what runs in them."""

from __future__ import annotations

import typing as t

from lab.cluster.api import Api, Json, now
from lab.cluster.nodes.fleet import NOTE

CRASHED = "CrashLoopBackOff"
PREPARED = f"{NOTE}prepared"
"""The annotation of a pod whose claims are prepared: the drivers that have done it."""
DEVICES = f"{NOTE}devices"
"""The annotation with the GPUs and MIG instances that NVIDIA's driver has prepared for a pod's containers, as JSON."""
HOST_DRIVER = "580.126.20"
"""A typical version, for drivers on the host and for images without a version in their tag."""


def path(pod: Json) -> str:
    """Return the path of a pod in the API."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def label(item: Json, key: str) -> str:
    """Return a label, or an empty string."""
    return str((item["metadata"].get("labels") or {}).get(key, ""))


def with_app(pods: list[Json], app: str) -> list[Json]:
    """Return the pods with a given label ``app``."""
    return [pod for pod in pods if label(pod, "app") == app]


def ready_condition(item: Json) -> str:
    """Return the status of the condition Ready of a node or pod."""
    return next((c["status"] for c in (item.get("status") or {}).get("conditions") or [] if c["type"] == "Ready"), "")


def is_ready(pod: Json) -> bool:
    """Return whether a pod is Ready and not being deleted."""
    return ready_condition(pod) == "True" and not pod["metadata"].get("deletionTimestamp")


def is_driver(pod: Json) -> bool:
    """Return whether a pod is a driver pod, of a ClusterPolicy or of an NVIDIADriver."""
    return label(pod, "app.kubernetes.io/component") == "nvidia-driver"


def is_nfd_worker(pod: Json) -> bool:
    """Return whether a pod is a worker of Node Feature Discovery, by the labels of either chart."""
    return label(pod, "app.kubernetes.io/name") == "node-feature-discovery" and "worker" in (
        label(pod, "role"),
        label(pod, "app.kubernetes.io/component"),
    )


def running_init(pod: Json) -> str:
    """Return the name of the init container that is running, or an empty string."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    return next((str(item["name"]) for item in statuses if "running" in item.get("state", {})), "")


def environment(pod: Json, name: str) -> t.Iterator[Json]:
    """Yield an environment variable of the pod's containers."""
    for container in pod["spec"]["containers"]:
        yield from (env for env in container.get("env") or [] if env["name"] == name and "value" in env)


def version_of_image(pod: Json) -> str:
    """Return the version in the tag of a driver pod's image, or an empty string."""
    image = next((c["image"] for c in pod["spec"]["containers"] if c["name"] == "nvidia-driver-ctr"), "")
    tag = str(image).rpartition(":")[2]
    return tag.split("-")[0] if tag[:1].isdigit() else HOST_DRIVER


def prepared(pod: Json) -> list[str] | None:
    """Return the drivers that have prepared a pod's claims; None if they are not prepared."""
    text = (pod["metadata"].get("annotations") or {}).get(PREPARED)
    return None if text is None else [entry for entry in text.split(",") if entry]


def claims_a_gpu(pod: Json) -> bool:
    """Return whether NVIDIA's driver for GPUs has prepared a claim of a pod, and has not taken it back."""
    return "gpu.nvidia.com" in (prepared(pod) or ())


def labels_of(item: Json) -> dict[str, str]:
    """Return an object's labels."""
    return t.cast("dict[str, str]", item["metadata"].get("labels") or {})


def volumes(pod: Json) -> dict[str, str]:
    """Return the ConfigMaps that a pod mounts, by the names of the volumes."""
    found = pod["spec"].get("volumes") or []
    return {item["name"]: item["configMap"]["name"] for item in found if "configMap" in item}


def chosen_config_maps(pod: Json) -> list[str]:
    """Return the ConfigMaps of a pod that a user names in the ClusterPolicy, and that may not exist."""
    mine = volumes(pod)
    mounts = [item for container in pod["spec"]["containers"] for item in container.get("volumeMounts") or []]
    shared = [item["name"] for item in mounts if item["mountPath"] == "/available-configs"]
    return [mine[name] for name in {*shared, "mig-parted-config", "metrics-config"} if name in mine]


def hold(api: Api, pod: Json, config_map: str) -> None:
    """Show a pod whose containers cannot be created without a ConfigMap, in the kubelet's words."""
    meta, moment = pod["metadata"], now()
    waiting = {"ready": False, "started": False, "state": {"waiting": {"reason": "PodInitializing"}}}
    inits = [{**entry, **waiting} for entry in statuses(pod, init=True)]
    api.strategic(f"{path(pod)}/status", {"status": {"initContainerStatuses": inits}})
    volume = next(name for name, chosen in volumes(pod).items() if chosen == config_map)
    message = f'MountVolume.SetUp failed for volume "{volume}" : configmap "{config_map}" not found'
    event = {
        "metadata": {"generateName": f"{meta['name']}.", "namespace": meta["namespace"]},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "fieldPath": "", **_names(meta)},
        "source": {"component": "kubelet", "host": pod["spec"]["nodeName"]},
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
        "type": "Warning",
        "reason": "FailedMount",
        "message": message,
    }
    api.create(f"/api/v1/namespaces/{meta['namespace']}/events", event)


def _names(meta: Json) -> dict[str, str]:
    return {key: meta[key] for key in ("name", "namespace", "uid")}


def release(api: Api, pod: Json) -> None:
    """Let a pod start that `hold` has held back. Nothing happens if it was not."""
    inits = statuses(pod, init=True)
    held = inits and all((entry["state"].get("waiting") or {}).get("reason") == "PodInitializing" for entry in inits)
    if held:
        first = {**inits[0], "started": True, "state": {"running": {"startedAt": now()}}}
        api.strategic(f"{path(pod)}/status", {"status": {"initContainerStatuses": [first, *inits[1:]]}})


def fail(api: Api, pod: Json, reason: str, message: str) -> None:
    """Let the kubelet refuse a pod."""
    words = {"reason": reason, "message": f"Pod was rejected: {message}"}
    status = {"phase": "Failed", "conditions": ready_conditions("PodFailed"), "containerStatuses": [], **words}
    api.strategic(f"{path(pod)}/status", {"status": status})


def crash(api: Api, pod: Json, container: str, *, init: bool = False, restarts: int = 3) -> None:
    """Show a container that ends and starts again and again. Nothing happens if it is shown already."""
    if crashes(pod, container, init=init):
        return
    moment = now()
    ended = {"exitCode": 1, "reason": "Error", "startedAt": moment, "finishedAt": moment}
    message = f"back-off 5m0s restarting failed container={container} pod={pod['metadata']['name']}"
    state = {"waiting": {"reason": CRASHED, "message": message}}
    changed = {"ready": False, "started": False, "state": state, "lastState": {"terminated": ended}}
    _report(api, pod, container, changed, init=init, restarts=restarts)


def recover(api: Api, pod: Json, container: str, *, init: bool = False) -> None:
    """Show a container that had crashed as running again. Nothing happens if it had not."""
    if crashes(pod, container, init=init):
        changed = {"ready": not init, "started": True, "state": {"running": {"startedAt": now()}}}
        _report(api, pod, container, changed, init=init, restarts=1)


def crashes(pod: Json, container: str, *, init: bool = False) -> bool:
    """Return whether a container is shown as crashing."""
    return any(
        entry["name"] == container and (entry.get("state") or {}).get("waiting", {}).get("reason") == CRASHED
        for entry in statuses(pod, init=init)
    )


def statuses(pod: Json, *, init: bool = False) -> list[Json]:
    """Return the statuses of a pod's containers."""
    return (pod.get("status") or {}).get("initContainerStatuses" if init else "containerStatuses") or []


def _report(api: Api, pod: Json, container: str, changed: Json, *, init: bool, restarts: int) -> None:
    """Change the status of a container, and with it that of its pod."""
    entries = [
        {**entry, **changed, "restartCount": entry.get("restartCount", 0) + restarts}
        if entry["name"] == container
        else entry
        for entry in statuses(pod, init=init)
    ]
    ready = not init and all(entry["ready"] for entry in entries)
    conditions = ready_conditions(None if ready else "ContainersNotReady")
    status = {"phase": "Pending" if init else "Running", "conditions": conditions}
    key = "initContainerStatuses" if init else "containerStatuses"
    api.strategic(f"{path(pod)}/status", {"status": {**status, key: entries}})


def ready_conditions(trouble: str | None = None) -> list[Json]:
    """Return the conditions of a pod that is ready, or the reason why it is not."""
    status, moment = str(trouble is None), now()
    kinds = ("Ready", "ContainersReady")
    return [{"type": kind, "status": status, "lastTransitionTime": moment, "reason": trouble} for kind in kinds]
