# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The config manager beside the device plugin, feature discovery and the MPS daemon: which configuration each has read.

Its init container chooses a key of the ConfigMap by the node's label, its sidecar tells the program when the label
names another key. An edited key is read only when the program restarts, so what a pod has read is kept in its
annotation ``config``. The sidecar of a pod that runs does not see a new key at once, as the kubelet shows it later. It
ends then, and the kubelet starts it again after a pause that grows.
"""

from __future__ import annotations

import json
import time
import typing as t
from datetime import UTC, datetime
from pathlib import Path

from lab.cluster.api import Api, Json, now
from lab.cluster.nodes import podlogs
from lab.cluster.nodes.agents.facts import note
from lab.cluster.nodes.agents.mounts import Later, Mounts, Texts
from lab.cluster.nodes.agents.pods import (
    crash,
    crashes,
    environment,
    is_ready,
    labels_of,
    path,
    recover,
    running_init,
    statuses,
    volumes,
)
from lab.cluster.nodes.agents.sharing import Sharing, read
from lab.cluster.nodes.fleet import NOTE

LABEL = "nvidia.com/device-plugin.config"
INIT, SIDECAR = "config-manager-init", "config-manager"
_LONGEST_PAUSE_S, _FIRST_PAUSE_S = 300, 10
"""A kubelet's pauses before it starts a container again: each is twice as long as the one before."""


class ConfigManager:
    """The config managers of all pods. ``logs`` is the folder for what they say."""

    def __init__(self, api: Api, mounts: Mounts, later: Later, logs: Path) -> None:
        self._api, self._mounts, self._later, self._logs = api, mounts, later, logs
        self._cured: dict[tuple[str, str], float] = {}
        """Since when a container that crashes would run, by the pod's uid and the container."""

    def play(self, node: Json, pod: Json) -> None:
        """Choose the configuration of a pod, or let its container fail if there is no such key."""
        name = _config_map(pod)
        if name is None:
            return
        texts, known = self._mounts.shown(pod, name), _known(pod)
        key = labels_of(node).get(LABEL) or _default(pod)
        missing = texts is None or (bool(key) and key not in texts)
        if known is None:
            self._start(pod, texts, key, missing=missing)
        elif missing and key != known["key"]:
            self._crash(pod, SIDECAR, key)
        elif texts is not None and self._runs(pod, SIDECAR):
            # A program that has failed starts again and reads the file again, as does one that gets a signal.
            text = texts.get(key, "")
            if key != known["key"] or (crashes(pod, _main(pod)) and text != known["text"]):
                self._note(pod, key, text)

    def _start(self, pod: Json, texts: Texts | None, key: str, *, missing: bool) -> None:
        at_gate = running_init(pod) == INIT or crashes(pod, INIT, init=True)
        if texts is None or not (at_gate or is_ready(pod)):
            return
        if missing:
            self._crash(pod, INIT, key)
        elif self._runs(pod, INIT):
            self._note(pod, key, texts.get(key, ""))

    def _crash(self, pod: Json, container: str, key: str) -> None:
        """End a container with an error, and write the line that it writes, in klog's format."""
        self._cured.pop((pod["metadata"]["uid"], container), None)
        if crashes(pod, container, init=container == INIT):
            return
        moment = datetime.now(UTC).strftime("%m%d %H:%M:%S.%f")
        line = f"E{moment}       1 main.go:167] specified config {key} does not exist"
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        spec = podlogs.spec(self._logs, name, container, [line])
        body = {"apiVersion": podlogs.API, "kind": "Logs", "metadata": {"name": name, "namespace": namespace}}
        self._api.apply(podlogs.path(namespace, name), {**body, "spec": spec}, "lab-agents")
        crash(self._api, pod, container, init=container == INIT)

    def _runs(self, pod: Json, container: str) -> bool:
        """Return whether a container runs whose cause to crash is gone, once the kubelet has started it again."""
        is_init = container == INIT
        if not crashes(pod, container, init=is_init):
            return True
        cured = self._cured.setdefault((pod["metadata"]["uid"], container), time.time())
        pause = _next_start(_first_crash(pod, container), cured) - time.time()
        if pause > 0:
            self._later(pause, pod["spec"]["nodeName"])
            return False
        recover(self._api, pod, container, init=is_init)
        return True

    def _note(self, pod: Json, key: str, text: str) -> None:
        notes = {NOTE + "config": json.dumps({"key": key, "text": text, "at": now()})}
        pod["metadata"].setdefault("annotations", {}).update(notes)
        self._api.merge(path(pod), {"metadata": {"annotations": notes}})


def started(pod: Json) -> bool:
    """Return whether a pod has its configuration, if it needs one."""
    return _config_map(pod) is None or _known(pod) is not None


def sharing_of(pod: Json) -> Sharing:
    """Return the sharing that a pod has read. Raise `ConfigError` if its program refuses it."""
    known = _known(pod)
    return read(known["text"]) if known and known["text"] else Sharing()


def read_at(pod: Json) -> str:
    """Return when a pod has read its configuration, or an empty string."""
    return str((_known(pod) or {}).get("at", ""))


def strategy_of(pod: Json, sharing: Sharing) -> str:
    """Return the MIG strategy: of the environment, else of the file, else none."""
    given = next((env["value"] for env in environment(pod, "MIG_STRATEGY")), "")
    return str(given or sharing.mig_strategy or "none")


def _first_crash(pod: Json, container: str) -> float:
    entry = next(item for item in statuses(pod, init=container == INIT) if item["name"] == container)
    moment = str(entry["lastState"]["terminated"]["finishedAt"])
    return datetime.fromisoformat(moment).timestamp()


def _next_start(crashed: float, cured: float) -> float:
    """Return when the kubelet starts a container for the first time after the cause of its crashes has gone."""
    start, pause = crashed + _FIRST_PAUSE_S, _FIRST_PAUSE_S
    while start < cured:
        pause = min(2 * pause, _LONGEST_PAUSE_S)
        start += pause
    return start


def _known(pod: Json) -> Json | None:
    text = note(pod, "config")
    return t.cast(Json, json.loads(text)) if text else None


def _main(pod: Json) -> str:
    return str(pod["spec"]["containers"][0]["name"])


def _config_map(pod: Json) -> str | None:
    """Return the name of the ConfigMap that a pod's config manager reads; None if it has none."""
    for container in pod["spec"]["containers"]:
        if container["name"] == SIDECAR:
            mounts = {item["mountPath"]: item["name"] for item in container.get("volumeMounts") or []}
            return volumes(pod).get(mounts.get("/available-configs", ""))
    return None


def _default(pod: Json) -> str:
    return next((str(env["value"]) for env in environment(pod, "DEFAULT_CONFIG")), "")
