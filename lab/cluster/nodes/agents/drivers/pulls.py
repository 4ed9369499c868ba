# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pulls of driver images from registries on loopback, which are really asked, with the pods' pull secrets.

Registries elsewhere are not asked: they count as having every image.
"""

from __future__ import annotations

import base64
import json
import typing as t

from lab.cluster.api import Api, Json
from lab.cluster.nodes.agents.facts import note
from lab.cluster.nodes.agents.pods import is_driver, path, statuses
from lab.cluster.nodes.fleet import NOTE
from lab.registry.client import Credentials, Reference, trouble

AGAIN_S = 2.0
"""A kubelet waits up to 5 minutes before it asks again."""
_WAITS = ("ErrImagePull", "ImagePullBackOff")
Later = t.Callable[[float, str], None]


class Pulls:
    """The container runtimes of all nodes."""

    def __init__(self, api: Api, later: Later) -> None:
        self._api, self._later = api, later

    def notes(self, pod: Json) -> dict[str, str | None]:
        """Return the annotations of a pod that is about to start: empty, or its trouble with an image."""
        found = None if note(pod, "fault") else self._trouble(pod)
        return {} if found is None else {f"{NOTE}fault": found, f"{NOTE}pull": found}

    def play(self, node: Json, pods: list[Json]) -> None:
        """Ask again for the images that pods of a node lack."""
        for pod in filter(is_driver, pods):
            if not note(pod, "pull") or not any(_waits(entry) for entry in statuses(pod)):
                continue
            if self._trouble(pod) is None:
                self._let_start(pod)
            else:
                self._later(AGAIN_S, node["metadata"]["name"])

    def _let_start(self, pod: Json) -> None:
        notes = {f"{NOTE}fault": None, f"{NOTE}pull": None}
        self._api.merge(path(pod), {"metadata": {"annotations": notes}})
        waiting = {"state": {"waiting": {"reason": "ContainerCreating"}}}
        entries = [{**entry, **waiting} for entry in statuses(pod)]
        self._api.strategic(f"{path(pod)}/status", {"status": {"containerStatuses": entries}})

    def _trouble(self, pod: Json) -> str | None:
        """Return the trouble with the first image that cannot be pulled."""
        images = [container["image"] for container in pod["spec"]["containers"]]
        if not any(Reference.of(image).local for image in images):
            return None
        accounts = self._accounts(pod)
        found = (trouble(image, accounts.get(Reference.of(image).host)) for image in images)
        return next(filter(None, found), None)

    def _accounts(self, pod: Json) -> dict[str, Credentials]:
        """Return the accounts in a pod's pull secrets, by registry. A secret that does not exist is passed over."""
        accounts: dict[str, Credentials] = {}
        for entry in pod["spec"].get("imagePullSecrets") or []:
            secret = self._api.get(f"/api/v1/namespaces/{pod['metadata']['namespace']}/secrets/{entry['name']}") or {}
            data = (secret.get("data") or {}).get(".dockerconfigjson", "")
            found = json.loads(base64.b64decode(data) or "{}").get("auths") or {}
            accounts |= {host: _account(item) for host, item in found.items()}
        return accounts


def _account(entry: t.Mapping[str, str]) -> Credentials:
    """Return the account of an entry, which may have it in one piece."""
    if "username" in entry:
        return Credentials(entry["username"], entry.get("password", ""))
    user, _, password = base64.b64decode(entry.get("auth", "")).decode().partition(":")
    return Credentials(user, password)


def _waits(entry: Json) -> bool:
    return bool((entry.get("state") or {}).get("waiting", {}).get("reason") in _WAITS)
