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

import dataclasses
import email.utils
import gc
import json
import re
import time
import typing as t
from urllib.parse import quote, urlencode, urlsplit

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import errors, plain
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import objects
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
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

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 60

THROTTLED_S = 15.0
"""How long to retry when the API server answers 429: it is busy, or its cache of a new CRD is not filled yet."""

RESTARTS = 3
"""How often a paged list begins again after its pages have expired (410)."""

METADATA_ONLY = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
"""What to accept for a list without specs and statuses."""

Rows = list[dict[str, t.Any]]
Kept = t.TypeVar("Kept")
Versioned = tuple[list[Kept], str]
"""What is kept of the objects of a collection, and the version of the collection."""
Changes = list[tuple[str, Json]]


@dataclasses.dataclass(frozen=True)
class Listed:
    """A collection that this user may perhaps not read. With a refusal, its objects are unknown, not absent."""

    items: list[Json]
    is_served: bool = True
    """Whether the API server knows the kind."""
    refusal: str = ""
    """The message with which the API server refused the list, or an empty string."""


if t.TYPE_CHECKING:
    from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection.streams import Stream


class Connection(t.Protocol):
    """How one Kubernetes API server is reached, and as whom."""

    @property
    def host(self) -> str:
        """The API server's URL."""

    @property
    def pool(self) -> t.Any:
        """The connections of urllib3."""

    def headers(self) -> dict[str, str]:
        """Return the headers of every request, with a token that is valid now."""

    def cluster(self) -> Json:
        """Return the cluster in the words of a kubeconfig, without files."""

    def user(self) -> Json:
        """Return the user in the words of a kubeconfig, without files."""

    def websocket(self, url: str) -> Json:
        """Return the options with which the websocket library connects to a URL."""


def _connect(options: Json) -> Connection:
    if not HAS_URLLIB3:
        raise errors.missing()
    made = plain.connect(options)
    if made is not None:
        return made
    # Importing the client takes a third of a second.
    from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.connection import client

    return client.connect(options)


