# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A minimal Kubernetes API server in this process. What it cannot do is tested in the lab."""

from __future__ import annotations

import contextlib
import copy
import functools
import http.server
import json
import os
import re
import signal
import socket
import threading
import time
import typing as t
from urllib.parse import parse_qs, urlsplit

from ansible_collections.kubernetes.core.plugins.module_utils.k8s import client as k8s_clients

from tests.unit.fakes.stack import LONG_AGO, NAMESPACE, Json, Stack

POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
GPUCLUSTERS = "/apis/nvidia.com/v1alpha1/gpuclusters"
NODES = "/api/v1/nodes"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
ALL_PODS = "/api/v1/pods"
DAEMONSETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
REVISIONS = f"/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"

Reply = tuple[int, Json]

MARK = "gpuops.nvidia/monitoring"
"""The one label by which lists are selected here. Other lists leave that to the module."""


class FakeApi:
    """``lists`` maps the path of each collection that exists to its objects.

    ``answer`` sees each request first and may return a status and a body. If it returns None, the lists answer.
    ``log`` has each request as method, path and query.
    """

    def __init__(self, stack: Stack) -> None:
        self.lists: dict[str, list[Json]] = {
            POLICIES: stack.policies,
            NODES: stack.nodes,
            DAEMONSETS: list(stack.daemonsets.values()),
            DEPLOYMENTS: stack.operators,
            PODS: [],
            ALL_PODS: [],
            EVENTS: [],
            REVISIONS: [],
        }
        self.table: list[list[t.Any]] = []
        self.answer: t.Callable[[str, str], Reply | None] = lambda method, path: None
        self.log: list[tuple[str, str, dict[str, str]]] = []
        self.url = ""
        self.end: t.Callable[[Json], None] = self.lists[ALL_PODS].remove
        """What happens to an evicted pod."""
        self.skew_s = 0.0
        """How far its clock is ahead."""

    @property
    def connection(self) -> dict[str, str]:
        """The connection options of a module."""
        return {"host": self.url, "api_key": "token-of-a-test"}

    def handle(self, method: str, target: str, accept: str, body: Json | None) -> Reply:
        """Answer one request."""
        url = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if method == "DELETE":  # like the real API server, which ignores the query if options are in the body
            query = {"dryRun": "All"} if (body or {}).get("dryRun") == ["All"] else {}
        self.log.append((method, url.path, query))
        special = self.answer(method, url.path)
        if special:
            return special
        if url.path.endswith("/eviction") and body is not None:
            return self._evict(body)
        if url.path in self.lists:
            return 200, self._table(url.path) if "as=Table" in accept else {
                "items": self._selected(url.path, query),
                "metadata": {},
            }
        collection, dummy, name = url.path.rpartition("/")
        served = [path for path in self.lists if path.rpartition("/")[0] == url.path and url.path.startswith("/apis/")]
        if served:
            return 200, {"resources": [{"name": path.rpartition("/")[2]} for path in served]}
        if collection not in self.lists:
            return refusal(404, "the server could not find the requested resource")
        return self._one(method, collection, name, query, body)

    def _one(self, method: str, collection: str, name: str, query: dict[str, str], body: Json | None) -> Reply:
        existing = next((item for item in self.lists[collection] if item["metadata"]["name"] == name), None)
        dry = query.get("dryRun") == "All"
        if method == "PATCH" and isinstance(body, list):
            return self._json_patch(collection, existing, body, dry)
        if method == "PATCH" and body is not None and "force" not in query:
            return self._merge_patch(collection, existing, body, dry)
        if method == "PATCH" and body is not None:
            return self._apply(collection, existing, body, query, dry)
        if existing is None:
            return refusal(404, f'"{name}" not found')
        if method == "DELETE" and not _meets(existing, (body or {}).get("preconditions") or {}):
            return refusal(409, "the precondition does not match", "Conflict")
        if method == "DELETE" and not dry:
            self.lists[collection].remove(existing)
        return 200, existing

    def _apply(self, collection: str, existing: Json | None, body: Json, query: dict[str, str], dry: bool) -> Reply:
        """Server-side apply, without conflicts. A field leaves that its last owner no longer gives."""
        manager = query["fieldManager"]
        if existing and not _meets(existing, {"resourceVersion": body["metadata"].pop("resourceVersion", None)}):
            return refusal(409, "the object has been modified", "Conflict")
        if existing and query["force"] == "true":
            existing = self._taken(collection, existing, body, dry)
        made = copy.deepcopy(existing) or {"metadata": {"uid": "uid-of-cluster-policy", "creationTimestamp": LONG_AGO}}
        entries = made["metadata"].get("managedFields", [])
        others = [entry for entry in entries if entry["manager"] != manager]
        given = {block: body[block] for block in ("spec", "data", "value") if block in body}
        notes = {part: body["metadata"][part] for part in ("labels", "annotations") if body["metadata"].get(part)}
        fields = _fields({**given, **({"metadata": notes} if notes else {})})
        left = next((entry["fieldsV1"] for entry in entries if entry["manager"] == manager), {})
        for kept in (fields, *(entry.get("fieldsV1") or {} for entry in others)):
            left = _without(left, kept)
        made = _merged(_reduced(made, left), body)
        entry = {"manager": manager, "operation": "Apply", "time": LONG_AGO, "fieldsV1": fields}
        made["metadata"]["managedFields"] = [*others, *([entry] if fields else [])]
        return 200, self._kept(collection, existing, made, dry)

    def _taken(self, collection: str, existing: Json, body: Json, dry: bool) -> Json:
        """Let nobody own the fields that get another value by force; return the object."""
        made = copy.deepcopy(existing)
        changed = _changed(existing, {"spec": body.get("spec") or {}})
        entries = made["metadata"].get("managedFields") or []
        owned = [{**entry, "fieldsV1": _without(entry.get("fieldsV1") or {}, changed)} for entry in entries]
        made["metadata"]["managedFields"] = [entry for entry in owned if entry["fieldsV1"]]
        if not dry:
            self.lists[collection] = [made if item is existing else item for item in self.lists[collection]]
        return made

    def _kept(self, collection: str, existing: Json | None, made: Json, dry: bool) -> Json:
        if not dry:
            if made != existing:
                made["metadata"]["resourceVersion"] = str(int(made["metadata"].get("resourceVersion", 1)) + 1)
            self.lists[collection] = [made if item is existing else item for item in self.lists[collection]]
            if existing is None:
                self.lists[collection].append(made)
        return made

    def _selected(self, path: str, query: dict[str, str]) -> list[Json]:
        """Return the objects of a collection; of all pods, those that the field selector picks."""
        key, is_equal, value = query.get("labelSelector", "").partition("=")
        if key == MARK and is_equal:
            return [item for item in self.lists[path] if (item["metadata"].get("labels") or {}).get(key) == value]
        if path != ALL_PODS:
            return self.lists[path]
        terms = [re.fullmatch(r"([\w.]+)(!?=)(.*)", term) for term in query.get("fieldSelector", "").split(",") if term]
        return [
            item
            for item in self.lists[path]
            if all((str(_field(item, term[1])) == term[3]) == (term[2] == "=") for term in terms)
        ]

    def _merge_patch(self, collection: str, existing: Json | None, body: Json, dry: bool) -> Reply:
        """Apply a JSON merge patch. One with a resourceVersion is refused if the object has another."""
        if existing is None:
            return refusal(404, "not found")
        version = int(existing["metadata"].get("resourceVersion", 1))
        if body["metadata"].pop("resourceVersion", None) not in (None, str(version)):
            return refusal(409, "the object has been modified", "Conflict")
        made = _merged(existing, body)
        made["metadata"]["resourceVersion"] = str(version + 1)
        if not dry:
            self.lists[collection] = [made if item is existing else item for item in self.lists[collection]]
        return 200, made

    def _json_patch(self, collection: str, existing: Json | None, patch: list[Json], dry: bool) -> Reply:
        """Apply a JSON patch that replaces and removes."""
        if existing is None:
            return refusal(404, "not found")
        made = copy.deepcopy(existing)
        for step in patch:
            *path, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
            parent = functools.reduce(lambda value, key: value[key], path, made)
            if last == "resourceVersion" and parent.get(last, "1") != step["value"]:
                return refusal(409, "the object has been modified", "Conflict")
            if step["op"] == "remove":
                del parent[last]
            else:
                parent[last] = step["value"]
        if dry:
            return 200, made
        made["metadata"]["resourceVersion"] = str(int(made["metadata"].get("resourceVersion", 1)) + 1)
        self.lists[collection] = [made if item is existing else item for item in self.lists[collection]]
        return 200, made

    def _evict(self, body: Json) -> Reply:
        """Evict a pod from the list of all pods. There are no disruption budgets."""
        meta, options = body["metadata"], body["deleteOptions"]
        name = (meta["namespace"], meta["name"])
        pod = next(
            (
                item
                for item in self.lists[ALL_PODS]
                if (item["metadata"]["namespace"], item["metadata"]["name"]) == name
            ),
            None,
        )
        if pod is None:
            return refusal(404, f'pods "{meta["name"]}" not found')
        if pod["metadata"]["uid"] != options["preconditions"]["uid"]:
            return refusal(409, "the UID in the precondition does not match", "Conflict")
        if options.get("dryRun") != ["All"]:
            self.end(pod)
        return 201, {"kind": "Status", "status": "Success"}

    def _table(self, path: str) -> Json:
        if path == REVISIONS:
            rows = [
                [f"{item['metadata']['name']}-newest", f"daemonset.apps/{item['metadata']['name']}", 2, "1m"]
                for item in self.lists[DAEMONSETS]
            ]
            names = ["Name", "Controller", "Revision", "Age"]
            return {"columnDefinitions": [{"name": name} for name in names], "rows": [{"cells": row} for row in rows]}
        columns = ["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node"]
        return {
            "columnDefinitions": [{"name": name} for name in columns],
            "rows": [{"cells": cells} for cells in self.table],
        }


