# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Requests to the Kubernetes API. No file but this one and its connections imports a library for that.

Answers are plain dicts and lists, as the API server sent them. There are no typed client objects and no discovery of
each kind: for 8,000 pods, typed objects take 13 s longer than plain JSON. Every failure is a `GpuOpsError` with one
sentence.
"""

from __future__ import annotations

import contextlib
import email.utils
import gc
import json
import time
import typing as t
from urllib.parse import quote, urlencode

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import answers, connect, request_errors
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection.list_reader import PIECE, ListReader
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection.tries import APPLY, MERGE, Tries
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._secrets import MASK
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC

try:
    import urllib3
except ImportError:
    HAS_URLLIB3 = False
else:
    HAS_URLLIB3 = True
    # The classes of libraries live as long as the process. The garbage collector need not walk them while nodes are
    # parsed.
    gc.freeze()

FIELD_MANAGER = "gpuops.nvidia"
"""The field manager of every write, so that server-side apply knows which fields are ours.

Only a reference from the ClusterPolicy has another (clusterpolicy/reference.py): other modules set and reset the rest.
"""

PAGE = 500
"""Objects per page of a list that can be large. A page of pods is about 5 MB."""

WATCH_S = 1
"""How long to listen for changes. The API server sends those that have happened already at once."""

CONNECTION = ArgumentSpec(AUTH_ARG_SPEC)
"""The options of every module that reaches a cluster. They are described by kubernetes.core.k8s_auth_options."""

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 60

BROKEN_LISTS = 2
"""How often a large list begins again after its answer has broken off."""

RESTARTS = 3
"""How often a paged list begins again after its pages have expired (410)."""

METADATA_ONLY = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
"""What to accept for a list without specs and statuses."""

Rows = list[dict[str, t.Any]]
Kept = t.TypeVar("Kept")
Versioned = tuple[list[Kept], str]
"""What is kept of the objects of a collection, and the version of the collection."""
Changes = list[tuple[str, Json]]
Answered = tuple[t.Any, GpuOpsError | None]
Listed = answers.Listed


class _BrokenListError(GpuOpsError):
    """The answer with a large list broke off."""


if t.TYPE_CHECKING:
    from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection.streams import Stream


class Cluster:
    """One connection to one Kubernetes API server.

    ``options`` is ``module.params`` or a plugin's ``get_options()``: the connection options of
    ``kubernetes.core.k8s_auth_options``. ``check_mode`` turns every write into a server-side dry run. An answer that
    takes longer than ``read_timeout_s`` is a failure.
    """

    def __init__(
        self, options: t.Mapping[str, t.Any], check_mode: bool = False, read_timeout_s: float = READ_TIMEOUT_S
    ) -> None:
        self.check_mode = check_mode
        self._timeout = {"connect": CONNECT_TIMEOUT_S, "read": read_timeout_s}
        self._date: str | None = None
        if not HAS_URLLIB3:
            raise request_errors.missing()
        self._connection = connect.connect(
            {name: options[name] for name in AUTH_ARG_SPEC if options.get(name) is not None}
        )

    @property
    def host(self) -> str:
        """The API server's URL."""
        return self._connection.host

    def kubeconfig(self, context: str) -> Json:
        """Return a kubeconfig with which another program reaches the same API server as the same user.

        Its only context has the given name. Files become content, and a token is one that is valid now.
        """
        return connect.kubeconfig(self._connection, context)

    def now(self) -> float:
        """Return the API server's time at its last answer, in seconds since the epoch. Objects use this clock."""
        return email.utils.parsedate_to_datetime(self._date).timestamp() if self._date else time.time()

    def request(
        self,
        method: str,
        path: str,
        query: t.Mapping[str, t.Any] | None = None,
        body: Json | str | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        """Send one request and return the body of a 2xx answer.

        After 429, 500, 502, 503 and 504, and after a reset connection, what may be sent again is: see `Tries`. Raises
        `GpuOpsError` with reason Unreachable, Unauthorized, Forbidden, NotFound, AlreadyExists, Conflict, Invalid,
        TooManyRequests, Expired or ServerError;
        ``status`` is the HTTP code and ``causes`` the API's own list of causes.
        """
        # The API server compresses answers over 128 kB. For 1,000 nodes, decrypting 8 MB takes longer than unpacking.
        headers = {"Accept": accept, "Accept-Encoding": "gzip"}
        if body is not None:
            headers["Content-Type"] = content_type
        data = json.dumps(body) if isinstance(body, dict) else body
        if MASK in (data or ""):
            raise request_errors.masked(method, path)
        return bytes(self._reply(method, path, query, headers, data).data)

    def _reply(
        self,
        method: str,
        path: str,
        query: t.Mapping[str, t.Any] | None,
        headers: dict[str, str],
        data: str | None = None,
        whole: bool = True,
    ) -> t.Any:
        """Send one request and return the 2xx reply, with its ``whole`` body or with one that is still to be read."""
        headers = {**self._connection.headers(), **headers}
        url = f"{self.host}{path}" + (f"?{urlencode(query)}" if query else "")
        tries = Tries(method, path, query, headers, data)
        while True:
            reply, error = self._send(method, url, headers, data, whole)
            if reply is not None and 200 <= reply.status < 300:
                return reply
            status, asked = (None, None) if reply is None else (reply.status, reply.headers.get("Retry-After"))
            pause_s = tries.pause_s(status, asked, self.now())
            if pause_s is None:
                raise error or request_errors.refused(reply.status, reply.data, method, path, self.host)
            time.sleep(pause_s)

    def _send(self, method: str, url: str, headers: dict[str, str], data: str | None, whole: bool) -> Answered:
        """Send one request, and return the reply, or the error of a connection that broke while it was in use."""
        settings = {"timeout": urllib3.Timeout(**self._timeout), "retries": False, "preload_content": whole}
        try:
            reply = self._connection.pool.request(method, url, body=data, headers=headers, **settings)
        except urllib3.exceptions.HTTPError as e:
            error = request_errors.unreachable(e, self.host)
            if isinstance(e, urllib3.exceptions.ProtocolError):
                return None, error
            raise error from e
        self._date = reply.headers.get("Date")
        return reply, None

    def ask(self, method: str, path: str, *arguments: t.Any, **keywords: t.Any) -> Json:
        """Send one `request` and return the JSON object of the answer."""
        return answers.json_object(self.request(method, path, *arguments, **keywords), method, path)

    def get(self, path: str, query: t.Mapping[str, t.Any] | None = None) -> Json | None:
        """Return the object at ``path``, or None when it (or its kind) does not exist."""
        try:
            return self.ask("GET", path, query)
        except GpuOpsError as e:
            if e.reason == "NotFound":
                return None
            raise

    def list(self, path: str, **selectors: str) -> list[Json] | None:
        """Return every object at a collection's ``path``, or None when the kind does not exist.

        ``selectors`` are the API's query parameters (``labelSelector``, ``fieldSelector``). The answer comes from the
        API server's watch cache in one piece (``resourceVersion=0``), which is the cheapest read. Use `pages` if the
        answer could be large.
        """
        answer = self.get(path, {"resourceVersion": "0", **selectors})
        return None if answer is None else t.cast("list[Json]", answer.get("items") or [])

    def large_list(self, path: str, keep: t.Callable[[Json], Kept], **selectors: str) -> Versioned[Kept]:
        """Return what ``keep`` keeps of every object of a collection, and the collection's version for `changes`.

        The answer is parsed while it arrives: 5,000 nodes are 105 MB, which would take 600 MB of memory as a whole. It
        is not compressed, since that takes the API server longer than to send it.
        """
        for dummy in range(BROKEN_LISTS):
            with contextlib.suppress(_BrokenListError):
                return self._whole_list(path, keep, selectors)
        return self._whole_list(path, keep, selectors)

    def _whole_list(self, path: str, keep: t.Callable[[Json], Kept], selectors: t.Mapping[str, str]) -> Versioned[Kept]:
        reader = ListReader()
        query = {"resourceVersion": "0", **selectors}
        reply = self._reply("GET", path, query, {"Accept": "application/json"}, whole=False)
        try:
            kept = [keep(item) for item in reader.objects(reply.stream(PIECE, decode_content=True))]
        except urllib3.exceptions.HTTPError as e:
            failure = request_errors.unreachable(e, self.host)
            raise _BrokenListError(failure.msg, **failure.details) from e
        except ValueError as e:
            message = f"The Kubernetes API failed on GET {path}: its answer is no list, or broke off."
            raise _BrokenListError(message, reason="ServerError") from e
        finally:
            reply.close()
        return kept, str((reader.envelope.get("metadata") or {}).get("resourceVersion") or "")

    def changes(self, path: str, version: str, **selectors: str) -> tuple[Changes, str]:
        """Return the changes of a collection since a version, as pairs of type and object, and the version after them.

        Types are ADDED, MODIFIED and DELETED. Takes `WATCH_S`. Raises reason Expired if the API server no longer knows
        the version.
        """
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": WATCH_S, "allowWatchBookmarks": "true"}
        query |= selectors
        found: Changes = []
        for line in self.request("GET", path, query).splitlines():
            event = answers.json_object(line, "GET", path)
            item = event.get("object") or {}
            if event.get("type") == "ERROR":
                raise request_errors.refused(int(item.get("code") or 500), json.dumps(item), "GET", path, self.host)
            version = str(item["metadata"]["resourceVersion"])
            if event["type"] != "BOOKMARK":
                found.append((event["type"], item))
        return found, version

    def list_readable(self, path: str, **selectors: str) -> Listed:
        """List like `list`, and return the refusal if this user may not read the collection.

        The API server also answers 403 for a kind that does not exist, if the user may not list it.
        """
        try:
            items = self.list(path, **selectors)
        except GpuOpsError as e:
            if e.reason != "Forbidden":
                raise
            return Listed([], refusal=e.msg)
        return Listed(items or [], is_served=items is not None)

    def pages(self, path: str, **selectors: str) -> t.Iterator[Json]:
        """Yield a large collection's objects, `PAGE` at a time, so that memory stays bounded.

        The API server keeps the pages of a list for some minutes only. After that, the list begins again, without the
        objects that were yielded already.
        """
        seen = set[str]()
        for restart in range(RESTARTS + 1):
            try:
                for item in self._all_pages(path, selectors):
                    if answers.identity(item) not in seen:
                        seen.add(answers.identity(item))
                        yield item
                return
            except GpuOpsError as e:
                if e.reason != "Expired" or restart == RESTARTS:
                    raise

    def _all_pages(self, path: str, selectors: t.Mapping[str, str]) -> t.Iterator[Json]:
        token = ""
        while True:
            position = {"continue": token} if token else {}
            page = self.ask("GET", path, {"limit": PAGE, **position, **selectors})
            yield from page.get("items") or []
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return

    def table(self, path: str, **selectors: str) -> Rows:
        """Return a collection as the API server's own table: one dict for each row, with column names in lower case.

        For pods: name, ready ("1/1"), status ("Init:0/1"), restarts, age, ip, node. It is about 80 times smaller than
        the objects.
        """
        query = {"resourceVersion": "0", "includeObject": "None", **selectors}
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
        table = self.ask("GET", path, query, accept=accept)
        names = [column["name"].lower() for column in table.get("columnDefinitions") or []]
        return [dict(zip(names, row["cells"])) for row in table.get("rows") or []]

    def text(self, path: str, query: t.Mapping[str, t.Any] | None = None) -> str:
        """Return a plain-text answer, such as a pod's log."""
        return self.request("GET", path, query, accept="text/plain, */*").decode("utf-8", "replace")

    def apply(
        self,
        path: str,
        body: Json | str,
        force: bool = False,
        dry_run: bool | None = None,
        manager: str = FIELD_MANAGER,
    ) -> Json:
        """Server-side apply ``body`` (an object, or its YAML text) at ``path``; return the object.

        ``dry_run`` defaults to check mode. A conflict raises reason Conflict whose ``causes`` name managers and fields.
        """
        query = {**self._strict(dry_run), "force": "true" if force else "false", "fieldManager": manager}
        return self.ask("PATCH", path, query, body, content_type=APPLY)

    def create(self, path: str, body: Json) -> Json:
        """Create ``body`` in the collection at ``path``; return the object.

        If nobody knows whether it was created, it is read, and created once more unless it is there and ours.
        """
        name = (body.get("metadata") or {}).get("name")
        try:
            return self.ask("POST", path, self._strict(), body)
        except GpuOpsError as e:
            if e.reason not in ("ServerError", "Unreachable") or not name:
                raise
        found = self.get(f"{path}/{quote(name, safe='')}")
        if found is not None and answers.is_managed_by(found, FIELD_MANAGER):
            return found
        return self.ask("POST", path, self._strict(), body)

    def merge(self, path: str, body: Json) -> Json:
        """Send ``body`` as a JSON merge patch (None removes a key); return the object."""
        return self.ask("PATCH", path, self._strict(), body, content_type=MERGE)

    def delete(
        self, path: str, propagation: str = "Background", grace_period_s: int | None = None, **only_if: str | None
    ) -> bool:
        """Delete an object; return False if there is none. Another ``uid`` or ``resourceVersion`` raises Conflict."""
        only = {"preconditions": only_if} if any(only_if.values()) else {}
        options = {"propagationPolicy": propagation, **only, **self._delete_options(grace_period_s)}
        try:
            self.request("DELETE", path, body=options)
        except GpuOpsError as e:
            if e.reason == "NotFound":
                return False
            raise
        return True

    def evict(self, namespace: str, pod: str, uid: str, grace_period_s: int | None = None) -> None:
        """Evict the pod with this ``uid``; a newer pod with the same name raises reason Conflict.

        A PodDisruptionBudget that forbids the eviction raises reason TooManyRequests.
        """
        options = {"preconditions": {"uid": uid}, **self._delete_options(grace_period_s)}
        metadata = {"name": pod, "namespace": namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
        self.request("POST", namespaced("v1", namespace, "pods", pod) + "/eviction", body=body)

    def stream(self, path: str, protocol: str, timeout_s: float) -> t.ContextManager[Stream]:
        """Open a websocket at ``path`` for the duration of a ``with`` block. See `streams.opened`."""
        from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import streams

        return streams.opened(self._connection, path, protocol, timeout_s)

    def _strict(self, dry_run: bool | None = None) -> dict[str, str]:
        """Return the query of a write: strict field validation, and a dry run if asked for or in check mode."""
        is_dry = self.check_mode if dry_run is None else dry_run
        return {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict", **({"dryRun": "All"} if is_dry else {})}

    def _delete_options(self, grace_period_s: int | None) -> Json:
        """Return the options of a deletion for its body. The API server ignores the query if there is a body."""
        grace = {} if grace_period_s is None else {"gracePeriodSeconds": grace_period_s}
        return {**grace, **({"dryRun": ["All"]} if self.check_mode else {})}


# Paths of requests, and errors for failures


def namespaced(group_version: str, namespace: str | None, plural: str, name: str = "") -> str:
    """Return an API path, for example ``namespaced("apps/v1", "gpu-operator", "daemonsets")``.

    Without a namespace, the path is for the whole cluster.
    """
    root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    middle = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{root}{middle}/{plural}" + (f"/{quote(name, safe='')}" if name else "")
