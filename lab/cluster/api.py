# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's client for the Kubernetes API: plain JSON, pooled connections, and watches that survive API restarts."""

from __future__ import annotations

import json
import threading
import time
import typing as t
from urllib.parse import urlencode

import urllib3
from kubernetes import client, config

Json = dict[str, t.Any]
POOL = 32


class ApiError(Exception):
    """A response with a status other than 2xx."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """A client of the API server that a kubeconfig names."""

    def __init__(self, kubeconfig: str) -> None:
        settings = client.Configuration()
        config.load_kube_config(kubeconfig, client_configuration=settings)
        self.host = settings.host
        self._pool = urllib3.PoolManager(
            maxsize=POOL,
            cert_file=settings.cert_file,
            key_file=settings.key_file,
            ca_certs=settings.ssl_ca_cert,
            cert_reqs="REQUIRED",
            retries=False,
        )

    def request(
        self, method: str, path: str, body: t.Any = None, content_type: str = "application/json", **query: t.Any
    ) -> Json:
        """Send a request and return the parsed response. Raise `ApiError`, or urllib3's HTTPError without one."""
        url = f"{self.host}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json", "Content-Type": content_type}
        # As compact as the API server writes it: it keeps the parameters of claims byte by byte, and refuses a change.
        text = None if body is None else json.dumps(body, separators=(",", ":"))
        reply = self._pool.request(method, url, body=text, headers=headers, timeout=30)
        answer = json.loads(reply.data) if reply.data[:1] == b"{" else {}
        if not 200 <= reply.status < 300:
            raise ApiError(reply.status, answer.get("message") or reply.data.decode(errors="replace"))
        return t.cast(Json, answer)

    def get(self, path: str, **query: t.Any) -> Json | None:
        """Return the object at a path; None if there is none."""
        try:
            return self.request("GET", path, **query)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, path: str, **query: t.Any) -> list[Json]:
        """Return the objects of a collection; an empty list if the kind does not exist."""
        return (self.get(path, **query) or {}).get("items") or []

    def create(self, path: str, body: Json) -> Json:
        """Create an object in a collection."""
        return self.request("POST", path, body)

    def merge(self, path: str, body: Json) -> Json | None:
        """Apply a JSON merge patch, in which None removes a key. Return None if the object is gone."""
        return self._patch(path, body, "application/merge-patch+json")

    def strategic(self, path: str, body: Json) -> Json | None:
        """Apply a strategic merge patch, which merges conditions by type. Return None if the object is gone."""
        return self._patch(path, body, "application/strategic-merge-patch+json")

    def apply(self, path: str, body: Json, manager: str) -> Json:
        """Apply an object server-side, and take over the fields of other managers."""
        return self.request("PATCH", path, body, "application/apply-patch+yaml", fieldManager=manager, force="true")

    def delete(self, path: str, **options: t.Any) -> bool:
        """Delete an object. Return False if it did not exist."""
        try:
            self.request("DELETE", path, {"propagationPolicy": "Background", **options})
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def _patch(self, path: str, body: Json, content_type: str) -> Json | None:
        try:
            return self.request("PATCH", path, body, content_type)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def watch(self, path: str, seen: t.Callable[[str, Json], None], stop: threading.Event, **query: t.Any) -> None:
        """Call ``seen(type, object)`` for every object of a collection and every change, until ``stop`` is set.

        Types are ADDED, MODIFIED and DELETED as in the API's watch, and SYNCED with an empty object after each listing.
        After an interruption the collection is listed again: existing objects are reported as ADDED once more, and
        objects that vanished in the meantime as DELETED.
        """
        known: dict[str, Json] = {}
        while not stop.is_set():
            try:
                version = self._relist(path, known, seen, query)
                self._follow(path, version, known, seen, stop, query)
            except (ApiError, urllib3.exceptions.HTTPError, OSError, ValueError):
                stop.wait(0.5)

    def _relist(self, path: str, known: dict[str, Json], seen: t.Callable[[str, Json], None], query: Json) -> str:
        answer = self.request("GET", path, **query)
        items = {item["metadata"]["uid"]: item for item in answer.get("items") or []}
        for uid in set(known) - set(items):
            seen("DELETED", known.pop(uid))
        for uid, item in items.items():
            known[uid] = item
            seen("ADDED", item)
        seen("SYNCED", {})
        return str(answer["metadata"]["resourceVersion"])

    def _follow(
        self,
        path: str,
        version: str,
        known: dict[str, Json],
        seen: t.Callable[[str, Json], None],
        stop: threading.Event,
        query: Json,
    ) -> None:
        for event in self._events(path, {**query, "watch": "true", "resourceVersion": version, "timeoutSeconds": 300}):
            if event is not None:
                if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
                    return
                item = event["object"]
                if event["type"] == "DELETED":
                    known.pop(item["metadata"]["uid"], None)
                else:
                    known[item["metadata"]["uid"]] = item
                seen(event["type"], item)
            elif stop.is_set():
                return

    def _events(self, path: str, query: Json) -> t.Iterator[Json | None]:
        """Yield the events of a watch, and None after each chunk of them."""
        timeout = urllib3.Timeout(connect=5, read=310)
        url, headers = f"{self.host}{path}?{urlencode(query)}", {"Accept": "application/json"}
        reply = self._pool.request("GET", url, headers=headers, preload_content=False, timeout=timeout)
        try:
            rest = b""
            for chunk in reply.stream(amt=None, decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from map(json.loads, filter(None, lines))
                yield None
        finally:
            reply.close()


def now() -> str:
    """Return the time in the API's format."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