def _merged(old: Json, new: Json) -> Json:
    made = {
        **old,
        **{key: _merged(old.get(key) or {}, value) if isinstance(value, dict) else value for key, value in new.items()},
    }
    return {key: value for key, value in made.items() if value is not None}


def _reduced(item: Json, fields: Json) -> Json:
    """Return an object without the leaves of a tree of fields, and without the blocks that are empty then."""
    made = {}
    for key, value in item.items():
        children = fields.get(f"f:{key}")
        rest = _reduced(value, children) if children and isinstance(value, dict) else value
        if children is None or (children and rest):
            made[key] = rest
    return made


def _changed(old: Json, new: Json) -> Json:
    """Return the tree of the fields that have another value in the new object."""
    made = {}
    for key, value in new.items():
        if isinstance(value, dict):
            made[f"f:{key}"] = _changed(old.get(key) or {}, value)
        elif old.get(key) != value:
            made[f"f:{key}"] = {}
    return {key: children for key, children in made.items() if children or not isinstance(new[key[2:]], dict)}


def _without(fields: Json, kept: Json) -> Json:
    """Return the leaves of a tree of fields that another tree does not have."""
    made = {key: _without(children, kept[key]) if key in kept else children for key, children in fields.items()}
    return {key: children for key, children in made.items() if key not in kept or children}