def argument_spec(**options: t.Any) -> dict[str, t.Any]:
    """Return a module's argument spec: its own options plus kubernetes.core's connection options."""
    return {**AUTH_ARG_SPEC, **options}


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
        self._connection = _connect({name: options[name] for name in AUTH_ARG_SPEC if options.get(name) is not None})

    @property
    def host(self) -> str:
        """The API server's URL."""
        return self._connection.host

    def kubeconfig(self, context: str) -> Json:
        """Return a kubeconfig with which another program reaches the same API server as the same user.

        Its only context has the given name. Files become content, and a token is one that is valid now.
        """
        cluster, user = _without_empty(self._connection.cluster()), _without_empty(self._connection.user())
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "contexts": [{"name": context, "context": {"cluster": "gpuops", "user": "gpuops"}}],
            "clusters": [{"name": "gpuops", "cluster": cluster}],
            "users": [{"name": "gpuops", "user": user}],
        }

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

        After a 429, the request is sent again after the delay that the API server asks for. An eviction is not sent
        again, because its 429 says that a PodDisruptionBudget forbids it. Raises `GpuOpsError` with reason Unreachable,
        Unauthorized, Forbidden, NotFound, AlreadyExists, Conflict, Invalid, TooManyRequests, Expired or ServerError;
        ``status`` is the HTTP code and ``causes`` the API's own list of causes.
        """
        # The API server compresses answers over 128 kB. For 1,000 nodes, decrypting 8 MB takes longer than unpacking.
        headers = {"Accept": accept, "Accept-Encoding": "gzip"}
        if body is not None:
            headers["Content-Type"] = content_type
        data = json.dumps(body) if isinstance(body, dict) else body
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
        deadline = time.monotonic() + THROTTLED_S
        while True:
            reply = self._send(method, url, headers, data, whole)
            if 200 <= reply.status < 300:
                return reply
            pause_s = _pause_s(reply.headers.get("Retry-After"), self.now())
            is_throttled = reply.status == 429 and not path.endswith("/eviction")
            if not is_throttled or time.monotonic() + pause_s > deadline:
                raise errors.refused(reply.status, reply.data, method, path, self.host)
            time.sleep(pause_s)

    def _send(self, method: str, url: str, headers: dict[str, str], data: str | None, whole: bool) -> t.Any:
        try:
            reply = self._connection.pool.request(
                method,
                url,
                body=data,
                headers=headers,
                timeout=urllib3.Timeout(**self._timeout),
                retries=False,
                preload_content=whole,
            )
        except urllib3.exceptions.HTTPError as e:
            raise errors.unreachable(e, self.host) from e
        self._date = reply.headers.get("Date")
        return reply

    def ask(self, method: str, path: str, *arguments: t.Any, **keywords: t.Any) -> Json:
        """Send one `request` and return the JSON object of the answer."""
        return _object(self.request(method, path, *arguments, **keywords), method, path)

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
        reader = objects.ListReader()
        query = {"resourceVersion": "0", **selectors}
        reply = self._reply("GET", path, query, {"Accept": "application/json"}, whole=False)
        try:
            kept = [keep(item) for item in reader.objects(reply.stream(objects.PIECE, decode_content=True))]
        except urllib3.exceptions.HTTPError as e:
            raise errors.unreachable(e, self.host) from e
        except ValueError as e:
            message = f"The Kubernetes API failed on GET {path}: its answer is no list, or broke off."
            raise GpuOpsError(message, reason="ServerError") from e
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
            event = _object(line, "GET", path)
            item = event.get("object") or {}
            if event.get("type") == "ERROR":
                raise errors.refused(int(item.get("code") or 500), json.dumps(item), "GET", path, self.host)
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
                    if _identity(item) not in seen:
                        seen.add(_identity(item))
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
        return self.ask("PATCH", path, query, body, content_type="application/apply-patch+yaml")

    def create(self, path: str, body: Json) -> Json:
        """Create ``body`` in the collection at ``path``; return the object."""
        return self.ask("POST", path, self._strict(), body)

    def merge(self, path: str, body: Json) -> Json:
        """Send ``body`` as a JSON merge patch (None removes a key); return the object."""
        return self.ask("PATCH", path, self._strict(), body, content_type="application/merge-patch+json")

    def delete(self, path: str, propagation: str = "Background", grace_period_s: int | None = None) -> bool:
        """Delete the object at ``path``; return False if there was none."""
        options = {"propagationPolicy": propagation, **self._delete_options(grace_period_s)}
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


def _without_empty(settings: Json) -> Json:
    return {name: value for name, value in settings.items() if value}


def _identity(item: Json) -> str:
    meta = item["metadata"]
    return str(meta.get("uid") or f"{meta.get('namespace')}/{meta['name']}")


def _pause_s(retry_after: str | None, now: float) -> float:
    """Return the delay that a Retry-After header asks for, in seconds or as a date; without a usable one, a second."""
    if re.fullmatch(r"\d+(\.\d+)?", retry_after or ""):
        return float(retry_after or 1)
    try:
        return max(email.utils.parsedate_to_datetime(str(retry_after)).timestamp() - now, 0.0)
    except (ValueError, TypeError, OverflowError):
        return 1.0


def _object(data: bytes, method: str, path: str) -> Json:
    """Return the JSON object of an answer. A proxy may answer in the API server's place, with a page for people."""
    answer = errors.parsed(data.decode("utf-8", "replace"))
    if answer is None:
        said = errors.words(data.decode("utf-8", "replace"))
        raise GpuOpsError(
            f"Not the Kubernetes API but something before it answered {method} {urlsplit(path).path}: "
            f"{said}. Check the server's address, the proxy and the load balancer.",
            reason="ServerError",
        )
    return answer
