# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The config manager beside the device plugin, feature discovery and the MPS daemon: which configuration each has read.

Its init container chooses a key of the ConfigMap by the node's label, its sidecar tells the program when the label
names another key. Nothing reads an edited key again before the program restarts, so what a pod has read is kept in its
annotation ``config``.
"""

from __future__ import annotations

import json
import typing as t

from lab.cluster.api import Api, Json, now
from lab.cluster.nodes.agents.facts import note
from lab.cluster.nodes.agents.pods import (
    crash,
    crashes,
    environment,
    is_ready,
    labels_of,
    path,
    recover,
    running_init,
    volumes,
)
from lab.cluster.nodes.agents.sharing import Sharing, read
from lab.cluster.nodes.fleet import NOTE

LABEL = "nvidia.com/device-plugin.config"
INIT, SIDECAR = "config-manager-init", "config-manager"
Texts = t.Callable[[str, str], t.Mapping[str, str] | None]


class ConfigManager:
    """The config managers of all pods."""

    def __init__(self, api: Api, texts: Texts) -> None:
        self._api, self._texts = api, texts

    def play(self, node: Json, pod: Json) -> None:
        """Choose the configuration of a pod, or let its container fail if there is no such key."""
        name = _config_map(pod)
        if name is None:
            return
        texts, known = self._texts(pod["metadata"]["namespace"], name), _known(pod)
        key = labels_of(node).get(LABEL) or _default(pod)
        missing = texts is None or (bool(key) and key not in texts)
        if known is None:
            self._start(pod, texts, key, missing=missing)
        elif missing and key != known["key"]:
            crash(self._api, pod, SIDECAR)
        elif texts is not None:
            recover(self._api, pod, SIDECAR)
            # A program that has failed starts again and reads the file again, as does one that gets a signal.
            text = texts.get(key, "")
            if key != known["key"] or (crashes(pod, _main(pod)) and text != known["text"]):
                self._note(pod, key, text)

    def _start(self, pod: Json, texts: t.Mapping[str, str] | None, key: str, *, missing: bool) -> None:
        at_gate = running_init(pod) == INIT or crashes(pod, INIT, init=True)
        if texts is None or not (at_gate or is_ready(pod)):
            return
        if missing:
            crash(self._api, pod, INIT, init=True)
        else:
            recover(self._api, pod, INIT, init=True)
            self._note(pod, key, texts.get(key, ""))

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
    """Return when a pod has read its configuration; an empty string if it has none."""
    return str((_known(pod) or {}).get("at", ""))


def strategy_of(pod: Json, sharing: Sharing) -> str:
    """Return the MIG strategy: of the environment, else of the file, else none."""
    given = next((env["value"] for env in environment(pod, "MIG_STRATEGY")), "")
    return str(given or sharing.mig_strategy or "none")


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