def _meets(item: Json, preconditions: Json) -> bool:
    """Return whether an object has the UID and the resourceVersion that a deletion or an apply expects, if any."""
    found = {"resourceVersion": "1", **item["metadata"]}
    return all(found.get(name) == value for name, value in preconditions.items() if value is not None)


def _field(item: Json, path: str) -> t.Any:
    for key in path.split("."):
        item = item.get(key) or ""
        if not item:
            break
    return item


def _fields(value: t.Any) -> Json:
    return {f"f:{key}": _fields(item) for key, item in value.items()} if isinstance(value, dict) else {}


def refusal(status: int, message: str, reason: str = "", causes: list[Json] | None = None) -> Reply:
    """Return a refusal as the API server words it."""
    return status, {
        "kind": "Status",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": {"causes": causes or []},
    }


FAULTS = ("lost", "refused", "signal", "down")


@contextlib.contextmanager
def fault(api: FakeApi, kind: str, number: int) -> t.Iterator[list[str]]:
    """Let one request fail, counted from the first write on. Yield the list that names it once it has failed.

    ``lost``: the API server has done it, and the answer gets lost. ``refused``: the user lacks the permission.
    ``signal``: it is answered, and the process gets a signal. ``down``: neither it nor any later one is answered.
    """
    real, hit, count = api.handle, list[str](), 0
    away = refusal(503, "the server is currently unable to handle the request")

    def handle(method: str, target: str, accept: str, body: Json | None) -> Reply:
        nonlocal count
        count += bool(count or method != "GET")
        if count < number or (count > number and kind != "down"):
            return real(method, target, accept, body)
        hit.append(f"{method} {urlsplit(target).path}")
        if kind == "refused":
            return refusal(403, "User cannot do this", "Forbidden")
        if kind == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
        answer = real(method, target, accept, body) if kind in ("lost", "signal") else away
        return answer if kind == "signal" else away

    api.handle = handle  # type: ignore[method-assign]
    try:
        yield hit
    finally:
        api.handle = real  # type: ignore[method-assign]


def _handler(api: FakeApi) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # One write for each answer: with two, TCP holds the second back for 40 ms.

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            if self.path in ("/api", "/apis", "/version"):
                served = {"kind": "APIVersions", "versions": ["v1"], "groups": []}
                status, reply = 200, served | {"gitVersion": "v1.36.3"}
            else:
                status, reply = api.handle(self.command, self.path, self.headers.get("Accept", ""), body)
            data = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - the names that http.server calls

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(time.time() + api.skew_s)

        def log_message(self, *args: object) -> None:
            pass

    return Handler


class _Server(http.server.ThreadingHTTPServer):
    """A server that hangs up at its end. Clients keep their connections, and thousands of tests share one process."""

    daemon_threads = True

    def __init__(self, *args: t.Any) -> None:
        self._connections: set[socket.socket] = set()
        super().__init__(*args)

    def process_request(self, request: t.Any, client_address: t.Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: t.Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def serving(stack: Stack) -> t.Iterator[FakeApi]:
    """Run a fake API server with this stack for the duration of a ``with`` block."""
    api = FakeApi(stack)
    with _Server(("127.0.0.1", 0), _handler(api)) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        api.url = f"http://127.0.0.1:{server.server_port}"
        yield api
        server.shutdown()
        server.hang_up()
    k8s_clients._pool.clear()  # it keeps every client, with its connection, until the process ends
